// TensorRT's plugin methods, in terms of the declaration and the author's hooks.
#include "tensoracle/plugin_base.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "build_id.hpp"
#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/log.hpp"
#include "tuning.hpp"

namespace tensoracle {
namespace {

// TensorRT's 0 is "no tactic was set", its own tactics are positive: 1 is "auto", the configurations follow.
constexpr std::int32_t kAUTO = 1;

constexpr std::int32_t kSUCCESS = 0;
constexpr std::int32_t kFAILURE = -1;

template <class T>
Span<T> span(T* data, std::int32_t size) noexcept {
  return {data, static_cast<std::size_t>(size)};
}

std::string list(Span<DataType const> types) {
  std::string text;
  for (DataType const type : types) text += compose(text.empty() ? "" : ", ", toString(type));
  return "(" + text + ")";
}

TypeRow const& rowFor(Declaration const& declaration, Span<DataType const> inputs) {
  std::string permitted;
  for (TypeRow const& row : declaration.types) {
    if (std::equal(inputs.begin(), inputs.end(), row.inputs.begin(), row.inputs.end())) return row;
    permitted += compose(permitted.empty() ? "" : " or ", list(row.inputs));
  }
  fail("the inputs have data types ", list(inputs), "; permitted are ", permitted);
}

bool isKnown(Dims const& shape) {
  return std::all_of(shape.d, shape.d + shape.nbDims, [](std::int64_t extent) { return extent >= 0; });
}

std::vector<Dims> shapesOf(Span<DynamicPluginTensorDesc const> tensors, Dims DynamicPluginTensorDesc::* bound) {
  std::vector<Dims> shapes;
  for (DynamicPluginTensorDesc const& tensor : tensors) {
    shapes.push_back(isKnown(tensor.desc.dims) ? tensor.desc.dims : tensor.*bound);
  }
  return shapes;
}

}  // namespace

Declaration checked(Declaration declaration) {
  TensorTypes const& types = declaration.types;
  if (types.empty()) fail(declaration.name, "'s tensorTypes() is empty; it needs at least one permitted combination");
  for (TypeRow const& row : types) {
    if (row.inputs.size() != types.front().inputs.size() || row.outputs.size() != types.front().outputs.size()) {
      fail(declaration.name, "'s tensorTypes() has rows of ", types.front().inputs.size(), " and ", row.inputs.size(),
           " inputs, ", types.front().outputs.size(), " and ", row.outputs.size(), " outputs; all must have the same");
    }
  }
  checkSpecs(declaration.fields);
  return declaration;
}

Plugin::Plugin(Declaration const& declaration, Fields const& fields) : declaration_(&declaration), fields_(fields) {}
Plugin::Plugin(Plugin const& other) = default;
Plugin::~Plugin() noexcept = default;

template <class Result, class Body>
Result Plugin::guarded(char const* method, Result otherwise, Body&& body) const noexcept {
  return detail::guard(declaration_->name, method, otherwise, std::forward<Body>(body));
}

void Plugin::checkCounts(std::int32_t inputs, std::int32_t outputs) const {
  if (inputs == static_cast<std::int32_t>(declaration_->inputCount()) &&
      outputs == static_cast<std::int32_t>(declaration_->outputCount())) {
    return;
  }
  fail("is used with ", inputs, " inputs and ", outputs, " outputs; it has ", declaration_->inputCount(), " and ",
       declaration_->outputCount());
}

nvinfer1::IPluginCapability* Plugin::getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept {
  switch (type) {
    case nvinfer1::PluginCapabilityType::kCORE: return static_cast<nvinfer1::IPluginV3OneCore*>(this);
    case nvinfer1::PluginCapabilityType::kBUILD: return static_cast<nvinfer1::IPluginV3OneBuild*>(this);
    case nvinfer1::PluginCapabilityType::kRUNTIME: return static_cast<nvinfer1::IPluginV3OneRuntime*>(this);
  }
  return nullptr;
}

nvinfer1::IPluginV3* Plugin::clone() noexcept {
  return guarded<nvinfer1::IPluginV3*>("clone", nullptr, [&] { return copy(); });
}

std::int32_t Plugin::configurePlugin(DynamicPluginTensorDesc const* inputs, std::int32_t nbInputs,
                                     DynamicPluginTensorDesc const*, std::int32_t nbOutputs) noexcept {
  return guarded("configurePlugin", kFAILURE, [&] {
    checkCounts(nbInputs, nbOutputs);
    for (auto const bound : {&DynamicPluginTensorDesc::min, &DynamicPluginTensorDesc::max}) {
      std::vector<Dims> const shapes = shapesOf(span(inputs, nbInputs), bound);
      if (std::all_of(shapes.begin(), shapes.end(), isKnown)) checkShapes(shapes);
    }
    return kSUCCESS;
  });
}

std::int32_t Plugin::getOutputDataTypes(DataType* outputTypes, std::int32_t nbOutputs, DataType const* inputTypes,
                                        std::int32_t nbInputs) const noexcept {
  return guarded("getOutputDataTypes", kFAILURE, [&] {
    checkCounts(nbInputs, nbOutputs);
    TypeRow const& row = rowFor(*declaration_, span(inputTypes, nbInputs));
    std::copy(row.outputs.begin(), row.outputs.end(), outputTypes);
    return kSUCCESS;
  });
}

std::int32_t Plugin::getOutputShapes(DimsExprs const* inputs, std::int32_t nbInputs, DimsExprs const*, std::int32_t,
                                     DimsExprs* outputs, std::int32_t nbOutputs, IExprBuilder& builder) noexcept {
  return guarded("getOutputShapes", kFAILURE, [&] {
    checkCounts(nbInputs, nbOutputs);
    std::vector<DimsExprs> const shapes = outputShapes(span(inputs, nbInputs), builder);
    if (shapes.size() != declaration_->outputCount()) {
      fail("outputShapes() answers with ", shapes.size(), " shapes; there are ", nbOutputs, " outputs");
    }
    std::copy(shapes.begin(), shapes.end(), outputs);
    return kSUCCESS;
  });
}

bool Plugin::supportsFormatCombination(std::int32_t position, DynamicPluginTensorDesc const* tensors,
                                       std::int32_t nbInputs, std::int32_t nbOutputs) noexcept {
  return guarded("supportsFormatCombination", false, [&] {
    checkCounts(nbInputs, nbOutputs);
    // TensorRT asks position by position: those before this one have types that were accepted.
    auto const matches = [&](TypeRow const& row) {
      for (std::int32_t i = 0; i <= position; ++i) {
        auto const index = static_cast<std::size_t>(i);
        DataType const type = i < nbInputs ? row.inputs[index] : row.outputs[index - row.inputs.size()];
        if (tensors[i].desc.type != type) return false;
      }
      return true;
    };
    return tensors[position].desc.format == nvinfer1::TensorFormat::kLINEAR &&
           std::any_of(declaration_->types.begin(), declaration_->types.end(), matches);
  });
}

std::int32_t Plugin::getNbOutputs() const noexcept { return static_cast<std::int32_t>(declaration_->outputCount()); }

std::size_t Plugin::getWorkspaceSize(DynamicPluginTensorDesc const* inputs, std::int32_t nbInputs,
                                     DynamicPluginTensorDesc const* outputs, std::int32_t nbOutputs) const noexcept {
  // TensorRT knows no failure here: more than any device has makes it give the plugin up, as 0 would not.
  constexpr std::size_t kIMPOSSIBLE = std::numeric_limits<std::int64_t>::max();
  return guarded("getWorkspaceSize", kIMPOSSIBLE, [&] {
    checkCounts(nbInputs, nbOutputs);
    return workspaceSize(span(inputs, nbInputs), span(outputs, nbOutputs));
  });
}

// Timings may be shared by plugins that run the same code, on the GPU and around it, with the same fields.
char const* Plugin::getTimingCacheID() noexcept {
  return guarded<char const*>("getTimingCacheID", nullptr, [&] {
    timingCacheId_ = compose(declaration_->name, ", ", declaration_->version, ", ", kBUNDLE.digest, ", ", buildId(),
                             ", ", fields_.toString());
    return timingCacheId_.c_str();
  });
}

std::int32_t Plugin::getNbTactics() noexcept {
  return declaration_->configurations > 0 ? kAUTO + declaration_->configurations : 0;
}

std::int32_t Plugin::getValidTactics(std::int32_t* tactics, std::int32_t nbTactics) noexcept {
  return guarded("getValidTactics", kFAILURE, [&] {
    if (nbTactics != getNbTactics()) fail("is asked for ", nbTactics, " tactics; it has ", getNbTactics());
    std::iota(tactics, tactics + nbTactics, kAUTO);
    return kSUCCESS;
  });
}

std::int32_t Plugin::setTactic(std::int32_t tactic) noexcept {
  return guarded("setTactic", kFAILURE, [&] {
    if (tactic < 0 || tactic > getNbTactics()) fail("is given tactic ", tactic, "; it has ", getNbTactics());
    tactic_ = tactic;
    if (!inputs_.empty()) prepareAgain();
    return kSUCCESS;
  });
}

std::int32_t Plugin::onShapeChange(PluginTensorDesc const* inputs, std::int32_t nbInputs,
                                   PluginTensorDesc const* outputs, std::int32_t nbOutputs) noexcept {
  return guarded("onShapeChange", kFAILURE, [&] {
    checkCounts(nbInputs, nbOutputs);
    std::vector<Dims> shapes;
    for (PluginTensorDesc const& input : span(inputs, nbInputs)) shapes.push_back(input.dims);
    checkShapes(shapes);
    inputs_.assign(inputs, inputs + nbInputs);
    outputs_.assign(outputs, outputs + nbOutputs);
    prepareAgain();
    return kSUCCESS;
  });
}

void Plugin::prepareAgain() {
  if (tactic_ > kAUTO) {
    configuration_ = tactic_ - kAUTO - 1;
  } else {
    auto const tuned = tunedConfiguration(*declaration_, fields_, inputs_);
    configuration_ = tuned ? *tuned : autoConfiguration(inputs_);
  }
  prepare(inputs_, outputs_);
}

std::int32_t Plugin::enqueue(PluginTensorDesc const* inputDescs, PluginTensorDesc const* outputDescs,
                             void const* const* inputs, void* const* outputs, void* workspace,
                             cudaStream_t stream) noexcept {
  return guarded("enqueue", kFAILURE, [&] {
    std::size_t const nbInputs = declaration_->inputCount();
    std::size_t const nbOutputs = declaration_->outputCount();
    execute({{inputDescs, nbInputs},
             {outputDescs, nbOutputs},
             {inputs, nbInputs},
             {outputs, nbOutputs},
             workspace,
             stream});
    return kSUCCESS;
  });
}

nvinfer1::IPluginV3* Plugin::attachToContext(nvinfer1::IPluginResourceContext*) noexcept {
  return guarded<nvinfer1::IPluginV3*>("attachToContext", nullptr, [&] {
    std::unique_ptr<Plugin> attached(copy());
    attached->inputs_.clear();  // shapes of another context
    attached->outputs_.clear();
    attached->attach();
    return attached.release();
  });
}

nvinfer1::PluginFieldCollection const* Plugin::getFieldsToSerialize() noexcept {
  return guarded<nvinfer1::PluginFieldCollection const*>("getFieldsToSerialize", nullptr, [&] {
    serialized_ = fields_.serialize();
    collection_ = {static_cast<std::int32_t>(serialized_.size()), serialized_.data()};
    return &collection_;
  });
}

}  // namespace tensoracle
