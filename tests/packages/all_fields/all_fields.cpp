// A plugin with a field of every type, which tells the log what it was given.
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

class AllFields final : public PluginBase<AllFields> {
 public:
  static constexpr char const* kNAME = "AllFields";
  static constexpr char const* kVERSION = "1";

  static TensorTypes tensorTypes() { return sameType(1, 1, {DataType::kFLOAT}); }

  static FieldSpecs fields() {
    return {required<std::int32_t>("count").range(1, 100),
            optional<std::int8_t>("int8", 0),
            optional<std::int16_t>("int16", 0),
            optional<std::int32_t>("int32", 0).oneOf({0, 1, 2}),
            optional<std::int64_t>("int64", 0),
            optional<Half>("half", {}),
            optional<BFloat16>("bf16", {}),
            optional<float>("float", 0),
            optional<double>("double", 0),
            optional<std::string>("text", "").oneOf({"", "relu", "gelu"}),
            optional<std::vector<std::int32_t>>("axes", {}).length(0, 3),
            optional<std::vector<float>>("scales", {}).range(0, 1)};
  }

  explicit AllFields(Fields const& fields) : PluginBase(fields) {
    log(Severity::kINFO, compose("given: ", fields.toString()).c_str());
  }

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  void execute(Execution const&) override {}
};

TENSORACLE_REGISTER_PLUGIN(AllFields);

}  // namespace
