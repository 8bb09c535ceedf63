// Written by hatch-tensoracle from bundle.json; not for editing. The paths are relative to the bundle directory.
#include <tensoracle/bundle_entry.hpp>

// Sections of their own, so that inspection finds the bundle in the finished library.
asm(R"(
  .pushsection .tensoracle.manifest, "a", @progbits
  .globl tensoracle_manifest
  .hidden tensoracle_manifest
tensoracle_manifest:
  .incbin "bundle.json"
  .popsection
  .pushsection .tensoracle.cubins, "a", @progbits
  .balign $alignment
  .globl tensoracle_cubins
  .hidden tensoracle_cubins
tensoracle_cubins:
$incbins
  .balign $alignment
  .popsection
)");

extern "C" {
__attribute__((visibility("hidden"))) extern char const tensoracle_manifest[];
__attribute__((visibility("hidden"))) extern std::uint8_t const tensoracle_cubins[];
}

namespace tensoracle {
namespace {

$tables
constexpr EntryRecord kENTRIES[] = {
$entries
};

}  // namespace

BundleRecord const kBUNDLE = {"$digest", tensoracle_manifest, $manifest_size, kENTRIES, $entry_count};

}  // namespace tensoracle
