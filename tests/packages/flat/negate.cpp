// The smallest plugin: it is built and registered, and never run.
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

class Negate final : public PluginBase<Negate> {
 public:
  static constexpr char const* kNAME = "Negate";
  static constexpr char const* kVERSION = "1";

  static TensorTypes tensorTypes() { return sameType(1, 1, {DataType::kFLOAT}); }

  explicit Negate(Fields const& fields) : PluginBase(fields) {}

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  void execute(Execution const&) override {}
};

TENSORACLE_REGISTER_PLUGIN(Negate);

// What would differ from one build to the next.
[[gnu::used]] char const kBUILT[] = __FILE__ " on " __DATE__ " at " __TIME__;

}  // namespace
