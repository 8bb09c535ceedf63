// A libcuda.so.1 with two GPUs that say of themselves what environment variables tell them to.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

long long said(char const* name, long long otherwise) {
  char const* const text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

int resultOf(char const* function) {
  char const* const failing = std::getenv("STUB_FAILS");
  return failing != nullptr && std::strcmp(failing, function) == 0 ? 999 : 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return resultOf("cuInit"); }

int cuGetErrorName(int, char const** name) {
  *name = "CUDA_ERROR_UNKNOWN";
  return 0;
}

int cuCtxGetCurrent(void** context) {
  *context = std::getenv("STUB_CONTEXT") != nullptr ? context : nullptr;
  return resultOf("cuCtxGetCurrent");
}

int cuCtxGetDevice(int* device) {
  *device = 1;
  return resultOf("cuCtxGetDevice");
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return resultOf("cuDeviceGet");
}

int cuDeviceGetName(char* name, int size, int device) {
  char const* const text = std::getenv("STUB_NAME");
  std::snprintf(name, static_cast<unsigned>(size), "%s", text != nullptr ? text : device == 0 ? "GPU A" : "GPU B");
  return resultOf("cuDeviceGetName");
}

int cuDeviceTotalMem_v2(unsigned long* bytes, int) {
  *bytes = static_cast<unsigned long>(said("STUB_MEMORY", 25757220864));
  return resultOf("cuDeviceTotalMem_v2");
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  char name[32];
  std::snprintf(name, sizeof name, "STUB_ATTRIBUTE_%d", attribute);
  long long const known = attribute == 16   ? 128
                          : attribute == 37 ? 384
                          : attribute == 38 ? 75497472
                          : attribute == 75 ? 8
                                            : 9;
  *value = static_cast<int>(said(name, known));
  return resultOf("cuDeviceGetAttribute");
}

}  // extern "C"
