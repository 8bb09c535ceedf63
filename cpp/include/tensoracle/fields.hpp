// A plugin's fields: declared with types and rules, read from what a caller hands over, serialised again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/error.hpp"
#include "tensoracle/half.hpp"
#include "tensoracle/plugin_abi.hpp"
#include "tensoracle/tensors.hpp"

namespace tensoracle {

// A field's elements in the declared type; a scalar has one. TensorRT has no Boolean fields: declare an int32_t that
// is one of 0 and 1.
using FieldValue = std::variant<std::vector<Half>, std::vector<float>, std::vector<double>, std::vector<std::int8_t>,
                                std::vector<std::int16_t>, std::vector<std::int32_t>, std::vector<std::int64_t>,
                                std::vector<BFloat16>, std::vector<nvinfer1::Dims>, std::string>;

struct FieldRule {
  std::string text;  // goes on after "must "
  std::function<bool(FieldValue const&)> holds;
};

struct FieldSpec {
  std::string name;
  FieldValue value;  // the default; for required fields only its type counts
  bool isRequired;
  bool isArray;
  std::vector<FieldRule> rules;

  // Compiled once, and not in every source of a plugin: copies of FieldValue are much code.
  FieldSpec(std::string fieldName, FieldValue otherwise, bool mustBeGiven, bool mayBeMany);
  FieldSpec(FieldSpec const& other);
  FieldSpec(FieldSpec&& other) noexcept;
  ~FieldSpec();

  void addRule(std::string text, std::function<bool(FieldValue const&)> holds);
};

using FieldSpecs = std::vector<FieldSpec>;

namespace detail {

template <class T>
struct FieldType {
  using Element = T;
  using Storage = std::vector<T>;
  static constexpr bool kIS_ARRAY = false;
};

template <class T>
struct FieldType<std::vector<T>> {
  using Element = T;
  using Storage = std::vector<T>;
  static constexpr bool kIS_ARRAY = true;
};

template <>
struct FieldType<std::string> {
  using Element = char;
  using Storage = std::string;
  static constexpr bool kIS_ARRAY = false;
};

template <class T>
T fieldFrom(typename FieldType<T>::Storage const& storage) {
  if constexpr (std::is_same_v<T, typename FieldType<T>::Storage>) {
    return storage;
  } else {
    return storage.at(0);
  }
}

template <class T>
typename FieldType<T>::Storage fieldStorage(T const& value) {
  if constexpr (std::is_same_v<T, typename FieldType<T>::Storage>) {
    return value;
  } else {
    return {value};
  }
}

}  // namespace detail

// A FieldSpec whose C++ type is still known, so that rules can be added: optional<float>("epsilon", 0).range(0, 1).
template <class T>
class TypedFieldSpec : public FieldSpec {
 public:
  using Element = typename detail::FieldType<T>::Element;

  TypedFieldSpec(std::string fieldName, T const& otherwise, bool mustBeGiven)
      : FieldSpec(std::move(fieldName), detail::fieldStorage<T>(otherwise), mustBeGiven,
                  detail::FieldType<T>::kIS_ARRAY) {}

  // Every element is in [least, most], which NaN never is.
  TypedFieldSpec& range(Element least, Element most) {
    static_assert(std::is_arithmetic_v<Element>, "only numbers have a range");
    return rule(compose("be in [", least, ", ", most, "]"), [least, most](Storage const& elements) {
      return std::all_of(elements.begin(), elements.end(),
                         [=](Element element) { return least <= element && element <= most; });
    });
  }

  TypedFieldSpec& oneOf(std::initializer_list<T> choices) {
    std::string text;
    char const* const quote = std::is_same_v<T, std::string> ? "\"" : "";
    for (T const& choice : choices) text += compose(text.empty() ? "be one of " : ", ", quote, choice, quote);
    return rule(std::move(text), [allowed = std::vector<T>(choices)](Storage const& elements) {
      return std::find(allowed.begin(), allowed.end(), detail::fieldFrom<T>(elements)) != allowed.end();
    });
  }

  // An array has between `least` and `most` elements.
  TypedFieldSpec& length(std::size_t least, std::size_t most) {
    static_assert(detail::FieldType<T>::kIS_ARRAY, "only an array has a length");
    return rule(compose("have ", least, " to ", most, " elements"),
                [least, most](Storage const& elements) { return least <= elements.size() && elements.size() <= most; });
  }

 private:
  using Storage = typename detail::FieldType<T>::Storage;

  template <class Predicate>
  TypedFieldSpec& rule(std::string text, Predicate predicate) {
    addRule(std::move(text),
            [predicate](FieldValue const& elements) { return predicate(std::get<Storage>(elements)); });
    return *this;
  }
};

template <class T>
TypedFieldSpec<T> required(std::string name) {
  T anything{};
  return {std::move(name), anything, true};
}

template <class T>
TypedFieldSpec<T> optional(std::string name, T const& otherwise) {
  return {std::move(name), otherwise, false};
}

// The values of a plugin's fields, in the order in which they are declared.
class Fields {
 public:
  // What the caller hands over, completed by defaults. Other widths than declared are converted where that loses
  // nothing. An Error that names the field, what was found and what is expected otherwise.
  static Fields parse(FieldSpecs const& specs, nvinfer1::PluginFieldCollection const* given);

  // The value of a declared field, as the type it is declared with.
  template <class T>
  T get(std::string_view name) const {
    Field const& field = find(name);
    auto const* storage = std::get_if<typename detail::FieldType<T>::Storage>(&field.value);
    if (storage == nullptr || field.isArray != detail::FieldType<T>::kIS_ARRAY) failGet(field);
    return detail::fieldFrom<T>(*storage);
  }

  // "epsilon = 1e-06, axes = 0, 1"
  std::string toString() const;

  // Whether those that are no arrays are these, with these values as their own types hold them.
  bool match(Span<ConstantRecord const> values) const;

  // Records that point into this object.
  std::vector<nvinfer1::PluginField> serialize() const;

 private:
  struct Field {
    std::string name;
    bool isArray;
    FieldValue value;
  };

  Field const& find(std::string_view name) const;
  [[noreturn]] static void failGet(Field const& field);

  std::vector<Field> fields_;
};

// The records that a creator answers getFieldNames with; they point into `specs`.
std::vector<nvinfer1::PluginField> fieldNames(FieldSpecs const& specs);

// An Error for a name that is declared twice, or a default that its own rules refuse.
void checkSpecs(FieldSpecs const& specs);

}  // namespace tensoracle
