// Messages to the loggers of the runtimes that loaded the library.
#pragma once

#include "tensoracle/plugin_abi.hpp"

namespace tensoracle {

using Severity = nvinfer1::ILogger::Severity;

// To every runtime's logger; warnings and errors that no logger takes go to stderr. Safe from any thread.
void log(Severity severity, char const* message) noexcept;

// Each runtime that loads the library hands over its finder, which then stays known.
void addLoggerFinder(nvinfer1::ILoggerFinder* finder) noexcept;

namespace detail {

// Logs the exception being handled as "subject: method: what".
void logCurrentException(char const* subject, char const* method) noexcept;

// No exception may cross into TensorRT: `body`'s becomes a message and `otherwise`.
template <class Result, class Body>
Result guard(char const* subject, char const* method, Result otherwise, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    logCurrentException(subject, method);
    return otherwise;
  }
}

}  // namespace detail
}  // namespace tensoracle
