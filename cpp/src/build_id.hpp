// What tells this library from another with the same kernels: its own build id.
#pragma once

#include <string>

namespace tensoracle {

// In hexadecimal digits; empty if the library was linked without one.
std::string buildId();

}  // namespace tensoracle
