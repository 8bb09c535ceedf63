// Code: libraries, their kernels, and the kernels' functions in contexts.
#include <algorithm>

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

CUresult readAttribute(Kernel& kernel, int device, int attribute, int& value) {
  switch (attribute) {
    case kMAX_THREADS_PER_BLOCK: value = kMAX_THREADS; return CUDA_SUCCESS;
    case kSHARED_SIZE_BYTES: value = kernel.image->staticShared; return CUDA_SUCCESS;
    case kCONST_SIZE_BYTES: value = 0; return CUDA_SUCCESS;
    case kLOCAL_SIZE_BYTES: value = kernel.image->localBytes; return CUDA_SUCCESS;
    case kNUM_REGS: value = kernel.image->registers; return CUDA_SUCCESS;
    case kPTX_VERSION:
    case kBINARY_VERSION: value = kernel.library->cubin.sm; return CUDA_SUCCESS;
    case kMAX_DYNAMIC_SHARED_SIZE_BYTES: value = maxDynamicShared(kernel, device); return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

// Strict where drivers differ: release 580 looks at the code only when its first kernel is asked for, and loads under
// capture.
FAKE_DRIVER_EXPORT CUresult cuLibraryLoadData(void** library, void const* code, int*, void**, unsigned jitOptions, int*,
                                              void**, unsigned libraryOptions) {
  return run("cuLibraryLoadData", [&](Driver& driver, Record& record) {
    if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (jitOptions != 0 || libraryOptions != 0) return CUDA_ERROR_NOT_SUPPORTED;  // by this double
    CUresult const result = driver.checkUnsafe();
    if (result != CUDA_SUCCESS) return result;
    std::optional<Cubin> cubin = readCubin(code);
    if (!cubin) return CUDA_ERROR_INVALID_IMAGE;
    auto const runs = [&](Device const& device) { return cubin->runsOn(device.sm); };
    if (std::none_of(driver.devices.begin(), driver.devices.end(), runs)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    std::string const digest = tensoracle::toHex(tensoracle::sha256(code, cubin->size));
    record.add("sha256", digest);
    record.add("size", static_cast<std::uint64_t>(cubin->size));
    record.add("sm", cubin->sm);
    *library = driver.libraries.add({std::move(*cubin), digest});
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
    KernelImage const* const image = found->cubin.find(name);
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
    if (!found->library->cubin.runsOn(on->sm)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return readAttribute(*found, device, attribute, *value);
  });
}

FAKE_DRIVER_EXPORT CUresult cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
  return run("cuKernelSetAttribute", [&](Driver& driver, Record& record) {
    Kernel* const found = driver.findKernel(kernel);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Device const* const on = driver.device(device);
    if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (!found->library->cubin.runsOn(on->sm)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
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
