// Reads, checks and serialises plugin fields.
#include "tensoracle/fields.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace tensoracle {
namespace {

using nvinfer1::Dims;
using nvinfer1::PluginField;
using nvinfer1::PluginFieldCollection;
using nvinfer1::PluginFieldType;

// In the order of FieldValue's alternatives.
constexpr std::array<PluginFieldType, std::variant_size_v<FieldValue>> kTYPES = {
    PluginFieldType::kFLOAT16, PluginFieldType::kFLOAT32, PluginFieldType::kFLOAT64, PluginFieldType::kINT8,
    PluginFieldType::kINT16,   PluginFieldType::kINT32,   PluginFieldType::kINT64,   PluginFieldType::kBF16,
    PluginFieldType::kDIMS,    PluginFieldType::kCHAR};

PluginFieldType typeOf(FieldValue const& value) noexcept { return kTYPES[value.index()]; }

// By number, since older official headers lack the last names.
char const* typeName(PluginFieldType type) noexcept {
  constexpr std::array<char const*, 14> kNAMES = {"FLOAT16", "FLOAT32", "FLOAT64", "INT8",  "INT16", "INT32", "CHAR",
                                                  "DIMS",    "UNKNOWN", "BF16",    "INT64", "FP8",   "INT4",  "FP4"};
  auto const index = static_cast<std::size_t>(type);
  return index < kNAMES.size() ? kNAMES[index] : "of a type that this library does not know";
}

std::string declaredType(FieldValue const& value, bool isArray) {
  return compose(isArray ? "array of " : "", typeName(typeOf(value)));
}

// A value as messages show it.
template <class Value>
auto readable(Value value) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

template <class Value>
Value elementAt(PluginField const& field, std::size_t index) {
  Value value;
  std::memcpy(&value, static_cast<char const*>(field.data) + index * sizeof value, sizeof value);
  return value;
}

bool isInteger(PluginFieldType type) noexcept {
  return type == PluginFieldType::kINT8 || type == PluginFieldType::kINT16 || type == PluginFieldType::kINT32 ||
         type == PluginFieldType::kINT64;
}

bool isFloating(PluginFieldType type) noexcept {
  return type == PluginFieldType::kFLOAT16 || type == PluginFieldType::kBF16 || type == PluginFieldType::kFLOAT32 ||
         type == PluginFieldType::kFLOAT64;
}

// An element as the widest type of its family, which holds it exactly.
std::int64_t integerAt(PluginField const& field, std::size_t index) {
  switch (field.type) {
    case PluginFieldType::kINT8: return elementAt<std::int8_t>(field, index);
    case PluginFieldType::kINT16: return elementAt<std::int16_t>(field, index);
    case PluginFieldType::kINT32: return elementAt<std::int32_t>(field, index);
    default: return elementAt<std::int64_t>(field, index);
  }
}

double numberAt(PluginField const& field, std::size_t index) {
  switch (field.type) {
    case PluginFieldType::kFLOAT16: return static_cast<float>(elementAt<Half>(field, index));
    case PluginFieldType::kBF16: return static_cast<float>(elementAt<BFloat16>(field, index));
    case PluginFieldType::kFLOAT32: return elementAt<float>(field, index);
    default: return elementAt<double>(field, index);
  }
}

// Whether `result` is then the same value.
template <class To>
bool narrow(std::int64_t value, To& result) noexcept {
  result = static_cast<To>(value);
  return result == value;
}

template <class To>
bool narrow(double value, To& result) noexcept {
  if constexpr (std::is_floating_point_v<To>) {
    result = static_cast<To>(value);
  } else {
    result = To(static_cast<float>(value));
  }
  double const back = readable(result);
  return back == value || (std::isnan(back) && std::isnan(value));
}

[[noreturn]] void failType(FieldSpec const& spec, PluginField const& field) {
  fail("field ", spec.name, " is ", typeName(field.type), "; it is declared as ",
       declaredType(spec.value, spec.isArray));
}

std::string showElement(PluginField const& field, std::size_t index) {
  if (field.type == PluginFieldType::kDIMS) return toString(elementAt<Dims>(field, index));
  if (isInteger(field.type)) return compose(integerAt(field, index));
  double const number = numberAt(field, index);
  return field.type == PluginFieldType::kFLOAT64 ? compose(number) : compose(static_cast<float>(number));
}

[[noreturn]] void failNarrow(FieldSpec const& spec, PluginField const& field, std::size_t index) {
  bool const isFloat = typeOf(spec.value) == PluginFieldType::kFLOAT32;
  fail("field ", spec.name, " is ", showElement(field, index), " as ", typeName(field.type),
       ", which the declared type cannot hold exactly",
       isFloat ? "; hand it over as FLOAT32, rounded on purpose (Python: numpy.float32)" : "");
}

// The elements as they are: a NaN keeps its bits.
template <class To>
std::vector<To> copy(PluginField const& field) {
  std::vector<To> elements(static_cast<std::size_t>(field.length));
  if (!elements.empty()) std::memcpy(elements.data(), field.data, elements.size() * sizeof(To));
  return elements;
}

template <class To>
std::vector<To> readNumbers(FieldSpec const& spec, PluginField const& field) {
  constexpr bool kIS_INTEGER = std::is_integral_v<To>;
  if (field.type == typeOf(spec.value)) return copy<To>(field);
  if (kIS_INTEGER ? !isInteger(field.type) : !isFloating(field.type)) failType(spec, field);
  std::vector<To> elements(static_cast<std::size_t>(field.length));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    bool isExact;
    if constexpr (kIS_INTEGER) {
      isExact = narrow(integerAt(field, i), elements[i]);
    } else {
      isExact = narrow(numberAt(field, i), elements[i]);
    }
    if (!isExact) failNarrow(spec, field, i);
  }
  return elements;
}

