// Reads PTX as far as a driver's interface depends on it: version, target, and what its entry functions take. Bodies
// are skipped: whether a compiler would take them is not known here.
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "code.hpp"

namespace tensoracle::fake {
namespace {

constexpr int kNEWEST_VERSION = 88;  // PTX ISA 8.8, of CUDA 12.9, which cuDriverGetVersion says

struct Failure {
  CUresult result;
  std::string cause;
};

// Splits text into words: names, directives and numbers with the dots in them, and single characters of punctuation.
// At the end, words are empty.
class Words {
 public:
  explicit Words(char const* text) noexcept : at_(text) { advance(); }

  std::string const& word() const noexcept { return word_; }
  int line() const noexcept { return line_; }

  std::string take() {
    std::string taken = word_;
    advance();
    return taken;
  }

  // Whether the word was the next, and has been taken.
  bool accept(char const* word) {
    bool const isNext = word_ == word;
    if (isNext) advance();
    return isNext;
  }

  void expect(char const* word) {
    if (!accept(word)) fail(std::string("expected ") + word + " before '" + word_ + "'");
  }

  [[noreturn]] void fail(std::string const& cause, CUresult result = CUDA_ERROR_INVALID_PTX) const {
    throw Failure{result, "ptx input, line " + std::to_string(line_) + "; fatal: " + cause + "\n"};
  }

 private:
  static bool isPart(char character) noexcept {
    return std::isalnum(static_cast<unsigned char>(character)) != 0 || std::strchr("._$%", character) != nullptr;
  }

  void advance() {
    skipBlanks();
    char const* const begin = at_;
    while (*at_ != '\0' && isPart(*at_)) ++at_;
    if (at_ == begin && *at_ != '\0') ++at_;
    word_.assign(begin, at_);
  }

  void skipBlanks() noexcept {
    while (*at_ != '\0') {
      if (std::strncmp(at_, "//", 2) == 0) {
        at_ += std::strcspn(at_, "\n");
      } else if (std::isspace(static_cast<unsigned char>(*at_)) != 0) {
        line_ += *at_ == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  char const* at_;
  int line_ = 1;
  std::string word_;
};

// ".u32" is 4 bytes; 0 for what is no type.
std::uint32_t sizeOf(std::string const& type) noexcept {
  bool const isType = type.size() >= 3 && type[0] == '.' && std::strchr("busf", type[1]) != nullptr;
  int const bits = isType ? std::atoi(type.c_str() + 2) : 0;
  return static_cast<std::uint32_t>(bits / 8);
}

// ".param .u64 .ptr .global .align 1 name", ".param .align 4 .b8 name[12]".
std::uint32_t readParameter(Words& words) {
  words.expect(".param");
  std::uint32_t size = 0;
  while (!words.word().empty() && words.word()[0] == '.') {
    std::string const directive = words.take();
    if (directive == ".align") {
      words.take();
    } else if (sizeOf(directive) != 0) {
      size = sizeOf(directive);
    }
  }
  words.take();  // its name
  if (words.accept("[")) {
    size *= static_cast<std::uint32_t>(std::atoi(words.take().c_str()));
    words.expect("]");
  }
  if (size == 0) words.fail("a parameter has no type");
  return size;
}

KernelImage readEntry(Words& words) {
  KernelImage kernel;
  kernel.symbol = words.take();
  if (words.accept("(") && !words.accept(")")) {
    do kernel.parameterSizes.push_back(readParameter(words));
    while (words.accept(","));
    words.expect(")");
  }
  while (words.word() != "{" && !words.word().empty()) {
    if (words.take() != ".reqntid") continue;
    kernel.threads = 1;
    do kernel.threads *= std::atoi(words.take().c_str());
    while (words.accept(","));
  }
  return kernel;
}

void readHeader(Words& words, Code& code) {
  words.expect(".version");
  std::string const version = words.word();
  std::size_t const dot = version.find('.');
  if (dot == std::string::npos) words.fail("'" + version + "' is no version");
  if (10 * std::atoi(version.c_str()) + std::atoi(version.c_str() + dot + 1) > kNEWEST_VERSION) {
    words.fail("unsupported .version " + version + "; current version is '8.8'", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  }
  words.take();
  words.expect(".target");
  std::string const target = words.word();
  code.sm = std::atoi(target.c_str() + std::strcspn(target.c_str(), "0123456789"));
  if (target.compare(0, 3, "sm_") != 0 || code.sm == 0) words.fail("'" + target + "' is no target");
  code.isArchitectureSpecific = std::isalpha(static_cast<unsigned char>(target.back())) != 0;
}

}  // namespace

bool isPtx(char const* text) noexcept { return Words(text).word() == ".version"; }

CUresult readPtx(char const* text, Code& code, std::string& log) {
  code.isPtx = true;
  code.size = std::strlen(text);
  try {
    Words words(text);
    readHeader(words, code);
    int depth = 0;
    while (!words.word().empty()) {
      if (depth == 0 && words.accept(".entry")) code.kernels.push_back(readEntry(words));
      std::string const word = words.take();
      depth += word == "{" ? 1 : word == "}" ? -1 : 0;
    }
    if (depth != 0) words.fail("a function's body does not end");
  } catch (Failure const& failure) {
    log = failure.cause;
    return failure.result;
  }
  return CUDA_SUCCESS;
}

}  // namespace tensoracle::fake
