// The two symbols by which TensorRT's loadLibrary knows a plugin library.
#include "tensoracle/creator.hpp"
#include "tensoracle/log.hpp"

#define TENSORACLE_EXPORT extern "C" __attribute__((visibility("default")))

TENSORACLE_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder* finder) { tensoracle::addLoggerFinder(finder); }

TENSORACLE_EXPORT nvinfer1::IPluginCreatorInterface* const* getCreators(std::int32_t& nbCreators) {
  return tensoracle::detail::guard<nvinfer1::IPluginCreatorInterface* const*>(
      "plugin library", "getCreators", nullptr, [&] {
        nbCreators = 0;
        auto const& creators = tensoracle::creators();
        nbCreators = static_cast<std::int32_t>(creators.size());
        return creators.data();
      });
}
