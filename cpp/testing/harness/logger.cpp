// Plays TensorRT's loggers, of both layouts. The classes here have the measured slots (tests/cpp/plugin_abi.json):
// findLogger and log are first in their vtables, or follow IVersionedInterface's from TensorRT 11 and RTX 1.5 on.
#include "logger.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "export.hpp"
#include "tensoracle/plugin_abi.hpp"

namespace tensoracle::harness {
namespace {

std::atomic<std::int32_t> version{100300};

bool isVersioned() noexcept { return version >= 110000 || (version < 100000 && version >= 10500); }

// Never destroyed: a library may log when the process ends.
struct Log {
  std::mutex mutex;
  std::deque<Message> messages;  // a deque: texts stay where they are

  static Log& get() noexcept {
    static auto& kLOG = *new Log;
    return kLOG;
  }
};

class PlainLogger {
 public:
  virtual void log(std::int32_t severity, char const* text) noexcept { collect(severity, text); }
  virtual ~PlainLogger() = default;
};

class PlainFinder {
 public:
  virtual void* findLogger() noexcept { return isVersioned() ? nullptr : &logger_; }
  virtual ~PlainFinder() = default;

 private:
  PlainLogger logger_;
};

class VersionedLogger : public nvinfer1::IVersionedInterface {
 public:
  nvinfer1::InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILogger", 1, 0}; }
  virtual void log(std::int32_t severity, char const* text) noexcept { collect(severity, text); }
};

class VersionedFinder : public nvinfer1::IVersionedInterface {
 public:
  nvinfer1::InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILoggerFinder", 1, 0}; }
  virtual void* findLogger() noexcept { return isVersioned() ? &logger_ : nullptr; }

 private:
  VersionedLogger logger_;
};

}  // namespace

void collect(std::int32_t severity, char const* text) noexcept {
  Log& log = Log::get();
  std::lock_guard const lock(log.mutex);
  log.messages.push_back({severity, syscall(SYS_gettid), text != nullptr ? text : ""});
}

}  // namespace tensoracle::harness

using namespace tensoracle::harness;

// By this function a library tells which layout its runtime's logger has.
HARNESS_EXPORT std::int32_t getInferLibVersion() noexcept { return version; }

// The finder of the release that is played from now on: 100300 for TensorRT 10.3.0, 10500 for TensorRT-RTX 1.5.0.
HARNESS_EXPORT void* harnessLoggerFinder(std::int32_t played) noexcept {
  static auto& kPLAIN = *new PlainFinder;
  static auto& kVERSIONED = *new VersionedFinder;
  version = played;
  return isVersioned() ? static_cast<void*>(&kVERSIONED) : &kPLAIN;
}

HARNESS_EXPORT std::int32_t harnessMessageCount() noexcept {
  Log& log = Log::get();
  std::lock_guard const lock(log.mutex);
  return static_cast<std::int32_t>(log.messages.size());
}

HARNESS_EXPORT char const* harnessMessage(std::int32_t index, std::int32_t* severity, std::int64_t* thread) noexcept {
  Log& log = Log::get();
  std::lock_guard const lock(log.mutex);
  Message const& message = log.messages[static_cast<std::size_t>(index)];
  *severity = message.severity;
  *thread = message.thread;
  return message.text.c_str();
}
