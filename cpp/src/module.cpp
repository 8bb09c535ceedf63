// Chooses, verifies and loads code.
#include "tensoracle/module.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "sha256.hpp"
#include "tensoracle/log.hpp"

namespace tensoracle {
namespace {

// Shared memory per block that needs no opting in.
constexpr std::uint32_t kSHARED_DEFAULT = 48 * 1024;

// Cubins of integrated GPUs and of discrete ones do not run on each other, whatever the minor versions.
bool isTegra(int sm) noexcept {
  constexpr int kTEGRA[] = {72, 87, 101, 110};
  return std::find(std::begin(kTEGRA), std::end(kTEGRA), sm) != std::end(kTEGRA);
}

// What a build can compile for: TARGETS of hatch_tensoracle/targets.py.
bool isTarget(int sm) noexcept {
  constexpr int kTARGETS[] = {75, 80, 86, 87, 89, 90, 100, 103, 120, 121};
  return std::find(std::begin(kTARGETS), std::end(kTARGETS), sm) != std::end(kTARGETS);
}

// How a build gets code that runs on a device.
std::string remedyFor(int sm) {
  if (isTarget(sm)) return compose("add sm", sm, " to its build's targets");
  constexpr int kOLDEST = 75;
  if (sm < kOLDEST) return compose("no build makes code for devices older than sm_", kOLDEST);
  return compose("sm", sm, " is no target of builds; let its build keep PTX for an older GPU, by the option ptx");
}

bool runsOn(CodeRecord const& code, int sm) noexcept {
  if (code.sm == sm) return true;
  if (code.isArchitectureSpecific || code.sm > sm) return false;
  if (code.isPtx) return true;
  return code.sm / 10 == sm / 10 && !isTegra(code.sm) && !isTegra(sm);
}

std::string describe(CodeRecord const& code) {
  return compose(code.isPtx ? "PTX for sm_" : "sm_", code.sm, code.isArchitectureSpecific ? "a" : "");
}

void verifyDigest(EntryRecord const& entry, CodeRecord const& code) {
  Sha256 recorded;
  std::copy_n(code.sha256, recorded.size(), recorded.begin());
  Sha256 const observed = sha256(code.data, code.size);
  if (observed != recorded) {
    fail(describe(entry, code), ": the embedded code has SHA-256 ", toHex(observed), ", the bundle records ",
         toHex(recorded), ": the library is damaged; build or install it again");
  }
}

// What the driver's compiler says of one PTX text. Drivers write here when they compile, which may be long after
// cuLibraryLoadData and once for each device: it has to live as long as the library.
class CompilerLog {
 public:
  CUresult load(Driver const& driver, CUlibrary& library, CodeRecord const& code) {
    return driver.cuLibraryLoadData(&library, code.data, options_, values_, std::size(options_), nullptr, nullptr, 0);
  }

  std::string errors() const { return trimmed(errors_); }
  std::string notes() const { return trimmed(notes_); }

 private:
  static constexpr std::size_t kSIZE = 4096;
  static_assert(sizeof(void*) == sizeof kSIZE, "options that are numbers stand in the place of addresses");

  static std::string trimmed(char const (&text)[kSIZE]) {
    std::string_view const written(text, strnlen(text, kSIZE));
    return std::string(written.substr(0, written.find_last_not_of(" \n") + 1));
  }

  char errors_[kSIZE] = {};
  char notes_[kSIZE] = {};
  JitOption options_[4] = {JitOption::kERROR_LOG_BUFFER, JitOption::kERROR_LOG_BUFFER_SIZE_BYTES,
                           JitOption::kINFO_LOG_BUFFER, JitOption::kINFO_LOG_BUFFER_SIZE_BYTES};
  void* values_[4] = {errors_, reinterpret_cast<void*>(kSIZE), notes_, reinterpret_cast<void*>(kSIZE)};
};

// Code is loaded for the life of the process. Unloading it when statics are destroyed would call into a driver that may
// be gone by then (apache/tvm#18624), and there is nothing to gain: the process ends.
class Libraries {
 public:
  static Libraries& get() {
    static auto& kLIBRARIES = *new Libraries;
    return kLIBRARIES;
  }

