// Times launches on the host: a plugin's enqueue beside a bare cuLaunchKernel of the same cubin.
//
// launches enqueue CASE ... BATCHES LAUNCHES   host time of a launch, in batches that alternate; the stream is drained
//                                              between them, so that no launch waits for room in the queue
// launches plugin CASE ...                     one first launch, from dlopen on, and the parts of it
// launches bare CASE ... [CUBIN SYMBOL]...     one first launch, from cuLibraryLoadData on, with other cubins loaded
// too launches empty CASE ...                      dlopen alone
//
// CASE is PLUGIN LAST, and ... the driver's library, the SM of a fake one, the plugin's library, the cubin, its symbol,
// threads of a block and bytes of dynamic shared memory. Prints one line a series: a name, and nanoseconds.
#include <dlfcn.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <tensoracle/driver.hpp>
#include <tensoracle/plugin_abi.hpp>
#include <utility>
#include <vector>

namespace {

using namespace nvinfer1;
using namespace tensoracle;
using Clock = std::chrono::steady_clock;

void check(bool isGood, char const* what) {
  if (isGood) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}

void checkCall(CUresult result, char const* what) {
  if (result == kCUDA_SUCCESS) return;
  std::fprintf(stderr, "%s failed with CUresult %d\n", what, result);
  std::exit(1);
}

double nanosecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

template <class Function>
Function find(void* library, char const* symbol) {
  void* const found = library != nullptr ? dlsym(library, symbol) : nullptr;
  if (found == nullptr) {
    char const* const cause = dlerror();
    std::fprintf(stderr, "%s: %s\n", symbol, cause != nullptr ? cause : "not found");
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

// What a plugin is given, and what its kernel then gets: parameters of at most 8 bytes, little-endian.
struct Case {
  std::string plugin;
  std::vector<PluginField> fields;
  std::vector<PluginTensorDesc> inputs;
  std::vector<PluginTensorDesc> outputs;
  std::vector<std::uint64_t> parameters;
};

constexpr std::int64_t kCOLUMNS = 4096;
constexpr std::size_t kBYTES = 1 << 16;  // of each tensor: more than any case needs

PluginTensorDesc vectorOf(DataType type, std::int64_t extent) {
  return {{1, {extent}}, type, TensorFormat::kLINEAR, 1};
}

std::uint64_t bitsOf(float value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

Case makeCase(std::string const& plugin, std::int32_t const& last, std::vector<CUdeviceptr> const& memory) {
  Case made{plugin, {}, {}, {}, {}};
  if (plugin == "AddRmsNorm") {
    PluginTensorDesc const row = vectorOf(DataType::kHALF, kCOLUMNS);
    made.inputs = {row, row, row};
    made.outputs = {row, row};
    made.parameters.assign(memory.begin(), memory.begin() + 5);
    made.parameters.insert(made.parameters.end(), {kCOLUMNS, bitsOf(1e-6F)});
    return made;
  }
  constexpr std::uint64_t kEXTENT = 64;
  made.fields = {{"last", &last, PluginFieldType::kINT32, 1}};
  made.inputs = made.outputs = {vectorOf(DataType::kFLOAT, kEXTENT)};
  std::size_t const repeated = plugin == "Twenty" ? 7 : 1;
  made.parameters.assign(repeated, memory[0]);
  made.parameters.push_back(memory[1]);
  made.parameters.insert(made.parameters.end(), repeated, kEXTENT);
  made.parameters.insert(made.parameters.end(), plugin == "Twenty" ? 4 : 1, bitsOf(0.5F));
  made.parameters.push_back(static_cast<std::uint64_t>(last));
  return made;
}

// The driver and a context on the first device, with a stream and the memory of a case.
struct Session {
  void* library;
  CUstream stream = nullptr;
  std::vector<CUdeviceptr> memory = std::vector<CUdeviceptr>(5);
  decltype(Driver::cuLaunchKernel) cuLaunchKernel;
  decltype(Driver::cuStreamSynchronize) cuStreamSynchronize;
  decltype(Driver::cuLibraryLoadData) cuLibraryLoadData;
  decltype(Driver::cuLibraryGetKernel) cuLibraryGetKernel;
  decltype(Driver::cuKernelGetFunction) cuKernelGetFunction;

  Session(char const* driver, int fakeSm) : library(dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) {
    check(library != nullptr, driver);
    // TensorRT is in every process with a plugin, and has loaded this; the compiler may have linked it here statically.
    check(dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL) != nullptr, "libstdc++.so.6");
    if (fakeSm != 0) find<void (*)(int, int)>(library, "fakeDriverAddDevice")(fakeSm, 227 * 1024);
    checkCall(find<CUresult (*)(unsigned)>(library, "cuInit")(0), "cuInit");
    CUcontext context = nullptr;
    auto const create = find<CUresult (*)(CUcontext*, unsigned, CUdevice)>(library, "cuCtxCreate_v2");
    checkCall(create(&context, 0, 0), "cuCtxCreate");
    checkCall(find<decltype(Driver::cuStreamCreate)>(library, "cuStreamCreate")(&stream, 1), "cuStreamCreate");
    for (CUdeviceptr& address : memory) {
      checkCall(find<decltype(Driver::cuMemAlloc)>(library, "cuMemAlloc_v2")(&address, kBYTES), "cuMemAlloc");
      std::vector<char> const zeros(kBYTES);
      auto const copy = find<CUresult (*)(CUdeviceptr, void const*, std::size_t)>(library, "cuMemcpyHtoD_v2");
      checkCall(copy(address, zeros.data(), zeros.size()), "cuMemcpyHtoD");
    }
    cuLaunchKernel = find<decltype(cuLaunchKernel)>(library, "cuLaunchKernel");
    cuStreamSynchronize = find<decltype(cuStreamSynchronize)>(library, "cuStreamSynchronize");
    cuLibraryLoadData = find<decltype(cuLibraryLoadData)>(library, "cuLibraryLoadData");
    cuLibraryGetKernel = find<decltype(cuLibraryGetKernel)>(library, "cuLibraryGetKernel");
    cuKernelGetFunction = find<decltype(cuKernelGetFunction)>(library, "cuKernelGetFunction");
  }

  void drain() const { checkCall(cuStreamSynchronize(stream), "cuStreamSynchronize"); }
};

// How long each step took, after the one before.
class Stopwatch {
 public:
  void lap(char const* step) {
    laps_.emplace_back(step, nanosecondsSince(last_));
    last_ = Clock::now();
  }

  std::vector<std::pair<char const*, double>> const& laps() const { return laps_; }

 private:
  Clock::time_point last_ = Clock::now();
  std::vector<std::pair<char const*, double>> laps_;
};

// The plugin as TensorRT has it at run time.
class Enqueue {
 public:
  Enqueue(Session const& session, Case const& given, char const* file, Stopwatch& watch)
      : session_(session), case_(given) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, file);
    watch.lap("dlopen");
    std::int32_t count = 0;
    auto const creators = find<IPluginCreatorInterface* const* (*)(std::int32_t&)>(library, "getCreators")(count);
    IPluginV3* made = nullptr;
    PluginFieldCollection const fields{static_cast<std::int32_t>(case_.fields.size()), case_.fields.data()};
    for (std::int32_t i = 0; i < count; ++i) {
      auto* const creator = static_cast<IPluginCreatorV3One*>(creators[i]);
      if (case_.plugin == creator->getPluginName()) made = creator->createPlugin("", &fields, TensorRTPhase::kRUNTIME);
    }
    check(made != nullptr, "createPlugin");
    IPluginV3* const attached = runtimeOf(made)->attachToContext(nullptr);
    check(attached != nullptr, "attachToContext");
    watch.lap("create");
    runtime_ = runtimeOf(attached);
    auto const sizeOf = [](auto const& descs) { return static_cast<std::int32_t>(descs.size()); };
    check(runtime_->onShapeChange(case_.inputs.data(), sizeOf(case_.inputs), case_.outputs.data(),
                                  sizeOf(case_.outputs)) == 0,
          "onShapeChange");
    watch.lap("onShapeChange");
    for (std::size_t i = 0; i < case_.inputs.size(); ++i) inputs_.push_back(address(i));
    for (std::size_t i = 0; i < case_.outputs.size(); ++i) outputs_.push_back(address(case_.inputs.size() + i));
  }

  void operator()() const {
    check(runtime_->enqueue(case_.inputs.data(), case_.outputs.data(), inputs_.data(), outputs_.data(), nullptr,
                            session_.stream) == 0,
          "enqueue");
  }

 private:
  static IPluginV3OneRuntime* runtimeOf(IPluginV3* plugin) {
    return static_cast<IPluginV3OneRuntime*>(plugin->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
  }
  void* address(std::size_t index) const { return reinterpret_cast<void*>(session_.memory[index]); }

  Session const& session_;
  Case const& case_;
  IPluginV3OneRuntime* runtime_;
  std::vector<void const*> inputs_;
  std::vector<void*> outputs_;
};

// The launch that nothing can undercut: the arguments are ready, and nothing is looked at.
class Bare {
 public:
  Bare(Session const& session, Case const& given, char const* image, char const* symbol, char const* threads,
       char const* shared)
      : session_(session),
        parameters_(given.parameters),
        threads_(static_cast<unsigned>(std::atoi(threads))),
        shared_(static_cast<unsigned>(std::atoi(shared))) {
    parameters_.insert(parameters_.end(), {0, 0});  // Triton's two scratch pointers
    for (std::uint64_t& parameter : parameters_) pointers_.push_back(&parameter);
    CUlibrary library = nullptr;
    checkCall(session.cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
              "cuLibraryLoadData");
    checkCall(session.cuLibraryGetKernel(&kernel_, library, symbol), "cuLibraryGetKernel");
    function_ = reinterpret_cast<CUfunction>(kernel_);
  }
  Bare(Bare const&) = delete;

  // Of a cubin that is not launched.
  void load(char const* image, char const* symbol) {
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    checkCall(session_.cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
              "cuLibraryLoadData");
    checkCall(session_.cuLibraryGetKernel(&kernel, library, symbol), "cuLibraryGetKernel");
    checkCall(session_.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  }

  // Of the context's own function; until then the kernel, which documentation allows, stands for it.
  void useFunction() { checkCall(session_.cuKernelGetFunction(&function_, kernel_), "cuKernelGetFunction"); }
  void useKernel() { function_ = reinterpret_cast<CUfunction>(kernel_); }

  void operator()() {
    checkCall(session_.cuLaunchKernel(function_, 1, 1, 1, threads_, 1, 1, shared_, session_.stream, pointers_.data(),
                                      nullptr),
              "cuLaunchKernel");
  }

 private:
  Session const& session_;
  std::vector<std::uint64_t> parameters_;
  std::vector<void*> pointers_;
  unsigned threads_;
  unsigned shared_;
  CUkernel kernel_ = nullptr;
  CUfunction function_ = nullptr;
};

template <class Launch>
double batch(Session const& session, Launch& launch, int launches) {
  launch();  // what another batch has pushed out of the caches is not this one's time
  session.drain();
  auto const begin = Clock::now();
  for (int i = 0; i < launches; ++i) launch();
  double const passed = nanosecondsSince(begin);
  session.drain();
  return passed / launches;
}

void print(char const* name, std::vector<double> const& series) {
  std::printf("%s", name);
  for (double const value : series) std::printf(" %.2f", value);
  std::printf("\n");
}

void pin() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) std::fprintf(stderr, "the thread could not be pinned\n");
}

void timeEnqueue(Session const& session, Enqueue& enqueue, Bare& bare, int batches, int launches) {
  std::vector<double> plugin, function, kernel;
  for (int i = -batches / 10; i < batches; ++i) {
    double const byPlugin = batch(session, enqueue, launches);
    bare.useFunction();
    double const byFunction = batch(session, bare, launches);
    bare.useKernel();
    double const byKernel = batch(session, bare, launches);
    if (i < 0) continue;  // warming up
    plugin.push_back(byPlugin);
    function.push_back(byFunction);
    kernel.push_back(byKernel);
  }
  print("plugin", plugin);
  print("function", function);
  print("kernel", kernel);
}

std::string contentOf(char const* path) {
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  check(!content.empty(), path);
  return content;
}

}  // namespace

