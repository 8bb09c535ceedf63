// Multiplies its input. By itself it takes the first configuration for one row and the last for more.
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

class Scale final : public PluginBase<Scale> {
 public:
  static constexpr char const* kNAME = "Scale";
  static constexpr char const* kVERSION = "2";
  static constexpr char const* kNAMESPACE = "tests";

  static TensorTypes tensorTypes() { return sameType(1, 1, {DataType::kFLOAT, DataType::kHALF}); }

  static FieldSpecs fields() {
    return {optional<float>("factor", 1e-5F),
            optional<std::string>("mode", "plain"),
            optional<std::int32_t>("flag", 0).oneOf({0, 1}),
            optional<Half>("half", Half(0.1F)),
            optional<BFloat16>("bfloat", BFloat16(0.1F)),
            optional<double>("double", 0.1),
            optional<Dims>("dims", Dims{2, {3, -1}}),
            optional<std::vector<float>>("offsets", {})};
  }

  static std::int32_t configurations() { return configurationCount("scale_fp32"); }

  explicit Scale(Fields const& fields) : PluginBase(fields), factor_(fields.get<float>("factor")) {}

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  std::int32_t autoConfiguration(Span<PluginTensorDesc const> inputs) const override {
    return inputs[0].dims.d[0] == 1 ? 0 : configurations() - 1;
  }

  void prepare(Span<PluginTensorDesc const> inputs, Span<PluginTensorDesc const>) override {
    kernel_ = &loadKernel(inputs[0].type == DataType::kHALF ? "scale_fp16" : "scale_fp32", configuration());
    size_ = volume(inputs[0].dims);
  }

  void execute(Execution const& call) override {
    auto const block = kernel_->variants().front().constant<std::int64_t>("BLOCK");
    kernel_->launch(call.stream, {(size_ + block - 1) / block}, {call.inputs[0], call.outputs[0], size_, factor_});
  }

  float factor_;
  KernelVariants const* kernel_ = nullptr;
  std::int64_t size_ = 0;
};

TENSORACLE_REGISTER_PLUGIN(Scale);

}  // namespace
