// Conversions by integer arithmetic: floating-point moves may quiet a signalling NaN.
#include "tensoracle/half.hpp"

#include <cstring>

namespace tensoracle {
namespace {

constexpr std::uint32_t kSIGN = 0x80000000;
constexpr std::uint32_t kINFINITY = 0x7F800000;

std::uint32_t bitsOf(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float floatOf(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// value / 2^shift, to nearest even.
std::uint32_t shiftRounded(std::uint32_t value, std::uint32_t shift) noexcept {
  std::uint32_t const isOdd = (value >> shift) & 1;
  return (value + (std::uint32_t{1} << (shift - 1)) - 1 + isOdd) >> shift;
}

// A NaN's upper payload bits in a narrower format; a payload that would become zero, infinity's, is made quiet.
std::uint32_t narrowNan(std::uint32_t magnitude, std::uint32_t shift, std::uint32_t infinity,
                        std::uint32_t quiet) noexcept {
  std::uint32_t const payload = (magnitude & 0x7FFFFF) >> shift;
  return infinity | (payload != 0 ? payload : quiet);
}

std::uint32_t halfMagnitude(std::uint32_t magnitude) noexcept {
  if (magnitude > kINFINITY) return narrowNan(magnitude, 13, 0x7C00, 0x200);
  if (magnitude >= 0x477FF000) return 0x7C00;  // 65520 and more round to infinity
  if (magnitude >= 0x38800000) return shiftRounded(magnitude - (std::uint32_t{112} << 23), 13);
  if (magnitude <= 0x33000000) return 0;  // at most half of the least subnormal, 2^-24
  std::uint32_t const significand = (magnitude & 0x7FFFFF) | 0x800000;
  return shiftRounded(significand, 126 - (magnitude >> 23));
}

}  // namespace

Half::Half(float value) noexcept {
  std::uint32_t const all = bitsOf(value);
  bits = static_cast<std::uint16_t>(((all & kSIGN) >> 16) | halfMagnitude(all & ~kSIGN));
}

Half::operator float() const noexcept {
  std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  std::uint32_t const exponent = (bits >> 10) & 0x1FU;
  std::uint32_t const fraction = bits & 0x3FFU;
  if (exponent == 0x1F) return floatOf(sign | kINFINITY | (fraction << 13));
  if (exponent != 0) return floatOf(sign | ((exponent + 112) << 23) | (fraction << 13));
  return floatOf(sign | bitsOf(static_cast<float>(fraction) * 0x1p-24F));
}

BFloat16::BFloat16(float value) noexcept {
  std::uint32_t const all = bitsOf(value);
  std::uint32_t const magnitude = all & ~kSIGN;
  std::uint32_t const rounded =
      magnitude > kINFINITY ? narrowNan(magnitude, 16, 0x7F80, 0x40) : shiftRounded(magnitude, 16);
  bits = static_cast<std::uint16_t>(((all & kSIGN) >> 16) | rounded);
}

BFloat16::operator float() const noexcept { return floatOf(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace tensoracle
