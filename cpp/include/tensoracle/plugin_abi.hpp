// The part of the TensorRT plugin interface that an IPluginV3 library implements or is handed.
//
// Written from measured facts (tests/cpp/plugin_abi.json): vtable slots, signatures, layouts and values are the same in
// TensorRT 10.0 to 11.1 and TensorRT-RTX 1.4 to 1.7. Names and namespaces are the official ones, so that the official
// headers can take this file's place: define TENSORACLE_OFFICIAL_HEADERS and put them on the include path.
#pragma once

#ifdef TENSORACLE_OFFICIAL_HEADERS

#include <NvInferRuntime.h>

#else

#include <cstddef>
#include <cstdint>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace nvinfer1 {

enum class DataType : std::int32_t {
  kFLOAT = 0,
  kHALF = 1,
  kINT8 = 2,
  kINT32 = 3,
  kBOOL = 4,
  kUINT8 = 5,
  kFP8 = 6,
  kBF16 = 7,
  kINT64 = 8,
  kINT4 = 9,
  kFP4 = 10,   // since 10.8
  kE8M0 = 11,  // since 10.12
};

enum class TensorFormat : std::int32_t {
  kLINEAR = 0,
  kCHW2 = 1,
  kHWC8 = 2,
  kCHW4 = 3,
  kCHW16 = 4,
  kCHW32 = 5,
  kDHWC8 = 6,
  kCDHW32 = 7,
  kHWC = 8,
  kDLA_LINEAR = 9,
  kDLA_HWC4 = 10,
  kHWC16 = 11,
  kDHWC = 12,
};

enum class PluginFieldType : std::int32_t {
  kFLOAT16 = 0,
  kFLOAT32 = 1,
  kFLOAT64 = 2,
  kINT8 = 3,
  kINT16 = 4,
  kINT32 = 5,
  kCHAR = 6,
  kDIMS = 7,
  kUNKNOWN = 8,
  kBF16 = 9,
  kINT64 = 10,
  kFP8 = 11,
  kINT4 = 12,  // since 10.1
  kFP4 = 13,   // since 10.8
};

enum class TensorRTPhase : std::int32_t { kBUILD = 0, kRUNTIME = 1 };

enum class PluginCapabilityType : std::int32_t { kCORE = 0, kBUILD = 1, kRUNTIME = 2 };

enum class DimensionOperation : std::int32_t {
  kSUM = 0,
  kPROD = 1,
  kMAX = 2,
  kMIN = 3,
  kSUB = 4,
  kEQUAL = 5,
  kLESS = 6,
  kFLOOR_DIV = 7,
  kCEIL_DIV = 8,
};

enum class APILanguage : std::int32_t { kCPP = 0, kPYTHON = 1 };

enum class ErrorCode : std::int32_t {
  kSUCCESS = 0,
  kUNSPECIFIED_ERROR = 1,
  kINTERNAL_ERROR = 2,
  kINVALID_ARGUMENT = 3,
  kINVALID_CONFIG = 4,
  kFAILED_ALLOCATION = 5,
  kFAILED_INITIALIZATION = 6,
  kFAILED_EXECUTION = 7,
  kFAILED_COMPUTATION = 8,
  kINVALID_STATE = 9,
  kUNSUPPORTED_STATE = 10,
};

enum class AllocatorFlag : std::int32_t { kRESIZABLE = 0 };
using AllocatorFlags = std::uint32_t;
using InterfaceKind = char const*;

class Dims64 {
 public:
  static constexpr std::int32_t MAX_DIMS = 8;
  std::int32_t nbDims;
  std::int64_t d[MAX_DIMS];  // -1 where an extent is dynamic
};
using Dims = Dims64;

struct PluginTensorDesc {
  Dims dims;
  DataType type;
  TensorFormat format;
  float scale;
};

struct DynamicPluginTensorDesc {
  PluginTensorDesc desc;
  Dims min;
  Dims max;
  Dims opt;
};

class PluginField {
 public:
  char const* name;
  void const* data;
  PluginFieldType type;
  std::int32_t length;  // elements
};

struct PluginFieldCollection {
  std::int32_t nbFields;
  PluginField const* fields;
};

class InterfaceInfo {
 public:
  InterfaceKind kind;
  std::int32_t major;
  std::int32_t minor;
};

// The logger's own layout differs between releases: the library calls it by slot, never through this class (log.cpp).
class ILogger {
 public:
  enum class Severity : std::int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
};
class ILoggerFinder;

// The order of declarations, destructors included, is the order of the vtable.
class IVersionedInterface {
 public:
  virtual APILanguage getAPILanguage() const noexcept { return APILanguage::kCPP; }
  virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;
  virtual ~IVersionedInterface() noexcept = default;

