// The resource context that a plugin is attached to: an allocator on the driver API, and no error recorder.
#include <dlfcn.h>

#include "export.hpp"
#include "tensoracle/plugin_abi.hpp"

namespace {

template <class Function>
Function find(char const* symbol) noexcept {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver != nullptr ? reinterpret_cast<Function>(dlsym(driver, symbol)) : nullptr;
}

class Allocator final : public nvinfer1::IGpuAllocator {
  void* allocate(std::uint64_t size, std::uint64_t, nvinfer1::AllocatorFlags) noexcept override {
    static auto const kALLOCATE = find<int (*)(std::uintptr_t*, std::size_t)>("cuMemAlloc_v2");
    std::uintptr_t address = 0;  // the driver aligns to 256 bytes and more
    return kALLOCATE != nullptr && kALLOCATE(&address, size) == 0 ? reinterpret_cast<void*>(address) : nullptr;
  }

  void* reallocate(void*, std::uint64_t, std::uint64_t) noexcept override { return nullptr; }

  bool deallocate(void* memory) noexcept override {
    static auto const kFREE = find<int (*)(std::uintptr_t)>("cuMemFree_v2");
    return kFREE != nullptr && kFREE(reinterpret_cast<std::uintptr_t>(memory)) == 0;
  }

  void* allocateAsync(std::uint64_t size, std::uint64_t alignment, nvinfer1::AllocatorFlags flags,
                      cudaStream_t) noexcept override {
    return allocate(size, alignment, flags);
  }

  bool deallocateAsync(void* memory, cudaStream_t) noexcept override { return deallocate(memory); }
};

class ResourceContext final : public nvinfer1::IPluginResourceContext {
  nvinfer1::IGpuAllocator* getGpuAllocator() const noexcept override { return &allocator_; }
  nvinfer1::IErrorRecorder* getErrorRecorder() const noexcept override { return nullptr; }

  mutable Allocator allocator_;
};

}  // namespace

// One for the process: nothing in it belongs to a plugin.
HARNESS_EXPORT void* harnessResourceContext() noexcept {
  static auto& kCONTEXT = *new ResourceContext;
  return static_cast<nvinfer1::IPluginResourceContext*>(&kCONTEXT);
}
