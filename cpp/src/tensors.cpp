// Sizes and names of tensors.
#include "tensoracle/tensors.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace tensoracle {

std::int64_t volume(Dims const& shape) {
  if (std::find(shape.d, shape.d + shape.nbDims, 0) != shape.d + shape.nbDims) return 0;
  std::int64_t product = 1;
  for (std::int64_t const extent : Span(shape.d, static_cast<std::size_t>(shape.nbDims))) {
    if (extent < 0) fail("shape ", toString(shape), " has an unknown extent; its volume is known only at run time");
    if (product > std::numeric_limits<std::int64_t>::max() / extent) {
      fail("shape ", toString(shape), " has more elements than 64 bits can count");
    }
    product *= extent;
  }
  return product;
}

bool sameShape(Dims const& one, Dims const& other) noexcept {
  return std::equal(one.d, one.d + one.nbDims, other.d, other.d + other.nbDims);
}

std::string toString(Dims const& shape) {
  std::string text;
  for (std::int64_t const extent : Span(shape.d, static_cast<std::size_t>(shape.nbDims))) {
    text += compose(text.empty() ? "" : ", ", extent < 0 ? "?" : std::to_string(extent));
  }
  return "(" + text + ")";
}

// By number, since older official headers lack the last names.
char const* toString(DataType type) noexcept {
  constexpr std::array<char const*, 12> kNAMES = {"FLOAT", "HALF", "INT8",  "INT32", "BOOL", "UINT8",
                                                  "FP8",   "BF16", "INT64", "INT4",  "FP4",  "E8M0"};
  auto const index = static_cast<std::size_t>(type);
  return index < kNAMES.size() ? kNAMES[index] : "of unknown type";
}

TensorTypes sameType(std::size_t inputs, std::size_t outputs, std::initializer_list<DataType> types) {
  TensorTypes rows;
  for (DataType const type : types) {
    rows.push_back({std::vector<DataType>(inputs, type), std::vector<DataType>(outputs, type)});
  }
  return rows;
}

}  // namespace tensoracle
