// Plugins that launch one small kernel each, of 5 and of 20 arguments: for the cost of the launch itself.
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

// The kernel's last argument is a field: it decides which variant is launched.
template <class Derived>
class Launching : public PluginBase<Derived> {
 public:
  static constexpr char const* kVERSION = "1";

  static TensorTypes tensorTypes() { return sameType(1, 1, {DataType::kFLOAT}); }
  static FieldSpecs fields() { return {required<std::int32_t>("last")}; }

 protected:
  explicit Launching(Fields const& fields) : PluginBase<Derived>(fields), last_(fields.get<std::int32_t>("last")) {}

  void launch(Execution const& call, Arguments const& arguments) { kernel_->launch(call.stream, {1}, arguments); }

  std::int32_t last_;

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  void prepare(Span<PluginTensorDesc const>, Span<PluginTensorDesc const>) override {
    kernel_ = &loadKernel(Derived::kKERNEL);
  }

  KernelVariants const* kernel_ = nullptr;
};

class Five final : public Launching<Five> {
 public:
  static constexpr char const* kNAME = "Five";
  static constexpr char const* kKERNEL = "five";

  explicit Five(Fields const& fields) : Launching(fields) {}

 private:
  void execute(Execution const& call) override {
    launch(call, {call.inputs[0], call.outputs[0], call.inputDescs[0].dims.d[0], 0.5F, last_});
  }
};

class Twenty final : public Launching<Twenty> {
 public:
  static constexpr char const* kNAME = "Twenty";
  static constexpr char const* kKERNEL = "twenty";

  explicit Twenty(Fields const& fields) : Launching(fields) {}

 private:
  void execute(Execution const& call) override {
    void const* const x = call.inputs[0];
    std::int64_t const n = call.inputDescs[0].dims.d[0];
    launch(call, {x, x, x, x, x, x, x, call.outputs[0], n, n, n, n, n, n, n, 0.5F, 0.5F, 0.5F, 0.5F, last_});
  }
};

TENSORACLE_REGISTER_PLUGIN(Five);
TENSORACLE_REGISTER_PLUGIN(Twenty);

}  // namespace
