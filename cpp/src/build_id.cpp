// Finds the note NT_GNU_BUILD_ID in the library's own image (System V ABI, "Note Section").
#include "build_id.hpp"

#include <elf.h>

#include <cstddef>
#include <cstring>

// From the linker: where the library's ELF header lies in memory, if it is part of a segment.
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char const __ehdr_start[];

namespace tensoracle {
namespace {

constexpr std::size_t aligned(std::size_t size) { return (size + 3) / 4 * 4; }

std::string hexadecimal(unsigned char const* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

std::string buildIdAmong(unsigned char const* note, std::size_t size) {
  while (size >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, note, sizeof header);
    std::size_t const length = sizeof header + aligned(header.n_namesz) + aligned(header.n_descsz);
    if (length > size) break;
    unsigned char const* const name = note + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      return hexadecimal(name + aligned(header.n_namesz), header.n_descsz);
    }
    note += length;
    size -= length;
  }
  return "";
}

}  // namespace

std::string buildId() {
  unsigned char const* const image = __ehdr_start;
  if (image == nullptr) return "";
  auto const& header = *reinterpret_cast<Elf64_Ehdr const*>(image);
  auto const* const segments = reinterpret_cast<Elf64_Phdr const*>(image + header.e_phoff);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    if (segments[i].p_type != PT_NOTE || segments[i].p_align > 4) continue;  // 8: properties, laid out otherwise
    std::string const found = buildIdAmong(image + segments[i].p_vaddr, segments[i].p_memsz);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace tensoracle
