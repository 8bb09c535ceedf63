// Initialisation, errors and devices.
#include <cstring>

#include "driver.hpp"

using namespace tensoracle::fake;

namespace {

constexpr std::size_t kDEVICE_MEMORY = std::size_t{16} << 30;

// Nothing is known of the other attributes.
CUresult readAttribute(Device const& device, int attribute, int& value) noexcept {
  switch (attribute) {
    case 1: value = 1024; return CUDA_SUCCESS;               // MAX_THREADS_PER_BLOCK
    case 8: value = 48 * 1024; return CUDA_SUCCESS;          // MAX_SHARED_MEMORY_PER_BLOCK
    case 10: value = 32; return CUDA_SUCCESS;                // WARP_SIZE
    case 16: value = kMULTIPROCESSORS; return CUDA_SUCCESS;  // MULTIPROCESSOR_COUNT
    case 38: value = 1 << 18; return CUDA_SUCCESS;           // L2_CACHE_SIZE
    case 41: value = 1; return CUDA_SUCCESS;                 // UNIFIED_ADDRESSING
    case 75: value = device.sm / 10; return CUDA_SUCCESS;    // COMPUTE_CAPABILITY_MAJOR
    case 76: value = device.sm % 10; return CUDA_SUCCESS;    // COMPUTE_CAPABILITY_MINOR
    case 97: value = device.sharedMax; return CUDA_SUCCESS;  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

FAKE_DRIVER_EXPORT CUresult cuInit(unsigned flags) {
  {
    Driver& driver = Driver::get();
    std::lock_guard const lock(driver.mutex);
    driver.isInitialized = !driver.devices.empty();
    if (!driver.isInitialized) return CUDA_ERROR_NO_DEVICE;
  }
  return run("cuInit", [&](Driver&, Record&) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

FAKE_DRIVER_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 12090;  // CUDA 12.9, of which the pinned ptxas is
  return CUDA_SUCCESS;
}

FAKE_DRIVER_EXPORT CUresult cuGetErrorName(CUresult error, char const** name) {
  *name = nameOf(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_DRIVER_EXPORT CUresult cuGetErrorString(CUresult error, char const** description) {
  *description = describe(error);
  return *description != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_DRIVER_EXPORT CUresult cuDeviceGetCount(int* count) {
  return run("cuDeviceGetCount", [&](Driver& driver, Record&) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(driver.devices.size());
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuDeviceGet(int* device, int ordinal) {
  return run("cuDeviceGet", [&](Driver& driver, Record&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (driver.device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuDeviceGetName(char* name, int size, int device) {
  return run("cuDeviceGetName", [&](Driver& driver, Record&) {
    if (name == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
    Device const* const found = driver.device(device);
    if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::string const text = "fake device of sm_" + std::to_string(found->sm);
    std::strncpy(name, text.c_str(), static_cast<std::size_t>(size) - 1);
    name[size - 1] = '\0';
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, int device) {
  return run("cuDeviceGetAttribute", [&](Driver& driver, Record&) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device const* const found = driver.device(device);
    return found != nullptr ? readAttribute(*found, attribute, *value) : CUDA_ERROR_INVALID_DEVICE;
  });
}

FAKE_DRIVER_EXPORT CUresult cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  return run("cuMemGetInfo", [&](Driver& driver, Record&) {
    Context* context = nullptr;
    CUresult const result = driver.current(context);
    if (result != CUDA_SUCCESS) return result;
    if (available == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *available = *total = kDEVICE_MEMORY;
    for (auto const& [address, allocation] : driver.allocations) {
      if (allocation.context->device == context->device) *available -= allocation.size;
    }
    return CUDA_SUCCESS;
  });
}