int main(int count, char** arguments) {
  check(count >= 11, "reading the arguments");
  std::string const what = arguments[1];
  std::int32_t const last = std::atoi(arguments[3]);
  char const* const library = arguments[6];
  std::string const image = contentOf(arguments[7]);
  std::vector<std::string> others;
  if (what == "bare") {
    for (int i = 11; i < count; i += 2) others.push_back(contentOf(arguments[i]));
  }
  Session const session(arguments[4], std::atoi(arguments[5]));
  Case const given = makeCase(arguments[2], last, session.memory);
  session.drain();

  Stopwatch watch;
  auto const begin = Clock::now();
  if (what == "plugin") {
    Enqueue const enqueue(session, given, library, watch);
    enqueue();
    watch.lap("enqueue");
    session.drain();
    watch.lap("wait");
    print("plugin", {nanosecondsSince(begin)});
    for (auto const& [step, nanoseconds] : watch.laps()) print(step, {nanoseconds});
  } else if (what == "bare") {
    Bare bare(session, given, image.data(), arguments[8], arguments[9], arguments[10]);
    for (std::size_t i = 0; i < others.size(); ++i) bare.load(others[i].data(), arguments[12 + 2 * i]);
    bare();
    session.drain();
    print("bare", {nanosecondsSince(begin)});
  } else if (what == "empty") {
    check(dlopen(library, RTLD_NOW | RTLD_LOCAL) != nullptr, library);
    print("empty", {nanosecondsSince(begin)});
  } else {
    check(count == 13, "reading the arguments");
    pin();
    Enqueue enqueue(session, given, library, watch);
    Bare bare(session, given, image.data(), arguments[8], arguments[9], arguments[10]);
    timeEnqueue(session, enqueue, bare, std::atoi(arguments[11]), std::atoi(arguments[12]));
  }
}
