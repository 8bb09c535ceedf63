// Plugins that the harness is tested with. They need no launcher, and log all that they are told.
//
// Field `fail` names a method that is to fail, `mislead` one that is to answer with what TensorRT does not document.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "plugin_abi.hpp"

using namespace nvinfer1;

namespace {

// TensorRT 10's finder: findLogger is in slot 0, and so is the logger's log.
void* finder = nullptr;

void log(std::string const& text) {
  auto const findLogger = reinterpret_cast<void* (*)(void*)>((*static_cast<void***>(finder))[0]);
  void* const logger = findLogger(finder);
  auto const write = reinterpret_cast<void (*)(void*, std::int32_t, char const*)>((*static_cast<void***>(logger))[0]);
  write(logger, 3, text.c_str());
}

std::string show(Dims const& shape) {
  std::string text;
  for (std::int32_t i = 0; i < shape.nbDims; ++i) text += (i > 0 ? "x" : "") + std::to_string(shape.d[i]);
  return "(" + text + ")";
}

std::string show(PluginTensorDesc const& desc) {
  return std::to_string(static_cast<int>(desc.type)) + ":" + std::to_string(static_cast<int>(desc.format)) +
         show(desc.dims);
}

std::string show(DynamicPluginTensorDesc const& tensor) {
  return show(tensor.desc) + show(tensor.min) + show(tensor.opt) + show(tensor.max);
}

template <class Desc>
std::string show(Desc const* descs, std::int32_t count) {
  std::string text;
  for (std::int32_t i = 0; i < count; ++i) text += " " + show(descs[i]);
  return text;
}

struct Stored {
  std::string name;
  std::string data;
  PluginFieldType type;
  std::int32_t length;
};

std::size_t sizeOf(PluginFieldType type) {
  switch (type) {
    case PluginFieldType::kFLOAT64:
    case PluginFieldType::kINT64: return 8;
    case PluginFieldType::kFLOAT32:
    case PluginFieldType::kINT32: return 4;
    case PluginFieldType::kFLOAT16:
    case PluginFieldType::kBF16:
    case PluginFieldType::kINT16: return 2;
    case PluginFieldType::kDIMS: return sizeof(Dims);
    default: return 1;
  }
}

// Two inputs of one type. Output 0 has as many axes as there are operations, each one of them over the first input's
// extents; output 1 has as many elements as output 2, an INT64, says at run time.
class Probe final : public IPluginV3,
                    public IPluginV3OneCore,
                    public v_2_0::IPluginV3OneBuild,
                    public IPluginV3OneRuntime {
 public:
  explicit Probe(std::vector<Stored> fields) : fields_(std::move(fields)) { log("made"); }
  Probe(Probe const& other)
      : IPluginV3(), IPluginV3OneCore(), v_2_0::IPluginV3OneBuild(), IPluginV3OneRuntime(), fields_(other.fields_) {
    log("copied");
  }
  ~Probe() override { log("destroyed"); }

  bool is(char const* field, char const* method) const {
    for (Stored const& stored : fields_) {
      if (stored.name == field && std::strcmp(stored.data.c_str(), method) == 0) return true;
    }
    return false;
  }

  std::int32_t answer(char const* method) const {
    if (!is("fail", method)) return 0;
    log(std::string(method) + " was told to fail");
    return 7;
  }

  IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
    if (answer("getCapabilityInterface") != 0) return nullptr;
    if (type == PluginCapabilityType::kCORE) return static_cast<IPluginV3OneCore*>(this);
    if (type == PluginCapabilityType::kRUNTIME) return static_cast<IPluginV3OneRuntime*>(this);
    return static_cast<v_2_0::IPluginV3OneBuild*>(this);
  }
  IPluginV3* clone() noexcept override { return answer("clone") == 0 ? new Probe(*this) : nullptr; }

  char const* getPluginName() const noexcept override { return "Probe"; }
  char const* getPluginVersion() const noexcept override { return "2"; }
  char const* getPluginNamespace() const noexcept override { return "tests"; }

