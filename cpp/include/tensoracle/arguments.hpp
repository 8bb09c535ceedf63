// The arguments of a kernel launch, with the types that the caller's values had.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/half.hpp"

namespace tensoracle {

class Argument {
 public:
  enum class Kind : std::uint8_t { kPOINTER, kSIGNED, kUNSIGNED, kHALF, kBFLOAT16, kFLOAT, kDOUBLE };

  Argument() = default;  // holds no value: Arguments has room for more than it contains

  Argument(void const* value) noexcept : Argument(Kind::kPOINTER, value) {}
  Argument(std::nullptr_t) noexcept : Argument(static_cast<void const*>(nullptr)) {}
  Argument(Half value) noexcept : Argument(Kind::kHALF, value.bits) {}
  Argument(BFloat16 value) noexcept : Argument(Kind::kBFLOAT16, value.bits) {}
  Argument(float value) noexcept : Argument(Kind::kFLOAT, value) {}
  Argument(double value) noexcept : Argument(Kind::kDOUBLE, value) {}

  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Argument(Integer value) noexcept
      : bits_(static_cast<std::uint64_t>(value)), kind_(std::is_signed_v<Integer> ? Kind::kSIGNED : Kind::kUNSIGNED) {}

  Kind kind() const noexcept { return kind_; }
  std::uint64_t bits() const noexcept { return bits_; }  // integers are extended to 64 bits

 private:
  template <class Value>
  Argument(Kind kind, Value value) noexcept : bits_(0), kind_(kind) {
    std::memcpy(&bits_, &value, sizeof value);
  }

  std::uint64_t bits_;
  Kind kind_;
};

// At most kCAPACITY arguments, without allocation; one more is an Error.
class Arguments {
 public:
  static constexpr std::size_t kCAPACITY = 64;

  Arguments() = default;
  Arguments(std::initializer_list<Argument> arguments) : size_(arguments.size()) {
    if (size_ > kCAPACITY) failFull();
    std::copy(arguments.begin(), arguments.end(), items_.begin());
  }

  void append(Argument const& argument) {
    if (size_ == kCAPACITY) failFull();
    items_[size_++] = argument;
  }

  std::size_t size() const noexcept { return size_; }
  Argument const& operator[](std::size_t index) const noexcept { return items_[index]; }

 private:
  [[noreturn]] static void failFull();

  std::size_t size_ = 0;
  std::array<Argument, kCAPACITY> items_;  // only [0, size_) has values: clearing the rest would cost every launch
};

namespace detail {

enum class Fit : std::uint8_t { kFITS, kWRONG_TYPE, kNOT_REPRESENTABLE, kNOT_DIVISIBLE, kNOT_EQUAL };

// "argument columns (i32) is 100, which is not divisible by 16"
std::string explain(ArgumentRecord const& record, Argument const& argument, Fit fit);

// Every Triton kernel takes two pointers after its own arguments, global and profiling scratch memory. Both are null:
// a bundle with a kernel that needs either is refused when it is built.
constexpr std::size_t kSCRATCH_POINTERS = 2;

// The kernel's parameters: of each, the lowest ArgumentRecord::size bytes.
using Values = std::array<std::uint64_t, Arguments::kCAPACITY + kSCRATCH_POINTERS>;

struct Outcome {
  Fit fit;
  std::size_t index;  // of the first argument that does not fit
};

// The arguments that a kernel takes.
class Signature {
 public:
  Signature(ArgumentRecord const* records, std::size_t size);

  std::size_t size() const noexcept { return shortcuts_.size(); }
  std::size_t passedCount() const noexcept { return passedCount_; }  // those that are parameters of the kernel
  ArgumentRecord const& operator[](std::size_t index) const noexcept { return records_[index]; }

  // Writes the values of the arguments that are passed, until one does not fit. There must be size() arguments.
  Outcome encode(Arguments const& arguments, Values& values) const noexcept;

 private:
  // What fits as it is: nearly every argument of nearly every launch. The rest is looked at in full.
  struct Shortcut {
    std::uint8_t kind;    // Argument::Kind, or a number that is none
    std::uint64_t least;  // bits - least <= span
    std::uint64_t span;
    std::uint64_t zeros;  // bits that are zero in a multiple of the divisor
  };

  static Shortcut shortcutTo(ArgumentRecord const& record) noexcept;

  ArgumentRecord const* records_;
  std::size_t passedCount_;
  std::vector<Shortcut> shortcuts_;
};

}  // namespace detail
}  // namespace tensoracle
