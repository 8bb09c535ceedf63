// Finds the loggers of the runtimes that loaded the library, and calls them by vtable slot.
#include "tensoracle/log.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>

#include "tensoracle/error.hpp"

namespace tensoracle {
namespace {

// ILoggerFinder::findLogger and ILogger::log are each the first method of their class. TensorRT 11 and TensorRT-RTX 1.5
// put IVersionedInterface underneath, which moved them from slot 0 to slot 4. getInferLibVersion tells them apart:
// 10.3.0 is 100300, 11.1.0 is 110100, TensorRT-RTX 1.5.0 is 10500.
std::size_t firstSlot(std::int32_t version) noexcept {
  bool const isVersioned = version >= 110000 || (version < 100000 && version >= 10500);
  return isVersioned ? 4 : 0;
}

template <class Result, class... Parameters>
Result callSlot(void* object, std::size_t slot, Parameters... parameters) {
  void* const* const vtable = *static_cast<void* const* const*>(object);
  auto const method = reinterpret_cast<Result (*)(void*, Parameters...)>(vtable[slot]);
  return method(object, parameters...);
}

struct Finder {
  void* object;
  std::size_t slot;
};

// A handful of runtimes at most is ever loaded into one process. No destructor runs at exit: the last message may come
// later than that.
constexpr std::size_t kMAX_FINDERS = 8;
std::array<Finder, kMAX_FINDERS> finders;
std::size_t finderCount = 0;
std::mutex mutex;

// The runtime is the shared object that holds the finder's vtable. Its handle is kept open, so that the finder cannot
// be unloaded while it is in the list. False if it exports no version.
bool findVersion(void* finder, std::int32_t& version) noexcept {
  Dl_info info{};
  if (dladdr(*static_cast<void**>(finder), &info) == 0) return false;
  void* const runtime = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (runtime == nullptr) return false;
  auto const getVersion = reinterpret_cast<std::int32_t (*)()>(dlsym(runtime, "getInferLibVersion"));
  if (getVersion == nullptr) {
    dlclose(runtime);
    return false;
  }
  version = getVersion();
  return true;
}

}  // namespace

void addLoggerFinder(nvinfer1::ILoggerFinder* finder) noexcept {
  void* const object = finder;
  if (object == nullptr) return;
  std::lock_guard const lock(mutex);
  auto const end = finders.begin() + finderCount;
  bool const isKnown = std::any_of(finders.begin(), end, [=](Finder const& known) { return known.object == object; });
  std::int32_t version = 0;
  if (isKnown || finderCount == kMAX_FINDERS || !findVersion(object, version)) return;
  finders[finderCount++] = {object, firstSlot(version)};
}

void log(Severity severity, char const* message) noexcept {
  std::array<Finder, kMAX_FINDERS> known;
  std::size_t knownCount;
  {
    std::lock_guard const lock(mutex);
    known = finders;
    knownCount = finderCount;
  }
  // Called without the lock, since a logger may call back. One application's logger may serve several runtimes.
  std::array<void*, kMAX_FINDERS> told{};
  std::size_t toldCount = 0;
  for (std::size_t i = 0; i < knownCount; ++i) {
    void* const logger = callSlot<void*>(known[i].object, known[i].slot);
    if (logger == nullptr || std::find(told.begin(), told.end(), logger) != told.end()) continue;
    callSlot<void>(logger, known[i].slot, severity, message);
    told[toldCount++] = logger;
  }
  if (toldCount == 0 && severity <= Severity::kWARNING) std::fprintf(stderr, "tensoracle: %s\n", message);
}

void detail::logCurrentException(char const* subject, char const* method) noexcept {
  try {
    try {
      throw;
    } catch (std::exception const& error) {
      log(Severity::kERROR, compose(subject, ": ", method, ": ", error.what()).c_str());
    } catch (...) {
      log(Severity::kERROR, compose(subject, ": ", method, ": an exception of unknown type").c_str());
    }
  } catch (...) {
    log(Severity::kERROR, "out of memory while reporting an error");
  }
}

}  // namespace tensoracle
