// Builds, folds, evaluates and shows expressions.
#include "expressions.hpp"

#include <algorithm>
#include <limits>

namespace tensoracle::harness {
namespace {

using nvinfer1::DimensionOperation;

std::int64_t divide(std::int64_t first, std::int64_t second, bool up) {
  if (second == 0) throw EvaluationError("divides by zero");
  if (second == -1 && first == std::numeric_limits<std::int64_t>::min()) throw EvaluationError("exceeds 64 bits");
  std::int64_t const quotient = first / second;  // towards zero
  bool const isExact = quotient * second == first;
  bool const isNegative = (first < 0) != (second < 0);
  if (isExact || isNegative == up) return quotient;
  return up ? quotient + 1 : quotient - 1;
}

std::int64_t apply(DimensionOperation operation, std::int64_t first, std::int64_t second) {
  std::int64_t result = 0;
  bool overflows = false;
  switch (operation) {
    case DimensionOperation::kSUM: overflows = __builtin_add_overflow(first, second, &result); break;
    case DimensionOperation::kPROD: overflows = __builtin_mul_overflow(first, second, &result); break;
    case DimensionOperation::kSUB: overflows = __builtin_sub_overflow(first, second, &result); break;
    case DimensionOperation::kMAX: return std::max(first, second);
    case DimensionOperation::kMIN: return std::min(first, second);
    case DimensionOperation::kEQUAL: return first == second;
    case DimensionOperation::kLESS: return first < second;
    case DimensionOperation::kFLOOR_DIV: return divide(first, second, false);
    case DimensionOperation::kCEIL_DIV: return divide(first, second, true);
    default: throw EvaluationError("has an unknown operation " + std::to_string(static_cast<int>(operation)));
  }
  if (overflows) throw EvaluationError("exceeds 64 bits");
  return result;
}

std::string show(DimensionOperation operation, std::string const& first, std::string const& second) {
  auto const infix = [&](char const* symbol) { return "(" + first + symbol + second + ")"; };
  auto const call = [&](char const* name) { return name + ("(" + first + ", " + second + ")"); };
  switch (operation) {
    case DimensionOperation::kSUM: return infix(" + ");
    case DimensionOperation::kPROD: return infix(" * ");
    case DimensionOperation::kSUB: return infix(" - ");
    case DimensionOperation::kMAX: return call("max");
    case DimensionOperation::kMIN: return call("min");
    case DimensionOperation::kEQUAL: return infix(" == ");
    case DimensionOperation::kLESS: return infix(" < ");
    case DimensionOperation::kFLOOR_DIV: return infix(" // ");
    case DimensionOperation::kCEIL_DIV: return call("ceil_div");
    default: return call("unknown");
  }
}

}  // namespace

std::int64_t Expression::evaluate(Values const& values) const {
  switch (kind_) {
    case Kind::kCONSTANT: return value_;
    case Kind::kEXTENT: {
      bool const isGiven = value_ < values.inputCount && axis_ < values.inputs[value_].nbDims;
      if (!isGiven || values.inputs[value_].d[axis_] < 0) throw EvaluationError("needs " + toString());
      return values.inputs[value_].d[axis_];
    }
    case Kind::kOPERATION: return apply(operation_, first_->evaluate(values), second_->evaluate(values));
    case Kind::kSIZE:
      if (value_ < values.sizeCount && values.sizes[value_] >= 0) return values.sizes[value_];
      return second_->evaluate(values);
  }
  throw EvaluationError("is of an unknown kind");
}

std::string Expression::toString() const {
  switch (kind_) {
    case Kind::kCONSTANT: return std::to_string(value_);
    case Kind::kEXTENT: return "inputs[" + std::to_string(value_) + "][" + std::to_string(axis_) + "]";
    case Kind::kOPERATION: return show(operation_, first_->toString(), second_->toString());
    case Kind::kSIZE: return "outputs[" + std::to_string(value_) + "]";
  }
  return "";
}

Expression const* ExpressionBuilder::extent(nvinfer1::Dims const& shape, std::int32_t input, std::int32_t axis) {
  bool const isKnown = shape.d[axis] >= 0;
  Expression& made = expressions_.emplace_back(isKnown ? Expression::Kind::kCONSTANT : Expression::Kind::kEXTENT);
  made.value_ = isKnown ? shape.d[axis] : input;
  made.axis_ = axis;
  return &made;
}

Expression const* ExpressionBuilder::find(nvinfer1::IDimensionExpr const* expression) const noexcept {
  auto const found = std::find_if(expressions_.begin(), expressions_.end(),
                                  [=](Expression const& known) { return &known == expression; });
  return found != expressions_.end() ? &*found : nullptr;
}

nvinfer1::IDimensionExpr const* ExpressionBuilder::constant(std::int64_t value) {
  Expression& made = expressions_.emplace_back(Expression::Kind::kCONSTANT);
  made.value_ = value;
  return &made;
}

nvinfer1::IDimensionExpr const* ExpressionBuilder::operation(DimensionOperation operation,
                                                             nvinfer1::IDimensionExpr const& first,
                                                             nvinfer1::IDimensionExpr const& second) {
  if (first.isConstant() && second.isConstant()) {
    try {
      return constant(apply(operation, first.getConstantValue(), second.getConstantValue()));
    } catch (EvaluationError const&) {
      // It stays an operation, whose evaluation says what is wrong.
    }
  }
  Expression& made = expressions_.emplace_back(Expression::Kind::kOPERATION);
  made.operation_ = operation;
  made.first_ = find(&first);
  made.second_ = find(&second);
  return made.first_ != nullptr && made.second_ != nullptr ? &made : nullptr;
}

nvinfer1::IDimensionExpr const* ExpressionBuilder::declareSizeTensor(std::int32_t outputIndex,
                                                                     nvinfer1::IDimensionExpr const& opt,
                                                                     nvinfer1::IDimensionExpr const& upper) {
  Expression& made = expressions_.emplace_back(Expression::Kind::kSIZE);
  made.value_ = outputIndex;
  made.first_ = find(&opt);
  made.second_ = find(&upper);
  return outputIndex >= 0 && made.first_ != nullptr && made.second_ != nullptr ? &made : nullptr;
}

}  // namespace tensoracle::harness
