#pragma once
// TomlKeys: how many parts a key of TOML text has, before a parser sees the text. toml++ makes a table of each part and
// destroys nested tables recursively, so that a key of some ten thousand parts overflows the stack.

#include <cstddef>
#include <optional>
#include <string_view>

namespace meshbed::models {

/// No file here has keys of more than five parts.
inline constexpr std::size_t kKeyPartsMax = 32;

/// The offset of the first key with more than kKeyPartsMax parts; nullopt: there is none. O(size).
inline std::optional<std::size_t> overlong_key(std::string_view text) {
  std::size_t parts = 1, begin = 0;
  bool in_key = false;
  const auto end_key = [&] {
    parts = 1;
    in_key = false;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '#') {
      at = text.find('\n', at);
      if (at == std::string_view::npos) return std::nullopt;
      end_key();
    } else if (letter == '"' || letter == '\'') {
      if (!in_key) begin = at;
      in_key = true;
      const bool multi_line = text.substr(at, 3) == (letter == '"' ? "\"\"\"" : "'''");
      if (multi_line) {
        at = text.find(text.substr(at, 3), at + 3);
        if (at == std::string_view::npos) return std::nullopt;
        at += 2;
        continue;
      }
      for (++at; at < text.size() && text[at] != letter && text[at] != '\n'; ++at) {
        if (text[at] == '\\' && letter == '"') ++at;
      }
    } else if (letter == '.') {
      if (++parts > kKeyPartsMax) return begin;
    } else if (letter == '\n' || letter == '=' || letter == ',' || letter == '[' || letter == ']' || letter == '{' ||
               letter == '}') {
      end_key();
    } else if (!in_key && letter != ' ' && letter != '\t') {
      in_key = true;
      begin = at;
    }
  }
  return std::nullopt;
}

}  // namespace meshbed::models