  std::int32_t configurePlugin(DynamicPluginTensorDesc const* inputs, std::int32_t nbInputs,
                               DynamicPluginTensorDesc const* outputs, std::int32_t nbOutputs) noexcept override {
    log("configurePlugin" + show(inputs, nbInputs) + " ->" + show(outputs, nbOutputs));
    return answer("configurePlugin");
  }
  std::int32_t getOutputDataTypes(DataType* outputs, std::int32_t nbOutputs, DataType const* inputs,
                                  std::int32_t) const noexcept override {
    if (is("mislead", "getOutputDataTypes")) return 0;
    for (std::int32_t i = 0; i < nbOutputs; ++i) outputs[i] = i == 2 ? DataType::kINT64 : inputs[0];
    return answer("getOutputDataTypes");
  }
  std::int32_t getOutputShapes(DimsExprs const* inputs, std::int32_t, DimsExprs const*, std::int32_t,
                               DimsExprs* outputs, std::int32_t, IExprBuilder& builder) noexcept override {
    if (is("mislead", "getOutputShapes")) return 0;
    IDimensionExpr const& first = *inputs[0].d[0];
    IDimensionExpr const& second = *inputs[0].d[1];
    outputs[0].nbDims = 8;
    for (std::int32_t i = 0; i < 8; ++i) {  // all but kSUM, which stands below
      outputs[0].d[i] = builder.operation(static_cast<DimensionOperation>(i + 1), first, second);
    }
    IDimensionExpr const* const upper = builder.operation(DimensionOperation::kSUM, first, *builder.constant(5));
    outputs[1] = {1, {builder.declareSizeTensor(2, *builder.constant(1), *upper)}};
    outputs[2] = {0, {}};
    return answer("getOutputShapes");
  }
  bool supportsFormatCombination(std::int32_t position, DynamicPluginTensorDesc const* tensors, std::int32_t,
                                 std::int32_t) noexcept override {
    if (is("mislead", "supportsFormatCombination")) return true;
    PluginTensorDesc const& desc = tensors[position].desc;
    bool const isLater = position + 1 < 5 && static_cast<std::int32_t>(tensors[position + 1].desc.type) != -1;
    if (isLater) log("a later position has a type");
    if (position == 4) return desc.type == DataType::kINT64 && desc.format == TensorFormat::kLINEAR;
    bool const isPermitted = desc.type == DataType::kFLOAT && desc.format != TensorFormat::kCHW2;
    return isPermitted && (position < 2 ? desc.format == TensorFormat::kLINEAR : desc.format == TensorFormat::kHWC8);
  }
  std::int32_t getNbOutputs() const noexcept override { return 3; }
  std::size_t getWorkspaceSize(DynamicPluginTensorDesc const*, std::int32_t, DynamicPluginTensorDesc const* outputs,
                               std::int32_t) const noexcept override {
    return static_cast<std::size_t>(outputs[1].max.d[0]) * 1000;
  }
  std::int32_t getNbTactics() noexcept override { return 2; }
  std::int32_t getValidTactics(std::int32_t* tactics, std::int32_t) noexcept override {
    tactics[0] = 11;
    tactics[1] = is("mislead", "getValidTactics") ? 0 : 4;
    return answer("getValidTactics");
  }
  char const* getTimingCacheID() noexcept override { return "an id"; }
  char const* getMetadataString() noexcept override { return "metadata"; }
  std::int32_t getAliasedInput(std::int32_t output) noexcept override { return output == 1 ? 0 : -1; }

