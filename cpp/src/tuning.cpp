// Looks shapes up in the bundle's tuning.
#include "tuning.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/module.hpp"

namespace tensoracle {
namespace {

bool isFor(TuningRecord const& tuning, Declaration const& declaration, Fields const& fields,
           Span<PluginTensorDesc const> inputs) {
  auto const isType = [](PluginTensorDesc const& input, std::int32_t type) {
    return static_cast<std::int32_t>(input.type) == type;
  };
  return std::string_view(tuning.plugin) == declaration.name &&
         std::string_view(tuning.version) == declaration.version &&
         std::string_view(tuning.pluginNamespace) == declaration.pluginNamespace &&
         std::equal(inputs.begin(), inputs.end(), tuning.types, tuning.types + tuning.typeCount, isType) &&
         fields.match({tuning.fields, tuning.fieldCount});
}

// The measured SM that is the nearest to the device's, among those of its major version; the lower of two that are
// equally near, and 0 if there is none.
std::int32_t nearestSm(std::vector<TuningRecord const*> const& tunings, std::int32_t sm) {
  std::int32_t best = 0;
  auto const distance = [sm](std::int32_t other) { return 2 * std::abs(other - sm) + (other > sm ? 1 : 0); };
  for (TuningRecord const* tuning : tunings) {
    if (tuning->sm / 10 == sm / 10 && (best == 0 || distance(tuning->sm) < distance(best))) best = tuning->sm;
  }
  return best;
}

// As TunedRangeRecord has them: of each input the number of axes, then their extents.
std::vector<std::int64_t> extentsOf(Span<PluginTensorDesc const> inputs) {
  std::vector<std::int64_t> extents;
  for (PluginTensorDesc const& input : inputs) {
    extents.push_back(input.dims.nbDims);
    extents.insert(extents.end(), input.dims.d, input.dims.d + input.dims.nbDims);
  }
  return extents;
}

bool holds(TunedRangeRecord const& range, std::vector<std::int64_t> const& extents) {
  auto const isInside = [](std::int64_t extent, ExtentRange const& bounds) {
    return bounds.least <= extent && extent <= bounds.greatest;
  };
  return std::equal(extents.begin(), extents.end(), range.extents, range.extents + range.extentCount, isInside);
}

}  // namespace

std::optional<std::int32_t> tunedConfiguration(Declaration const& declaration, Fields const& fields,
                                               Span<PluginTensorDesc const> inputs) {
  if (declaration.configurations == 0) return std::nullopt;
  std::vector<TuningRecord const*> tunings;
  for (TuningRecord const& tuning : Span<TuningRecord const>(kBUNDLE.tunings, kBUNDLE.tuningCount)) {
    if (isFor(tuning, declaration, fields, inputs)) tunings.push_back(&tuning);
  }
  if (tunings.empty()) return std::nullopt;
  Device const device = Device::current(Driver::get());
  std::int32_t const sm = nearestSm(tunings, 10 * device.major + device.minor);
  std::vector<std::int64_t> const extents = extentsOf(inputs);
  for (TuningRecord const* tuning : tunings) {
    if (tuning->sm != sm) continue;
    for (TunedRangeRecord const& range : Span<TunedRangeRecord const>(tuning->ranges, tuning->rangeCount)) {
      if (holds(range, extents)) return static_cast<std::int32_t>(range.configuration);
    }
  }
  return std::nullopt;
}

}  // namespace tensoracle