  CUlibrary load(Driver const& driver, EntryRecord const& entry, CodeRecord const& code) {
    std::lock_guard const lock(mutex_);
    Loaded& loaded = loaded_[code.data];
    if (loaded.library != nullptr) return loaded.library;
    verifyDigest(entry, code);
    CUlibrary library = nullptr;
    CUresult result;
    if (code.isPtx) {
      loaded.log = std::make_unique<CompilerLog>();
      result = loaded.log->load(driver, library, code);
    } else {
      result = driver.cuLibraryLoadData(&library, code.data, nullptr, nullptr, 0, nullptr, nullptr, 0);
    }
    driver.check(result, "cuLibraryLoadData", describe(entry, code), ", ", code.size, " bytes", complaint(loaded));
    loaded.library = library;
    return library;
  }

  // "; the driver's compiler: ..." if it had any errors to tell.
  std::string complaint(CodeRecord const& code) {
    std::lock_guard const lock(mutex_);
    return complaint(loaded_[code.data]);
  }

  std::string notes(CodeRecord const& code) {
    std::lock_guard const lock(mutex_);
    Loaded const& loaded = loaded_[code.data];
    return loaded.log != nullptr ? loaded.log->notes() : "";
  }

 private:
  struct Loaded {
    CUlibrary library = nullptr;
    std::unique_ptr<CompilerLog> log;  // of PTX
  };

  static std::string complaint(Loaded const& loaded) {
    std::string const errors = loaded.log != nullptr ? loaded.log->errors() : "";
    return errors.empty() ? "" : compose("; the driver's compiler: ", errors);
  }

