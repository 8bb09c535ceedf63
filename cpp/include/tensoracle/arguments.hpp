// The arguments of a kernel launch, with the types that the caller's values had.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/half.hpp"

namespace tensoracle {

class Argument {
 public:
  enum class Kind : std::uint8_t { kPOINTER = 1, kSIGNED, kUNSIGNED, kHALF, kBFLOAT16, kFLOAT, kDOUBLE };

  // As `kind` and `bits` are read.
  Argument(Kind kind, std::uint64_t bits) noexcept : bits_(bits), kind_(kind) {}

  Argument(void const* value) noexcept : Argument(Kind::kPOINTER, bitsOf(value)) {}
  Argument(std::nullptr_t) noexcept : Argument(static_cast<void const*>(nullptr)) {}
  Argument(Half value) noexcept : Argument(Kind::kHALF, bitsOf(value.bits)) {}
  Argument(BFloat16 value) noexcept : Argument(Kind::kBFLOAT16, bitsOf(value.bits)) {}
  Argument(float value) noexcept : Argument(Kind::kFLOAT, bitsOf(value)) {}
  Argument(double value) noexcept : Argument(Kind::kDOUBLE, bitsOf(value)) {}

  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Argument(Integer value) noexcept
      : bits_(static_cast<std::uint64_t>(value)), kind_(std::is_signed_v<Integer> ? Kind::kSIGNED : Kind::kUNSIGNED) {}

  Kind kind() const noexcept { return kind_; }
  std::uint64_t bits() const noexcept { return bits_; }  // integers are extended to 64 bits

 private:
  template <class Value>
  static std::uint64_t bitsOf(Value value) noexcept {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }

  std::uint64_t bits_;
  Kind kind_;
};

// At most kCAPACITY arguments, without allocation; one more is an Error.
class Arguments {
 public:
  static constexpr std::size_t kCAPACITY = 64;
  // Of each argument its Kind; zeros follow.
  using Kinds = std::array<Argument::Kind, kCAPACITY>;

  template <class... Given, class = std::enable_if_t<std::conjunction_v<std::is_convertible<Given, Argument>...>>>
  Arguments(Given const&... given) {
    static_assert(sizeof...(Given) <= kCAPACITY, "a launch takes at most 64 arguments");
    (store(given), ...);
  }

  void append(Argument const& argument) {
    if (size_ == kCAPACITY) failFull();
    store(argument);
  }

  std::size_t size() const noexcept { return size_; }
  Argument operator[](std::size_t index) const noexcept { return {kinds_[index], bits_[index]}; }
  Kinds const& kinds() const noexcept { return kinds_; }
  std::uint64_t const* bits() const noexcept { return bits_.data(); }

 private:
  [[noreturn]] static void failFull();

  void store(Argument const& argument) noexcept {
    kinds_[size_] = argument.kind();
    bits_[size_++] = argument.bits();
  }

  std::size_t size_ = 0;
  Kinds kinds_{};
  std::array<std::uint64_t, kCAPACITY> bits_;  // only [0, size_) has values: clearing the rest would cost every launch
};

namespace detail {

enum class Fit : std::uint8_t { kFITS, kWRONG_TYPE, kNOT_REPRESENTABLE, kNOT_DIVISIBLE, kNOT_EQUAL };

// "argument columns (i32) is 100, which is not divisible by 16"
std::string explain(ArgumentRecord const& record, Argument const& argument, Fit fit);

using Values = std::array<std::uint64_t, Arguments::kCAPACITY>;

struct Outcome {
  Fit fit;
  std::size_t index;  // of the first argument that does not fit
};

// The arguments that a kernel takes.
class Signature {
 public:
  Signature(ArgumentRecord const* records, std::size_t size);

  std::size_t size() const noexcept { return size_; }
  ArgumentRecord const& operator[](std::size_t index) const noexcept { return records_[index]; }
  // Those that are parameters of the kernel, in order.
  std::vector<std::uint8_t> const& passed() const noexcept { return passed_; }

  // Whether the arguments are of the parameters' own types, as in nearly every launch: their bits are the values then,
  // and `holds` says whether they fit. There must be size() arguments.
  bool isExact(Arguments const& arguments) const noexcept;
  bool holds(Arguments const& arguments) const noexcept;

  // Writes the arguments' values, each in its place, until one does not fit. There must be size() arguments.
  Outcome encode(Arguments const& arguments, Values& values) const noexcept;

 private:
  // What an argument of the right kind must be besides: bits - least <= span, and no bit of zeros.
  struct Limit {
    std::uint64_t least;
    std::uint64_t span;
    std::uint64_t zeros;
    std::size_t index;
  };

  void limit(std::size_t index);

  ArgumentRecord const* records_;
  std::size_t size_;
  Arguments::Kinds kinds_{};
  std::vector<Limit> limits_;
  std::vector<std::uint8_t> passed_;
};

}  // namespace detail
}  // namespace tensoracle
