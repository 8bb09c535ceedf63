// Reads a cubin: an ELF file whose .nv.info sections describe its kernels. Those records are documented nowhere; the
// facts are the ones that hatch_tensoracle/elf.py was measured to read.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "code.hpp"

namespace tensoracle::fake {
namespace {

constexpr int kABI_BEFORE_SM100 = 7;
constexpr int kABI_SM100 = 8;
constexpr std::uint64_t kMAX_SIZE = 1 << 30;  // of a plausible image
constexpr int kRESERVED_SHARED = 1024;        // bytes of .nv.shared.* that are the system's from sm90 on

// Attributes of .nv.info records.
constexpr std::uint8_t kPARAM_BANK = 0x0A;
constexpr std::uint8_t kREQUIRED_THREADS = 0x10;
constexpr std::uint8_t kFRAME_SIZE = 0x11;
constexpr std::uint8_t kPARAMETER = 0x17;
constexpr std::uint8_t kREGISTERS = 0x2F;
constexpr std::uint8_t kFORM_SIZED = 4;

struct Attribute {
  std::uint8_t name;
  std::vector<std::uint8_t> payload;

  template <class Number>
  Number number(std::size_t offset) const noexcept {
    Number value{};
    if (offset + sizeof value <= payload.size()) std::memcpy(&value, payload.data() + offset, sizeof value);
    return value;
  }
};

class Image {
 public:
  // False if this is no image of CUDA code.
  bool open(void const* data) {
    base_ = static_cast<std::uint8_t const*>(data);
    if (std::memcmp(base_, ELFMAG, SELFMAG) != 0) return false;
    std::memcpy(&header_, base_, sizeof header_);
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_machine != EM_CUDA || header_.e_type != ET_EXEC || header_.e_shentsize != sizeof(Elf64_Shdr) ||
        header_.e_shoff > kMAX_SIZE || header_.e_shstrndx >= header_.e_shnum) {
      return false;
    }
    size_ = std::max(header_.e_shoff + header_.e_shnum * sizeof(Elf64_Shdr),
                     header_.e_phoff + header_.e_phnum * std::uint64_t{header_.e_phentsize});
    sections_.resize(header_.e_shnum);
    std::memcpy(sections_.data(), base_ + header_.e_shoff, sections_.size() * sizeof(Elf64_Shdr));
    for (Elf64_Shdr const& section : sections_) {
      if (section.sh_type == SHT_NOBITS) continue;
      if (section.sh_offset > kMAX_SIZE || section.sh_size > kMAX_SIZE) return false;
      size_ = std::max(size_, section.sh_offset + section.sh_size);
    }
    return true;
  }

  std::size_t size() const noexcept { return size_; }
  int abi() const noexcept { return header_.e_ident[EI_ABIVERSION]; }
  std::uint32_t flags() const noexcept { return header_.e_flags; }
  std::vector<Elf64_Shdr> const& sections() const noexcept { return sections_; }

  std::string name(Elf64_Shdr const& section) const { return text(sections_[header_.e_shstrndx], section.sh_name); }

  Elf64_Shdr const* find(std::string const& wanted) const {
    auto const found = std::find_if(sections_.begin(), sections_.end(),
                                    [&](Elf64_Shdr const& section) { return name(section) == wanted; });
    return found != sections_.end() ? &*found : nullptr;
  }

  std::string symbolName(Elf64_Shdr const& table, std::uint32_t index) const {
    Elf64_Sym symbol{};
    if ((index + 1) * sizeof symbol > table.sh_size || table.sh_link >= sections_.size()) return "";
    std::memcpy(&symbol, base_ + table.sh_offset + index * sizeof symbol, sizeof symbol);
    return text(sections_[table.sh_link], symbol.st_name);
  }

