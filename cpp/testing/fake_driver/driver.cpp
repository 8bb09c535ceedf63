// The rules that several calls share.
#include "driver.hpp"

#include <algorithm>

namespace tensoracle::fake {
namespace {

// Handles that mean a default stream.
constexpr std::uintptr_t kLEGACY = 1;
constexpr std::uintptr_t kPER_THREAD = 2;

constexpr int kSHARED_DEFAULT = 48 * 1024;  // bytes per block without opting in

}  // namespace

int maxDynamicShared(Kernel const& kernel, int device) noexcept {
  auto const optedIn = kernel.dynamicShared.find(device);
  return optedIn != kernel.dynamicShared.end() ? optedIn->second : kSHARED_DEFAULT - kernel.image->staticShared;
}

Thread& Thread::get() noexcept {
  thread_local Thread thread;
  return thread;
}

Driver& Driver::get() noexcept {
  static auto& kDRIVER = *new Driver;  // never destroyed: plugins may release what they hold when the process ends
  return kDRIVER;
}

Device* Driver::device(int ordinal) noexcept {
  bool const isKnown = ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size();
  return isKnown ? &devices[static_cast<std::size_t>(ordinal)] : nullptr;
}

Context* Driver::createContext(int ordinal, bool isPrimary) {
  auto const count = static_cast<std::uint64_t>(std::distance(contexts.begin(), contexts.end()));
  return contexts.add({ordinal, count + 1, isPrimary});
}

void Driver::destroyContext(Context& context) {
  context.isDestroyed = true;
  for (auto at = allocations.begin(); at != allocations.end();) {
    at = at->second.context == &context ? allocations.erase(at) : std::next(at);
  }
  for (Stream& stream : streams) {
    if (stream.context == &context) stream.capture.reset();
  }
}

CUresult Driver::current(Context*& context) const noexcept {
  context = Thread::get().current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context->isDestroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult Driver::resolve(void* handle, Target& target) const noexcept {
  auto const number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= kPER_THREAD) {
    target.isLegacy = number <= kLEGACY;
    return current(target.context);
  }
  target.stream = streams.find(handle);
  if (target.stream == nullptr || target.stream->isDestroyed) return CUDA_ERROR_INVALID_HANDLE;
  target.context = target.stream->context;
  return target.context->isDestroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult Driver::checkUnsafe() noexcept {
  CaptureMode const mode = Thread::get().mode;
  CUresult result = CUDA_SUCCESS;
  for (Stream& stream : streams) {
    if (!stream.capture || mode == CaptureMode::kRELAXED) continue;
    bool const isOwn = stream.capture->thread == std::this_thread::get_id();
    bool const forbids = isOwn ? stream.capture->mode != CaptureMode::kRELAXED
                               : stream.capture->mode == CaptureMode::kGLOBAL && mode == CaptureMode::kGLOBAL;
    if (!forbids) continue;
    stream.capture->isInvalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

bool Driver::hasBlockingCapture(Context const& context) noexcept {
  return std::any_of(streams.begin(), streams.end(), [&](Stream const& stream) {
    return stream.context == &context && stream.isBlocking && stream.capture;
  });
}

CUresult Driver::checkImplicit(Context const& context) noexcept {
  CUresult result = CUDA_SUCCESS;
  for (Stream& stream : streams) {
    if (stream.context != &context || !stream.isBlocking || !stream.capture) continue;
    stream.capture->isInvalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

Kernel* Driver::findKernel(void* handle) const noexcept {
  Kernel* const kernel = kernels.find(handle);
  return kernel != nullptr && !kernel->library->isUnloaded ? kernel : nullptr;
}

Function* Driver::findFunction(Context const& context, Kernel const& kernel) noexcept {
  auto const found = std::find_if(functions.begin(), functions.end(), [&](Function const& function) {
    return function.kernel == &kernel && function.context == &context;
  });
  return found != functions.end() ? &*found : nullptr;
}

CUresult Driver::load(Context& context, Kernel& kernel, Record& record) {
  if (findFunction(context, kernel) != nullptr) return CUDA_SUCCESS;
  Code const& code = kernel.library->code;
  if (!code.runsOn(devices[static_cast<std::size_t>(context.device)].sm)) return code.refusal();
  CUresult const result = checkUnsafe();
  if (result != CUDA_SUCCESS) return result;
  functions.add({&kernel, &context});
  record.add("kernel", kernel.image->symbol);
  record.add("sha256", kernel.library->digest);
  return CUDA_SUCCESS;
}

CUresult Driver::takeFailure(char const* call) {
  CUresult result = CUDA_SUCCESS;
  auto [at, end] = failures.equal_range(call);
  while (at != end) {
    auto& [left, failure] = at->second;
    if (--left > 0) {
      ++at;
    } else {
      result = failure;
      at = failures.erase(at);
    }
  }
  return result;
}

}  // namespace tensoracle::fake
