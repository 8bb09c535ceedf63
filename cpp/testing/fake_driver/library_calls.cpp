// Code: libraries, their kernels, and the kernels' functions in contexts.
#include <algorithm>
#include <cstring>

#include "../../src/sha256.hpp"
#include "driver.hpp"

using namespace tensoracle::fake;

namespace {

constexpr int kMAX_THREADS = 1024;

enum Attribute : int {
  kMAX_THREADS_PER_BLOCK = 0,
  kSHARED_SIZE_BYTES = 1,
  kCONST_SIZE_BYTES = 2,
  kLOCAL_SIZE_BYTES = 3,
  kNUM_REGS = 4,
  kPTX_VERSION = 5,
  kBINARY_VERSION = 6,
  kMAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum JitOption : int {
  kINFO_LOG_BUFFER = 3,
  kINFO_LOG_BUFFER_SIZE_BYTES = 4,
  kERROR_LOG_BUFFER = 5,
  kERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

// The options of a load: where the compiler's messages go. Sizes are given in the place of addresses.
class JitOptions {
 public:
  JitOptions(int const* options, void** values, unsigned count) noexcept
      : options_(options), values_(values), count_(count) {}

  bool areSupported() const noexcept {
    return std::all_of(options_, options_ + count_,
                       [](int option) { return option >= kINFO_LOG_BUFFER && option <= kERROR_LOG_BUFFER_SIZE_BYTES; });
  }

  void writeInfo(std::string const& text) const noexcept { write(kINFO_LOG_BUFFER, text); }
  void writeError(std::string const& text) const noexcept { write(kERROR_LOG_BUFFER, text); }

 private:
  void** find(int option) const noexcept {
    int const* const found = std::find(options_, options_ + count_, option);
    return found != options_ + count_ ? values_ + (found - options_) : nullptr;
  }

  void write(int buffer, std::string const& text) const noexcept {
    void** const address = find(buffer);
    void** const size = find(buffer + 1);
    if (address == nullptr || size == nullptr || *size == nullptr) return;
    std::size_t const length = std::min(text.size(), reinterpret_cast<std::size_t>(*size) - 1);
    std::memcpy(*address, text.c_str(), length);
    static_cast<char*>(*address)[length] = '\0';
    *size = reinterpret_cast<void*>(length);  // documented: the amount that was filled
  }

  int const* options_;
  void** values_;
  unsigned count_;
};

CUresult readCode(void const* data, Code& code, std::string& log) {
  if (std::optional<Code> cubin = readCubin(data)) {
    code = std::move(*cubin);
    return CUDA_SUCCESS;
  }
  auto const* const text = static_cast<char const*>(data);
  return isPtx(text) ? readPtx(text, code, log) : CUDA_ERROR_INVALID_IMAGE;
}

CUresult readAttribute(Kernel& kernel, int device, int attribute, int& value) {
  switch (attribute) {
    case kMAX_THREADS_PER_BLOCK: value = kMAX_THREADS; return CUDA_SUCCESS;
    case kSHARED_SIZE_BYTES: value = kernel.image->staticShared; return CUDA_SUCCESS;
    case kCONST_SIZE_BYTES: value = 0; return CUDA_SUCCESS;
    case kLOCAL_SIZE_BYTES: value = kernel.image->localBytes; return CUDA_SUCCESS;
    case kNUM_REGS: value = kernel.image->registers; return CUDA_SUCCESS;
    case kPTX_VERSION:
    case kBINARY_VERSION: value = kernel.library->code.sm; return CUDA_SUCCESS;
    case kMAX_DYNAMIC_SHARED_SIZE_BYTES: value = maxDynamicShared(kernel, device); return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

// Strict where drivers differ: release 580 looks at the code only when its first kernel is asked for, and loads under
// capture. That a device is older than PTX is an error of the compiler, as users of drivers report it.
FAKE_DRIVER_EXPORT CUresult cuLibraryLoadData(void** library, void const* data, int* jitOptions, void** jitValues,
                                              unsigned jitCount, int*, void**, unsigned libraryOptions) {
  return run("cuLibraryLoadData", [&](Driver& driver, Record& record) {
    if (library == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    JitOptions const options(jitOptions, jitValues, jitCount);
    if (!options.areSupported() || libraryOptions != 0) return CUDA_ERROR_NOT_SUPPORTED;  // by this double
    CUresult result = driver.checkUnsafe();
    if (result != CUDA_SUCCESS) return result;
    Code code;
    std::string log;
    result = readCode(data, code, log);
    auto const runs = [&](Device const& device) { return code.runsOn(device.sm); };
    if (result == CUDA_SUCCESS && std::none_of(driver.devices.begin(), driver.devices.end(), runs)) {
      result = code.refusal();
      log = "fatal: .target sm_" + std::to_string(code.sm) + " is not for any device here\n";
    }
    if (result != CUDA_SUCCESS) {
      options.writeError(log);
      return result;
    }
    if (code.isPtx) options.writeInfo("compiled for each device from sm_" + std::to_string(code.sm) + " on\n");
    std::string const digest = tensoracle::toHex(tensoracle::sha256(data, code.size));
    record.add("kind", std::string(code.isPtx ? "ptx" : "cubin"));
    record.add("sha256", digest);
    record.add("size", static_cast<std::uint64_t>(code.size));
    record.add("sm", code.sm);
    *library = driver.libraries.add({std::move(code), digest});
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuLibraryUnload(void* library) {
  return run("cuLibraryUnload", [&](Driver& driver, Record& record) {
    Library* const found = driver.libraries.find(library);
    if (found == nullptr || found->isUnloaded) return CUDA_ERROR_INVALID_HANDLE;
    CUresult const result = driver.checkUnsafe();
    if (result != CUDA_SUCCESS) return result;
    found->isUnloaded = true;
    record.add("sha256", found->digest);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuLibraryGetKernel(void** kernel, void* library, char const* name) {
  return run("cuLibraryGetKernel", [&](Driver& driver, Record& record) {
    if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Library* const found = driver.libraries.find(library);
    if (found == nullptr || found->isUnloaded) return CUDA_ERROR_INVALID_HANDLE;
    KernelImage const* const image = found->code.find(name);
    if (image == nullptr) return CUDA_ERROR_NOT_FOUND;
    record.add("kernel", image->symbol);
    record.add("sha256", found->digest);
    for (Kernel& known : driver.kernels) {
      if (known.image != image) continue;
      *kernel = &known;
      return CUDA_SUCCESS;
    }
    *kernel = driver.kernels.add({found, image});
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuKernelGetFunction(void** function, void* kernel) {
  return run("cuKernelGetFunction", [&](Driver& driver, Record& record) {
    Context* context = nullptr;
    CUresult result = driver.current(context);
    if (result != CUDA_SUCCESS) return result;
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Kernel* const found = driver.findKernel(kernel);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    result = driver.load(*context, *found, record);
    if (result == CUDA_SUCCESS) *function = driver.findFunction(*context, *found);
    return result;
  });
}

FAKE_DRIVER_EXPORT CUresult cuKernelGetAttribute(int* value, int attribute, void* kernel, int device) {
  return run("cuKernelGetAttribute", [&](Driver& driver, Record&) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Kernel* const found = driver.findKernel(kernel);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Device const* const on = driver.device(device);
    if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (!found->library->code.runsOn(on->sm)) return found->library->code.refusal();
    return readAttribute(*found, device, attribute, *value);
  });
}

FAKE_DRIVER_EXPORT CUresult cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
  return run("cuKernelSetAttribute", [&](Driver& driver, Record& record) {
    Kernel* const found = driver.findKernel(kernel);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Device const* const on = driver.device(device);
    if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (!found->library->code.runsOn(on->sm)) return found->library->code.refusal();
    bool const isValid = attribute == kMAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 &&
                         found->image->staticShared + value <= on->sharedMax;
    if (!isValid) return CUDA_ERROR_INVALID_VALUE;
    found->dynamicShared[device] = value;
    record.add("kernel", found->image->symbol);
    record.add("attribute", attribute);
    record.add("value", value);
    record.add("device", device);
    return CUDA_SUCCESS;
  });
}
