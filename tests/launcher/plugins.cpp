// Plugins that do with the launcher what their fields say, and tell the log what they see.
#include <cstdlib>
#include <sstream>
#include <tensoracle/module.hpp>
#include <tensoracle/plugin.hpp>

namespace {

using namespace tensoracle;

void tell(std::string const& text) { log(Severity::kINFO, text.c_str()); }

template <class Value>
Argument valueOf(std::uint64_t bits) {
  Value value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

// "i32:ffffffff": a type and the value's bits.
Argument parse(std::string const& text) {
  std::size_t const colon = text.find(':');
  std::string const type = text.substr(0, colon);
  std::uint64_t const bits = std::strtoull(text.c_str() + colon + 1, nullptr, 16);
  if (type == "null") return nullptr;
  if (type == "pointer") return reinterpret_cast<void const*>(bits);
  if (type == "bool") return bits != 0;
  if (type == "i8") return valueOf<std::int8_t>(bits);
  if (type == "i16") return valueOf<std::int16_t>(bits);
  if (type == "i32") return valueOf<std::int32_t>(bits);
  if (type == "i64") return valueOf<std::int64_t>(bits);
  if (type == "u8") return valueOf<std::uint8_t>(bits);
  if (type == "u16") return valueOf<std::uint16_t>(bits);
  if (type == "u32") return valueOf<std::uint32_t>(bits);
  if (type == "u64") return valueOf<std::uint64_t>(bits);
  if (type == "fp16") return valueOf<Half>(bits);
  if (type == "bf16") return valueOf<BFloat16>(bits);
  if (type == "fp32") return valueOf<float>(bits);
  if (type == "fp64") return valueOf<double>(bits);
  fail("no argument is of type ", type);
}

// One input and one output of the same shape.
template <class Derived>
class Elementwise : public PluginBase<Derived> {
 public:
  static constexpr char const* kVERSION = "1";
  static TensorTypes tensorTypes() { return sameType(1, 1, {DataType::kFLOAT}); }

 protected:
  using PluginBase<Derived>::PluginBase;

  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    return {inputs[0]};
  }

  void execute(Execution const&) override {}
};

// Launches a kernel of the bundle. How: `select` a variant; the `first`, whether it accepts the arguments or not; both
// steps `together`.
class Launch final : public Elementwise<Launch> {
 public:
  static constexpr char const* kNAME = "Launch";

  static FieldSpecs fields() {
    return {required<std::string>("kernel"), optional<std::int32_t>("configuration", 0),
            optional<std::vector<std::int64_t>>("grid", {1, 1, 1}).length(3, 3), optional<std::string>("arguments", ""),
            optional<std::string>("how", "select").oneOf({"select", "first", "together"})};
  }

  explicit Launch(Fields const& fields)
      : Elementwise(fields),
        name_(fields.get<std::string>("kernel")),
        number_(fields.get<std::int32_t>("configuration")),
        how_(fields.get<std::string>("how")) {
    auto const grid = fields.get<std::vector<std::int64_t>>("grid");
    grid_ = {grid[0], grid[1], grid[2]};
    std::istringstream text(fields.get<std::string>("arguments"));
    for (std::string word; text >> word;) words_.push_back(word);
  }

 private:
  void prepare(Span<PluginTensorDesc const>, Span<PluginTensorDesc const>) override {
    kernels_ = &loadKernel(name_, number_);
    for (Kernel const& kernel : kernels_->variants()) {
      tell(compose("prepared ", kernel.name(), "/", kernel.configuration(), "#", kernel.variant(), ", sm_", kernel.sm(),
                   ", ", kernel.threads(), " threads"));
    }
  }

  void execute(Execution const& call) override {
    Arguments arguments;
    for (std::string const& word : words_) {
      if (word == "in") {
        arguments.append(call.inputs[0]);
      } else if (word == "out") {
        arguments.append(call.outputs[0]);
      } else {
        arguments.append(parse(word));
      }
    }
    if (how_ == "together") return kernels_->launch(call.stream, grid_, arguments);
    Kernel const& kernel = how_ == "first" ? kernels_->variants().front() : kernels_->select(arguments);
    tell(compose("variant ", kernel.variant()));
    kernel.launch(call.stream, grid_, arguments);
  }

  std::string name_;
  std::int32_t number_;
  std::string how_;
  Grid grid_;
  std::vector<std::string> words_;
  KernelVariants const* kernels_ = nullptr;
};

// Tells for every entry of the bundle which code the device at hand gets.
class Choose final : public Elementwise<Choose> {
 public:
  static constexpr char const* kNAME = "Choose";
  using Elementwise::Elementwise;
  explicit Choose(Fields const& fields) : Elementwise(fields) {}

