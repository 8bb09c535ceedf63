// What a driver needs to know of the code that it is given: a cubin, or PTX text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "result.hpp"

namespace tensoracle::fake {

// One entry function. What PTX needs of registers and local memory is for a compiler to decide: 0 here.
struct KernelImage {
  std::string symbol;
  std::vector<std::uint32_t> parameterSizes;  // bytes, in order
  int registers = 0;                          // per thread
  int localBytes = 0;                         // per thread
  int staticShared = 0;                       // bytes per block
  int threads = 0;                            // per block, if the kernel requires a number; else 0
};

struct Code {
  std::size_t size = 0;  // bytes of the image, of the text without its NUL
  int sm = 0;
  bool isArchitectureSpecific = false;
  bool isPtx = false;
  std::vector<KernelImage> kernels;

  // CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility": a cubin on the same major version from
  // its own minor version on, never between integrated and discrete GPUs; PTX from its own version on; "a" code on its
  // own version only.
  bool runsOn(int deviceSm) const noexcept;

  // What the driver answers for a device that it does not run on.
  CUresult refusal() const noexcept { return isPtx ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_NO_BINARY_FOR_GPU; }

  KernelImage const* find(std::string const& symbol) const noexcept;
};

// Nothing if the bytes are no cubin. As cuLibraryLoadData, it is told an address but no size: an image whose headers
// lead out of it cannot be told from one that is longer.
std::optional<Code> readCubin(void const* data);

// Whether text begins as PTX does.
bool isPtx(char const* text) noexcept;

// Reads the directives outside function bodies, or says in `log` why it cannot.
CUresult readPtx(char const* text, Code& code, std::string& log);

}  // namespace tensoracle::fake
