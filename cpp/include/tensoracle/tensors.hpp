// Shapes and data types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "tensoracle/error.hpp"
#include "tensoracle/plugin_abi.hpp"

namespace tensoracle {

using nvinfer1::DataType;
using nvinfer1::Dims;

// A view of consecutive elements with checked access.
template <class T>
class Span {
 public:
  Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <class U>
  Span(std::vector<U> const& elements) noexcept : data_(elements.data()), size_(elements.size()) {}

  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t index) const {
    if (index >= size_) fail("index ", index, " is out of range: there are ", size_);
    return data_[index];
  }

 private:
  T* data_;
  std::size_t size_;
};

// Elements of a tensor of that shape. An Error if an extent is unknown or the product exceeds 64 bits.
std::int64_t volume(Dims const& shape);

bool sameShape(Dims const& one, Dims const& other) noexcept;

// "(2, ?, 64)", with a question mark for an unknown extent.
std::string toString(Dims const& shape);

// "FLOAT", "BF16": TensorRT's own names.
char const* toString(DataType type) noexcept;

// One permitted combination of data types.
struct TypeRow {
  std::vector<DataType> inputs;
  std::vector<DataType> outputs;
};

// All permitted combinations, in order of preference.
using TensorTypes = std::vector<TypeRow>;

// Inputs and outputs all of one type, which may be any of those given.
TensorTypes sameType(std::size_t inputs, std::size_t outputs, std::initializer_list<DataType> types);

}  // namespace tensoracle
