// What a test sets and reads: hatch_tensoracle/testing/fake_driver.py is on the other side.
#include <cstdlib>
#include <cstring>

#include "driver.hpp"

using namespace tensoracle::fake;

// Once, before cuInit.
FAKE_DRIVER_EXPORT void fakeDriverAddDevice(int sm, int sharedMax) {
  Driver& driver = Driver::get();
  std::lock_guard const lock(driver.mutex);
  driver.devices.push_back({sm, sharedMax});
}

// The occurrence-th call from now on, counted from 1, answers with the named error. False for an unknown name.
FAKE_DRIVER_EXPORT bool fakeDriverFail(char const* call, char const* error, int occurrence) {
  CUresult const result = resultCalled(error);
  if (result == CUDA_SUCCESS) return false;
  Driver& driver = Driver::get();
  std::lock_guard const lock(driver.mutex);
  driver.failures.emplace(call, std::pair(occurrence, result));
  return true;
}

// All calls since the last clearing, as JSON. The text is the caller's until it frees it.
FAKE_DRIVER_EXPORT char* fakeDriverRecords() {
  Driver& driver = Driver::get();
  std::lock_guard const lock(driver.mutex);
  return strdup(driver.journal.toJson().c_str());
}

FAKE_DRIVER_EXPORT void fakeDriverFree(char* text) { std::free(text); }

// Forgets records and failures to come. Devices and what was made on them stay.
FAKE_DRIVER_EXPORT void fakeDriverClear() {
  Driver& driver = Driver::get();
  std::lock_guard const lock(driver.mutex);
  driver.journal.clear();
  driver.failures.clear();
}
