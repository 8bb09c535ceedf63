// Turns the caller's values into kernel parameters, without ever changing one.
#include "tensoracle/arguments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensoracle/error.hpp"

namespace tensoracle {
namespace {

using detail::Fit;
using Kind = Argument::Kind;

// The values from `least` on, `span` more than which is the greatest, in arithmetic modulo 2^64.
struct Range {
  std::uint64_t least;
  std::uint64_t span;

  constexpr bool contains(std::uint64_t bits) const noexcept { return bits - least <= span; }
};

using Ranges = std::array<Range, static_cast<std::size_t>(ValueType::kU64) + 1>;  // in the order of ValueType

// What a parameter of type Integer can hold of the 64-bit integers of type Given.
template <class Integer, class Given>
constexpr Range rangeOf() noexcept {
  using Limits = std::numeric_limits<Integer>;
  bool const isNegative = std::is_signed_v<Integer> && std::is_signed_v<Given>;
  auto const least = isNegative ? static_cast<std::uint64_t>(Limits::min()) : 0;
  auto const greatest = std::min(static_cast<std::uint64_t>(Limits::max()),
                                 static_cast<std::uint64_t>(std::numeric_limits<Given>::max()));
  return {least, greatest - least};
}

template <class Given>
constexpr Ranges kRANGES = {{{0, 0},  // of a pointer no integer is accepted
                             {0, 1},
                             rangeOf<std::int8_t, Given>(),
                             rangeOf<std::int16_t, Given>(),
                             rangeOf<std::int32_t, Given>(),
                             rangeOf<std::int64_t, Given>(),
                             rangeOf<std::uint8_t, Given>(),
                             rangeOf<std::uint16_t, Given>(),
                             rangeOf<std::uint32_t, Given>(),
                             rangeOf<std::uint64_t, Given>()}};

// The kind of argument that needs no conversion.
Kind kindOf(ValueType type) noexcept {
  switch (type) {
    case ValueType::kPOINTER: return Kind::kPOINTER;
    case ValueType::kFP16: return Kind::kHALF;
    case ValueType::kBF16: return Kind::kBFLOAT16;
    case ValueType::kFP32: return Kind::kFLOAT;
    case ValueType::kFP64: return Kind::kDOUBLE;
    default: return type >= ValueType::kU8 ? Kind::kUNSIGNED : Kind::kSIGNED;
  }
}

bool isInteger(ValueType type) noexcept { return ValueType::kPOINTER < type && type < ValueType::kFP16; }

bool isFloating(Kind kind) noexcept { return kind >= Kind::kHALF; }

template <class Value>
Value valueOf(std::uint64_t bits) noexcept {
  Value value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class Value>
std::uint64_t bitsOf(Value value) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

Half halfOf(Argument const& argument) noexcept {
  Half half;
  half.bits = static_cast<std::uint16_t>(argument.bits());
  return half;
}

BFloat16 bfloat16Of(Argument const& argument) noexcept {
  BFloat16 value;
  value.bits = static_cast<std::uint16_t>(argument.bits());
  return value;
}

// The processor's conversions make signalling NaNs quiet, so NaNs are converted by moving their bits: a binary64 has 29
// more of them in its fraction.
constexpr int kEXTRA_FRACTION = 29;

std::uint64_t widenedBits(float value) noexcept {
  if (!std::isnan(value)) return bitsOf(static_cast<double>(value));
  std::uint64_t const bits = bitsOf(value);
  return (bits >> 31 << 63) | (std::uint64_t{0x7FF} << 52) | ((bits & 0x7FFFFF) << kEXTRA_FRACTION);
}

float narrowedFloat(double value) noexcept {
  if (!std::isnan(value)) return static_cast<float>(value);
  std::uint64_t const bits = bitsOf(value);
  return valueOf<float>((bits >> 63 << 31) | 0x7F800000 | ((bits >> kEXTRA_FRACTION) & 0x7FFFFF));
}

// The binary32 with exactly the argument's value, a NaN's payload included.
bool toFloat(Argument const& argument, float& value) noexcept {
  switch (argument.kind()) {
    case Kind::kHALF: value = static_cast<float>(halfOf(argument)); return true;
    case Kind::kBFLOAT16: value = static_cast<float>(bfloat16Of(argument)); return true;
    case Kind::kFLOAT: value = valueOf<float>(argument.bits()); return true;
    default: value = narrowedFloat(valueOf<double>(argument.bits())); return widenedBits(value) == argument.bits();
  }
}

double doubleOf(Argument const& argument) noexcept {
  if (argument.kind() == Kind::kDOUBLE) return valueOf<double>(argument.bits());
  float value;
  toFloat(argument, value);
  return value;
}

template <class Narrow>
bool toNarrow(Argument const& argument, std::uint64_t& bits) noexcept {
  float value;
  if (!toFloat(argument, value)) return false;
  Narrow const narrow(value);
  bits = narrow.bits;
  return bitsOf(static_cast<float>(narrow)) == bitsOf(value);
}

bool convertFloating(ValueType type, Argument const& argument, std::uint64_t& bits) noexcept {
  if (type == ValueType::kFP16) return toNarrow<Half>(argument, bits);
  if (type == ValueType::kBF16) return toNarrow<BFloat16>(argument, bits);
  float value;
  bool const isExact = toFloat(argument, value);
  bits = type == ValueType::kFP32 ? bitsOf(value) : widenedBits(value);
  return isExact;
}

Range const& rangeFor(ValueType type, Kind kind) noexcept {
  return (kind == Kind::kSIGNED ? kRANGES<std::int64_t> : kRANGES<std::uint64_t>)[static_cast<std::size_t>(type)];
}

bool isMultiple(Argument const& argument, std::uint32_t divisor) noexcept {
  if (argument.kind() != Kind::kSIGNED) return argument.bits() % divisor == 0;
  return static_cast<std::int64_t>(argument.bits()) % static_cast<std::int64_t>(divisor) == 0;
}

bool isEqual(ArgumentRecord const& record, Argument const& argument) noexcept {
  if (isFloating(argument.kind())) return doubleOf(argument) == static_cast<double>(record.equalTo);
  return argument.bits() == static_cast<std::uint64_t>(record.equalTo);
}

Fit encodeOne(ArgumentRecord const& record, Argument const& argument, std::uint64_t& bits) noexcept {
  Kind const kind = argument.kind();
  bits = argument.bits();
  if (record.type == ValueType::kPOINTER) {
    if (kind != Kind::kPOINTER) return Fit::kWRONG_TYPE;
  } else if (isInteger(record.type)) {
    if (kind != Kind::kSIGNED && kind != Kind::kUNSIGNED) return Fit::kWRONG_TYPE;
    if (!rangeFor(record.type, kind).contains(bits)) return Fit::kNOT_REPRESENTABLE;
  } else {
    if (!isFloating(kind)) return Fit::kWRONG_TYPE;
    if (kind != kindOf(record.type) && !convertFloating(record.type, argument, bits)) return Fit::kNOT_REPRESENTABLE;
  }
  if (record.divisibleBy > 1 && !isMultiple(argument, record.divisibleBy)) return Fit::kNOT_DIVISIBLE;
  if (!record.isPassed && !isEqual(record, argument)) return Fit::kNOT_EQUAL;
  return Fit::kFITS;
}

std::string hexadecimal(std::uint64_t bits) {
  std::string digits;
  for (; bits != 0 || digits.empty(); bits >>= 4) digits.insert(digits.begin(), "0123456789abcdef"[bits & 15]);
  return "0x" + digits;
}

std::string show(Argument const& argument) {
  switch (argument.kind()) {
    case Kind::kPOINTER: return hexadecimal(argument.bits());
    case Kind::kSIGNED: return compose(static_cast<std::int64_t>(argument.bits()));
    case Kind::kUNSIGNED: return compose(argument.bits());
    case Kind::kDOUBLE: return compose(valueOf<double>(argument.bits()));
    default: return compose(static_cast<float>(doubleOf(argument)));
  }
}

char const* kindName(Kind kind) noexcept {
  constexpr std::array<char const*, 8> kNAMES = {"nothing",        "a pointer",     "an integer", "an integer",
                                                 "an fp16 number", "a bf16 number", "a float",    "a double"};
  return kNAMES[static_cast<std::size_t>(kind)];
}

}  // namespace

void Arguments::failFull() { fail("a launch takes at most ", kCAPACITY, " arguments"); }

detail::Signature::Signature(ArgumentRecord const* records, std::size_t size) : records_(records), size_(size) {
  for (std::size_t i = 0; i < size; ++i) {
    limit(i);
    if (records[i].isPassed) passed_.push_back(static_cast<std::uint8_t>(i));
  }
}

void detail::Signature::limit(std::size_t index) {
  ArgumentRecord const& record = records_[index];
  Kind const kind = kindOf(record.type);
  std::uint64_t const zeros = record.divisibleBy - 1;
  bool const isPowerOfTwo = (record.divisibleBy & zeros) == 0;
  if (!isPowerOfTwo || (!record.isPassed && isFloating(kind))) return;  // of no kind: it is looked at in full
  kinds_[index] = kind;
  constexpr Range kALL = {0, ~std::uint64_t{0}};
  Range range = isInteger(record.type) ? rangeFor(record.type, kind) : kALL;
  if (!record.isPassed) range = {static_cast<std::uint64_t>(record.equalTo), 0};
  if (range.span != kALL.span || zeros != 0) limits_.push_back({range.least, range.span, zeros, index});
}

bool detail::Signature::isExact(Arguments const& arguments) const noexcept {
  return std::memcmp(arguments.kinds().data(), kinds_.data(), sizeof kinds_) == 0;
}

bool detail::Signature::holds(Arguments const& arguments) const noexcept {
  std::uint64_t const* const bits = arguments.bits();
  return std::all_of(limits_.begin(), limits_.end(), [bits](Limit const& limit) {
    std::uint64_t const value = bits[limit.index];
    return value - limit.least <= limit.span && (value & limit.zeros) == 0;
  });
}

detail::Outcome detail::Signature::encode(Arguments const& arguments, Values& values) const noexcept {
  for (std::size_t i = 0; i < size(); ++i) {
    Fit const fit = encodeOne(records_[i], arguments[i], values[i]);
    if (fit != Fit::kFITS) return {fit, i};
  }
  return {Fit::kFITS, size()};
}

std::string detail::explain(ArgumentRecord const& record, Argument const& argument, Fit fit) {
  std::string const subject = compose("argument ", record.name, " (", record.typeName, ") is ");
  std::string const value = show(argument);
  switch (fit) {
    case Fit::kWRONG_TYPE: return compose(subject, kindName(argument.kind()), ", ", value);
    case Fit::kNOT_REPRESENTABLE: return compose(subject, value, ", which ", record.typeName, " cannot hold exactly");
    case Fit::kNOT_DIVISIBLE: return compose(subject, value, ", which is not divisible by ", record.divisibleBy);
    case Fit::kNOT_EQUAL: return compose(subject, value, "; the code was compiled for ", record.equalTo);
    case Fit::kFITS: break;
  }
  return compose(subject, value);
}

}  // namespace tensoracle