 protected:
  IVersionedInterface() = default;
  IVersionedInterface(IVersionedInterface const&) = default;
  IVersionedInterface& operator=(IVersionedInterface const&) = default;
};

class INoCopy {
 public:
  INoCopy(INoCopy const&) = delete;
  INoCopy& operator=(INoCopy const&) = delete;

 protected:
  INoCopy() = default;
  virtual ~INoCopy() = default;
};

class IDimensionExpr;

namespace apiv {

class VRoot {
 public:
  virtual ~VRoot() noexcept = default;
};

class VDimensionExpr : public VRoot {
 public:
  virtual bool isConstant() const = 0;
  virtual std::int64_t getConstantValue() const = 0;
  virtual bool isSizeTensor() const = 0;
};

class VExprBuilder : public VRoot {
 public:
  virtual IDimensionExpr const* constant(std::int64_t value) = 0;
  virtual IDimensionExpr const* operation(DimensionOperation op, IDimensionExpr const& first,
                                          IDimensionExpr const& second) = 0;
  virtual IDimensionExpr const* declareSizeTensor(std::int32_t outputIndex, IDimensionExpr const& opt,
                                                  IDimensionExpr const& upper) = 0;
};

}  // namespace apiv

class IDimensionExpr : public INoCopy {
 public:
  bool isConstant() const noexcept { return mImpl->isConstant(); }
  std::int64_t getConstantValue() const noexcept { return mImpl->getConstantValue(); }
  bool isSizeTensor() const noexcept { return mImpl->isSizeTensor(); }

 protected:
  apiv::VDimensionExpr* mImpl;
};

class IExprBuilder : public INoCopy {
 public:
  IDimensionExpr const* constant(std::int64_t value) noexcept { return mImpl->constant(value); }
  IDimensionExpr const* operation(DimensionOperation op, IDimensionExpr const& first,
                                  IDimensionExpr const& second) noexcept {
    return mImpl->operation(op, first, second);
  }
  IDimensionExpr const* declareSizeTensor(std::int32_t outputIndex, IDimensionExpr const& opt,
                                          IDimensionExpr const& upper) {
    return mImpl->declareSizeTensor(outputIndex, opt, upper);
  }

 protected:
  apiv::VExprBuilder* mImpl;
};

class DimsExprs {
 public:
  std::int32_t nbDims;
  IDimensionExpr const* d[Dims::MAX_DIMS];
};

class IPluginResourceContext;

// Interfaces with one version so far sit in v_1_0, as in the official headers: type information then has their names.
namespace v_1_0 {

class IErrorRecorder : public IVersionedInterface {
 public:
  using ErrorDesc = char const*;
  using RefCount = std::int32_t;

  InterfaceInfo getInterfaceInfo() const noexcept override { return {"IErrorRecorder", 1, 0}; }
  virtual std::int32_t getNbErrors() const noexcept = 0;
  virtual ErrorCode getErrorCode(std::int32_t index) const noexcept = 0;
  virtual ErrorDesc getErrorDesc(std::int32_t index) const noexcept = 0;
  virtual bool hasOverflowed() const noexcept = 0;
  virtual void clear() noexcept = 0;
  virtual bool reportError(ErrorCode code, ErrorDesc description) noexcept = 0;
  virtual RefCount incRefCount() noexcept = 0;
  virtual RefCount decRefCount() noexcept = 0;
};

class IGpuAllocator : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"IGpuAllocator", 1, 0}; }
  virtual void* allocate(std::uint64_t size, std::uint64_t alignment, AllocatorFlags flags) noexcept = 0;
  virtual void* reallocate(void* memory, std::uint64_t alignment, std::uint64_t newSize) noexcept = 0;
  virtual bool deallocate(void* memory) noexcept = 0;
  virtual void* allocateAsync(std::uint64_t size, std::uint64_t alignment, AllocatorFlags flags,
                              cudaStream_t stream) noexcept = 0;
  virtual bool deallocateAsync(void* memory, cudaStream_t stream) noexcept = 0;
};

class IPluginResource : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"IPluginResource", 1, 0}; }
  virtual std::int32_t release() noexcept = 0;
  virtual IPluginResource* clone() noexcept = 0;
};

class IPluginCreatorInterface : public IVersionedInterface {};

class IPluginCapability : public IVersionedInterface {};

class IPluginV3 : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN", 1, 0}; }
  virtual IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept = 0;
  virtual IPluginV3* clone() noexcept = 0;
};

class IPluginV3OneCore : public IPluginCapability {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_CORE", 1, 0}; }
  virtual char const* getPluginName() const noexcept = 0;
  virtual char const* getPluginVersion() const noexcept = 0;
  virtual char const* getPluginNamespace() const noexcept = 0;
};

