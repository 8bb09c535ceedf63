// A library that must not work, for one of the reasons that DEFECT names.
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

#define TWICE 1
#define NO_TYPES 2
#define UNEVEN_TYPES 3
#define NO_KERNEL 4
#define FIELD_TWICE 5
#define WRONG_DEFAULT 6

class Faulty final : public PluginBase<Faulty> {
 public:
  static constexpr char const* kNAME = "Faulty";
  static constexpr char const* kVERSION = "1";

  static TensorTypes tensorTypes() {
    if (DEFECT == NO_TYPES) return {};
    TensorTypes types = sameType(2, 1, {DataType::kFLOAT});
    if (DEFECT == UNEVEN_TYPES) types.push_back({{DataType::kHALF}, {DataType::kHALF}});
    return types;
  }

  static FieldSpecs fields() {
    if (DEFECT == FIELD_TWICE) return {required<float>("scale"), optional<float>("scale", 1)};
    if (DEFECT == WRONG_DEFAULT) return {optional<float>("scale", -1).range(0, 1)};
    return {};
  }

  static std::int32_t configurations() { return DEFECT == NO_KERNEL ? configurationCount("missing") : 0; }

  explicit Faulty(Fields const& fields) : PluginBase(fields) {}

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  void execute(Execution const&) override {}
};

TENSORACLE_REGISTER_PLUGIN(Faulty);
#if DEFECT == TWICE
TENSORACLE_REGISTER_PLUGIN(Faulty);
#endif

}  // namespace
