// Which code of an entry runs on a device, and its loading into the process.
#pragma once

#include <string>

#include "tensoracle/bundle_entry.hpp"
#include "tensoracle/driver.hpp"

namespace tensoracle {

// A device as far as choosing and loading code depends on it.
struct Device {
  CUdevice handle;
  int major;
  int minor;
  int sharedMax;  // bytes of shared memory that a block may have after opting in

  // The device of the calling thread's current context. An Error if there is none.
  static Device current(Driver const& driver);
};

// The code for compute capability major.minor: its own cubin; else the portable one of the highest lower minor; else
// the newest PTX that is not newer than the device. An Error that lists what the entry has if nothing fits.
CodeRecord const& chooseCode(EntryRecord const& entry, int major, int minor);

// The entry's kernel on the device of the current context. Code is verified against its record and loaded once per
// process. Safe from any thread.
CUkernel loadCode(Driver const& driver, Device const& device, EntryRecord const& entry, CodeRecord const& code);

// Drivers load a kernel into a context at its first use there, which a capture would not survive. Brings that forward.
void loadIntoContext(Driver const& driver, EntryRecord const& entry, CodeRecord const& code, CUkernel kernel);

// "kernel matmul#1", and "kernel matmul/2#1" in its third configuration.
std::string describe(EntryRecord const& entry);

// "kernel matmul#1, sm_86", as errors begin.
std::string describe(EntryRecord const& entry, CodeRecord const& code);

}  // namespace tensoracle