class IPluginV3OneBuild : public IPluginCapability {
 public:
  static constexpr std::int32_t kDEFAULT_FORMAT_COMBINATION_LIMIT = 100;

  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_BUILD", 1, 0}; }
  virtual std::int32_t configurePlugin(DynamicPluginTensorDesc const* inputs, std::int32_t nbInputs,
                                       DynamicPluginTensorDesc const* outputs, std::int32_t nbOutputs) noexcept = 0;
  virtual std::int32_t getOutputDataTypes(DataType* outputTypes, std::int32_t nbOutputs, DataType const* inputTypes,
                                          std::int32_t nbInputs) const noexcept = 0;
  virtual std::int32_t getOutputShapes(DimsExprs const* inputs, std::int32_t nbInputs, DimsExprs const* shapeInputs,
                                       std::int32_t nbShapeInputs, DimsExprs* outputs, std::int32_t nbOutputs,
                                       IExprBuilder& builder) noexcept = 0;
  virtual bool supportsFormatCombination(std::int32_t position, DynamicPluginTensorDesc const* tensors,
                                         std::int32_t nbInputs, std::int32_t nbOutputs) noexcept = 0;
  virtual std::int32_t getNbOutputs() const noexcept = 0;
  virtual std::size_t getWorkspaceSize(DynamicPluginTensorDesc const*, std::int32_t, DynamicPluginTensorDesc const*,
                                       std::int32_t) const noexcept {
    return 0;
  }
  virtual std::int32_t getValidTactics(std::int32_t*, std::int32_t) noexcept { return 0; }
  virtual std::int32_t getNbTactics() noexcept { return 0; }
  virtual char const* getTimingCacheID() noexcept { return nullptr; }
  virtual std::int32_t getFormatCombinationLimit() noexcept { return kDEFAULT_FORMAT_COMBINATION_LIMIT; }
  virtual char const* getMetadataString() noexcept { return nullptr; }
};

class IPluginV3OneRuntime : public IPluginCapability {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_RUNTIME", 1, 0}; }
  virtual std::int32_t setTactic(std::int32_t) noexcept { return 0; }
  virtual std::int32_t onShapeChange(PluginTensorDesc const* inputs, std::int32_t nbInputs,
                                     PluginTensorDesc const* outputs, std::int32_t nbOutputs) noexcept = 0;
  virtual std::int32_t enqueue(PluginTensorDesc const* inputDescs, PluginTensorDesc const* outputDescs,
                               void const* const* inputs, void* const* outputs, void* workspace,
                               cudaStream_t stream) noexcept = 0;
  virtual IPluginV3* attachToContext(IPluginResourceContext* context) noexcept = 0;
  virtual PluginFieldCollection const* getFieldsToSerialize() noexcept = 0;
};

class IPluginCreatorV3One : public IPluginCreatorInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN CREATOR_V3ONE", 1, 0}; }
  virtual IPluginV3* createPlugin(char const* name, PluginFieldCollection const* fields,
                                  TensorRTPhase phase) noexcept = 0;
  virtual PluginFieldCollection const* getFieldNames() noexcept = 0;
  virtual char const* getPluginName() const noexcept = 0;
  virtual char const* getPluginVersion() const noexcept = 0;
  virtual char const* getPluginNamespace() const noexcept = 0;
};

}  // namespace v_1_0

namespace v_2_0 {

// Since 10.3: a plugin whose outputs alias inputs.
class IPluginV3OneBuild : public v_1_0::IPluginV3OneBuild {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_BUILD", 2, 0}; }
  virtual std::int32_t getAliasedInput(std::int32_t) noexcept { return -1; }
};

}  // namespace v_2_0

using IErrorRecorder = v_1_0::IErrorRecorder;
using IGpuAllocator = v_1_0::IGpuAllocator;
using IPluginResource = v_1_0::IPluginResource;
using IPluginCreatorInterface = v_1_0::IPluginCreatorInterface;
using IPluginCapability = v_1_0::IPluginCapability;
using IPluginV3 = v_1_0::IPluginV3;
using IPluginV3OneCore = v_1_0::IPluginV3OneCore;
using IPluginV3OneBuild = v_1_0::IPluginV3OneBuild;
using IPluginV3OneBuildV2 = v_2_0::IPluginV3OneBuild;
using IPluginV3OneRuntime = v_1_0::IPluginV3OneRuntime;
using IPluginCreatorV3One = v_1_0::IPluginCreatorV3One;

class IPluginResourceContext {
 public:
  virtual IGpuAllocator* getGpuAllocator() const noexcept = 0;
  virtual IErrorRecorder* getErrorRecorder() const noexcept = 0;
  virtual ~IPluginResourceContext() noexcept = default;
};

}  // namespace nvinfer1

#endif
