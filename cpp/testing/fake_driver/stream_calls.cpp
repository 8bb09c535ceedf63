// Streams, and their capture into graphs.
#include "driver.hpp"

using namespace tensoracle::fake;

namespace {

constexpr unsigned kNON_BLOCKING = 1;

enum CaptureStatus : int { kNONE = 0, kACTIVE = 1, kINVALIDATED = 2 };

bool isMode(int mode) noexcept { return mode >= 0 && mode <= static_cast<int>(CaptureMode::kRELAXED); }

}  // namespace

FAKE_DRIVER_EXPORT CUresult cuStreamCreate(void** stream, unsigned flags) {
  return run("cuStreamCreate", [&](Driver& driver, Record& record) {
    Context* context = nullptr;
    CUresult const result = driver.current(context);
    if (result != CUDA_SUCCESS) return result;
    if (stream == nullptr || flags > kNON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    Stream* const created = driver.streams.add({context, flags != kNON_BLOCKING});
    record.add("stream", static_cast<void const*>(created));
    *stream = created;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuStreamDestroy_v2(void* stream) {
  return run("cuStreamDestroy", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (target.stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    target.stream->isDestroyed = true;
    target.stream->capture.reset();
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuStreamGetCtx(void* stream, void** context) {
  return run("cuStreamGetCtx", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = target.context;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuStreamSynchronize(void* stream) {
  return run("cuStreamSynchronize", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (target.isLegacy) return driver.checkImplicit(*target.context);
    if (target.stream == nullptr || !target.stream->capture) return CUDA_SUCCESS;
    target.stream->capture->isInvalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  });
}

FAKE_DRIVER_EXPORT CUresult cuStreamBeginCapture_v2(void* stream, int mode) {
  return run("cuStreamBeginCapture", [&](Driver& driver, Record& record) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (!isMode(mode)) return CUDA_ERROR_INVALID_VALUE;
    if (target.isLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (target.stream == nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // the per-thread stream, by this double
    if (target.stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    target.stream->capture = Capture{static_cast<CaptureMode>(mode), std::this_thread::get_id()};
    record.add("stream", static_cast<void const*>(target.stream));
    record.add("mode", mode);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuStreamEndCapture(void* stream, void** graph) {
  return run("cuStreamEndCapture", [&](Driver& driver, Record& record) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (target.stream == nullptr || !target.stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    Capture const capture = *target.stream->capture;
    target.stream->capture.reset();  // whatever the answer is
    if (capture.mode != CaptureMode::kRELAXED && capture.thread != std::this_thread::get_id()) {
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    record.add("stream", static_cast<void const*>(target.stream));
    if (graph != nullptr)
      *graph = capture.isInvalidated ? nullptr : driver.graphs.add({capture.nanoseconds, capture.kernels});
    return capture.isInvalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuStreamIsCapturing(void* stream, int* status) {
  return run("cuStreamIsCapturing", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (target.isLegacy && driver.hasBlockingCapture(*target.context)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    bool const isCapturing = target.stream != nullptr && target.stream->capture;
    *status = !isCapturing ? kNONE : target.stream->capture->isInvalidated ? kINVALIDATED : kACTIVE;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuGraphDestroy(void* graph) {
  return run("cuGraphDestroy", [&](Driver& driver, Record&) {
    Graph* const found = driver.graphs.find(graph);
    if (found == nullptr || found->isDestroyed) return CUDA_ERROR_INVALID_VALUE;
    found->isDestroyed = true;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  return run("cuThreadExchangeStreamCaptureMode", [&](Driver&, Record& record) {
    if (mode == nullptr || !isMode(*mode)) return CUDA_ERROR_INVALID_VALUE;
    CaptureMode& threadMode = Thread::get().mode;
    int const previous = static_cast<int>(threadMode);
    threadMode = static_cast<CaptureMode>(*mode);
    record.add("mode", *mode);
    record.add("previous", previous);
    *mode = previous;
    return CUDA_SUCCESS;
  });
}
