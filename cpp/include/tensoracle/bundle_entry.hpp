// The records that a generated bundle.cpp defines and the launcher reads.
//
// Both sides are compiled into one library, so the layout may change between releases; the assertions at the end
// keep the generator and this file from drifting apart unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tensoracle {

// What a kernel parameter holds. Integers are two's complement; kI1 is one byte, 0 or 1.
enum class ValueType : std::uint8_t {
  kPOINTER,
  kI1,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kFP16,
  kBF16,
  kFP32,
  kFP64,
};

// One public argument, in the order of the spec.
struct ArgumentRecord {
  char const* name;
  char const* typeName;       // as declared: "*fp16", "i32"
  std::int64_t equalTo;       // the only value accepted, if !isPassed: the kernel was compiled for it
  std::uint32_t divisibleBy;  // bytes for pointers, the value itself for integers; 1 if nothing is assumed
  ValueType type;
  std::uint8_t size;  // bytes of the kernel parameter in the cubin
  bool isPassed;      // false: not a kernel parameter
};

enum class ConstantKind : std::uint8_t {
  kNONE,
  kBOOL,     // integer, 0 or 1
  kINTEGER,  // integer
  kNUMBER,   // number
  kTEXT,     // text: a str, the name of a dtype or of a function, a tuple as (1, 2)
};

// One compile-time constant of the kernel.
struct ConstantRecord {
  char const* name;
  ConstantKind kind;
  std::int64_t integer;
  double number;
  char const* text;
};

// One compiled form of an entry: a cubin for one SM, or PTX for GPUs that no cubin fits.
struct CodeRecord {
  std::uint8_t const* data;     // a cubin's ELF image; PTX text ends with a NUL that size does not count
  std::size_t size;             // bytes
  std::uint8_t sha256[32];      // of data[0, size)
  std::uint32_t registers;      // per thread
  std::uint32_t localBytes;     // local memory per thread: spills and stack frame
  std::uint32_t staticShared;   // bytes per block
  std::uint32_t dynamicShared;  // bytes per block, given at launch
  std::uint32_t threads;        // per block, along x
  std::uint16_t sm;             // 86 for compute capability 8.6
  bool isArchitectureSpecific;  // built for the "a" form of sm: runs on exactly that sm
  bool isPtx;
};

// One variant of a kernel in one configuration. Entries of one kernel are adjacent, ordered by configuration; those of
// one configuration are in the order in which they are to be tried.
struct EntryRecord {
  char const* kernel;
  char const* symbol;  // of the entry function inside every cubin and PTX
  std::uint32_t configuration;
  std::uint32_t variant;
  std::uint32_t argumentCount;
  std::uint32_t constantCount;
  std::uint32_t codeCount;
  ArgumentRecord const* arguments;
  ConstantRecord const* constants;
  CodeRecord const* codes;
};

struct ExtentRange {
  std::int64_t least;
  std::int64_t greatest;
};

// Shapes, and the configuration that was measured to be the fastest for them.
struct TunedRangeRecord {
  ExtentRange const* extents;  // of each input the number of axes, then their extents
  std::uint32_t extentCount;
  std::uint32_t configuration;
};

// What was measured of one plugin, with inputs of some types and with some fields, on devices of one SM.
struct TuningRecord {
  char const* plugin;
  char const* version;
  char const* pluginNamespace;
  std::int32_t const* types;     // values of nvinfer1::DataType, one for each input
  ConstantRecord const* fields;  // those that are no arrays; an integer has its value in `number` too
  TunedRangeRecord const* ranges;
  std::uint32_t typeCount;
  std::uint32_t fieldCount;
  std::uint32_t rangeCount;
  std::int32_t sm;
};

struct BundleRecord {
  char const* digest;    // of the bundle: 64 hexadecimal digits
  char const* manifest;  // bundle.json, byte for byte: named here so that linkers keep it for inspection
  EntryRecord const* entries;
  std::size_t entryCount;
  TuningRecord const* tunings;
  std::size_t tuningCount;
};

// Defined by the generated bundle.cpp.
extern BundleRecord const kBUNDLE;

static_assert(sizeof(ArgumentRecord) == 32, "the generator of bundle.cpp writes ArgumentRecord by position");
static_assert(sizeof(ConstantRecord) == 40, "the generator of bundle.cpp writes ConstantRecord by position");
static_assert(sizeof(CodeRecord) == 72, "the generator of bundle.cpp writes CodeRecord by position");
static_assert(sizeof(EntryRecord) == 64, "the generator of bundle.cpp writes EntryRecord by position");
static_assert(sizeof(TunedRangeRecord) == 16, "the generator of bundle.cpp writes TunedRangeRecord by position");
static_assert(sizeof(TuningRecord) == 64, "the generator of bundle.cpp writes TuningRecord by position");
static_assert(sizeof(BundleRecord) == 48, "the generator of bundle.cpp writes BundleRecord by position");

}  // namespace tensoracle
