// The one exception type of the launcher, and how its messages are put together.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace tensoracle {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

// A text or a number. Messages are many and of many types: a stream in each would be half of what compilers do here.
class Part {
 public:
  Part(std::string_view text) noexcept : text_(text), kind_(Kind::kTEXT) {}
  Part(std::string const& text) noexcept : Part(std::string_view(text)) {}
  Part(char const* text) noexcept : Part(std::string_view(text)) {}
  Part(char const& character) noexcept : Part(std::string_view(&character, 1)) {}
  Part(float value) noexcept : float_(value), kind_(Kind::kFLOAT) {}
  Part(double value) noexcept : double_(value), kind_(Kind::kDOUBLE) {}

  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Part(Integer value) noexcept
      : bits_(static_cast<std::uint64_t>(value)), kind_(std::is_signed_v<Integer> ? Kind::kSIGNED : Kind::kUNSIGNED) {}

  // Of a floating-point number, the shortest decimal that reads back as the same value.
  std::string toString() const;

 private:
  enum class Kind : std::uint8_t { kTEXT, kSIGNED, kUNSIGNED, kFLOAT, kDOUBLE };

  union {
    std::string_view text_;
    std::uint64_t bits_;
    float float_;
    double double_;
  };
  Kind kind_;
};

std::string concatenate(std::initializer_list<Part> parts);

}  // namespace detail

// The parts, one after the other.
template <class... Parts>
std::string compose(Parts const&... parts) {
  return detail::concatenate({detail::Part(parts)...});
}

template <class... Parts>
[[noreturn]] void fail(Parts const&... parts) {
  throw Error(compose(parts...));
}

}  // namespace tensoracle
