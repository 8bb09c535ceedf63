// The logger that a library finds, and the messages it left.
#pragma once

#include <cstdint>
#include <string>

namespace tensoracle::harness {

struct Message {
  std::int32_t severity;  // nvinfer1::ILogger::Severity
  std::int64_t thread;    // gettid()
  std::string text;
};

// Adds a message of the calling thread. Safe from any thread.
void collect(std::int32_t severity, char const* text) noexcept;

}  // namespace tensoracle::harness
