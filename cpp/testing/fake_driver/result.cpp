// Names and descriptions of results.
#include "result.hpp"

#include <cstring>

namespace tensoracle::fake {
namespace {

struct Entry {
  CUresult result;
  char const* name;
  char const* description;
};

#define ENTRY(name, description) {name, #name, description}
constexpr Entry kENTRIES[] = {
    ENTRY(CUDA_SUCCESS, "no error"),
    ENTRY(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ENTRY(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ENTRY(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ENTRY(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ENTRY(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ENTRY(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ENTRY(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ENTRY(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ENTRY(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ENTRY(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ENTRY(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain"),
    ENTRY(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX JIT compilation was disabled"),
    ENTRY(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ENTRY(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ENTRY(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ENTRY(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ENTRY(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ENTRY(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ENTRY(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    ENTRY(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ENTRY(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ENTRY(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ENTRY(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ENTRY(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    ENTRY(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
    ENTRY(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ENTRY(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ENTRY(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    ENTRY(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ENTRY(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ENTRY(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed: it would change the topology"),
    ENTRY(CUDA_ERROR_UNKNOWN, "unknown error"),
};

}  // namespace

char const* nameOf(CUresult result) noexcept {
  for (Entry const& entry : kENTRIES) {
    if (entry.result == result) return entry.name;
  }
  return nullptr;
}

char const* describe(CUresult result) noexcept {
  for (Entry const& entry : kENTRIES) {
    if (entry.result == result) return entry.description;
  }
  return nullptr;
}

CUresult resultCalled(char const* name) noexcept {
  for (Entry const& entry : kENTRIES) {
    if (std::strcmp(entry.name, name) == 0) return entry.result;
  }
  return CUDA_SUCCESS;
}

}  // namespace tensoracle::fake
