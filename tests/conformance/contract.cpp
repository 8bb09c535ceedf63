// Plugins written by hand, each of which breaks TensorRT's contract in the one way that it is named for. `Good` breaks
// nothing. CUBIN, SYMBOL: the kernel that they launch, which takes two pointers and a 32-bit size.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugin_abi.hpp"

using namespace nvinfer1;

asm(".pushsection .rodata\n .balign 16\n cubin: .incbin \"" CUBIN "\"\n .popsection\n");
extern "C" __attribute__((visibility("hidden"))) char const cubin[];

namespace {

// TensorRT 10's finder: findLogger is in slot 0, and so is the logger's log.
void* finder = nullptr;

void log(std::string const& text) {
  auto const findLogger = reinterpret_cast<void* (*)(void*)>((*static_cast<void***>(finder))[0]);
  void* const logger = findLogger(finder);
  auto const write = reinterpret_cast<void (*)(void*, std::int32_t, char const*)>((*static_cast<void***>(logger))[0]);
  write(logger, 1, text.c_str());
}

template <class... Arguments>
void cuda(char const* name, Arguments... arguments) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  int const result = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name))(arguments...);
  if (result == 0) return;
  char const* text = "";
  reinterpret_cast<int (*)(int, char const**)>(dlsym(driver, "cuGetErrorName"))(result, &text);
  throw std::runtime_error(std::string(name) + ": " + text);
}

// What a method answers, if it is not stopped by an error, which it then logs.
template <class Answer, class Body>
Answer guard(Answer otherwise, Body&& body) noexcept {
  try {
    return body();
  } catch (std::exception const& error) {
    log(error.what());
    return otherwise;
  }
}

void* loadKernel() {
  static std::mutex mutex;
  static void* kernel = nullptr;
  std::lock_guard const lock(mutex);
  if (kernel == nullptr) {
    void* library = nullptr;
    cuda<void**, void const*, int*, void**, unsigned, int*, void**, unsigned>("cuLibraryLoadData", &library, cubin,
                                                                              nullptr, nullptr, 0, nullptr, nullptr, 0);
    cuda("cuLibraryGetKernel", &kernel, library, static_cast<char const*>(SYMBOL));
  }
  void* function = nullptr;
  cuda("cuKernelGetFunction", &function, kernel);
  return kernel;
}

struct Launch {
  void const* source;
  void* target;
  std::int32_t size;
  void* stream;

  void run(void* kernel) {
    void* scratch = nullptr;
    void* parameters[] = {&source, &target, &size, &scratch, &scratch};
    auto const blocks = static_cast<unsigned>((size + 63) / 64);
    cuda<void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**>(
        "cuLaunchKernel", kernel, blocks > 0 ? blocks : 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, nullptr);
  }
};

std::int64_t volume(Dims const& shape) {
  std::int64_t elements = 1;
  for (std::int32_t i = 0; i < shape.nbDims; ++i) elements *= shape.d[i];
  return elements;
}

struct Values {
  float scale = 1;
  std::string label = "none";  // with its NUL where it was given
};

// What the copies of a plugin should not have in common.
struct Shared {
  std::int64_t elements = 0;
  int configured = 0;
};

std::atomic<int> living{0};
thread_local bool isAttachedHere = false;

class Contract final : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuild, public IPluginV3OneRuntime {
 public:
  Contract(char const* defect, Values values) : defect_(defect), values_(std::move(values)) { ++living; }
  Contract(Contract const& other)
      : IPluginV3(),
        IPluginV3OneCore(),
        IPluginV3OneBuild(),
        IPluginV3OneRuntime(),
        defect_(other.defect_),
        values_(other.values_),
        shared_(is("SharesState") || is("SharesShapes") ? other.shared_ : std::make_shared<Shared>()) {
    ++living;
  }
  ~Contract() override {
    --living;
    if (memory_ == 0 || is("LeaksMemory")) return;
    guard(0, [&] {
      cuda("cuMemFree_v2", memory_);
      return 0;
    });
  }

  IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
    if (type == PluginCapabilityType::kCORE) return static_cast<IPluginV3OneCore*>(this);
    if (type == PluginCapabilityType::kRUNTIME) return static_cast<IPluginV3OneRuntime*>(this);
    return static_cast<IPluginV3OneBuild*>(this);
  }
  IPluginV3* clone() noexcept override { return new Contract(*this); }

  char const* getPluginName() const noexcept override { return is("HasAnotherName") ? "Another" : defect_; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  char const* getPluginNamespace() const noexcept override { return ""; }

  std::int32_t configurePlugin(DynamicPluginTensorDesc const*, std::int32_t, DynamicPluginTensorDesc const*,
                               std::int32_t) noexcept override {
    ++shared_->configured;
    return 0;
  }
  std::int32_t getOutputDataTypes(DataType* outputs, std::int32_t, DataType const* inputs,
                                  std::int32_t) const noexcept override {
    outputs[0] = DataType::kFLOAT;
    bool const isKnown = inputs[0] == DataType::kFLOAT || is("AcceptsTypes") || is("SupportsTooMuch") ||
                         (is("HasNoKernel") && inputs[0] == DataType::kHALF);
    if (isKnown) return 0;
    if (!is("RefusesSilently")) log("the input must be fp32");
    return 1;
  }
  std::int32_t getOutputShapes(DimsExprs const* inputs, std::int32_t, DimsExprs const*, std::int32_t,
                               DimsExprs* outputs, std::int32_t, IExprBuilder&) noexcept override {
    bool const isRefused = is("RefusesRanksSilently") && inputs[0].nbDims != 2;
    if (!isRefused) outputs[0] = inputs[0];
    return isRefused ? 1 : 0;
  }
  bool supportsFormatCombination(std::int32_t position, DynamicPluginTensorDesc const* tensors, std::int32_t,
                                 std::int32_t) noexcept override {
    PluginTensorDesc const& desc = tensors[position].desc;
    bool const isFormat =
        desc.format == TensorFormat::kLINEAR || (is("SupportsHwc8") && desc.format == TensorFormat::kHWC8);
    bool const isType = desc.type == DataType::kFLOAT || is("SupportsTooMuch") ||
                        (is("HasNoKernel") && position == 0 && desc.type == DataType::kHALF);
    return isFormat && isType;
  }
  std::int32_t getNbOutputs() const noexcept override { return 1; }
  std::int32_t getNbTactics() noexcept override { return is("SharesState") && shared_->configured > 1 ? 1 : 2; }
  std::int32_t getValidTactics(std::int32_t* tactics, std::int32_t count) noexcept override {
    for (std::int32_t i = 0; i < count; ++i) tactics[i] = i + 1;
    return 0;
  }

  std::int32_t setTactic(std::int32_t tactic) noexcept override {
    tactic_ = tactic;
    return 0;
  }
  std::int32_t onShapeChange(PluginTensorDesc const* inputs, std::int32_t, PluginTensorDesc const*,
                             std::int32_t) noexcept override {
    elements_ = volume(inputs[0].dims);
    shared_->elements = elements_;
    bool const isRefused =
        (is("HasNoKernel") && inputs[0].type == DataType::kHALF) || (is("RefusesGreatest") && elements_ > 100000);
    if (isRefused) log("there is no kernel for that");
    return isRefused ? 1 : 0;
  }
  std::int32_t enqueue(PluginTensorDesc const*, PluginTensorDesc const*, void const* const* inputs,
                       void* const* outputs, void*, cudaStream_t stream) noexcept override {
    return guard(1, [&] { return execute({inputs[0], outputs[0], 0, stream}); });
  }
  IPluginV3* attachToContext(IPluginResourceContext*) noexcept override {
    auto attached = std::make_unique<Contract>(*this);
    return guard<IPluginV3*>(nullptr, [&] {
      attached->attach();
      return attached.release();
    });
  }
  PluginFieldCollection const* getFieldsToSerialize() noexcept override {
    if (values_.label.c_str() == std::string("unserialisable")) return nullptr;
    if (is("ForgetsValues")) values_.scale = 1;
    PluginField const scale = {"scale", &values_.scale, PluginFieldType::kFLOAT32, 1};
    PluginField const label = {"label", values_.label.c_str(), PluginFieldType::kCHAR,
                               static_cast<std::int32_t>(values_.label.size())};
    fields_[0] = is("ReordersFields") ? label : scale;
    fields_[1] = is("ReordersFields") ? scale : label;
    collection_ = {is("DropsField") ? 1 : 2, fields_};
    return &collection_;
  }

 private:
  bool is(char const* defect) const { return std::strcmp(defect_, defect) == 0; }

  void attach() {
    isAttachedHere = true;
    if (!is("LoadsWhenEnqueued")) kernel_ = loadKernel();
    if (is("UsesAnotherStream")) cuda("cuStreamCreate", &ownStream_, 1U);
    try {
      cuda("cuMemAlloc_v2", &memory_, std::size_t{256});
    } catch (std::exception const&) {
      if (!is("IgnoresFailedAllocation")) throw;
    }
  }

  std::int32_t execute(Launch launch) {
    if (is("Crashes")) std::raise(SIGSEGV);
    if (is("LaunchesNothing")) return 0;
    if (is("IsBoundToThread") && !isAttachedHere) throw std::runtime_error("this thread has not attached it");
    if (is("FailsOnTactic") && tactic_ == 2) throw std::runtime_error("tactic 2 cannot be executed");
    if (is("AllocatesWhenEnqueued")) {
      unsigned long long address = 0;
      cuda("cuMemAlloc_v2", &address, std::size_t{16});
      cuda("cuMemFree_v2", address);
    }
    if (is("Synchronizes")) cuda("cuStreamSynchronize", launch.stream);
    if (kernel_ == nullptr) kernel_ = loadKernel();
    if (is("UsesAnotherStream")) launch.stream = ownStream_;
    launch.size = static_cast<std::int32_t>(is("SharesShapes") ? shared_->elements : elements_);
    if (launch.size == 0) {
      if (is("FailsOnEmpty")) throw std::runtime_error("there are no elements");
      if (is("CrashesOnEmpty")) std::raise(SIGSEGV);
      while (is("HangsOnEmpty")) pause();
      if (!is("LaunchesOnEmpty")) return 0;
    }
    if (is("SharesArguments")) {
      static Launch common;
      common = launch;
      usleep(100);  // in which the others write theirs
      launch = common;
    }
    if (isSpoilt_) throw std::runtime_error("an earlier launch failed");
    try {
      launch.run(kernel_);
    } catch (std::exception const&) {
      isSpoilt_ = is("StaysSpoilt");
      if (!is("IgnoresFailedLaunch")) throw;
    }
    return 0;
  }

  char const* defect_;
  Values values_;
  std::int32_t tactic_ = 0;
  std::int64_t elements_ = 0;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  void* kernel_ = nullptr;
  void* ownStream_ = nullptr;
  unsigned long long memory_ = 0;
  bool isSpoilt_ = false;
  PluginField fields_[2]{};
  PluginFieldCollection collection_{};
};

