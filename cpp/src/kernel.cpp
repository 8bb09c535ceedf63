// Launches kernels, and finds them in the bundle.
#include "tensoracle/kernel.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "tensoracle/error.hpp"
#include "tensoracle/tensors.hpp"

namespace tensoracle {
namespace {

using detail::Fit;

char const* kindName(ConstantKind kind) noexcept {
  switch (kind) {
    case ConstantKind::kNONE: return "None";
    case ConstantKind::kBOOL: return "bool";
    case ConstantKind::kINTEGER: return "integer";
    case ConstantKind::kNUMBER: return "number";
    case ConstantKind::kTEXT: return "text";
  }
  return "unknown";
}

bool isWithin(std::int64_t blocks, std::int64_t most) noexcept { return 0 <= blocks && blocks <= most; }

std::size_t argumentCount(EntryRecord const& entry, CodeRecord const& code) {
  if (entry.argumentCount > Arguments::kCAPACITY) {
    fail(describe(entry, code), ": has ", entry.argumentCount, " arguments; at most ", Arguments::kCAPACITY,
         " are supported");
  }
  return entry.argumentCount;
}

Span<EntryRecord const> entries() noexcept { return {kBUNDLE.entries, kBUNDLE.entryCount}; }

class LoadedKernels {
 public:
  static LoadedKernels& get() {
    static auto& kKERNELS = *new LoadedKernels;  // never destroyed: plugins may outlive statics
    return kKERNELS;
  }

  KernelVariants const& load(std::string_view name, std::int32_t configuration) {
    Driver const& driver = Driver::get();
    Device const device = Device::current(driver);
    std::lock_guard const lock(mutex_);
    auto const known = loaded_.find({device.handle, name, configuration});
    KernelVariants const& kernel = known != loaded_.end() ? known->second : add(driver, device, name, configuration);
    for (Kernel const& variant : kernel.variants()) variant.prepare();
    return kernel;
  }

 private:
  KernelVariants const& add(Driver const& driver, Device const& device, std::string_view name,
                            std::int32_t configuration) {
    char const* const key = detail::findEntry(name, configuration).kernel;
    std::vector<Kernel> variants;
    for (EntryRecord const& entry : entries()) {
      if (entry.kernel != name || entry.configuration != static_cast<std::uint32_t>(configuration)) continue;
      variants.emplace_back(driver, device, entry);
    }
    return loaded_.emplace(std::tuple(device.handle, key, configuration), KernelVariants(std::move(variants)))
        .first->second;
  }

  std::mutex mutex_;
  // A map: references stay valid.
  std::map<std::tuple<CUdevice, std::string_view, std::int32_t>, KernelVariants> loaded_;
};

}  // namespace

Kernel::Kernel(Driver const& driver, Device const& device, EntryRecord const& entry)
    : driver_(&driver),
      entry_(&entry),
      code_(&chooseCode(entry, device.major, device.minor)),
      kernel_(loadCode(driver, device, entry, *code_)),
      signature_(entry.arguments, argumentCount(entry, *code_)) {}

void Kernel::prepare() const { loadIntoContext(*driver_, *entry_, *code_, kernel_); }

bool Kernel::accepts(Arguments const& arguments) const {
  detail::Values values;
  return encode(arguments, values) != nullptr;
}

std::uint64_t const* Kernel::encode(Arguments const& arguments, detail::Values& values) const {
  checkCount(arguments);
  if (signature_.isExact(arguments)) return signature_.holds(arguments) ? arguments.bits() : nullptr;
  auto const [fit, index] = signature_.encode(arguments, values);
  if (fit == Fit::kWRONG_TYPE) failArgument(index, arguments[index], fit);
  return fit == Fit::kFITS ? values.data() : nullptr;
}

void Kernel::launch(CUstream stream, Grid const& grid, Arguments const& arguments) const {
  detail::Values values;
  std::uint64_t const* const encoded = encode(arguments, values);
  if (encoded == nullptr) fail(describe(), ": ", refusal(arguments));
  enqueue(stream, grid, encoded);
}

void Kernel::enqueue(CUstream stream, Grid const& grid, std::uint64_t const* values) const {
  if (!checkGrid(grid)) return;
  // Every Triton kernel takes two pointers after its own arguments, global and profiling scratch memory. Both are null:
  // a bundle with a kernel that needs either is refused when it is built.
  constexpr std::size_t kSCRATCH_POINTERS = 2;
  static constexpr std::uint64_t kNULL = 0;
  // The driver copies as many bytes from each address as the parameter has, and writes none. x86-64 is little-endian.
  std::array<void const*, Arguments::kCAPACITY + kSCRATCH_POINTERS> parameters;
  void const** parameter = parameters.data();
  for (std::uint8_t const index : signature_.passed()) *parameter++ = values + index;
  for (std::size_t i = 0; i < kSCRATCH_POINTERS; ++i) *parameter++ = &kNULL;
  CUresult const result = driver_->cuLaunchKernel(
      reinterpret_cast<CUfunction>(kernel_),  // documented: a CUkernel may stand for the current context's function
      static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z), code_->threads, 1, 1,
      code_->dynamicShared, stream, const_cast<void**>(parameters.data()), nullptr);
  if (result != kCUDA_SUCCESS) failLaunch(result, grid);
}