  std::int32_t setTactic(std::int32_t tactic) noexcept override {
    log("setTactic " + std::to_string(tactic));
    return answer("setTactic");
  }
  std::int32_t onShapeChange(PluginTensorDesc const* inputs, std::int32_t nbInputs, PluginTensorDesc const* outputs,
                             std::int32_t nbOutputs) noexcept override {
    log("onShapeChange" + show(inputs, nbInputs) + " ->" + show(outputs, nbOutputs));
    return answer("onShapeChange");
  }
  std::int32_t enqueue(PluginTensorDesc const* inputDescs, PluginTensorDesc const* outputDescs,
                       void const* const* inputs, void* const* outputs, void* workspace,
                       cudaStream_t stream) noexcept override {
    char text[200];
    std::snprintf(text, sizeof text, "enqueue %p %p -> %p %p %p workspace %d stream %p", inputs[0], inputs[1],
                  outputs[0], outputs[1], outputs[2], workspace != nullptr, static_cast<void*>(stream));
    log(text);
    log("enqueue" + show(inputDescs, 2) + " ->" + show(outputDescs, 3));
    std::int64_t const size = 2;
    if (outputs[2] != nullptr) std::memcpy(outputs[2], &size, sizeof size);  // device memory of the fake driver
    return answer("enqueue");
  }
  IPluginV3* attachToContext(IPluginResourceContext* context) noexcept override {
    void* const memory = context->getGpuAllocator()->allocate(16, 256, 0);
    log(std::string("attached, allocates ") + (memory != nullptr ? "memory" : "nothing"));
    context->getGpuAllocator()->deallocate(memory);
    return answer("attachToContext") == 0 ? new Probe(*this) : nullptr;
  }
  PluginFieldCollection const* getFieldsToSerialize() noexcept override {
    if (answer("getFieldsToSerialize") != 0) return nullptr;
    records_.clear();
    for (Stored const& stored : fields_) {
      records_.push_back({stored.name.c_str(), stored.data.data(), stored.type, stored.length});
    }
    collection_ = {static_cast<std::int32_t>(records_.size()), records_.data()};
    return &collection_;
  }

 private:
  std::vector<Stored> fields_;
  std::vector<PluginField> records_;
  PluginFieldCollection collection_{};
};

class ProbeCreator final : public IPluginCreatorV3One {
 public:
  IPluginV3* createPlugin(char const* name, PluginFieldCollection const* fields,
                          TensorRTPhase phase) noexcept override {
    std::string text = std::string("createPlugin ") + name + ", phase " + std::to_string(static_cast<int>(phase));
    std::vector<Stored> stored;
    for (std::int32_t i = 0; i < fields->nbFields; ++i) {
      PluginField const& field = fields->fields[i];
      std::size_t const size = sizeOf(field.type) * static_cast<std::size_t>(field.length);
      std::string const data =
          field.data != nullptr ? std::string(static_cast<char const*>(field.data), size) : std::string();
      stored.push_back({field.name, data, field.type, field.length});
    }
    log(text);
    for (Stored const& field : stored) {
      if (field.name == "fail" && std::strcmp(field.data.c_str(), "createPlugin") == 0) return nullptr;
    }
    return new Probe(std::move(stored));
  }
  PluginFieldCollection const* getFieldNames() noexcept override {
    static PluginField const kFIELDS[] = {
        {"fail", nullptr, PluginFieldType::kCHAR, 0},      {"mislead", nullptr, PluginFieldType::kCHAR, 0},
        {"half", nullptr, PluginFieldType::kFLOAT16, 1},   {"single", nullptr, PluginFieldType::kFLOAT32, 1},
        {"double", nullptr, PluginFieldType::kFLOAT64, 1}, {"byte", nullptr, PluginFieldType::kINT8, 1},
        {"short", nullptr, PluginFieldType::kINT16, 1},    {"int", nullptr, PluginFieldType::kINT32, 1},
        {"long", nullptr, PluginFieldType::kINT64, 1},     {"bfloat", nullptr, PluginFieldType::kBF16, 1},
        {"shape", nullptr, PluginFieldType::kDIMS, 1}};
    static PluginFieldCollection const kCOLLECTION = {11, kFIELDS};
    return &kCOLLECTION;
  }
  char const* getPluginName() const noexcept override { return "Probe"; }
  char const* getPluginVersion() const noexcept override { return "2"; }
  char const* getPluginNamespace() const noexcept override { return "tests"; }
};

ProbeCreator creator;
IPluginCreatorInterface* const kCREATORS[] = {&creator};

}  // namespace

extern "C" void setLoggerFinder(void* given) { finder = given; }

extern "C" IPluginCreatorInterface* const* getCreators(std::int32_t& count) {
  count = 1;
  return kCREATORS;
}
