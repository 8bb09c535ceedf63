// Device memory, which is host memory here.
#include <cstring>
#include <new>

#include "driver.hpp"

using namespace tensoracle::fake;

namespace {

constexpr std::size_t kALIGNMENT = 256;
constexpr std::size_t kMAX_ALLOCATION = std::size_t{1} << 34;
constexpr int kFRESH = 0xA5;  // what new device memory holds is undefined: something that nobody expects

// The allocation that [address, address + size) lies in; null if there is none.
Allocation* findRange(Driver& driver, std::uintptr_t address, std::size_t size) noexcept {
  auto const after = driver.allocations.upper_bound(address);
  if (after == driver.allocations.begin()) return nullptr;
  auto& [begin, allocation] = *std::prev(after);
  bool const isInside = address - begin <= allocation.size && size <= allocation.size - (address - begin);
  return isInside ? &allocation : nullptr;
}

// The target of work that a capture would have to keep, which this double does not.
CUresult resolveForWork(Driver& driver, void* stream, Target& target) noexcept {
  CUresult const result = driver.resolve(stream, target);
  if (result != CUDA_SUCCESS) return result;
  if (target.stream != nullptr && target.stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
  return target.isLegacy ? driver.checkImplicit(*target.context) : CUDA_SUCCESS;
}

CUresult transfer(Driver& driver, Record& record, void* to, void const* from, std::uintptr_t onDevice, std::size_t size,
                  char const* direction) {
  Allocation const* const allocation = findRange(driver, onDevice, size);
  if (allocation == nullptr || to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(to, from, size);
  record.add("direction", std::string(direction));
  record.add("address", static_cast<std::uint64_t>(onDevice));
  record.add("size", static_cast<std::uint64_t>(size));
  record.add("owner", static_cast<void const*>(allocation->context));
  return CUDA_SUCCESS;
}

// The synchronous copies. Addressing is unified: any context's memory may be copied in any context.
CUresult copy(char const* name, void* to, void const* from, std::uintptr_t onDevice, std::size_t size,
              char const* direction) noexcept {
  return run(name, [&](Driver& driver, Record& record) {
    Context* context = nullptr;
    CUresult result = driver.current(context);
    if (result == CUDA_SUCCESS) result = driver.checkImplicit(*context);
    if (result != CUDA_SUCCESS || size == 0) return result;
    return transfer(driver, record, to, from, onDevice, size, direction);
  });
}

}  // namespace

FAKE_DRIVER_EXPORT CUresult cuMemAlloc_v2(std::uintptr_t* address, std::size_t size) {
  return run("cuMemAlloc", [&](Driver& driver, Record& record) {
    Context* context = nullptr;
    CUresult result = driver.current(context);
    if (result == CUDA_SUCCESS) result = driver.checkUnsafe();
    if (result != CUDA_SUCCESS) return result;
    if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    if (size > kMAX_ALLOCATION) return CUDA_ERROR_OUT_OF_MEMORY;
    std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[size + kALIGNMENT]);
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(memory.get(), kFRESH, size + kALIGNMENT);
    auto const begin = reinterpret_cast<std::uintptr_t>(memory.get());
    *address = (begin + kALIGNMENT - 1) / kALIGNMENT * kALIGNMENT;
    driver.allocations.emplace(*address, Allocation{context, ++driver.allocationCount, size, std::move(memory)});
    record.add("address", static_cast<std::uint64_t>(*address));
    record.add("size", static_cast<std::uint64_t>(size));
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuMemFree_v2(std::uintptr_t address) {
  return run("cuMemFree", [&](Driver& driver, Record& record) {
    Context* context = nullptr;
    CUresult result = driver.current(context);
    if (result == CUDA_SUCCESS) result = driver.checkUnsafe();
    if (result != CUDA_SUCCESS || address == 0) return result;
    auto const found = driver.allocations.find(address);
    if (found == driver.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
    record.add("address", static_cast<std::uint64_t>(address));
    record.add("size", static_cast<std::uint64_t>(found->second.size));
    record.add("owner", static_cast<void const*>(found->second.context));
    driver.allocations.erase(found);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuPointerGetAttribute(void* value, int attribute, std::uintptr_t address) {
  return run("cuPointerGetAttribute", [&](Driver& driver, Record&) {
    constexpr int kBUFFER_ID = 7;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (attribute != kBUFFER_ID) return CUDA_ERROR_NOT_SUPPORTED;  // by this double
    Allocation const* const allocation = findRange(driver, address, 0);
    if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(value, &allocation->id, sizeof allocation->id);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuMemcpyHtoD_v2(std::uintptr_t to, void const* from, std::size_t size) {
  return copy("cuMemcpyHtoD", reinterpret_cast<void*>(to), from, to, size, "host to device");
}

FAKE_DRIVER_EXPORT CUresult cuMemcpyHtoDAsync_v2(std::uintptr_t to, void const* from, std::size_t size, void* stream) {
  return run("cuMemcpyHtoDAsync", [&](Driver& driver, Record& record) {
    Target target;
    CUresult result = driver.resolve(stream, target);
    if (result == CUDA_SUCCESS && target.isLegacy) result = driver.checkImplicit(*target.context);
    if (result != CUDA_SUCCESS || size == 0) return result;
    return transfer(driver, record, reinterpret_cast<void*>(to), from, to, size, "host to device");
  });
}

FAKE_DRIVER_EXPORT CUresult cuMemcpyDtoDAsync_v2(std::uintptr_t to, std::uintptr_t from, std::size_t size,
                                                 void* stream) {
  return run("cuMemcpyDtoDAsync", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = resolveForWork(driver, stream, target);
    if (result != CUDA_SUCCESS || size == 0) return result;
    if (findRange(driver, to, size) == nullptr || findRange(driver, from, size) == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void const*>(from), size);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuMemsetD8Async(std::uintptr_t address, unsigned char value, std::size_t size,
                                            void* stream) {
  return run("cuMemsetD8Async", [&](Driver& driver, Record&) {
    Target target;
    CUresult const result = resolveForWork(driver, stream, target);
    if (result != CUDA_SUCCESS || size == 0) return result;
    if (findRange(driver, address, size) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memset(reinterpret_cast<void*>(address), value, size);
    return CUDA_SUCCESS;
  });
}

FAKE_DRIVER_EXPORT CUresult cuMemcpyDtoH_v2(void* to, std::uintptr_t from, std::size_t size) {
  return copy("cuMemcpyDtoH", to, reinterpret_cast<void const*>(from), from, size, "device to host");
}
