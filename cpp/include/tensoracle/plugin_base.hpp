// The IPluginV3 that authors derive from: TensorRT's methods in terms of a declaration and a few hooks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tensoracle/fields.hpp"
#include "tensoracle/plugin_abi.hpp"
#include "tensoracle/tensors.hpp"

namespace tensoracle {

using nvinfer1::DimsExprs;
using nvinfer1::DynamicPluginTensorDesc;
using nvinfer1::IExprBuilder;
using nvinfer1::PluginTensorDesc;

// What a plugin class states about itself, in its static members.
struct Declaration {
  char const* name;
  char const* version;
  char const* pluginNamespace;
  FieldSpecs fields;
  TensorTypes types;
  std::int32_t configurations;

  std::size_t inputCount() const { return types.front().inputs.size(); }
  std::size_t outputCount() const { return types.front().outputs.size(); }
};

// An Error unless the declaration is consistent.
Declaration checked(Declaration declaration);

// One call of enqueue. Pointers of empty tensors may be null.
struct Execution {
  Span<PluginTensorDesc const> inputDescs;
  Span<PluginTensorDesc const> outputDescs;
  Span<void const* const> inputs;
  Span<void* const> outputs;
  void* workspace;
  cudaStream_t stream;
};

// Everything of the base class that does not depend on the author's type. An Error thrown by a hook becomes a message
// in TensorRT's log and a failure of the method.
class Plugin : public nvinfer1::IPluginV3,
               public nvinfer1::IPluginV3OneCore,
               public nvinfer1::IPluginV3OneBuild,
               public nvinfer1::IPluginV3OneRuntime {
 public:
  ~Plugin() noexcept override;

 protected:
  Plugin(Declaration const& declaration, Fields const& fields);
  Plugin(Plugin const& other);
  Plugin& operator=(Plugin const&) = delete;

  // The shapes of all outputs.
  virtual std::vector<DimsExprs> outputShapes(Span<DimsExprs const> inputs, IExprBuilder& builder) const = 0;

  // Throws an Error if the plugin cannot work on inputs of these shapes. Called with a build's least and greatest
  // shapes, and with those at hand whenever they change; every extent is known.
  virtual void checkShapes(Span<Dims const> inputs) const { static_cast<void>(inputs); }

  // Bytes of device memory that `execute` needs beside inputs and outputs.
  virtual std::size_t workspaceSize(Span<DynamicPluginTensorDesc const> inputs,
                                    Span<DynamicPluginTensorDesc const> outputs) const {
    static_cast<void>(inputs);
    static_cast<void>(outputs);
    return 0;
  }

  // Called on the copy that will execute, with its CUDA context current: the place for device memory of its own.
  virtual void attach() {}

  // The configuration to use for these shapes when TensorRT leaves the choice to the plugin and none was measured to
  // be the fastest for them (tuning.json).
  virtual std::int32_t autoConfiguration(Span<PluginTensorDesc const> inputs) const {
    static_cast<void>(inputs);
    return 0;
  }

  // The configuration to prepare and to execute: the one of the tactic that TensorRT set, or else the one that was
  // measured to be the fastest for the shapes at hand, or else autoConfiguration's.
  std::int32_t configuration() const noexcept { return configuration_; }

  // Called before the first `execute` and after every change of shapes or of the tactic, with a current CUDA context:
  // the place to load kernels.
  virtual void prepare(Span<PluginTensorDesc const> inputs, Span<PluginTensorDesc const> outputs) {
    static_cast<void>(inputs);
    static_cast<void>(outputs);
  }

  // Enqueues the work on the call's stream, and nothing else: the stream may be under capture.
  virtual void execute(Execution const& call) = 0;

 private:
  virtual Plugin* copy() const = 0;

  nvinfer1::IPluginCapability* getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept final;
  nvinfer1::IPluginV3* clone() noexcept final;

  char const* getPluginName() const noexcept final { return declaration_->name; }
  char const* getPluginVersion() const noexcept final { return declaration_->version; }
  char const* getPluginNamespace() const noexcept final { return declaration_->pluginNamespace; }

  std::int32_t configurePlugin(DynamicPluginTensorDesc const* inputs, std::int32_t nbInputs,
                               DynamicPluginTensorDesc const* outputs, std::int32_t nbOutputs) noexcept final;
  std::int32_t getOutputDataTypes(DataType* outputTypes, std::int32_t nbOutputs, DataType const* inputTypes,
                                  std::int32_t nbInputs) const noexcept final;
  std::int32_t getOutputShapes(DimsExprs const* inputs, std::int32_t nbInputs, DimsExprs const* shapeInputs,
                               std::int32_t nbShapeInputs, DimsExprs* outputs, std::int32_t nbOutputs,
                               IExprBuilder& builder) noexcept final;
  bool supportsFormatCombination(std::int32_t position, DynamicPluginTensorDesc const* tensors, std::int32_t nbInputs,
                                 std::int32_t nbOutputs) noexcept final;
  std::int32_t getNbOutputs() const noexcept final;
  std::size_t getWorkspaceSize(DynamicPluginTensorDesc const* inputs, std::int32_t nbInputs,
                               DynamicPluginTensorDesc const* outputs, std::int32_t nbOutputs) const noexcept final;
  std::int32_t getNbTactics() noexcept final;
  std::int32_t getValidTactics(std::int32_t* tactics, std::int32_t nbTactics) noexcept final;
  char const* getTimingCacheID() noexcept final;

  std::int32_t setTactic(std::int32_t tactic) noexcept final;
  std::int32_t onShapeChange(PluginTensorDesc const* inputs, std::int32_t nbInputs, PluginTensorDesc const* outputs,
                             std::int32_t nbOutputs) noexcept final;
  std::int32_t enqueue(PluginTensorDesc const* inputDescs, PluginTensorDesc const* outputDescs,
                       void const* const* inputs, void* const* outputs, void* workspace,
                       cudaStream_t stream) noexcept final;
  nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext* context) noexcept final;
  nvinfer1::PluginFieldCollection const* getFieldsToSerialize() noexcept final;

