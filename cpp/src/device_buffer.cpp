// Allocates, fills and frees device memory.
#include "tensoracle/device_buffer.hpp"

#include <utility>

#include "tensoracle/log.hpp"

namespace tensoracle {
namespace {

// The memory went with its context or with the driver, as when a process ends with plugins alive.
bool isGone(CUresult result) noexcept {
  return result == kCUDA_ERROR_DEINITIALIZED || result == kCUDA_ERROR_INVALID_CONTEXT ||
         result == kCUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// A stream that waits for no other and that no other waits for, so that a capture going on elsewhere is not disturbed.
class PrivateStream {
 public:
  explicit PrivateStream(Driver const& driver) : driver_(driver) {
    constexpr unsigned kNON_BLOCKING = 1;  // CU_STREAM_NON_BLOCKING
    driver_.check(driver_.cuStreamCreate(&stream_, kNON_BLOCKING), "cuStreamCreate", "to fill device memory");
  }
  PrivateStream(PrivateStream const&) = delete;
  PrivateStream& operator=(PrivateStream const&) = delete;
  ~PrivateStream() noexcept {
    driver_.report(driver_.cuStreamDestroy(stream_), "cuStreamDestroy", "after filling device memory");
  }

  // Complete on return.
  void copy(CUdeviceptr to, void const* from, std::size_t bytes) const {
    driver_.check(driver_.cuMemcpyHtoDAsync(to, from, bytes, stream_), "cuMemcpyHtoDAsync", bytes, " bytes");
    driver_.check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize", "after copying ", bytes, " bytes");
  }

 private:
  Driver const& driver_;
  CUstream stream_ = nullptr;
};

// Makes a context current for a scope.
class PushedContext {
 public:
  PushedContext(Driver const& driver, CUcontext context) : driver_(driver), result_(driver.cuCtxPushCurrent(context)) {}
  PushedContext(PushedContext const&) = delete;
  PushedContext& operator=(PushedContext const&) = delete;
  ~PushedContext() noexcept {
    if (result_ != kCUDA_SUCCESS) return;
    CUcontext popped = nullptr;
    driver_.report(driver_.cuCtxPopCurrent(&popped), "cuCtxPopCurrent",
                   "the context that was current before device memory was freed is not again");
  }

  CUresult result() const noexcept { return result_; }

 private:
  Driver const& driver_;
  CUresult result_;
};

}  // namespace

DeviceBuffer::DeviceBuffer(void const* data, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  Driver const& driver = Driver::get();
  RelaxedCapture const relaxed(driver, "before allocating device memory");
  driver.check(driver.cuCtxGetCurrent(&context_), "cuCtxGetCurrent", "before allocating device memory");
  if (context_ == nullptr) fail("no CUDA context is current on this thread: device memory belongs to a context");
  driver.check(driver.cuMemAlloc(&address_, bytes), "cuMemAlloc", bytes, " bytes of device memory");
  try {
    PrivateStream(driver).copy(address_, data, bytes);
  } catch (...) {
    driver.cuMemFree(address_);
    throw;
  }
}

DeviceBuffer::~DeviceBuffer() noexcept {
  if (address_ == 0) return;
  detail::guard<bool>("device memory", "release", false, [&] {
    Driver const& driver = Driver::get();
    PushedContext const pushed(driver, context_);
    if (isGone(pushed.result())) return true;
    driver.check(pushed.result(), "cuCtxPushCurrent", "to free ", bytes_, " bytes in their context");
    RelaxedCapture const relaxed(driver, "before freeing device memory");
    CUresult const freed = driver.cuMemFree(address_);
    if (!isGone(freed)) driver.check(freed, "cuMemFree", bytes_, " bytes");
    return true;
  });
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

}  // namespace tensoracle