  std::mutex mutex_;
  std::map<std::uint8_t const*, Loaded> loaded_;
};

// An error that an earlier launch left behind is reported by whatever call comes next. Asked for when a load has
// failed, it is not taken for a defect of the code.
void checkNoEarlierError(Driver const& driver, EntryRecord const& entry, CodeRecord const& code) {
  std::size_t available = 0;
  std::size_t total = 0;
  CUresult const result = driver.cuMemGetInfo(&available, &total);
  if (result != kCUDA_SUCCESS) {
    fail("the CUDA context is already in error before ", describe(entry, code), " is loaded: ", driver.describe(result),
         "; the cause is work that was enqueued earlier");
  }
}

void optInToSharedMemory(Driver const& driver, Device const& device, EntryRecord const& entry, CodeRecord const& code,
                         CUkernel kernel) {
  std::uint32_t const needed = code.staticShared + code.dynamicShared;
  if (needed <= kSHARED_DEFAULT) return;
  if (needed > static_cast<std::uint32_t>(device.sharedMax)) {
    fail(describe(entry, code), ": needs ", needed, " bytes of shared memory per block; a device of sm_", device.major,
         device.minor, " has ", device.sharedMax);
  }
  driver.check(driver.cuKernelSetAttribute(KernelAttribute::kMAX_DYNAMIC_SHARED_BYTES,
                                           static_cast<int>(code.dynamicShared), kernel, device.handle),
               "cuKernelSetAttribute", describe(entry, code), ", ", code.dynamicShared,
               " bytes of dynamic shared memory");
}

int readAttribute(Driver const& driver, Device const& device, EntryRecord const& entry, CodeRecord const& code,
                  CUkernel kernel, KernelAttribute attribute) {
  int value = 0;
  CUresult const result = driver.cuKernelGetAttribute(&value, attribute, kernel, device.handle);
  driver.check(result, "cuKernelGetAttribute", describe(entry, code), ", attribute ", static_cast<int>(attribute),
               Libraries::get().complaint(code));
  return value;
}

void verifyResources(Driver const& driver, Device const& device, EntryRecord const& entry, CodeRecord const& code,
                     CUkernel kernel) {
  auto const read = [&](KernelAttribute attribute) {
    return readAttribute(driver, device, entry, code, kernel, attribute);
  };
  int const threads = read(KernelAttribute::kMAX_THREADS_PER_BLOCK);
  if (static_cast<int>(code.threads) > threads) {
    fail(describe(entry, code), ": is launched with ", code.threads, " threads per block; the driver allows ", threads);
  }
  if (code.isPtx) return;  // its resources are the driver's compiler's choice
  auto const compare = [&](KernelAttribute attribute, std::uint32_t recorded, char const* what) {
    int const observed = read(attribute);
    if (observed == static_cast<int>(recorded)) return;
    log(Severity::kWARNING,
        compose(describe(entry, code), ": the driver reports ", observed, " ", what, ", the bundle records ", recorded)
            .c_str());
  };
  compare(KernelAttribute::kSTATIC_SHARED_BYTES, code.staticShared, "bytes of static shared memory");
  compare(KernelAttribute::kREGISTERS, code.registers, "registers per thread");
  compare(KernelAttribute::kLOCAL_BYTES, code.localBytes, "bytes of local memory per thread");
}

CUkernel loadVerified(Driver const& driver, Device const& device, EntryRecord const& entry, CodeRecord const& code) {
  if (code.isPtx) {
    log(Severity::kINFO, compose(describe(entry, code), ": the driver compiles it for this device of sm_", device.major,
                                 device.minor, ", which no cubin fits, unless its cache has it already")
                             .c_str());
  }
  Libraries& libraries = Libraries::get();
  CUlibrary const library = libraries.load(driver, entry, code);
  CUkernel kernel = nullptr;
  CUresult const result = driver.cuLibraryGetKernel(&kernel, library, entry.symbol);
  driver.check(result, "cuLibraryGetKernel", describe(entry, code), ", symbol ", entry.symbol,
               libraries.complaint(code));
  verifyResources(driver, device, entry, code, kernel);
  optInToSharedMemory(driver, device, entry, code, kernel);
  if (std::string const notes = libraries.notes(code); !notes.empty()) {
    log(Severity::kVERBOSE, compose(describe(entry, code), ": the driver's compiler: ", notes).c_str());
  }
  return kernel;
}

}  // namespace

std::string describe(EntryRecord const& entry) {
  std::string const configuration = entry.configuration == 0 ? "" : compose("/", entry.configuration);
  return compose("kernel ", entry.kernel, configuration, "#", entry.variant);
}

std::string describe(EntryRecord const& entry, CodeRecord const& code) {
  return compose(describe(entry), ", ", describe(code));
}

Device Device::current(Driver const& driver) {
  CUcontext context = nullptr;
  CUresult const result = driver.cuCtxGetCurrent(&context);
  if (result != kCUDA_SUCCESS || context == nullptr) {
    fail("no CUDA context is current on this thread (cuCtxGetCurrent: ",
         result != kCUDA_SUCCESS ? driver.describe(result) : "none",
         "): kernels are loaded for the device of the current context; create or bind one first");
  }
  Device device{};
  driver.check(driver.cuCtxGetDevice(&device.handle), "cuCtxGetDevice", "asking for the current context's device");
  auto const read = [&](DeviceAttribute attribute, int& value) {
    driver.check(driver.cuDeviceGetAttribute(&value, attribute, device.handle), "cuDeviceGetAttribute", "device ",
                 device.handle, ", attribute ", static_cast<int>(attribute));
  };
  read(DeviceAttribute::kMAJOR, device.major);
  read(DeviceAttribute::kMINOR, device.minor);
  read(DeviceAttribute::kSHARED_MEMORY_PER_BLOCK_MAX, device.sharedMax);
  return device;
}

CodeRecord const& chooseCode(EntryRecord const& entry, int major, int minor) {
  int const sm = 10 * major + minor;
  // Cubins before PTX, then the nearest to the device.
  auto const isBetter = [](CodeRecord const& one, CodeRecord const& other) {
    return one.isPtx != other.isPtx ? other.isPtx : one.sm > other.sm;
  };
  CodeRecord const* best = nullptr;
  std::string shipped;
  for (CodeRecord const* code = entry.codes; code != entry.codes + entry.codeCount; ++code) {
    if (runsOn(*code, sm) && (best == nullptr || isBetter(*code, *best))) best = code;
    shipped += (shipped.empty() ? "" : ", ") + describe(*code);
  }
  if (best == nullptr) {
    fail(describe(entry), ": no code runs on this device of sm_", sm, "; the library has ",
         shipped.empty() ? "none" : shipped, ": ", remedyFor(sm));
  }
  return *best;
}

CUkernel loadCode(Driver const& driver, Device const& device, EntryRecord const& entry, CodeRecord const& code) {
  RelaxedCapture const relaxed(driver, "before loading kernels");
  try {
    return loadVerified(driver, device, entry, code);
  } catch (...) {
    checkNoEarlierError(driver, entry, code);
    throw;
  }
}

void loadIntoContext(Driver const& driver, EntryRecord const& entry, CodeRecord const& code, CUkernel kernel) {
  RelaxedCapture const relaxed(driver, "before loading kernels");
  CUfunction function = nullptr;
  CUresult const result = driver.cuKernelGetFunction(&function, kernel);
  if (result != kCUDA_SUCCESS) checkNoEarlierError(driver, entry, code);
  driver.check(result, "cuKernelGetFunction", describe(entry, code), Libraries::get().complaint(code));
}

}  // namespace tensoracle
