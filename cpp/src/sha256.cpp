// SHA-256 (FIPS 180-4), block by block.
#include "sha256.hpp"

#include <cpuid.h>
#include <smmintrin.h>  // <immintrin.h>, which has the SHA intrinsics, takes 0.7 s to read

#include <algorithm>

namespace tensoracle {
namespace {

using Word = std::uint32_t;

// The fractional parts of the cube roots of the first 64 primes.
constexpr std::array<Word, 64> kROUND_CONSTANTS = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t kBLOCK = 64;
using State = std::array<Word, 8>;

Word rotate(Word word, int bits) noexcept { return (word >> bits) | (word << (32 - bits)); }

void absorb(State& state, std::uint8_t const* block) noexcept {
  std::array<Word, 64> schedule;
  for (std::size_t i = 0; i < 16; ++i) {
    std::uint8_t const* const bytes = block + 4 * i;
    schedule[i] = Word{bytes[0]} << 24 | Word{bytes[1]} << 16 | Word{bytes[2]} << 8 | Word{bytes[3]};
  }
  for (std::size_t i = 16; i < 64; ++i) {
    Word const early = schedule[i - 15];
    Word const late = schedule[i - 2];
    schedule[i] = schedule[i - 16] + (rotate(early, 7) ^ rotate(early, 18) ^ (early >> 3)) + schedule[i - 7] +
                  (rotate(late, 17) ^ rotate(late, 19) ^ (late >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    Word const choice = (e & f) ^ (~e & g);
    Word const majority = (a & b) ^ (a & c) ^ (b & c);
    Word const first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + kROUND_CONSTANTS[i] + schedule[i];
    Word const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  State const mixed = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
}

#define TENSORACLE_SHA __attribute__((target("sha,sse4.1")))

// The compilers' own names for the instructions.
TENSORACLE_SHA inline __m128i scheduleFirst(__m128i one, __m128i other) noexcept {
  return reinterpret_cast<__m128i>(
      __builtin_ia32_sha256msg1(reinterpret_cast<__v4si>(one), reinterpret_cast<__v4si>(other)));
}
TENSORACLE_SHA inline __m128i scheduleSecond(__m128i one, __m128i other) noexcept {
  return reinterpret_cast<__m128i>(
      __builtin_ia32_sha256msg2(reinterpret_cast<__v4si>(one), reinterpret_cast<__v4si>(other)));
}
TENSORACLE_SHA inline __m128i twoRounds(__m128i cdgh, __m128i abef, __m128i input) noexcept {
  return reinterpret_cast<__m128i>(__builtin_ia32_sha256rnds2(
      reinterpret_cast<__v4si>(cdgh), reinterpret_cast<__v4si>(abef), reinterpret_cast<__v4si>(input)));
}

// The same with the processor's SHA extensions (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2:
// SHA256RNDS2, SHA256MSG1, SHA256MSG2), several times as fast: all code is hashed when it is loaded.
TENSORACLE_SHA void absorbQuickly(State& state, std::uint8_t const* block) noexcept {
  auto const load = [](void const* from) { return _mm_loadu_si128(static_cast<__m128i const*>(from)); };
  auto const words = [&state](std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
    auto const at = [&state](std::size_t i) { return static_cast<int>(state[i]); };
    return _mm_set_epi32(at(a), at(b), at(c), at(d));
  };
  // The instructions keep the state in these orders, the first word highest.
  __m128i const abefBefore = words(0, 1, 4, 5);
  __m128i const cdghBefore = words(2, 3, 6, 7);
  __m128i abef = abefBefore;
  __m128i cdgh = cdghBefore;
  __m128i const swapBytes = _mm_set_epi64x(0x0C0D0E0F08090A0B, 0x0405060700010203);
  __m128i schedule[kBLOCK / 4];  // four words each
  for (std::size_t i = 0; i < kBLOCK / 4; ++i) {
    if (i < 4) {
      schedule[i] = _mm_shuffle_epi8(load(block + 16 * i), swapBytes);
    } else {
      __m128i const sevenBack = _mm_alignr_epi8(schedule[i - 1], schedule[i - 2], 4);
      __m128i const sum = _mm_add_epi32(scheduleFirst(schedule[i - 4], schedule[i - 3]), sevenBack);
      schedule[i] = scheduleSecond(sum, schedule[i - 1]);
    }
    __m128i const input = _mm_add_epi32(schedule[i], load(&kROUND_CONSTANTS[4 * i]));
    cdgh = twoRounds(cdgh, abef, input);
    abef = twoRounds(abef, cdgh, _mm_shuffle_epi32(input, 0x0E));  // of its upper half
  }
  std::array<Word, 4> first;
  std::array<Word, 4> second;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(first.data()), _mm_add_epi32(abef, abefBefore));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(second.data()), _mm_add_epi32(cdgh, cdghBefore));
  state = {first[3], first[2], second[3], second[2], first[1], first[0], second[1], second[0]};
}

bool hasShaExtensions() noexcept {
  constexpr unsigned kSSSE3 = 1U << 9;   // CPUID leaf 1, ECX
  constexpr unsigned kSSE41 = 1U << 19;  // the same
  constexpr unsigned kSHA = 1U << 29;    // CPUID leaf 7, EBX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSSSE3) == 0 || (c & kSSE41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSHA) != 0;
}

#undef TENSORACLE_SHA

}  // namespace

Sha256 sha256(void const* data, std::size_t size) noexcept {
  // The fractional parts of the square roots of the first 8 primes.
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  static auto const kABSORB = hasShaExtensions() ? absorbQuickly : absorb;
  auto const* const bytes = static_cast<std::uint8_t const*>(data);
  std::size_t const whole = size / kBLOCK * kBLOCK;
  for (std::size_t offset = 0; offset < whole; offset += kBLOCK) kABSORB(state, bytes + offset);

  // The rest, a one bit, zeros, and the length in bits as the last eight bytes of a block.
  std::array<std::uint8_t, 2 * kBLOCK> tail{};
  std::size_t const rest = size - whole;
  std::copy_n(bytes + whole, rest, tail.begin());
  tail[rest] = 0x80;
  std::size_t const tailSize = rest + 9 <= kBLOCK ? kBLOCK : 2 * kBLOCK;
  for (std::size_t i = 0; i < 8; ++i) {
    tail[tailSize - 1 - i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(size) * 8 >> (8 * i));
  }
  for (std::size_t offset = 0; offset < tailSize; offset += kBLOCK) kABSORB(state, tail.data() + offset);

  Sha256 digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string toHex(Sha256 const& digest) {
  std::string text;
  for (std::uint8_t const byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace tensoracle