struct Reader {
  FieldSpec const& spec;
  PluginField const& field;

  template <class To>
  FieldValue operator()(std::vector<To> const&) const {
    return readNumbers<To>(spec, field);
  }

  FieldValue operator()(std::vector<Dims> const&) const {
    if (field.type != PluginFieldType::kDIMS) failType(spec, field);
    return copy<Dims>(field);
  }

  FieldValue operator()(std::string const&) const {
    if (field.type != PluginFieldType::kCHAR) failType(spec, field);
    std::string text(static_cast<char const*>(field.data), static_cast<std::size_t>(field.length));
    if (!text.empty() && text.back() == '\0') text.pop_back();  // the ONNX parser's length includes the NUL
    return text;
  }
};

// A record that points into the value.
PluginField recordOf(char const* name, FieldValue const& value) {
  return std::visit(
      [&](auto const& elements) {
        // A text is handed on with its NUL, as TensorRT's own parsers do.
        bool const isText = std::is_same_v<std::decay_t<decltype(elements)>, std::string>;
        auto const length = static_cast<std::int32_t>(elements.size() + (isText ? 1 : 0));
        return PluginField{name, elements.data(), typeOf(value), length};
      },
      value);
}

std::string show(FieldValue const& value) {
  if (auto const* text = std::get_if<std::string>(&value)) return compose('"', *text, '"');
  PluginField const record = recordOf("", value);
  std::string shown;
  for (std::int32_t i = 0; i < record.length; ++i) {
    shown += compose(i == 0 ? "" : ", ", showElement(record, static_cast<std::size_t>(i)));
  }
  return shown.empty() ? "empty" : shown;
}

// Whether a field that is no array has the value.
bool equals(FieldValue const& value, ConstantRecord const& expected) {
  return std::visit(
      [&](auto const& elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        if constexpr (std::is_same_v<Element, char>) {
          return expected.kind == ConstantKind::kTEXT && elements == expected.text;
        } else if constexpr (std::is_same_v<Element, Dims>) {
          return expected.kind == ConstantKind::kTEXT && tensoracle::toString(elements.at(0)) == expected.text;
        } else if constexpr (std::is_integral_v<Element>) {
          return expected.kind == ConstantKind::kINTEGER && elements.at(0) == expected.integer;
        } else {
          Element narrowed;
          narrow(expected.number, narrowed);
          bool const isNumber = expected.kind == ConstantKind::kINTEGER || expected.kind == ConstantKind::kNUMBER;
          return isNumber && readable(narrowed) == readable(elements.at(0));
        }
      },
      value);
}

FieldValue read(FieldSpec const& spec, PluginField const& field) {
  if (field.length < 0 || (field.data == nullptr && field.length > 0)) {
    fail("field ", spec.name, " has length ", field.length, " and ", field.data == nullptr ? "no " : "", "data");
  }
  FieldValue value = std::visit(Reader{spec, field}, spec.value);
  bool const isText = std::holds_alternative<std::string>(value);
  if (!spec.isArray && !isText && field.length != 1) {
    fail("field ", spec.name, " has ", field.length, " elements; a single ", typeName(field.type), " is declared");
  }
  for (FieldRule const& rule : spec.rules) {
    if (!rule.holds(value)) fail("field ", spec.name, " is ", show(value), "; it must ", rule.text);
  }
  return value;
}

