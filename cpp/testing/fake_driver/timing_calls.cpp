// Events and graph launches. Time is the fake driver's own: a stream's clock goes on with each launch, and stands still
// otherwise.
#include "driver.hpp"

using namespace tensoracle::fake;

FAKE_DRIVER_EXPORT CUresult cuEventCreate(void** event, unsigned flags) {
  return run("cuEventCreate", [&](Driver& driver, Record&) {
    Context* context = nullptr;
    CUresult const result = driver.current(context);
    if (result != CUDA_SUCCESS) return result;
    if (event == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;  // other flags: by this double
    *event = driver.events.add({context});
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuEventDestroy_v2(void* event) {
  return run("cuEventDestroy", [&](Driver& driver, Record&) {
    Event* const found = driver.events.find(event);
    if (found == nullptr || found->isDestroyed) return CUDA_ERROR_INVALID_HANDLE;
    found->isDestroyed = true;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuEventRecord(void* event, void* stream) {
  return run("cuEventRecord", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    Event* const found = driver.events.find(event);
    if (found == nullptr || found->isDestroyed || found->context != target.context) return CUDA_ERROR_INVALID_HANDLE;
    if (target.stream != nullptr && target.stream->capture) return CUDA_ERROR_NOT_SUPPORTED;  // by this double
    found->nanoseconds = target.clock();
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  return run("cuEventElapsedTime", [&](Driver& driver, Record&) {
    Event* const events[] = {driver.events.find(start), driver.events.find(end)};
    for (Event const* event : events) {
      if (event == nullptr || event->isDestroyed || !event->nanoseconds) return CUDA_ERROR_INVALID_HANDLE;
    }
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto const elapsed = static_cast<std::int64_t>(*events[1]->nanoseconds - *events[0]->nanoseconds);
    *milliseconds = static_cast<float>(static_cast<double>(elapsed) * 1e-6);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuGraphInstantiateWithFlags(void** executable, void* graph, std::uint64_t flags) {
  return run("cuGraphInstantiateWithFlags", [&](Driver& driver, Record&) {
    Graph* const found = driver.graphs.find(graph);
    if (executable == nullptr || flags != 0 || found == nullptr || found->isDestroyed) return CUDA_ERROR_INVALID_VALUE;
    *executable = driver.executables.add({found->nanoseconds, found->kernels});
    return CUDA_SUCCESS;
  });
}

// Its documentation lets parameters of kernel nodes change, and neither their number nor, as far as contexts of
// functions and memory go, much of the functions. This double is the strict one: the same kernels in the same order.
FAKE_DRIVER_EXPORT CUresult cuGraphExecUpdate_v2(void* executable, void* graph, void* info) {
  return run("cuGraphExecUpdate", [&](Driver& driver, Record&) {
    Graph* const found = driver.executables.find(executable);
    Graph const* const wanted = driver.graphs.find(graph);
    if (found == nullptr || found->isDestroyed || wanted == nullptr || wanted->isDestroyed || info == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (found->kernels != wanted->kernels) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    found->nanoseconds = wanted->nanoseconds;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuGraphExecDestroy(void* executable) {
  return run("cuGraphExecDestroy", [&](Driver& driver, Record&) {
    Graph* const found = driver.executables.find(executable);
    if (found == nullptr || found->isDestroyed) return CUDA_ERROR_INVALID_VALUE;
    found->isDestroyed = true;
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuGraphLaunch(void* executable, void* stream) {
  return run("cuGraphLaunch", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    Graph* const found = driver.executables.find(executable);
    if (found == nullptr || found->isDestroyed) return CUDA_ERROR_INVALID_VALUE;
    if (target.stream != nullptr && target.stream->capture) return CUDA_ERROR_NOT_SUPPORTED;  // by this double
    target.clock() += found->nanoseconds;
    return CUDA_SUCCESS;
  });
}
