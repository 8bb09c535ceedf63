// The calls that were made, in order, as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "result.hpp"

namespace tensoracle::fake {

// One call, and what is worth knowing of it.
class Record {
 public:
  explicit Record(char const* call);

  void add(char const* key, std::string const& text);
  void add(char const* key, void const* handle) { add(key, reinterpret_cast<std::uintptr_t>(handle)); }
  void add(char const* key, std::uint64_t number);
  void add(char const* key, std::int64_t number);
  void add(char const* key, int number) { add(key, static_cast<std::int64_t>(number)); }
  void add(char const* key, bool flag);
  void add(char const* key, std::vector<std::uint64_t> const& numbers);
  void add(char const* key, std::vector<std::string> const& texts);

  // The record as a JSON object, ended with the call's result.
  std::string finish(CUresult result);

 private:
  void addRaw(char const* key, std::string const& json);

  std::string json_;
};

// Two hexadecimal digits a byte.
std::string toHex(void const* data, std::size_t size);

class Journal {
 public:
  void add(std::string record) { records_.push_back(std::move(record)); }
  void clear() noexcept { records_.clear(); }

  // All records as a JSON array.
  std::string toJson() const;

 private:
  std::vector<std::string> records_;
};

}  // namespace tensoracle::fake
