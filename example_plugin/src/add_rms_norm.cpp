// Residual add and RMS normalisation in one pass: r = x + residual, y = r / sqrt(mean(r^2) + epsilon) * weight over
// the last axis.
#include <limits>
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

class AddRmsNorm final : public PluginBase<AddRmsNorm> {
 public:
  static constexpr char const* kNAME = "AddRmsNorm";
  static constexpr char const* kVERSION = "1";

  // x, residual and weight; y and r.
  static TensorTypes tensorTypes() { return sameType(3, 2, {DataType::kHALF, DataType::kBF16, DataType::kFLOAT}); }

  static FieldSpecs fields() { return {optional<float>("epsilon", 1e-6F).range(0, std::numeric_limits<float>::max())}; }

  // Every kernel has as many: a small block of a row at a time, and a large one.
  static std::int32_t configurations() { return configurationCount("add_rms_norm_fp16"); }

  explicit AddRmsNorm(Fields const& fields) : PluginBase(fields), epsilon_(fields.get<float>("epsilon")) {}

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0], inputs[0]};
  }

  void checkShapes(Span<Dims const> inputs) const override {
    Dims const& x = inputs[0];
    Dims const& residual = inputs[1];
    Dims const& weight = inputs[2];
    if (x.nbDims < 1) fail("x has shape ", toString(x), "; it must have at least one axis");
    if (!sameShape(x, residual)) {
      fail("residual has shape ", toString(residual), "; it must have that of x, ", toString(x));
    }
    if (weight.nbDims != 1 || weight.d[0] != x.d[x.nbDims - 1]) {
      fail("weight has shape ", toString(weight), "; it must be (", x.d[x.nbDims - 1], "), the last axis of x");
    }
  }

  // Large blocks for long rows; not for unaligned ones, of which each thread would load single elements.
  std::int32_t autoConfiguration(Span<PluginTensorDesc const> inputs) const override {
    constexpr std::int64_t kALIGNED = 8;
    constexpr std::int64_t kLONG = 2048;
    std::int64_t const columns = columnsOf(inputs[0].dims);
    return columns % kALIGNED == 0 && columns > kLONG ? 1 : 0;
  }

  void prepare(Span<PluginTensorDesc const> inputs, Span<PluginTensorDesc const>) override {
    kernel_ = &loadKernel(kernelName(inputs[0].type), configuration());
  }

  void execute(Execution const& call) override {
    Dims const& shape = call.inputDescs[0].dims;
    std::int64_t const elements = volume(shape);
    if (elements == 0) return;
    std::int64_t const columns = columnsOf(shape);
    Arguments const arguments = {call.inputs[0],  call.inputs[1], call.inputs[2], call.outputs[0],
                                 call.outputs[1], columns,        epsilon_};
    kernel_->launch(call.stream, {elements / columns}, arguments);
  }

  static std::int64_t columnsOf(Dims const& shape) { return shape.d[shape.nbDims - 1]; }

  static char const* kernelName(DataType type) {
    switch (type) {
      case DataType::kHALF: return "add_rms_norm_fp16";
      case DataType::kBF16: return "add_rms_norm_bf16";
      default: return "add_rms_norm_fp32";
    }
  }

  float epsilon_;
  KernelVariants const* kernel_ = nullptr;
};

TENSORACLE_REGISTER_PLUGIN(AddRmsNorm);

}  // namespace
