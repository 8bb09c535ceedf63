// TensorRT's methods for Python to call: each function calls the one it is named for and passes on what it answers.
#include <cstring>
#include <string>
#include <vector>

#include "export.hpp"
#include "expressions.hpp"
#include "tensoracle/plugin_abi.hpp"

using namespace nvinfer1;
using namespace tensoracle::harness;

HARNESS_EXPORT void harnessInterfaceInfo(IVersionedInterface* object, InterfaceInfo* info) noexcept {
  *info = object->getInterfaceInfo();
}

// The creator's or the core capability's: both have the three methods.
struct Identity {
  char const* name;
  char const* version;
  char const* pluginNamespace;
};

// Creators.

HARNESS_EXPORT void harnessCreatorIdentity(IPluginCreatorV3One* creator, Identity* identity) noexcept {
  *identity = {creator->getPluginName(), creator->getPluginVersion(), creator->getPluginNamespace()};
}

HARNESS_EXPORT PluginFieldCollection const* harnessGetFieldNames(IPluginCreatorV3One* creator) noexcept {
  return creator->getFieldNames();
}

HARNESS_EXPORT IPluginV3* harnessCreatePlugin(IPluginCreatorV3One* creator, char const* name,
                                              PluginFieldCollection const* fields, TensorRTPhase phase) noexcept {
  return creator->createPlugin(name, fields, phase);
}

// Plugins.

HARNESS_EXPORT IPluginCapability* harnessGetCapabilityInterface(IPluginV3* plugin, PluginCapabilityType type) noexcept {
  return plugin->getCapabilityInterface(type);
}

HARNESS_EXPORT IPluginV3* harnessClone(IPluginV3* plugin) noexcept { return plugin->clone(); }

HARNESS_EXPORT void harnessDestroy(IPluginV3* plugin) noexcept { delete plugin; }

HARNESS_EXPORT void harnessCoreIdentity(IPluginV3OneCore* core, Identity* identity) noexcept {
  *identity = {core->getPluginName(), core->getPluginVersion(), core->getPluginNamespace()};
}

// Build.

HARNESS_EXPORT std::int32_t harnessGetNbOutputs(IPluginV3OneBuild* build) noexcept { return build->getNbOutputs(); }

HARNESS_EXPORT std::int32_t harnessGetOutputDataTypes(IPluginV3OneBuild* build, DataType* outputs,
                                                      std::int32_t nbOutputs, DataType const* inputs,
                                                      std::int32_t nbInputs) noexcept {
  return build->getOutputDataTypes(outputs, nbOutputs, inputs, nbInputs);
}

HARNESS_EXPORT bool harnessSupportsFormatCombination(IPluginV3OneBuild* build, std::int32_t position,
                                                     DynamicPluginTensorDesc const* tensors, std::int32_t nbInputs,
                                                     std::int32_t nbOutputs) noexcept {
  return build->supportsFormatCombination(position, tensors, nbInputs, nbOutputs);
}

HARNESS_EXPORT std::int32_t harnessGetFormatCombinationLimit(IPluginV3OneBuild* build) noexcept {
  return build->getFormatCombinationLimit();
}

HARNESS_EXPORT std::int32_t harnessConfigurePlugin(IPluginV3OneBuild* build, DynamicPluginTensorDesc const* inputs,
                                                   std::int32_t nbInputs, DynamicPluginTensorDesc const* outputs,
                                                   std::int32_t nbOutputs) noexcept {
  return build->configurePlugin(inputs, nbInputs, outputs, nbOutputs);
}

HARNESS_EXPORT std::size_t harnessGetWorkspaceSize(IPluginV3OneBuild* build, DynamicPluginTensorDesc const* inputs,
                                                   std::int32_t nbInputs, DynamicPluginTensorDesc const* outputs,
                                                   std::int32_t nbOutputs) noexcept {
  return build->getWorkspaceSize(inputs, nbInputs, outputs, nbOutputs);
}

HARNESS_EXPORT std::int32_t harnessGetNbTactics(IPluginV3OneBuild* build) noexcept { return build->getNbTactics(); }

HARNESS_EXPORT std::int32_t harnessGetValidTactics(IPluginV3OneBuild* build, std::int32_t* tactics,
                                                   std::int32_t nbTactics) noexcept {
  return build->getValidTactics(tactics, nbTactics);
}

HARNESS_EXPORT char const* harnessGetTimingCacheID(IPluginV3OneBuild* build) noexcept {
  return build->getTimingCacheID();
}

HARNESS_EXPORT char const* harnessGetMetadataString(IPluginV3OneBuild* build) noexcept {
  return build->getMetadataString();
}

