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

}  // namespace

DeviceBuffer::DeviceBuffer(void const* data, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  Driver const& driver = Driver::get();
  RelaxedCapture const relaxed(driver);
  driver.check(driver.cuCtxGetCurrent(&context_), "cuCtxGetCurrent", "before allocating device memory");
  if (context_ == nullptr) fail("no CUDA context is current on this thread: device memory belongs to a context");
  driver.check(driver.cuMemAlloc(&address_, bytes), "cuMemAlloc", bytes, " bytes of device memory");
  CUresult const result = driver.cuMemcpyHtoD(address_, data, bytes);
  if (result == kCUDA_SUCCESS) return;
  driver.cuMemFree(address_);
  driver.check(result, "cuMemcpyHtoD", bytes, " bytes");
}

DeviceBuffer::~DeviceBuffer() noexcept {
  if (address_ == 0) return;
  detail::guard<bool>("device memory", "release", false, [&] {
    Driver const& driver = Driver::get();
    CUresult const pushed = driver.cuCtxPushCurrent(context_);
    if (isGone(pushed)) return true;
    driver.check(pushed, "cuCtxPushCurrent", "to free ", bytes_, " bytes in their context");
    CUresult const result = driver.cuMemFree(address_);
    CUcontext popped = nullptr;
    driver.check(driver.cuCtxPopCurrent(&popped), "cuCtxPopCurrent", "after freeing device memory");
    if (!isGone(result)) driver.check(result, "cuMemFree", bytes_, " bytes");
    return true;
  });
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

}  // namespace tensoracle
