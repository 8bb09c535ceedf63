// Fills the table of driver functions.
#include "tensoracle/driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "tensoracle/log.hpp"

namespace tensoracle {
namespace {

template <class Function>
void find(void* library, char const* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) {
    fail("libcuda.so.1 has no ", symbol,
         ": the NVIDIA driver is older than CUDA 12.0; update it to 525.60.13 or later");
  }
}

Driver open() {
  // Never closed: the driver keeps state and threads of its own.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    char const* const cause = dlerror();
    fail("libcuda.so.1 cannot be loaded (", cause != nullptr ? cause : "no cause given",
         "): install the NVIDIA driver, or make it visible in this container");
  }
  Driver driver{};
  find(library, "cuGetErrorName", driver.cuGetErrorName);
  find(library, "cuGetErrorString", driver.cuGetErrorString);
  find(library, "cuCtxGetCurrent", driver.cuCtxGetCurrent);
  find(library, "cuCtxGetDevice", driver.cuCtxGetDevice);
  find(library, "cuDeviceGetAttribute", driver.cuDeviceGetAttribute);
  find(library, "cuCtxPushCurrent_v2", driver.cuCtxPushCurrent);
  find(library, "cuCtxPopCurrent_v2", driver.cuCtxPopCurrent);
  find(library, "cuMemGetInfo_v2", driver.cuMemGetInfo);
  find(library, "cuMemAlloc_v2", driver.cuMemAlloc);
  find(library, "cuMemFree_v2", driver.cuMemFree);
  find(library, "cuPointerGetAttribute", driver.cuPointerGetAttribute);
  find(library, "cuMemcpyHtoDAsync_v2", driver.cuMemcpyHtoDAsync);
  find(library, "cuStreamCreate", driver.cuStreamCreate);
  find(library, "cuStreamDestroy_v2", driver.cuStreamDestroy);
  find(library, "cuStreamSynchronize", driver.cuStreamSynchronize);
  find(library, "cuThreadExchangeStreamCaptureMode", driver.cuThreadExchangeStreamCaptureMode);
  find(library, "cuLibraryLoadData", driver.cuLibraryLoadData);
  find(library, "cuLibraryGetKernel", driver.cuLibraryGetKernel);
  find(library, "cuKernelGetFunction", driver.cuKernelGetFunction);
  find(library, "cuKernelGetAttribute", driver.cuKernelGetAttribute);
  find(library, "cuKernelSetAttribute", driver.cuKernelSetAttribute);
  find(library, "cuLaunchKernel", driver.cuLaunchKernel);
  return driver;
}

}  // namespace

Driver const& Driver::get() {
  static Driver const kDRIVER = open();
  static pid_t const kOPENED_BY = getpid();
  if (getpid() != kOPENED_BY) {
    fail("process ", getpid(), " was forked from ", kOPENED_BY, ", which had used CUDA already; CUDA does not work ",
         "in such a child: start it anew (Python: multiprocessing's \"spawn\" method)");
  }
  return kDRIVER;
}

std::string Driver::describe(CUresult result) const {
  char const* name = nullptr;
  char const* description = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &description);
  return compose(name != nullptr ? name : "unknown error", " (", result, ")", description != nullptr ? ": " : "",
                 description != nullptr ? description : "");
}

void Driver::failCall(CUresult result, char const* call, std::string const& context) const {
  fail(call, ": ", describe(result), "; ", context);
}

void Driver::report(CUresult result, char const* call, char const* context) const noexcept {
  if (result == kCUDA_SUCCESS) return;
  try {
    log(Severity::kWARNING, compose(call, ": ", describe(result), "; ", context).c_str());
  } catch (...) {
    log(Severity::kWARNING, call);
  }
}

RelaxedCapture::RelaxedCapture(Driver const& driver, char const* purpose) : driver_(driver) {
  driver_.check(driver_.cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode", purpose);
}

RelaxedCapture::~RelaxedCapture() noexcept {
  driver_.report(driver_.cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode",
                 "this thread's capture mode could not be restored");
}

}  // namespace tensoracle
