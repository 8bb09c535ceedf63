// The one exception type of the launcher, and how its messages are put together.
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace tensoracle {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

// The shortest decimal that reads back as the same value.
std::string shortest(float value);
std::string shortest(double value);

template <class Part>
void put(std::ostream& text, Part const& part) {
  if constexpr (std::is_floating_point_v<Part>) {
    text << shortest(part);
  } else if constexpr (std::is_same_v<Part, signed char> || std::is_same_v<Part, unsigned char>) {
    text << static_cast<int>(part);
  } else {
    text << part;
  }
}

}  // namespace detail

// The parts, one after the other.
template <class... Parts>
std::string compose(Parts const&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // the application's locale may group digits
  (detail::put(text, parts), ...);
  return text.str();
}

template <class... Parts>
[[noreturn]] void fail(Parts const&... parts) {
  throw Error(compose(parts...));
}

}  // namespace tensoracle