bool Kernel::checkGrid(Grid const& grid) const {
  constexpr std::int64_t kMOST_X = 2147483647;
  constexpr std::int64_t kMOST = 65535;
  if (!isWithin(grid.x, kMOST_X)) failGrid("x", grid.x, kMOST_X);
  if (!isWithin(grid.y, kMOST)) failGrid("y", grid.y, kMOST);
  if (!isWithin(grid.z, kMOST)) failGrid("z", grid.z, kMOST);
  return grid.x != 0 && grid.y != 0 && grid.z != 0;
}

void Kernel::failGrid(char const* dimension, std::int64_t blocks, std::int64_t most) const {
  fail(describe(), ": grid dimension ", dimension, " is ", blocks, "; it must be from 0 to ", most);
}

void Kernel::failLaunch(CUresult result, Grid const& grid) const {
  driver_->check(result, "cuLaunchKernel", describe(), ", grid (", grid.x, ", ", grid.y, ", ", grid.z, "), ",
                 code_->threads, " threads, ", code_->dynamicShared, " bytes of dynamic shared memory");
}

std::string Kernel::refusal(Arguments const& arguments) const {
  checkCount(arguments);
  detail::Values values;
  auto const [fit, index] = signature_.encode(arguments, values);
  return fit == Fit::kFITS ? "" : detail::explain(signature_[index], arguments[index], fit);
}

void Kernel::checkCount(Arguments const& arguments) const {
  if (arguments.size() != signature_.size()) failCount(arguments.size());
}

void Kernel::failCount(std::size_t count) const {
  std::string names;
  for (std::size_t i = 0; i < signature_.size(); ++i) {
    names += compose(names.empty() ? "" : ", ", signature_[i].name);
  }
  fail(describe(), ": is given ", count, " arguments; it takes ", signature_.size(), ": ", names);
}

void Kernel::failArgument(std::size_t index, Argument const& argument, Fit fit) const {
  fail(describe(), ": ", detail::explain(signature_[index], argument, fit));
}

EntryRecord const& detail::findEntry(std::string_view kernel, std::int32_t configuration) {
  std::int32_t const count = configurationCount(kernel);
  if (configuration < 0 || configuration >= count) {
    fail("kernel ", kernel, ": configuration ", configuration, " is asked for; it has ", count);
  }
  Span<EntryRecord const> const all = entries();
  return *std::find_if(all.begin(), all.end(), [=](EntryRecord const& entry) {
    return entry.kernel == kernel && entry.configuration == static_cast<std::uint32_t>(configuration);
  });
}

ConstantRecord const& detail::findConstant(EntryRecord const& entry, std::string_view name, ConstantKind kind) {
  Span<ConstantRecord const> const constants(entry.constants, entry.constantCount);
  auto const found =
      std::find_if(constants.begin(), constants.end(), [=](auto const& one) { return one.name == name; });
  if (found != constants.end() && found->kind == kind) return *found;
  if (found != constants.end()) {
    fail(describe(entry), ": constant ", name, " is of type ", kindName(found->kind), ", not ", kindName(kind));
  }
  std::string names;
  for (ConstantRecord const& constant : constants) {
    names += compose(names.empty() ? "" : ", ", constant.name, " (", kindName(constant.kind), ")");
  }
  fail(describe(entry), ": has no constant ", name, "; it has ", names.empty() ? "none" : names);
}

void detail::failInteger(EntryRecord const& entry, ConstantRecord const& constant) {
  fail(describe(entry), ": constant ", constant.name, " is ", constant.integer,
       ", which the type asked for cannot hold");
}

std::string Kernel::describe() const { return tensoracle::describe(*entry_, *code_); }

void KernelVariants::launch(CUstream stream, Grid const& grid, Arguments const& arguments) const {
  detail::Values values;
  for (Kernel const& kernel : variants_) {
    std::uint64_t const* const encoded = kernel.encode(arguments, values);
    if (encoded != nullptr) return kernel.enqueue(stream, grid, encoded);
  }
  failSelection(arguments);
}

void KernelVariants::failSelection(Arguments const& arguments) const {
  std::string reasons;
  for (Kernel const& kernel : variants_) {
    reasons += compose("; variant ", kernel.variant(), ": ", kernel.refusal(arguments));
  }
  fail("kernel ", variants_.front().name(), ": no variant accepts the arguments", reasons);
}

KernelVariants const& loadKernel(std::string_view name, std::int32_t configuration) {
  return LoadedKernels::get().load(name, configuration);
}

std::int32_t configurationCount(std::string_view name) {
  std::int32_t count = 0;
  std::string shipped;
  for (EntryRecord const& entry : entries()) {
    if (entry.variant != 0) continue;
    count += entry.kernel == name ? 1 : 0;
    if (entry.configuration == 0) shipped += compose(shipped.empty() ? "" : ", ", entry.kernel);
  }
  if (count == 0) fail("the bundle has no kernel ", name, "; it has ", shipped.empty() ? "none" : shipped);
  return count;
}

}  // namespace tensoracle
