// Matrix product with bias and GELU in one pass: y = gelu(x w + bias), x of (..., K), w of (K, N), y of (..., N).
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

std::int64_t ceilDiv(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

class MatmulBiasGelu final : public PluginBase<MatmulBiasGelu> {
 public:
  static constexpr char const* kNAME = "MatmulBiasGelu";
  static constexpr char const* kVERSION = "1";

  // x and w; y.
  static TensorTypes tensorTypes() { return sameType(2, 1, {DataType::kHALF, DataType::kFLOAT}); }

  // bias has an element for each of the N columns. tf32 = 1 lets fp32 inputs be rounded to TF32, for the tensor cores.
  static FieldSpecs fields() {
    return {required<std::vector<float>>("bias"), optional<std::int32_t>("tf32", 0).oneOf({0, 1})};
  }

  // Every kernel has as many: tiles from the largest to the smallest.
  static std::int32_t configurations() { return configurationCount("matmul_bias_gelu_fp16"); }

  explicit MatmulBiasGelu(Fields const& fields)
      : PluginBase(fields),
        bias_(fields.get<std::vector<float>>("bias")),
        isTf32_(fields.get<std::int32_t>("tf32") == 1) {}

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    DimsExprs y = inputs[0];
    DimsExprs const& w = inputs[1];
    if (y.nbDims < 1 || w.nbDims != 2) {
      fail("x has ", y.nbDims, " axes and w has ", w.nbDims, "; x must have at least one, w two");
    }
    y.d[y.nbDims - 1] = w.d[1];
    return {y};
  }

  void checkShapes(Span<Dims const> inputs) const override {
    Dims const& x = inputs[0];
    Dims const& w = inputs[1];
    if (x.d[x.nbDims - 1] != w.d[0]) {
      fail("x has shape ", toString(x), " and w ", toString(w), "; the last axis of x must be the first of w");
    }
    if (w.d[1] != static_cast<std::int64_t>(bias_.size())) {
      fail("w has shape ", toString(w), " and bias ", bias_.size(), " elements; it must have one for each column of w");
    }
  }

  void attach() override { deviceBias_ = DeviceBuffer(bias_.data(), bias_.size() * sizeof(float)); }

  // The largest tiles that still make enough blocks to keep a GPU busy.
  std::int32_t autoConfiguration(Span<PluginTensorDesc const> inputs) const override {
    constexpr std::int64_t kENOUGH_BLOCKS = 128;
    Product const product = productOf(inputs);
    std::int32_t const last = configurations() - 1;
    for (std::int32_t i = 0; i < last; ++i) {
      if (blocksOf(product, kernelName(inputs[0].type), i) >= kENOUGH_BLOCKS) return i;
    }
    return last;
  }

  void prepare(Span<PluginTensorDesc const> inputs, Span<PluginTensorDesc const>) override {
    product_ = productOf(inputs);
    char const* const kernel = kernelName(inputs[0].type);
    kernel_ = &loadKernel(kernel, configuration());
    blocks_ = blocksOf(product_, kernel, configuration());
  }

  void execute(Execution const& call) override {
    if (blocks_ == 0) return;
    Arguments const arguments = {call.inputs[0], call.inputs[1], deviceBias_.data(), call.outputs[0],
                                 product_.m,     product_.n,     product_.k};
    kernel_->launch(call.stream, {blocks_}, arguments);
  }

  struct Product {
    std::int64_t m;  // rows of x, all leading axes together
    std::int64_t n;
    std::int64_t k;
  };

  static Product productOf(Span<PluginTensorDesc const> inputs) {
    Dims rows = inputs[0].dims;
    Dims const& w = inputs[1].dims;
    --rows.nbDims;
    return {volume(rows), w.d[1], w.d[0]};
  }

  static std::int64_t blocksOf(Product const& product, char const* kernel, std::int32_t configuration) {
    auto const tile = [=](char const* name) { return kernelConstant<std::int64_t>(kernel, configuration, name); };
    return ceilDiv(product.m, tile("BM")) * ceilDiv(product.n, tile("BN"));
  }

  char const* kernelName(DataType type) const {
    if (type == DataType::kHALF) return "matmul_bias_gelu_fp16";
    return isTf32_ ? "matmul_bias_gelu_tf32" : "matmul_bias_gelu_fp32";
  }

  std::vector<float> bias_;
  bool isTf32_;
  DeviceBuffer deviceBias_;
  Product product_{};
  std::int64_t blocks_ = 0;
  KernelVariants const* kernel_ = nullptr;
};

TENSORACLE_REGISTER_PLUGIN(MatmulBiasGelu);

}  // namespace
