#pragma once
// JSON as text, written front to back: what a library that links nothing needs of it.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace meshbed {

/// Keys and values in the order of the calls; commas and quotes are added. The caller closes each object and list.
class JsonText {
 public:
  JsonText& open_object(const char* key = nullptr) { return open(key, '{'); }
  JsonText& close_object() { return close('}'); }
  JsonText& open_list(const char* key = nullptr) { return open(key, '['); }
  JsonText& close_list() { return close(']'); }

  JsonText& text(const char* key, std::string_view value) {
    begin(key);
    quote(value);
    return *this;
  }
  JsonText& number(const char* key, std::uint64_t value) { return plain(key, std::to_string(value)); }
  JsonText& signed_number(const char* key, std::int64_t value) { return plain(key, std::to_string(value)); }
  /// null where it is negative: unknown.
  JsonText& known_number(const char* key, std::int64_t value) {
    return plain(key, value < 0 ? "null" : std::to_string(value));
  }
  JsonText& flag(const char* key, bool value) { return plain(key, value ? "true" : "false"); }

  std::string take() { return std::move(text_); }

 private:
  JsonText& plain(const char* key, const std::string& value) {
    begin(key);
    text_ += value;
    return *this;
  }
  JsonText& open(const char* key, char bracket) {
    begin(key);
    text_ += bracket;
    return *this;
  }
  JsonText& close(char bracket) {
    text_ += bracket;
    return *this;
  }
  void begin(const char* key) {
    if (!text_.empty() && text_.back() != '{' && text_.back() != '[') text_ += ',';
    if (key == nullptr) return;
    quote(key);
    text_ += ':';
  }
  /// Names come from devices and peers: bytes that are not plain ASCII become \u00xx, so that the text is always UTF-8.
  void quote(std::string_view value) {
    constexpr const char* kDigits = "0123456789abcdef";
    text_ += '"';
    for (const char letter : value) {
      const auto byte = static_cast<unsigned char>(letter);
      if (letter == '"' || letter == '\\') {
        text_ += '\\';
        text_ += letter;
      } else if (byte >= 0x20 && byte < 0x7f) {
        text_ += letter;
      } else {
        text_ += "\\u00";
        text_ += kDigits[byte >> 4U];
        text_ += kDigits[byte & 0xfU];
      }
    }
    text_ += '"';
  }

  std::string text_;
};

}  // namespace meshbed
