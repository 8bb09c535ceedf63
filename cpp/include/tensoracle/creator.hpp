// The creators of the library's plugins, and their registration by one line in the author's source.
#pragma once

#include <mutex>
#include <vector>

#include "tensoracle/fields.hpp"
#include "tensoracle/plugin_abi.hpp"
#include "tensoracle/plugin_base.hpp"

namespace tensoracle {

// What a plugin class is to its creator. The functions are called only when TensorRT asks: they may throw, which
// nothing may while the library is being loaded.
struct PluginClass {
  char const* name;
  char const* version;
  char const* pluginNamespace;
  Declaration const& (*declaration)();
  Plugin* (*make)(Fields const&);
};

class Creator final : public nvinfer1::IPluginCreatorV3One {
 public:
  // Adds itself to the library's creators, for the life of the process.
  explicit Creator(PluginClass const& pluginClass) noexcept;

  PluginClass const& pluginClass() const noexcept { return class_; }
  Creator* next() const noexcept { return next_; }

  nvinfer1::IPluginV3* createPlugin(char const* name, nvinfer1::PluginFieldCollection const* fields,
                                    nvinfer1::TensorRTPhase phase) noexcept override;
  nvinfer1::PluginFieldCollection const* getFieldNames() noexcept override;
  char const* getPluginName() const noexcept override { return class_.name; }
  char const* getPluginVersion() const noexcept override { return class_.version; }
  char const* getPluginNamespace() const noexcept override { return class_.pluginNamespace; }

 private:
  PluginClass class_;
  Creator* next_;
  std::mutex mutex_;  // one creator serves every thread
  std::vector<nvinfer1::PluginField> names_;
  nvinfer1::PluginFieldCollection collection_{};
};

// The library's creators, sorted. An Error if a declaration is wrong, or if two creators have one identity.
std::vector<nvinfer1::IPluginCreatorInterface*> const& creators();

template <class P>
PluginClass pluginClass() noexcept {
  return {P::kNAME, P::kVERSION, P::kNAMESPACE, &P::declaration,
          [](Fields const& fields) -> Plugin* { return new P(fields); }};
}

}  // namespace tensoracle

#define TENSORACLE_CONCATENATE_(one, other) one##other
#define TENSORACLE_CONCATENATE(one, other) TENSORACLE_CONCATENATE_(one, other)

// One line per plugin class, in any source file of the library. The creator is never destroyed: a runtime's registry
// may still ask it when the process's static objects are gone.
#define TENSORACLE_REGISTER_PLUGIN(Class)                                                        \
  [[maybe_unused]] static auto const& TENSORACLE_CONCATENATE(kCREATOR_OF_PLUGIN_, __COUNTER__) = \
      *new ::tensoracle::Creator(::tensoracle::pluginClass<Class>())