// -1 for a plugin of interface version 1, which cannot declare any.
HARNESS_EXPORT std::int32_t harnessGetAliasedInput(IPluginV3OneBuild* build, std::int32_t output) noexcept {
  if (build->getInterfaceInfo().major < 2) return -1;
  return static_cast<IPluginV3OneBuildV2*>(build)->getAliasedInput(output);
}

// Run time.

HARNESS_EXPORT PluginFieldCollection const* harnessGetFieldsToSerialize(IPluginV3OneRuntime* runtime) noexcept {
  return runtime->getFieldsToSerialize();
}

HARNESS_EXPORT IPluginV3* harnessAttachToContext(IPluginV3OneRuntime* runtime,
                                                 IPluginResourceContext* context) noexcept {
  return runtime->attachToContext(context);
}

HARNESS_EXPORT std::int32_t harnessSetTactic(IPluginV3OneRuntime* runtime, std::int32_t tactic) noexcept {
  return runtime->setTactic(tactic);
}

HARNESS_EXPORT std::int32_t harnessOnShapeChange(IPluginV3OneRuntime* runtime, PluginTensorDesc const* inputs,
                                                 std::int32_t nbInputs, PluginTensorDesc const* outputs,
                                                 std::int32_t nbOutputs) noexcept {
  return runtime->onShapeChange(inputs, nbInputs, outputs, nbOutputs);
}

HARNESS_EXPORT std::int32_t harnessEnqueue(IPluginV3OneRuntime* runtime, PluginTensorDesc const* inputDescs,
                                           PluginTensorDesc const* outputDescs, void const* const* inputs,
                                           void* const* outputs, void* workspace, cudaStream_t stream) noexcept {
  return runtime->enqueue(inputDescs, outputDescs, inputs, outputs, workspace, stream);
}

// Output shapes.

struct OutputShapes {
  ExpressionBuilder builder;
  std::vector<DimsExprs> shapes;
  std::string text;  // what was answered last
};

// Extents of -1 become symbols. The caller deletes what it gets.
HARNESS_EXPORT OutputShapes* harnessGetOutputShapes(IPluginV3OneBuild* build, Dims const* inputs, std::int32_t nbInputs,
                                                    std::int32_t nbOutputs, std::int32_t* code) {
  auto* const result = new OutputShapes;
  std::vector<DimsExprs> inputShapes(static_cast<std::size_t>(nbInputs));
  for (std::int32_t i = 0; i < nbInputs; ++i) {
    DimsExprs& shape = inputShapes[static_cast<std::size_t>(i)];
    shape = {inputs[i].nbDims, {}};
    for (std::int32_t axis = 0; axis < shape.nbDims; ++axis) {
      shape.d[axis] = result->builder.extent(inputs[i], i, axis);
    }
  }
  result->shapes.assign(static_cast<std::size_t>(nbOutputs), {-1, {}});
  *code = build->getOutputShapes(inputShapes.data(), nbInputs, nullptr, 0, result->shapes.data(), nbOutputs,
                                 result->builder);
  return result;
}

// -1 if the plugin did not set it, or set what is no shape.
HARNESS_EXPORT std::int32_t harnessOutputRank(OutputShapes* shapes, std::int32_t output) noexcept {
  DimsExprs const& shape = shapes->shapes[static_cast<std::size_t>(output)];
  if (shape.nbDims < 0 || shape.nbDims > Dims::MAX_DIMS) return -1;
  for (std::int32_t axis = 0; axis < shape.nbDims; ++axis) {
    if (shapes->builder.find(shape.d[axis]) == nullptr) return -1;
  }
  return shape.nbDims;
}

HARNESS_EXPORT char const* harnessOutputExtent(OutputShapes* shapes, std::int32_t output, std::int32_t axis) {
  Expression const* const extent = shapes->builder.find(shapes->shapes[static_cast<std::size_t>(output)].d[axis]);
  shapes->text = extent->toString();
  return shapes->text.c_str();
}

// Null if there is a value, else why there is none.
HARNESS_EXPORT char const* harnessEvaluateExtent(OutputShapes* shapes, std::int32_t output, std::int32_t axis,
                                                 Dims const* inputs, std::int32_t nbInputs, std::int64_t const* sizes,
                                                 std::int32_t nbOutputs, std::int64_t* value) {
  Expression const* const extent = shapes->builder.find(shapes->shapes[static_cast<std::size_t>(output)].d[axis]);
  try {
    *value = extent->evaluate({inputs, nbInputs, sizes, nbOutputs});
    return nullptr;
  } catch (EvaluationError const& error) {
    shapes->text = extent->toString() + " " + error.what();
    return shapes->text.c_str();
  }
}

HARNESS_EXPORT void harnessDeleteOutputShapes(OutputShapes* shapes) noexcept { delete shapes; }
