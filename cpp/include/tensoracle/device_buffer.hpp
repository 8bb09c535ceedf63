// Device memory that belongs to the CUDA context it was allocated in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensoracle/driver.hpp"

namespace tensoracle {

// For what a plugin places once, in `attach`, such as weights. Freed in its own context, whatever context is current
// then; if that was destroyed before, the memory went with it. A copy of a plugin has another life and perhaps another
// context, so a copy of a buffer is empty.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;

  // Allocates in the current context and copies from the host; the copy is complete on return. An Error if the driver
  // refuses. Not for the launch path.
  DeviceBuffer(void const* data, std::size_t bytes);

  DeviceBuffer(DeviceBuffer const&) noexcept {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() noexcept;

  void* data() const noexcept { return reinterpret_cast<void*>(address_); }  // null if empty
  std::size_t size() const noexcept { return bytes_; }                       // bytes

 private:
  void swap(DeviceBuffer& other) noexcept;
  bool isThere(Driver const& driver) const;

  CUcontext context_ = nullptr;
  CUdeviceptr address_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t id_ = 0;  // the driver's, of the allocation
};

}  // namespace tensoracle
