// Kernel launches, which are checked and recorded but run nothing.
#include "driver.hpp"

using namespace tensoracle::fake;

namespace {

constexpr unsigned kMAX_GRID_X = 0x7FFFFFFF;
constexpr unsigned kMAX_GRID = 65535;  // in y and z
constexpr unsigned kMAX_BLOCK = 1024;  // threads, and extent in x and y
constexpr unsigned kMAX_BLOCK_Z = 64;

struct Extent {
  unsigned x;
  unsigned y;
  unsigned z;

  std::uint64_t count() const noexcept { return std::uint64_t{x} * y * z; }
  std::vector<std::uint64_t> list() const { return {x, y, z}; }
};

bool isValid(Extent const& grid, Extent const& block) noexcept {
  return grid.x - 1 < kMAX_GRID_X && grid.y - 1 < kMAX_GRID && grid.z - 1 < kMAX_GRID && block.x - 1 < kMAX_BLOCK &&
         block.y - 1 < kMAX_BLOCK && block.z - 1 < kMAX_BLOCK_Z && block.count() <= kMAX_BLOCK;
}

std::vector<std::string> readArguments(KernelImage const& image, void* const* parameters) {
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < image.parameterSizes.size(); ++i) {
    arguments.push_back(toHex(parameters[i], image.parameterSizes[i]));
  }
  return arguments;
}

struct Launch {
  void* function;
  Extent grid;
  Extent block;
  unsigned shared;  // bytes per block
  void* const* parameters;
};

CUresult check(Launch const& launch, Kernel const& kernel, Context const& context) noexcept {
  auto const threads = static_cast<unsigned>(kernel.image->threads);
  bool const isFit = isValid(launch.grid, launch.block) && (threads == 0 || launch.block.count() == threads) &&
                     launch.shared <= static_cast<unsigned>(maxDynamicShared(kernel, context.device)) &&
                     (launch.parameters != nullptr || kernel.image->parameterSizes.empty());
  return isFit ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A time of this double's own making, of no GPU: a microsecond, and a nanosecond for each thread of the blocks that a
// multiprocessor runs one after the other.
std::uint64_t duration(Launch const& launch) noexcept {
  return 1000 + (launch.grid.count() + kMULTIPROCESSORS - 1) / kMULTIPROCESSORS * launch.block.count();
}

CUresult enqueue(Driver& driver, Record& record, Launch const& launch, Target const& target) {
  // Documented: a CUkernel stands for its function in the context of the stream.
  Function const* const function = driver.functions.find(launch.function);
  Kernel* const kernel = driver.findKernel(function != nullptr ? function->kernel : launch.function);
  if (kernel == nullptr || (function != nullptr && function->context != target.context)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  CUresult result = check(launch, *kernel, *target.context);
  if (result == CUDA_SUCCESS && target.isLegacy) result = driver.checkImplicit(*target.context);
  Record ignored("");
  if (result == CUDA_SUCCESS) result = driver.load(*target.context, *kernel, ignored);
  if (result != CUDA_SUCCESS) return result;
  record.add("kernel", kernel->image->symbol);
  record.add("sha256", kernel->library->digest);
  record.add("grid", launch.grid.list());
  record.add("block", launch.block.list());
  record.add("shared", static_cast<std::uint64_t>(launch.shared));
  record.add("stream", static_cast<void const*>(target.stream));
  record.add("owner", static_cast<void const*>(target.context));
  bool const isCaptured = target.stream != nullptr && target.stream->capture;
  (isCaptured ? target.stream->capture->nanoseconds : target.clock()) += duration(launch);
  if (isCaptured) target.stream->capture->kernels.push_back(kernel);
  record.add("captured", isCaptured);
  record.add("arguments", readArguments(*kernel->image, launch.parameters));
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_DRIVER_EXPORT CUresult cuLaunchKernel(void* function, unsigned gridX, unsigned gridY, unsigned gridZ,
                                           unsigned blockX, unsigned blockY, unsigned blockZ, unsigned shared,
                                           void* stream, void** parameters, void** extra) {
  return run("cuLaunchKernel", [&](Driver& driver, Record& record) {
    Target target;
    CUresult result = driver.resolve(stream, target);
    if (result != CUDA_SUCCESS) return result;
    if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // by this double
    bool const isCaptured = target.stream != nullptr && target.stream->capture;
    if (isCaptured && target.stream->capture->isInvalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    Launch const launch = {function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared, parameters};
    result = enqueue(driver, record, launch, target);
    if (result != CUDA_SUCCESS && isCaptured) target.stream->capture->isInvalidated = true;
    return result;
  });
}
