// Stands before the CUDA driver in a process: counts calls by name and passes them on. Libraries that ask for
// libcuda.so.1 find it, as it has that SONAME and is loaded first. The driver's own calls of itself do not pass here.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// What the launcher and the tests call, under the names that libcuda exports.
// clang-format off: it indents such a list further with every line
#define CALLS(CALL) \
  CALL(cuInit) CALL(cuDriverGetVersion) CALL(cuGetErrorName) CALL(cuGetErrorString) CALL(cuDeviceGetCount) \
  CALL(cuDeviceGetName) CALL(cuDeviceGetAttribute) CALL(cuCtxCreate_v2) CALL(cuCtxDestroy_v2) \
  CALL(cuCtxGetCurrent) CALL(cuCtxSetCurrent) CALL(cuCtxPushCurrent_v2) CALL(cuCtxPopCurrent_v2) \
  CALL(cuCtxGetDevice) CALL(cuCtxGetId) CALL(cuCtxSynchronize) CALL(cuMemGetInfo_v2) CALL(cuMemAlloc_v2) \
  CALL(cuMemFree_v2) CALL(cuPointerGetAttribute) CALL(cuMemcpyHtoD_v2) CALL(cuMemcpyHtoDAsync_v2) CALL(cuMemcpyDtoH_v2) \
  CALL(cuStreamCreate) CALL(cuStreamDestroy_v2) CALL(cuStreamSynchronize) CALL(cuStreamQuery) \
  CALL(cuStreamBeginCapture_v2) CALL(cuStreamEndCapture) CALL(cuStreamIsCapturing) \
  CALL(cuThreadExchangeStreamCaptureMode) CALL(cuGraphInstantiateWithFlags) CALL(cuGraphLaunch) \
  CALL(cuGraphDestroy) CALL(cuGraphExecDestroy) CALL(cuLibraryLoadData) CALL(cuLibraryUnload) \
  CALL(cuLibraryGetKernel) CALL(cuKernelGetFunction) CALL(cuKernelGetAttribute) CALL(cuKernelSetAttribute) \
  CALL(cuLaunchKernel)
// clang-format on

#define EXPORT extern "C" __attribute__((visibility("default")))

// A function that keeps every register: it adds one and jumps on.
#define DEFINE(name)                                                                                          \
  extern "C" {                                                                                                \
  __attribute__((visibility("hidden"))) void* real_##name;                                                    \
  __attribute__((visibility("hidden"))) long count_##name;                                                    \
  }                                                                                                           \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n lock incq count_" #name \
      "(%rip)\n jmp *real_" #name "(%rip)\n.popsection\n");
CALLS(DEFINE)

namespace {

struct Call {
  char const* name;
  void** real;
  long* count;
};

#define ROW(name) {#name, &real_##name, &count_##name},
constexpr Call kCALLS[] = {CALLS(ROW)};

int isMissing() { return 500; }  // CUDA_ERROR_NOT_FOUND

__attribute__((constructor)) void open() {
  char const* const path = std::getenv("TENSORACLE_COUNTED_DRIVER");  // by path: the SONAME is taken
  void* const driver = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (driver == nullptr) {
    std::fprintf(stderr, "the driver to be counted, %s, cannot be loaded: %s\n", path, dlerror());
    std::abort();
  }
  for (Call const& call : kCALLS) {
    void* const found = dlsym(driver, call.name);
    *call.real = found != nullptr ? found : reinterpret_cast<void*>(isMissing);
  }
}

}  // namespace

// The number of calls of the i-th name, which is null at the end.
EXPORT long countedCalls(unsigned i, char const** name) {
  if (i >= sizeof(kCALLS) / sizeof(kCALLS[0])) return *name = nullptr, 0;
  *name = kCALLS[i].name;
  return __atomic_load_n(kCALLS[i].count, __ATOMIC_RELAXED);
}