  template <class Result, class Body>
  Result guarded(char const* method, Result otherwise, Body&& body) const noexcept;
  void checkCounts(std::int32_t inputs, std::int32_t outputs) const;
  void prepareAgain();

  Declaration const* declaration_;
  Fields fields_;
  std::int32_t tactic_ = 0;
  std::int32_t configuration_ = 0;
  // What onShapeChange was last told.
  std::vector<PluginTensorDesc> inputs_;
  std::vector<PluginTensorDesc> outputs_;
  // What the getters last answered with; each rebuilds its own, so copies need no care.
  std::vector<nvinfer1::PluginField> serialized_;
  nvinfer1::PluginFieldCollection collection_{};
  std::string timingCacheId_;
};

// The base class of an author's plugin, `class Mine final : public PluginBase<Mine>`. Mine has
//   static constexpr char const* kNAME, kVERSION; kNAMESPACE if it is not empty;
//   static TensorTypes tensorTypes(); static FieldSpecs fields() if it has fields;
//   static std::int32_t configurations() if its kernels have several: TensorRT then times "auto" and each of them;
//   a constructor from Fields const&, which hands them on, and a copy constructor;
// and overrides the hooks of Plugin that it needs.
template <class Derived>
class PluginBase : public Plugin {
 public:
  static constexpr char const* kNAMESPACE = "";
  static FieldSpecs fields() { return {}; }
  static std::int32_t configurations() { return 0; }

  static Declaration const& declaration() {
    static auto const& kDECLARATION = *new Declaration(checked(  // never destroyed: plugins may outlive statics
        {Derived::kNAME, Derived::kVERSION, Derived::kNAMESPACE, Derived::fields(), Derived::tensorTypes(),
         Derived::configurations()}));
    return kDECLARATION;
  }

 protected:
  explicit PluginBase(Fields const& fields) : Plugin(declaration(), fields) {}

 private:
  Plugin* copy() const final { return new Derived(static_cast<Derived const&>(*this)); }
};

}  // namespace tensoracle
