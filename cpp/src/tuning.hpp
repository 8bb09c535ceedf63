// Which configuration was measured to be the fastest for the shapes at hand.
#pragma once

#include <cstdint>
#include <optional>

#include "tensoracle/plugin_base.hpp"

namespace tensoracle {

// The configuration that the bundle's tuning has for a plugin with these fields and inputs, on the device of the
// current context: what was measured on its SM, else on the nearest of the same major version. Nothing if these
// shapes are not among those, or if the plugin has no configurations.
std::optional<std::int32_t> tunedConfiguration(Declaration const& declaration, Fields const& fields,
                                               Span<PluginTensorDesc const> inputs);

}  // namespace tensoracle