bool isNamed(PluginField const& field, std::string_view name) { return field.name != nullptr && field.name == name; }

void checkNames(FieldSpecs const& specs, Span<PluginField const> given) {
  for (PluginField const& field : given) {
    std::string_view const name = field.name != nullptr ? field.name : "";
    std::string known;
    bool isKnown = false;
    for (FieldSpec const& spec : specs) {
      isKnown = isKnown || spec.name == name;
      known += compose(known.empty() ? "" : ", ", spec.name);
    }
    if (!isKnown) fail("field ", name, " is unknown; the declared fields are ", known.empty() ? "none" : known);
    auto const count =
        std::count_if(given.begin(), given.end(), [=](auto const& other) { return isNamed(other, name); });
    if (count > 1) fail("field ", name, " is given ", count, " times; give it once");
  }
}

}  // namespace

FieldSpec::FieldSpec(std::string fieldName, FieldValue otherwise, bool mustBeGiven, bool mayBeMany)
    : name(std::move(fieldName)), value(std::move(otherwise)), isRequired(mustBeGiven), isArray(mayBeMany) {}
FieldSpec::FieldSpec(FieldSpec const& other) = default;
FieldSpec::FieldSpec(FieldSpec&& other) noexcept = default;
FieldSpec::~FieldSpec() = default;

void FieldSpec::addRule(std::string text, std::function<bool(FieldValue const&)> holds) {
  rules.push_back({std::move(text), std::move(holds)});
}

Fields Fields::parse(FieldSpecs const& specs, PluginFieldCollection const* collection) {
  bool const isEmpty = collection == nullptr || collection->nbFields <= 0;
  Span<PluginField const> const given(isEmpty ? nullptr : collection->fields,
                                      isEmpty ? 0 : static_cast<std::size_t>(collection->nbFields));
  checkNames(specs, given);
  Fields fields;
  for (FieldSpec const& spec : specs) {
    auto const found =
        std::find_if(given.begin(), given.end(), [&](auto const& field) { return isNamed(field, spec.name); });
    if (found != given.end()) {
      fields.fields_.push_back({spec.name, spec.isArray, read(spec, *found)});
    } else if (spec.isRequired) {
      fail("field ", spec.name, " (", declaredType(spec.value, spec.isArray), ") is missing; it has no default");
    } else {
      fields.fields_.push_back({spec.name, spec.isArray, spec.value});
    }
  }
  return fields;
}

std::string Fields::toString() const {
  std::string text;
  for (Field const& field : fields_) text += compose(text.empty() ? "" : ", ", field.name, " = ", show(field.value));
  return text;
}

bool Fields::match(Span<ConstantRecord const> values) const {
  std::size_t count = 0;
  for (Field const& field : fields_) {
    if (field.isArray) continue;
    ++count;
    auto const isIt = [&](ConstantRecord const& one) { return field.name == one.name && equals(field.value, one); };
    if (std::none_of(values.begin(), values.end(), isIt)) return false;
  }
  return count == values.size();
}

std::vector<PluginField> Fields::serialize() const {
  std::vector<PluginField> records;
  for (Field const& field : fields_) records.emplace_back(recordOf(field.name.c_str(), field.value));
  return records;
}

Fields::Field const& Fields::find(std::string_view name) const {
  auto const found =
      std::find_if(fields_.begin(), fields_.end(), [=](Field const& field) { return field.name == name; });
  if (found == fields_.end()) fail("field ", name, " is not declared in fields()");
  return *found;
}

void Fields::failGet(Field const& field) {
  fail("field ", field.name, " is declared as ", declaredType(field.value, field.isArray),
       "; get it as the corresponding C++ type");
}

void checkSpecs(FieldSpecs const& specs) {
  for (FieldSpec const& spec : specs) {
    auto const isSame = [&](FieldSpec const& other) { return other.name == spec.name; };
    if (std::count_if(specs.begin(), specs.end(), isSame) > 1) fail("field ", spec.name, " is declared twice");
    for (FieldRule const& rule : spec.rules) {
      if (spec.isRequired || rule.holds(spec.value)) continue;
      fail("field ", spec.name, " has the default ", show(spec.value), "; it must ", rule.text);
    }
  }
}

std::vector<PluginField> fieldNames(FieldSpecs const& specs) {
  std::vector<PluginField> records;
  for (FieldSpec const& spec : specs) {
    records.emplace_back(PluginField{spec.name.c_str(), nullptr, typeOf(spec.value), spec.isArray ? 0 : 1});
  }
  return records;
}

}  // namespace tensoracle
