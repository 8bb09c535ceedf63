// The list of the library's creators.
#include "tensoracle/creator.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "tensoracle/error.hpp"
#include "tensoracle/log.hpp"

namespace tensoracle {
namespace {

// Constant-initialised, so it is ready before any source file's static objects register themselves.
Creator* first = nullptr;

auto identity(Creator const& creator) noexcept {
  PluginClass const& plugin = creator.pluginClass();
  return std::tuple<std::string_view, std::string_view, std::string_view>(plugin.name, plugin.version,
                                                                          plugin.pluginNamespace);
}

std::vector<nvinfer1::IPluginCreatorInterface*> collect() {
  std::vector<Creator*> found;
  for (Creator* creator = first; creator != nullptr; creator = creator->next()) found.push_back(creator);
  std::sort(found.begin(), found.end(), [](auto* one, auto* other) { return identity(*one) < identity(*other); });
  auto const twice = std::adjacent_find(found.begin(), found.end(),
                                        [](auto* one, auto* other) { return identity(*one) == identity(*other); });
  if (twice != found.end()) {
    auto const& [name, version, pluginNamespace] = identity(**twice);
    fail("plugin ", name, ", version ", version, ", namespace \"", pluginNamespace,
         "\" is registered twice in this library; give one of them another name or version");
  }
  for (Creator const* creator : found) creator->pluginClass().declaration();
  return {found.begin(), found.end()};
}

}  // namespace

Creator::Creator(PluginClass const& pluginClass) noexcept : class_(pluginClass), next_(first) { first = this; }

nvinfer1::IPluginV3* Creator::createPlugin(char const*, nvinfer1::PluginFieldCollection const* fields,
                                           nvinfer1::TensorRTPhase) noexcept {
  return detail::guard<nvinfer1::IPluginV3*>(class_.name, "createPlugin", nullptr, [&] {
    return class_.make(Fields::parse(class_.declaration().fields, fields));
  });
}

nvinfer1::PluginFieldCollection const* Creator::getFieldNames() noexcept {
  return detail::guard<nvinfer1::PluginFieldCollection const*>(class_.name, "getFieldNames", nullptr, [&] {
    std::lock_guard const lock(mutex_);
    if (names_.empty()) names_ = fieldNames(class_.declaration().fields);
    collection_ = {static_cast<std::int32_t>(names_.size()), names_.data()};
    return &collection_;
  });
}

std::vector<nvinfer1::IPluginCreatorInterface*> const& creators() {
  static auto const& kCREATORS = *new std::vector(collect());  // never destroyed: registries hold on to it
  return kCREATORS;
}

}  // namespace tensoracle
