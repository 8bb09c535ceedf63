// The two 16-bit floating-point types as host values.
#pragma once

#include <cstdint>

namespace tensoracle {

// IEEE 754 binary16. Conversions round to nearest even; NaN payloads keep their upper bits.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) noexcept;
  explicit operator float() const noexcept;
};

// The upper half of a binary32. Conversions round to nearest even; NaN payloads keep their upper bits.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) noexcept;
  explicit operator float() const noexcept;
};

}  // namespace tensoracle