  std::vector<Attribute> attributes(Elf64_Shdr const& section) const {
    std::vector<Attribute> found;
    std::uint8_t const* at = base_ + section.sh_offset;
    std::uint8_t const* const end = at + section.sh_size;
    while (end - at >= 4) {
      std::uint16_t value;
      std::memcpy(&value, at + 2, sizeof value);
      std::ptrdiff_t const size = at[0] == kFORM_SIZED ? value : 0;
      if (end - at - 4 < size) break;
      found.push_back({at[1], {at + 4, at + 4 + size}});
      at += 4 + size;
    }
    return found;
  }

 private:
  std::string text(Elf64_Shdr const& strings, std::uint64_t offset) const {
    if (offset >= strings.sh_size) return "";
    auto const* const begin = reinterpret_cast<char const*>(base_ + strings.sh_offset + offset);
    return {begin, strnlen(begin, strings.sh_size - offset)};
  }

  std::uint8_t const* base_ = nullptr;
  Elf64_Ehdr header_{};
  std::uint64_t size_ = 0;
  std::vector<Elf64_Shdr> sections_;
};

// Registers and stack frames stand in one section for all functions, by symbol.
std::map<std::pair<std::uint8_t, std::string>, int> readFunctions(Image const& image) {
  std::map<std::pair<std::uint8_t, std::string>, int> found;
  Elf64_Shdr const* const info = image.find(".nv.info");
  Elf64_Shdr const* const symbols = image.find(".symtab");
  if (info == nullptr || symbols == nullptr) return found;
  for (Attribute const& attribute : image.attributes(*info)) {
    std::string const symbol = image.symbolName(*symbols, attribute.number<std::uint32_t>(0));
    found[{attribute.name, symbol}] = attribute.number<std::int32_t>(4);
  }
  return found;
}

// Nothing for a device function: only entry functions have a parameter bank.
std::optional<KernelImage> readKernel(Image const& image, std::string const& symbol, Elf64_Shdr const& info, int sm) {
  KernelImage kernel;
  kernel.symbol = symbol;
  std::map<std::uint16_t, std::uint32_t> sizes;
  bool isEntry = false;
  for (Attribute const& attribute : image.attributes(info)) {
    isEntry = isEntry || attribute.name == kPARAM_BANK;
    if (attribute.name == kPARAMETER) {
      sizes[attribute.number<std::uint16_t>(4)] = attribute.number<std::uint32_t>(8) >> 18;
    } else if (attribute.name == kREQUIRED_THREADS) {
      kernel.threads =
          attribute.number<std::int32_t>(0) * attribute.number<std::int32_t>(4) * attribute.number<std::int32_t>(8);
    }
  }
  if (!isEntry) return {};
  for (auto const& [ordinal, size] : sizes) kernel.parameterSizes.push_back(size);
  if (Elf64_Shdr const* const shared = image.find(".nv.shared." + symbol)) {
    int const reserved = sm >= 90 ? kRESERVED_SHARED : 0;
    kernel.staticShared = std::max(0, static_cast<int>(shared->sh_size) - reserved);
  }
  return kernel;
}

}  // namespace

std::optional<Code> readCubin(void const* data) {
  Image image;
  if (!image.open(data)) return {};
  Code cubin;
  cubin.size = image.size();
  if (image.abi() == kABI_BEFORE_SM100) {
    cubin.sm = static_cast<int>(image.flags() & 0xFF);
    cubin.isArchitectureSpecific = (image.flags() & 0x800) != 0;
  } else if (image.abi() == kABI_SM100) {
    cubin.sm = static_cast<int>(image.flags() >> 8 & 0xFF);
    cubin.isArchitectureSpecific = (image.flags() & 0x8) != 0;
  } else {
    return {};
  }
  auto functions = readFunctions(image);
  std::string const prefix = ".nv.info.";
  for (Elf64_Shdr const& section : image.sections()) {
    std::string const name = image.name(section);
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    auto kernel = readKernel(image, name.substr(prefix.size()), section, cubin.sm);
    if (!kernel) continue;
    kernel->registers = functions[{kREGISTERS, kernel->symbol}];
    kernel->localBytes = functions[{kFRAME_SIZE, kernel->symbol}];
    cubin.kernels.push_back(std::move(*kernel));
  }
  return cubin;
}

}  // namespace tensoracle::fake