class ContractCreator final : public IPluginCreatorV3One {
 public:
  explicit ContractCreator(char const* defect) : defect_(defect) {}

  IPluginV3* createPlugin(char const*, PluginFieldCollection const* fields, TensorRTPhase) noexcept override {
    if (is("CrashesAtExit")) {
      static int const kREGISTERED = std::atexit([] {
        if (living > 0) std::abort();
      });
      static_cast<void>(kREGISTERED);
    }
    return guard<IPluginV3*>(nullptr, [&] { return new Contract(defect_, read(*fields)); });
  }
  PluginFieldCollection const* getFieldNames() noexcept override {
    static PluginField const kFIELDS[] = {{"scale", nullptr, PluginFieldType::kFLOAT32, 1},
                                          {"label", nullptr, PluginFieldType::kCHAR, 0}};
    collection_ = {is("ListsTooFew") ? 1 : 2, kFIELDS};
    return &collection_;
  }
  char const* getPluginName() const noexcept override { return defect_; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  char const* getPluginNamespace() const noexcept override { return ""; }

 private:
  bool is(char const* defect) const { return std::strcmp(defect_, defect) == 0; }

  Values read(PluginFieldCollection const& fields) const {
    Values values;
    bool isScaled = false;
    for (std::int32_t i = 0; i < fields.nbFields; ++i) {
      PluginField const& field = fields.fields[i];
      std::string const name = field.name;
      if (name == "scale") {
        bool const isFloat = field.type == PluginFieldType::kFLOAT32;
        if (!isFloat && !is("AcceptsFieldTypes")) throw std::runtime_error("scale must be an fp32");
        if (isFloat) std::memcpy(&values.scale, field.data, sizeof values.scale);
        isScaled = true;
      } else if (name == "label") {
        if (field.type != PluginFieldType::kCHAR) throw std::runtime_error("label must be text");
        values.label.assign(static_cast<char const*>(field.data), static_cast<std::size_t>(field.length));
      } else if (!is("AcceptsUnknownFields")) {
        throw std::runtime_error(is("NamesNoUnknownField") ? "a field is unknown" : "unknown field " + name);
      }
    }
    if (values.label.c_str() == std::string("crashing")) std::raise(SIGSEGV);
    if (!isScaled && is("NamesNoMissingField")) throw std::runtime_error("a field is missing");
    return values;
  }

  char const* defect_;
  PluginFieldCollection collection_{};
};

constexpr char const* kDEFECTS[] = {"Good", DEFECTS};
constexpr std::int32_t kCOUNT = sizeof kDEFECTS / sizeof *kDEFECTS;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void setLoggerFinder(void* given) { finder = given; }

EXPORT IPluginCreatorInterface* const* getCreators(std::int32_t& count) {
  static auto* const* const kCREATORS = [] {
    auto* const creators = new IPluginCreatorInterface*[kCOUNT];
    for (std::int32_t i = 0; i < kCOUNT; ++i) creators[i] = new ContractCreator(kDEFECTS[i]);
    return creators;
  }();
  count = kCOUNT;
  return kCREATORS;
}
