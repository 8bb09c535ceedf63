// The extents of output shapes, as a plugin puts them together at build time.
#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>

#include "tensoracle/plugin_abi.hpp"

namespace tensoracle::harness {

// What an expression is evaluated with.
struct Values {
  nvinfer1::Dims const* inputs;
  std::int32_t inputCount;
  std::int64_t const* sizes;  // by output: what a size tensor holds, or -1 for its upper bound
  std::int32_t sizeCount;
};

// An expression has no value: it overflows, divides by zero, or is not one of ours.
class EvaluationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Expression final : public nvinfer1::IDimensionExpr, private nvinfer1::apiv::VDimensionExpr {
 public:
  enum class Kind { kCONSTANT, kEXTENT, kOPERATION, kSIZE };

  static constexpr std::int64_t kUNKNOWN = std::int64_t{1} << 63;

  explicit Expression(Kind kind) noexcept : kind_(kind) { mImpl = this; }

  std::int64_t evaluate(Values const& values) const;
  std::string toString() const;

 private:
  friend class ExpressionBuilder;

  bool isConstant() const override { return kind_ == Kind::kCONSTANT; }
  std::int64_t getConstantValue() const override { return isConstant() ? value_ : kUNKNOWN; }
  bool isSizeTensor() const override { return kind_ == Kind::kSIZE; }

  Kind kind_;
  std::int64_t value_ = 0;  // the constant, the input of an extent, or the output that is a size tensor
  std::int32_t axis_ = 0;
  nvinfer1::DimensionOperation operation_{};
  Expression const* first_ = nullptr;   // an operand; a size tensor's optimum
  Expression const* second_ = nullptr;  // an operand; a size tensor's upper bound
};

class ExpressionBuilder final : public nvinfer1::IExprBuilder, private nvinfer1::apiv::VExprBuilder {
 public:
  ExpressionBuilder() noexcept { mImpl = this; }

  // A constant where the extent is known, else a symbol.
  Expression const* extent(nvinfer1::Dims const& shape, std::int32_t input, std::int32_t axis);

  // Null for an expression that this builder did not make.
  Expression const* find(nvinfer1::IDimensionExpr const* expression) const noexcept;

 private:
  nvinfer1::IDimensionExpr const* constant(std::int64_t value) override;
  nvinfer1::IDimensionExpr const* operation(nvinfer1::DimensionOperation operation,
                                            nvinfer1::IDimensionExpr const& first,
                                            nvinfer1::IDimensionExpr const& second) override;
  nvinfer1::IDimensionExpr const* declareSizeTensor(std::int32_t outputIndex, nvinfer1::IDimensionExpr const& opt,
                                                    nvinfer1::IDimensionExpr const& upper) override;

  std::deque<Expression> expressions_;
};

}  // namespace tensoracle::harness
