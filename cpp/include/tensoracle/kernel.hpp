// Kernels of the bundle, ready to be launched on the current device.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensoracle/arguments.hpp"
#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/driver.hpp"
#include "tensoracle/module.hpp"

namespace tensoracle {

// Blocks in each direction. A launch with none in one of them does nothing.
struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

namespace detail {

EntryRecord const& findEntry(std::string_view kernel, std::int32_t configuration);
ConstantRecord const& findConstant(EntryRecord const& entry, std::string_view name, ConstantKind kind);
[[noreturn]] void failInteger(EntryRecord const& entry, ConstantRecord const& constant);

template <class T>
T constantOf(EntryRecord const& entry, std::string_view name) {
  if constexpr (std::is_same_v<T, bool>) {
    return findConstant(entry, name, ConstantKind::kBOOL).integer != 0;
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(std::is_signed_v<T>, "constants are signed: ask for a signed type");
    ConstantRecord const& constant = findConstant(entry, name, ConstantKind::kINTEGER);
    if (constant.integer < std::numeric_limits<T>::min() || constant.integer > std::numeric_limits<T>::max()) {
      failInteger(entry, constant);
    }
    return static_cast<T>(constant.integer);
  } else if constexpr (std::is_same_v<T, double>) {
    return findConstant(entry, name, ConstantKind::kNUMBER).number;
  } else {
    static_assert(std::is_same_v<T, std::string_view>, "a constant is a bool, an integer, a double or a string_view");
    return findConstant(entry, name, ConstantKind::kTEXT).text;
  }
}

}  // namespace detail

// One variant of a kernel on one device.
class Kernel {
 public:
  // Loads the code; an Error if the entry has none for the device.
  Kernel(Driver const& driver, Device const& device, EntryRecord const& entry);

  char const* name() const noexcept { return entry_->kernel; }
  std::uint32_t configuration() const noexcept { return entry_->configuration; }
  std::uint32_t variant() const noexcept { return entry_->variant; }
  std::uint32_t sm() const noexcept { return code_->sm; }  // that the code was compiled for
  std::uint32_t threads() const noexcept { return code_->threads; }

  // A compile-time constant of the kernel, as an integer type, bool, double or std::string_view. An Error if there is
  // none of that name, or if it is of another type.
  template <class T>
  T constant(std::string_view name) const {
    return detail::constantOf<T>(*entry_, name);
  }

  // Whether the code may be run on these arguments: divisibility, ranges, values it was compiled for. An Error if
  // their number or one's type is not the kernel's at all.
  bool accepts(Arguments const& arguments) const;

  // Enqueues one launch on the stream. Arguments that `accepts` refuses are an Error here. Never allocates, locks or
  // waits.
  void launch(CUstream stream, Grid const& grid, Arguments const& arguments) const;

  // Why the arguments are not accepted; empty if they are.
  std::string refusal(Arguments const& arguments) const;

  // Makes the code ready for capture in the current context, as construction did in its own.
  void prepare() const;

 private:
  friend class KernelVariants;

  // The values of the arguments, which may lie in either of the two; null if they are not accepted.
  std::uint64_t const* encode(Arguments const& arguments, detail::Values& values) const;
  void enqueue(CUstream stream, Grid const& grid, std::uint64_t const* values) const;
  void checkCount(Arguments const& arguments) const;
  bool checkGrid(Grid const& grid) const;  // false if it is empty
  [[noreturn]] void failCount(std::size_t count) const;
  [[noreturn]] void failArgument(std::size_t index, Argument const& argument, detail::Fit fit) const;
  [[noreturn]] void failGrid(char const* dimension, std::int64_t blocks, std::int64_t most) const;
  void failLaunch(CUresult result, Grid const& grid) const;
  std::string describe() const;

  Driver const* driver_;
  EntryRecord const* entry_;
  CodeRecord const* code_;
  CUkernel kernel_;
  detail::Signature signature_;
};

// All variants of a kernel in one configuration on one device, in the order in which they are to be tried.
class KernelVariants {
 public:
  explicit KernelVariants(std::vector<Kernel> variants) : variants_(std::move(variants)) {}

  // The first variant that accepts the arguments. An Error that says why each refuses them if none does.
  Kernel const& select(Arguments const& arguments) const {
    for (Kernel const& kernel : variants_) {
      if (kernel.accepts(arguments)) return kernel;
    }
    failSelection(arguments);
  }

  // Launches the variant that `select` finds, and looks at the arguments once for both.
  void launch(CUstream stream, Grid const& grid, Arguments const& arguments) const;

  std::vector<Kernel> const& variants() const noexcept { return variants_; }

 private:
  [[noreturn]] void failSelection(Arguments const& arguments) const;

  std::vector<Kernel> variants_;
};

// The bundle's kernel of that name on the device of the current context, loaded if it was not yet. Valid as long as
// the process. Not for the launch path: call it in `prepare` and keep the reference. Safe from any thread.
KernelVariants const& loadKernel(std::string_view name, std::int32_t configuration = 0);

// How many configurations the bundle has of that kernel. An Error if it has no such kernel. Needs no device.
std::int32_t configurationCount(std::string_view name);

// A compile-time constant of a kernel in one of its configurations, as Kernel::constant reads it. Needs no device and
// loads no code.
template <class T>
T kernelConstant(std::string_view kernel, std::int32_t configuration, std::string_view name) {
  return detail::constantOf<T>(detail::findEntry(kernel, configuration), name);
}

}  // namespace tensoracle
