// Writes records. All texts are ours or symbols, but a symbol may hold any byte: what JSON forbids is escaped.
#include "journal.hpp"

#include <cstdio>

namespace tensoracle::fake {
namespace {

std::string quoted(std::string const& text) {
  std::string json = "\"";
  for (unsigned char const character : text) {
    if (character < 0x20 || character == '"' || character == '\\') {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", character);
      json += escape;
    } else {
      json += static_cast<char>(character);
    }
  }
  return json + '"';
}

template <class Items, class Show>
std::string list(Items const& items, Show show) {
  std::string json = "[";
  for (auto const& item : items) json += (json.size() > 1 ? "," : "") + show(item);
  return json + "]";
}

}  // namespace

Record::Record(char const* call) : json_("{\"call\":" + quoted(call)) {}

void Record::add(char const* key, std::string const& text) { addRaw(key, quoted(text)); }
void Record::add(char const* key, std::uint64_t number) { addRaw(key, std::to_string(number)); }
void Record::add(char const* key, std::int64_t number) { addRaw(key, std::to_string(number)); }
void Record::add(char const* key, bool flag) { addRaw(key, flag ? "true" : "false"); }

void Record::add(char const* key, std::vector<std::uint64_t> const& numbers) {
  addRaw(key, list(numbers, [](std::uint64_t number) { return std::to_string(number); }));
}

void Record::add(char const* key, std::vector<std::string> const& texts) { addRaw(key, list(texts, quoted)); }

std::string Record::finish(CUresult result) {
  add("result", static_cast<std::int64_t>(result));
  return json_ + "}";
}

void Record::addRaw(char const* key, std::string const& json) { json_ += "," + quoted(key) + ":" + json; }

std::string toHex(void const* data, std::size_t size) {
  constexpr char kDIGITS[] = "0123456789abcdef";
  std::string text;
  for (auto const* byte = static_cast<unsigned char const*>(data); size > 0; ++byte, --size) {
    text += kDIGITS[*byte >> 4];
    text += kDIGITS[*byte & 15];
  }
  return text;
}

std::string Journal::toJson() const {
  return list(records_, [](std::string const& record) { return record; });
}

}  // namespace tensoracle::fake
