// Numbers as messages show them.
#include "tensoracle/error.hpp"

#include <cmath>
#include <limits>

namespace tensoracle::detail {
namespace {

template <class Value>
std::string shortestOf(Value value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  for (int digits = std::numeric_limits<Value>::digits10;; ++digits) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text.precision(digits);
    text << value;
    std::istringstream back(text.str());
    back.imbue(std::locale::classic());
    Value read{};
    if ((back >> read && read == value) || digits >= std::numeric_limits<Value>::max_digits10) return text.str();
  }
}

}  // namespace

std::string shortest(float value) { return shortestOf(value); }
std::string shortest(double value) { return shortestOf(value); }

}  // namespace tensoracle::detail