 private:
  void prepare(Span<PluginTensorDesc const>, Span<PluginTensorDesc const>) override {
    Device const device = Device::current(Driver::get());
    for (EntryRecord const& entry : Span<EntryRecord const>(kBUNDLE.entries, kBUNDLE.entryCount)) {
      try {
        CodeRecord const& code = chooseCode(entry, device.major, device.minor);
        tell(compose("choice ", entry.kernel, " ", code.isPtx ? "ptx" : "sm", code.sm,
                     code.isArchitectureSpecific ? "a" : ""));
      } catch (Error const& error) {
        tell(compose("choice ", entry.kernel, " ", error.what()));
      }
    }
  }
};

// Reads a constant of a kernel.
class Constant final : public Elementwise<Constant> {
 public:
  static constexpr char const* kNAME = "Constant";

  static FieldSpecs fields() {
    return {required<std::string>("kernel"), required<std::string>("constant"), required<std::string>("type")};
  }

  explicit Constant(Fields const& fields) : Elementwise(fields), fields_(fields) {}

 private:
  void prepare(Span<PluginTensorDesc const>, Span<PluginTensorDesc const>) override {
    Kernel const& kernel = loadKernel(fields_.get<std::string>("kernel")).variants().front();
    auto const name = fields_.get<std::string>("constant");
    auto const type = fields_.get<std::string>("type");
    if (type == "bool") tell(compose("constant ", kernel.constant<bool>(name)));
    if (type == "i8") tell(compose("constant ", kernel.constant<std::int8_t>(name)));
    if (type == "i64") tell(compose("constant ", kernel.constant<std::int64_t>(name)));
    if (type == "double") tell(compose("constant ", kernel.constant<double>(name)));
    if (type == "text") tell(compose("constant ", kernel.constant<std::string_view>(name)));
  }

  Fields fields_;
};

// Has a tactic for each configuration of the kernel `tiled`; by itself it takes the last for 1024 elements or more.
class Tuned final : public Elementwise<Tuned> {
 public:
  static constexpr char const* kNAME = "Tuned";
  static std::int32_t configurations() { return configurationCount("tiled"); }
  explicit Tuned(Fields const& fields) : Elementwise(fields) {}

 private:
  std::int32_t autoConfiguration(Span<PluginTensorDesc const> inputs) const override {
    return volume(inputs[0].dims) >= 1024 ? configurations() - 1 : 0;
  }

  void prepare(Span<PluginTensorDesc const> inputs, Span<PluginTensorDesc const>) override {
    kernels_ = &loadKernel("tiled", configuration());
    elements_ = volume(inputs[0].dims);
    tell(compose("configuration ", configuration(), " for ", elements_));
  }

  void execute(Execution const& call) override {
    Arguments const arguments = {call.inputs[0], call.outputs[0], elements_, 1};
    kernels_->launch(call.stream, {elements_}, arguments);
  }

  KernelVariants const* kernels_ = nullptr;
  std::int64_t elements_ = 0;
};

// Places weights when it is attached.
class Weights final : public Elementwise<Weights> {
 public:
  static constexpr char const* kNAME = "Weights";

  static FieldSpecs fields() {
    return {required<std::vector<float>>("weights"), optional<std::int32_t>("afterwards_fail", 0).oneOf({0, 1})};
  }

  explicit Weights(Fields const& fields)
      : Elementwise(fields),
        weights_(fields.get<std::vector<float>>("weights")),
        afterwardsFails_(fields.get<std::int32_t>("afterwards_fail") == 1) {}

 private:
  void attach() override {
    tell(compose("copied buffer has ", buffer_.size(), " bytes"));
    DeviceBuffer placed(weights_.data(), weights_.size() * sizeof(float));
    DeviceBuffer const moved = std::move(placed);
    if (placed.data() != nullptr) fail("a buffer was moved and is still there");
    buffer_ = DeviceBuffer(moved.data() != nullptr ? weights_.data() : nullptr, moved.size());
    if (afterwardsFails_) fail("attached, and failed afterwards");
  }

  void execute(Execution const&) override {
    tell(compose("weights of ", buffer_.size(), " bytes at ", reinterpret_cast<std::uintptr_t>(buffer_.data())));
  }

  std::vector<float> weights_;
  bool afterwardsFails_;
  DeviceBuffer buffer_;
};

// Permits two combinations of data types, and misbehaves where its field says so.
class Table final : public PluginBase<Table> {
 public:
  static constexpr char const* kNAME = "Table";
  static constexpr char const* kVERSION = "7";
  static constexpr char const* kNAMESPACE = "launcher";

