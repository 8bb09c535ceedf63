// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tensoracle {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(void const* data, std::size_t size) noexcept;

// 64 hexadecimal digits.
std::string toHex(Sha256 const& digest);

}  // namespace tensoracle
