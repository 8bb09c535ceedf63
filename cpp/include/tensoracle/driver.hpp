// The CUDA driver functions that the launcher uses, found in libcuda.so.1 at first use.
#pragma once

#include <cstddef>
#include <string>

#include "tensoracle/error.hpp"

struct CUctx_st;
struct CUfunc_st;
struct CUkern_st;
struct CUlib_st;
struct CUstream_st;

namespace tensoracle {

// Types and values of the documented driver API, named as there.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = CUctx_st*;
using CUfunction = CUfunc_st*;
using CUkernel = CUkern_st*;
using CUlibrary = CUlib_st*;
using CUstream = CUstream_st*;

constexpr CUresult kCUDA_SUCCESS = 0;
constexpr CUresult kCUDA_ERROR_INVALID_VALUE = 1;
constexpr CUresult kCUDA_ERROR_DEINITIALIZED = 4;

enum class DeviceAttribute : int {
  kMAJOR = 75,                        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  kMINOR = 76,                        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
  kSHARED_MEMORY_PER_BLOCK_MAX = 97,  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
};

enum class KernelAttribute : int {
  kMAX_THREADS_PER_BLOCK = 0,
  kSTATIC_SHARED_BYTES = 1,
  kLOCAL_BYTES = 3,
  kREGISTERS = 4,
  kMAX_DYNAMIC_SHARED_BYTES = 8,
};

enum class JitOption : int {
  kINFO_LOG_BUFFER = 3,
  kINFO_LOG_BUFFER_SIZE_BYTES = 4,
  kERROR_LOG_BUFFER = 5,
  kERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum class PointerAttribute : int {
  kBUFFER_ID = 7,  // of the allocation that an address lies in: no other of the process ever has the same
};

enum class CaptureMode : int { kGLOBAL = 0, kTHREAD_LOCAL = 1, kRELAXED = 2 };

// Members have the names of the functions; where libcuda exports versions of one, the table is filled with the current.
struct Driver {
  CUresult (*cuGetErrorName)(CUresult, char const**);
  CUresult (*cuGetErrorString)(CUresult, char const**);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxGetDevice)(CUdevice*);
  CUresult (*cuDeviceGetAttribute)(int*, DeviceAttribute, CUdevice);
  CUresult (*cuCtxPushCurrent)(CUcontext);
  CUresult (*cuCtxPopCurrent)(CUcontext*);
  CUresult (*cuMemGetInfo)(std::size_t*, std::size_t*);
  CUresult (*cuMemAlloc)(CUdeviceptr*, std::size_t);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuPointerGetAttribute)(void*, PointerAttribute, CUdeviceptr);
  CUresult (*cuMemcpyHtoDAsync)(CUdeviceptr, void const*, std::size_t, CUstream);
  CUresult (*cuStreamCreate)(CUstream*, unsigned);
  CUresult (*cuStreamDestroy)(CUstream);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuThreadExchangeStreamCaptureMode)(CaptureMode*);
  CUresult (*cuLibraryLoadData)(CUlibrary*, void const*, JitOption*, void**, unsigned, int*, void**, unsigned);
  CUresult (*cuLibraryGetKernel)(CUkernel*, CUlibrary, char const*);
  CUresult (*cuKernelGetFunction)(CUfunction*, CUkernel);
  CUresult (*cuKernelGetAttribute)(int*, KernelAttribute, CUkernel, CUdevice);
  CUresult (*cuKernelSetAttribute)(KernelAttribute, int, CUkernel, CUdevice);
  CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                             void**, void**);

  // The process's table. An Error if there is no usable driver, or if the process was forked after its first use.
  static Driver const& get();

  // An Error that begins "call: NAME (number): description; " and ends in the context, unless the call succeeded.
  template <class... Parts>
  void check(CUresult result, char const* call, Parts const&... context) const {
    if (result != kCUDA_SUCCESS) failCall(result, call, compose(context...));
  }

  // For clean-up, which cannot fail: the same text becomes a warning in the log.
  void report(CUresult result, char const* call, char const* context) const noexcept;

  // "CUDA_ERROR_INVALID_VALUE (1): invalid argument"
  std::string describe(CUresult result) const;

 private:
  [[noreturn]] void failCall(CUresult result, char const* call, std::string const& context) const;
};

// While it lives, this thread may make calls that a capture in progress would otherwise forbid, such as loading code.
class RelaxedCapture {
 public:
  RelaxedCapture(Driver const& driver, char const* purpose);
  RelaxedCapture(RelaxedCapture const&) = delete;
  RelaxedCapture& operator=(RelaxedCapture const&) = delete;
  ~RelaxedCapture() noexcept;

 private:
  Driver const& driver_;
  CaptureMode mode_ = CaptureMode::kRELAXED;
};

}  // namespace tensoracle
