// Contexts: their life, and each thread's stack of them.
#include "driver.hpp"

using namespace tensoracle::fake;

FAKE_DRIVER_EXPORT CUresult cuCtxCreate_v2(void** context, unsigned, int device) {
  return run("cuCtxCreate", [&](Driver& driver, Record& record) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (driver.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    CUresult const result = driver.checkUnsafe();
    if (result != CUDA_SUCCESS) return result;
    Context* const created = driver.createContext(device, false);
    Thread::get().contexts.push_back(created);
    record.add("created", static_cast<void const*>(created));
    *context = created;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxDestroy_v2(void* context) {
  return run("cuCtxDestroy", [&](Driver& driver, Record& record) {
    Context* const found = driver.contexts.find(context);
    if (found == nullptr || found->isPrimary) return CUDA_ERROR_INVALID_CONTEXT;
    if (found->isDestroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    record.add("destroyed", static_cast<void const*>(found));
    driver.destroyContext(*found);
    // Documented: it is popped where it is current to this thread, and stays current to other threads.
    auto& contexts = Thread::get().contexts;
    if (!contexts.empty() && contexts.back() == found) contexts.pop_back();
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuDevicePrimaryCtxRetain(void** context, int device) {
  return run("cuDevicePrimaryCtxRetain", [&](Driver& driver, Record&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* const found = driver.device(device);
    if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (found->retained++ == 0) found->primary = driver.createContext(device, true);
    *context = found->primary;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int device) {
  return run("cuDevicePrimaryCtxRelease", [&](Driver& driver, Record&) {
    Device* const found = driver.device(device);
    if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (found->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--found->retained == 0) driver.destroyContext(*found->primary);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxGetCurrent(void** context) {
  return run("cuCtxGetCurrent", [&](Driver&, Record&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = Thread::get().current();
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxSetCurrent(void* context) {
  return run("cuCtxSetCurrent", [&](Driver& driver, Record&) {
    auto& contexts = Thread::get().contexts;
    if (!contexts.empty()) contexts.pop_back();
    if (context == nullptr) return CUDA_SUCCESS;
    Context* const found = driver.contexts.find(context);
    if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (found->isDestroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    contexts.push_back(found);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxPushCurrent_v2(void* context) {
  return run("cuCtxPushCurrent", [&](Driver& driver, Record&) {
    Context* const found = driver.contexts.find(context);
    if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (found->isDestroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    Thread::get().contexts.push_back(found);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxPopCurrent_v2(void** context) {
  return run("cuCtxPopCurrent", [&](Driver&, Record&) {
    auto& contexts = Thread::get().contexts;
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxGetDevice(int* device) {
  return run("cuCtxGetDevice", [&](Driver& driver, Record&) {
    Context* context = nullptr;
    CUresult const result = driver.current(context);
    if (result != CUDA_SUCCESS) return result;
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxGetId(void* context, unsigned long long* id) {
  return run("cuCtxGetId", [&](Driver& driver, Record&) {
    Context* const found = context != nullptr ? driver.contexts.find(context) : Thread::get().current();
    if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (found->isDestroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = found->id;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuCtxSynchronize() {
  return run("cuCtxSynchronize", [&](Driver& driver, Record&) {
    Context* context = nullptr;
    CUresult result = driver.current(context);
    if (result != CUDA_SUCCESS) return result;
    for (Stream& stream : driver.streams) {
      if (stream.context != context || !stream.capture) continue;
      stream.capture->isInvalidated = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
  });
}
