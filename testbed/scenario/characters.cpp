#include "testbed/scenario/characters.h"

#include <algorithm>
#include <cstddef>

#include "models/toml_keys.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kByteOrderMark = "\xef\xbb\xbf";

bool is_ascii(char letter) { return static_cast<unsigned char>(letter) < 0x80; }
/// Bytes of a UTF-8 character behind its first one; they do not count as columns.
bool continues(char letter) { return (static_cast<unsigned char>(letter) & 0xc0U) == 0x80U; }

bool opens_multi_line(const std::string& text, std::size_t at) {
  return text.compare(at, 3, "\"\"\"") == 0 || text.compare(at, 3, "'''") == 0;
}

/// The offset behind a comment or one-line text that begins at `at`; `at` itself where there is none. A multi-line text
/// is none: after a line-ending backslash the parser looks for white space in it, too.
std::size_t skip_free_text(const std::string& text, std::size_t at) {
  const char opening = text[at];
  if (opening == '#') return std::min(text.find('\n', at), text.size());
  if (opening != '"' && opening != '\'') return at;
  if (opens_multi_line(text, at)) return at;
  for (std::size_t end = at + 1; end < text.size() && text[end] != '\n'; ++end) {
    if (text[end] == '\\' && opening == '"') {
      ++end;
    } else if (text[end] == opening) {
      return end + 1;
    }
  }
  return at;  // never closed: the parser will say so
}

/// The offset behind a multi-line text that begins at `at`, where all of it is ASCII; else of its first other
/// character.
std::size_t skip_multi_line(const std::string& text, std::size_t at) {
  const std::string quotes(3, text[at]);
  const std::size_t close = text.find(quotes, at + 3);
  const std::size_t end = close == std::string::npos ? text.size() : close + 3;
  while (at < end && is_ascii(text[at])) ++at;
  return at;
}

Place place_at(const std::string& text, std::size_t offset) {
  Place place;
  place.begin = {1, 1};
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++place.begin.line;
      place.begin.column = 1;
    } else if (!continues(text[i])) {
      ++place.begin.column;
    }
  }
  return place;
}

}  // namespace

std::optional<Place> misplaced_character(const std::string& text) {
  std::size_t at = text.rfind(kByteOrderMark, 0) == 0 ? 3 : 0;
  while (at < text.size()) {
    if (!is_ascii(text[at])) return place_at(text, at);
    const std::size_t behind = skip_free_text(text, at);
    if (behind != at) {
      at = behind;
    } else if (opens_multi_line(text, at)) {
      at = skip_multi_line(text, at);
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

std::optional<Place> overlong_key_place(const std::string& text) {
  const auto offset = models::overlong_key(text);
  if (!offset) return std::nullopt;
  return place_at(text, *offset);
}

}  // namespace meshbed::testbed
