// What a driver needs to know of a cubin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tensoracle::fake {

// One entry function.
struct KernelImage {
  std::string symbol;
  std::vector<std::uint32_t> parameterSizes;  // bytes, in order
  int registers = 0;                          // per thread
  int localBytes = 0;                         // per thread
  int staticShared = 0;                       // bytes per block
  int threads = 0;                            // per block, if the kernel requires a number; else 0
};

struct Cubin {
  std::size_t size = 0;  // bytes of the image
  int sm = 0;
  bool isArchitectureSpecific = false;
  std::vector<KernelImage> kernels;

  // CUDA C++ Programming Guide, "Binary Compatibility": on the same major version from its own minor version on, never
  // between integrated and discrete GPUs; "a" code on its own version only.
  bool runsOn(int deviceSm) const noexcept;

  KernelImage const* find(std::string const& symbol) const noexcept;
};

// Nothing if the bytes are no cubin. As cuLibraryLoadData, it is told an address but no size: an image whose headers
// lead out of it cannot be told from one that is longer.
std::optional<Cubin> readCubin(void const* data);

}  // namespace tensoracle::fake
