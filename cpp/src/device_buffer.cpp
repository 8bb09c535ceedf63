// Allocates, fills and frees device memory.
#include "tensoracle/device_buffer.hpp"

#include <utility>

#include "tensoracle/log.hpp"

namespace tensoracle {
namespace {

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
    driver.check(driver.cuPointerGetAttribute(&id_, PointerAttribute::kBUFFER_ID, address_), "cuPointerGetAttribute",
                 "asking for the id of ", bytes, " bytes of device memory");
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
    if (!isThere(driver)) return true;
    PushedContext const pushed(driver, context_);
    driver.check(pushed.result(), "cuCtxPushCurrent", "to free ", bytes_, " bytes in their context");
    RelaxedCapture const relaxed(driver, "before freeing device memory");
    driver.check(driver.cuMemFree(address_), "cuMemFree", bytes_, " bytes");
    return true;
  });
}

// Memory goes with its context, and with the driver when a process ends with plugins alive. A destroyed context must
// not be asked: the driver reads freed memory then (seen with 580.159 on an H200). Addresses may be asked at any time.
bool DeviceBuffer::isThere(Driver const& driver) const {
  std::uint64_t id = 0;
  CUresult const result = driver.cuPointerGetAttribute(&id, PointerAttribute::kBUFFER_ID, address_);
  if (result == kCUDA_ERROR_INVALID_VALUE || result == kCUDA_ERROR_DEINITIALIZED) return false;
  driver.check(result, "cuPointerGetAttribute", "to free ", bytes_, " bytes");
  return id == id_;
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(id_, other.id_);
}

}  // namespace tensoracle