  static TensorTypes tensorTypes() {
    return {{{DataType::kHALF, DataType::kFLOAT}, {DataType::kHALF, DataType::kINT32}},
            {{DataType::kFLOAT, DataType::kFLOAT}, {DataType::kFLOAT, DataType::kINT32}}};
  }

  static FieldSpecs fields() { return {optional<std::string>("misbehave", "")}; }

  explicit Table(Fields const& fields) : PluginBase(fields), misbehave_(fields.get<std::string>("misbehave")) {
    misbehaveIn("construct");
  }
  Table(Table const& other) : PluginBase(other), misbehave_(other.misbehave_) { misbehaveIn("clone"); }

 private:
  // What is thrown by an author's code need not be an Error.
  void misbehaveIn(char const* method) const {
    if (misbehave_ == method) throw 42;
  }

  std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder&) const override {
    misbehaveIn("outputShapes");
    if (misbehave_ == "one shape") return {inputs[0]};
    return {inputs[0], inputs[1]};
  }

  void checkShapes(Span<Dims const> inputs) const override {
    misbehaveIn("checkShapes");
    tell(compose("shapes ", toString(inputs[0]), " of ", volume(inputs[0]), ", ", toString(inputs[1]), " of ",
                 volume(inputs[1]), sameShape(inputs[0], inputs[1]) ? ", the same" : ", others"));
    if (misbehave_ == "index") tell(toString(inputs[2]));
  }

  void attach() override { misbehaveIn("attach"); }
  void execute(Execution const&) override { misbehaveIn("execute"); }

  std::string misbehave_;
};

// Overrides no more than it must, and reads fields in the wrong way.
class Misread final : public Elementwise<Misread> {
 public:
  static constexpr char const* kNAME = "Misread";
  static FieldSpecs fields() {
    return {optional<std::int32_t>("count", 1), optional<std::vector<float>>("scales", {}),
            optional<std::string>("how", "")};
  }

  explicit Misread(Fields const& fields) : Elementwise(fields) {
    auto const how = fields.get<std::string>("how");
    if (how == "type") fields.get<float>("count");
    if (how == "array") fields.get<float>("scales");
    if (how == "undeclared") fields.get<float>("epsilon");
  }
};

// Has a field of every type, and tells what it was given.
class EveryField final : public Elementwise<EveryField> {
 public:
  static constexpr char const* kNAME = "EveryField";

  static FieldSpecs fields() {
    return {required<std::int32_t>("required").range(-5, 100),
            optional<std::vector<double>>("doubles", {0.5, -0.0}),
            optional<std::string>("text", "default").oneOf({"default", "", "other"}),
            optional<std::int8_t>("i8", -8),
            optional<std::int16_t>("i16", -16),
            optional<std::int32_t>("i32", -32),
            optional<std::int64_t>("i64", -64),
            optional<Half>("half", Half(0.5F)),
            optional<BFloat16>("bf16", BFloat16(-2.0F)),
            optional<float>("float", 1e-6F).range(0, 1),
            optional<double>("double", 0.1),
            optional<Dims>("dims", Dims{2, {3, -1}}),
            optional<std::vector<std::int8_t>>("i8s", {}),
            optional<std::vector<std::int16_t>>("i16s", {1}),
            optional<std::vector<std::int32_t>>("i32s", {1, 2}).length(0, 4).range(-9, 9),
            optional<std::vector<std::int64_t>>("i64s", {1, 2, 3}),
            optional<std::vector<Half>>("halves", {Half(1.0F)}),
            optional<std::vector<BFloat16>>("bf16s", {BFloat16(1.0F)}),
            optional<std::vector<float>>("floats", {}),
            optional<std::vector<Dims>>("shapes", {})};
  }

  explicit EveryField(Fields const& fields) : Elementwise(fields) { tell(compose("given: ", fields.toString())); }
};

TENSORACLE_REGISTER_PLUGIN(Launch);
TENSORACLE_REGISTER_PLUGIN(Choose);
TENSORACLE_REGISTER_PLUGIN(Constant);
TENSORACLE_REGISTER_PLUGIN(Weights);
TENSORACLE_REGISTER_PLUGIN(Table);
TENSORACLE_REGISTER_PLUGIN(Misread);
TENSORACLE_REGISTER_PLUGIN(EveryField);
#ifndef WITHOUT_TUNED  // for bundles without its kernel
TENSORACLE_REGISTER_PLUGIN(Tuned);
#endif

}  // namespace
