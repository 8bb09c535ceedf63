// A plugin that launches a kernel of 20 arguments, and with MAIN the program that executes it.
#ifdef MAIN

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <tensoracle/plugin_abi.hpp>

namespace {

template <class Function>
Function find(void* library, char const* symbol) {
  void* const found = library != nullptr ? dlsym(library, symbol) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "%s: %s\n", symbol, dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

void check(bool isGood, char const* what) {
  if (isGood) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}

}  // namespace

// The fake driver, the plugin library, the last argument, executions.
int main(int, char** arguments) {
  void* const driver = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
  find<void (*)(int, int)>(driver, "fakeDriverAddDevice")(86, 99 * 1024);
  check(find<int (*)(unsigned)>(driver, "cuInit")(0) == 0, "cuInit");
  void* context = nullptr;
  check(find<int (*)(void**, unsigned, int)>(driver, "cuCtxCreate_v2")(&context, 0, 0) == 0, "cuCtxCreate");

  using namespace nvinfer1;
  void* const library = dlopen(arguments[2], RTLD_NOW);
  std::int32_t count = 0;
  auto const creators = find<IPluginCreatorInterface* const* (*)(std::int32_t&)>(library, "getCreators")(count);
  check(creators != nullptr, "getCreators");
  std::int32_t const last = std::atoi(arguments[3]);
  PluginField const field{"last", &last, PluginFieldType::kINT32, 1};
  PluginFieldCollection const fields{1, &field};
  IPluginV3* const plugin =
      static_cast<IPluginCreatorV3One*>(creators[0])->createPlugin("", &fields, TensorRTPhase::kRUNTIME);
  check(plugin != nullptr, "createPlugin");
  auto* const runtime =
      static_cast<IPluginV3OneRuntime*>(plugin->getCapabilityInterface(PluginCapabilityType::kRUNTIME));

  PluginTensorDesc const desc{{1, {64}}, DataType::kFLOAT, TensorFormat::kLINEAR, 1};
  check(runtime->onShapeChange(&desc, 1, &desc, 1) == 0, "onShapeChange");
  void const* const input = reinterpret_cast<void const*>(0x7F0000000000);
  void* const output = reinterpret_cast<void*>(0x7F0000000100);
  for (int i = std::atoi(arguments[4]); i > 0; --i) {
    check(runtime->enqueue(&desc, &desc, &input, &output, nullptr, nullptr) == 0, "enqueue");
  }
}

#else

#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

class Twenty final : public PluginBase<Twenty> {
 public:
  static constexpr char const* kNAME = "Twenty";
  static constexpr char const* kVERSION = "1";

  static TensorTypes tensorTypes() { return sameType(1, 1, {DataType::kFLOAT}); }
  static FieldSpecs fields() { return {required<std::int32_t>("last")}; }

  explicit Twenty(Fields const& fields) : PluginBase(fields), last_(fields.get<std::int32_t>("last")) {}

 private:
  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  void prepare(Span<PluginTensorDesc const>, Span<PluginTensorDesc const>) override { kernel_ = &loadKernel("twenty"); }

  void execute(Execution const& call) override {
    void const* const x = call.inputs[0];
    void const* const y = call.outputs[0];
    std::int64_t const n = call.inputDescs[0].dims.d[0];
    Arguments const arguments = {x, x, x, x, x, x, x, y, n, n, n, n, n, n, n, 0.5F, 0.5F, 0.5F, 0.5F, last_};
    kernel_->launch(call.stream, {n}, arguments);
  }

  std::int32_t last_;
  KernelVariants const* kernel_ = nullptr;
};

TENSORACLE_REGISTER_PLUGIN(Twenty);

}  // namespace

#endif
