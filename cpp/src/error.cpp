// Numbers as messages show them.
#include "tensoracle/error.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace tensoracle::detail {
namespace {

// With a point, whatever the application's locale has in its place.
std::string withPoint(std::string text) {
  constexpr char const* kNUMBER = "+-0123456789e";
  std::size_t const begin = text.find_first_not_of(kNUMBER);
  if (begin != std::string::npos) text.replace(begin, text.find_first_of(kNUMBER, begin) - begin, ".");
  return text;
}

// The fewest digits that read back as the same value of its type.
std::string shortestOf(double value, bool isFloat) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  int const most = isFloat ? std::numeric_limits<float>::max_digits10 : std::numeric_limits<double>::max_digits10;
  for (int digits = isFloat ? std::numeric_limits<float>::digits10 : std::numeric_limits<double>::digits10;; ++digits) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.*g", digits, value);
    double const back = isFloat ? std::strtof(text.data(), nullptr) : std::strtod(text.data(), nullptr);
    if (back == value || digits >= most) return withPoint(text.data());
  }
}

}  // namespace

std::string Part::toString() const {
  switch (kind_) {
    case Kind::kTEXT: return std::string(text_);
    case Kind::kSIGNED: return std::to_string(static_cast<std::int64_t>(bits_));
    case Kind::kUNSIGNED: return std::to_string(bits_);
    case Kind::kFLOAT: return shortestOf(static_cast<double>(float_), true);
    case Kind::kDOUBLE: break;
  }
  return shortestOf(double_, false);
}

std::string concatenate(std::initializer_list<Part> parts) {
  std::string text;
  for (Part const& part : parts) text += part.toString();
  return text;
}

}  // namespace tensoracle::detail
