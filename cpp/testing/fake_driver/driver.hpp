// The state behind the calls: devices, and what was made on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "code.hpp"
#include "journal.hpp"
#include "result.hpp"

#define FAKE_DRIVER_EXPORT extern "C" __attribute__((visibility("default")))

namespace tensoracle::fake {

constexpr unsigned kMULTIPROCESSORS = 4;  // of every device

enum class CaptureMode : int { kGLOBAL = 0, kTHREAD_LOCAL = 1, kRELAXED = 2 };

struct Context {
  int device;
  std::uint64_t id;  // unique in the process
  bool isPrimary;
  bool isDestroyed = false;
  std::uint64_t nanoseconds = 0;  // what its default streams have worked
};

struct Device {
  int sm;
  int sharedMax;  // bytes per block after opting in
  Context* primary = nullptr;
  int retained = 0;
};

struct Capture {
  CaptureMode mode;
  std::thread::id thread;
  bool isInvalidated = false;
  std::uint64_t nanoseconds = 0;          // what executing it takes
  std::vector<void const*> kernels = {};  // in the order of their launches
};

struct Stream {
  Context* context;
  bool isBlocking;  // waits for the legacy default stream
  bool isDestroyed = false;
  std::optional<Capture> capture = std::nullopt;
  std::uint64_t nanoseconds = 0;  // what it has worked
};

struct Library {
  Code code;
  std::string digest;
  bool isUnloaded = false;
};

struct Kernel {
  Library* library;
  KernelImage const* image;
  std::map<int, int> dynamicShared = {};  // bytes per block that were opted in to, by device
};

// A kernel in one context.
struct Function {
  Kernel* kernel;
  Context* context;
};

// Bytes per block that a launch on the device may ask for.
int maxDynamicShared(Kernel const& kernel, int device) noexcept;

// A graph, and an executable one.
struct Graph {
  std::uint64_t nanoseconds = 0;
  std::vector<void const*> kernels = {};
  bool isDestroyed = false;
};

struct Event {
  Context* context;
  std::optional<std::uint64_t> nanoseconds = std::nullopt;  // on the clock of the stream that it was recorded on
  bool isDestroyed = false;
};

struct Allocation {
  Context* context;
  std::uint64_t id;  // unique in the process
  std::size_t size;
  std::unique_ptr<std::byte[]> memory;
};

// The objects behind handles. None is ever freed or moved, so that a handle that is wrong or stale can be told.
template <class T>
class Pool {
 public:
  T* add(T item) {
    T* const added = &items_.emplace_back(std::move(item));
    known_.insert(added);
    return added;
  }

  // Null for a handle that is not this pool's.
  T* find(void* handle) const noexcept { return known_.count(handle) > 0 ? static_cast<T*>(handle) : nullptr; }

  auto begin() noexcept { return items_.begin(); }
  auto end() noexcept { return items_.end(); }

 private:
  std::deque<T> items_;
  std::unordered_set<void*> known_;
};

// What the driver keeps for each thread.
struct Thread {
  std::vector<Context*> contexts;  // the last is current
  CaptureMode mode = CaptureMode::kGLOBAL;

  static Thread& get() noexcept;
  Context* current() const noexcept { return contexts.empty() ? nullptr : contexts.back(); }
};

// Where work goes that is given to a stream.
struct Target {
  Context* context = nullptr;
  Stream* stream = nullptr;  // null for the default streams, which are never captured
  bool isLegacy = false;     // the default stream that blocking streams wait for

  std::uint64_t& clock() const noexcept { return stream != nullptr ? stream->nanoseconds : context->nanoseconds; }
};

struct Driver {
  std::mutex mutex;
  bool isInitialized = false;
  std::vector<Device> devices;
  Pool<Context> contexts;
  Pool<Stream> streams;
  Pool<Library> libraries;
  Pool<Kernel> kernels;
  Pool<Function> functions;
  Pool<Graph> graphs;
  Pool<Graph> executables;
  Pool<Event> events;
  std::map<std::uintptr_t, Allocation> allocations;  // by address
  std::uint64_t allocationCount = 0;
  Journal journal;
  std::multimap<std::string, std::pair<int, CUresult>> failures;  // by call: occurrences left, and what it answers then

  static Driver& get() noexcept;

  Device* device(int ordinal) noexcept;
  Context* createContext(int device, bool isPrimary);
  void destroyContext(Context& context);

  // The current context, or why it cannot be used.
  CUresult current(Context*& context) const noexcept;

  CUresult resolve(void* stream, Target& target) const noexcept;

  // What cuThreadExchangeStreamCaptureMode documents of potentially unsafe calls: captures that forbid them to this
  // thread are invalidated, and the answer is CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
  CUresult checkUnsafe() noexcept;

  // What the programming guide says of the legacy default stream, which synchronous copies use too: work on it would
  // join a capture of one of the context's blocking streams. That capture is invalidated, whatever this thread's mode.
  CUresult checkImplicit(Context const& context) noexcept;

  bool hasBlockingCapture(Context const& context) noexcept;

  // Null for a handle that is no kernel of a loaded library.
  Kernel* findKernel(void* handle) const noexcept;

  // Null unless the kernel was loaded into the context.
  Function* findFunction(Context const& context, Kernel const& kernel) noexcept;

  // Drivers load a kernel into a context at its first use there, which counts as a potentially unsafe call.
  CUresult load(Context& context, Kernel& kernel, Record& record);

  // The result that a test asked for, if this call is the one.
  CUresult takeFailure(char const* call);
};

// Every call of the API runs here: alone, recorded, and failing if a test wants it to.
template <class Body>
CUresult run(char const* name, Body&& body) noexcept {
  Driver& driver = Driver::get();
  std::lock_guard const lock(driver.mutex);
  Record record(name);
  record.add("context", static_cast<void const*>(Thread::get().current()));
  CUresult result = driver.isInitialized ? driver.takeFailure(name) : CUDA_ERROR_NOT_INITIALIZED;
  if (result == CUDA_SUCCESS) result = body(driver, record);
  driver.journal.add(record.finish(result));
  return result;
}

}  // namespace tensoracle::fake
