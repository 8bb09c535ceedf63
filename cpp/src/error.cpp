// Numbers as messages show them.
#include "tensoracle/error.hpp"

#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

namespace tensoracle::detail {
namespace {

template <class Value>
std::string shortestOf(Value value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  for (int digits = std::numeric_limits<Value>::digits10;; ++digits) {
    std::ostringstream text;
    text.imbue(std::locale::classic());  // the application's locale may group digits
    text.precision(digits);
    text << value;
    std::istringstream back(text.str());
    back.imbue(std::locale::classic());
    Value read{};
    if ((back >> read && read == value) || digits >= std::numeric_limits<Value>::max_digits10) return text.str();
  }
}

}  // namespace

std::string Part::toString() const {
  switch (kind_) {
    case Kind::kTEXT: return std::string(text_);
    case Kind::kSIGNED: return std::to_string(static_cast<std::int64_t>(bits_));
    case Kind::kUNSIGNED: return std::to_string(bits_);
    case Kind::kFLOAT: return shortestOf(float_);
    case Kind::kDOUBLE: break;
  }
  return shortestOf(double_);
}

std::string concatenate(std::initializer_list<Part> parts) {
  std::string text;
  for (Part const& part : parts) text += part.toString();
  return text;
}

}  // namespace tensoracle::detail
