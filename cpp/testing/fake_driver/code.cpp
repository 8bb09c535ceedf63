// Which devices code runs on.
#include "code.hpp"

#include <algorithm>
#include <iterator>

namespace tensoracle::fake {
namespace {

bool isTegra(int sm) noexcept {
  constexpr int kTEGRA[] = {53, 62, 72, 87, 101, 110};
  return std::find(std::begin(kTEGRA), std::end(kTEGRA), sm) != std::end(kTEGRA);
}

}  // namespace

bool Code::runsOn(int deviceSm) const noexcept {
  if (sm == deviceSm) return true;
  if (isArchitectureSpecific || sm > deviceSm) return false;
  return isPtx || (sm / 10 == deviceSm / 10 && !isTegra(sm) && !isTegra(deviceSm));
}

KernelImage const* Code::find(std::string const& symbol) const noexcept {
  auto const found =
      std::find_if(kernels.begin(), kernels.end(), [&](KernelImage const& kernel) { return kernel.symbol == symbol; });
  return found != kernels.end() ? &*found : nullptr;
}

}  // namespace tensoracle::fake
