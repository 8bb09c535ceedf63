// Written by hatch-tensoracle from bundle.json; not for editing. The path is relative to the bundle directory.
#include <tensoracle/bundle_entry.hpp>

// A section of its own, so that inspection finds the manifest in the finished library.
asm(R"(
  .pushsection .tensoracle.manifest, "a", @progbits
  .globl tensoracle_manifest
  .hidden tensoracle_manifest
tensoracle_manifest:
  .incbin "bundle.json"
  .popsection
)");

#define TENSORACLE_HIDDEN __attribute__((visibility("hidden"))) extern
extern "C" {
TENSORACLE_HIDDEN char const tensoracle_manifest[];
$declarations
}

namespace tensoracle {
namespace {

$tables
constexpr EntryRecord kENTRIES[] = {
$entries
};
$tunings
}  // namespace

BundleRecord const kBUNDLE = {"$digest", tensoracle_manifest, kENTRIES, $entry_count, $tuning_table, $tuning_count};

}  // namespace tensoracle
