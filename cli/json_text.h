#pragma once
// JSON as text, wherever the command writes some. What others wrote, as a plugin's warning or the name of a file, may
// be any bytes, and must not cost the rest: what is no UTF-8 becomes U+FFFD.

#include <nlohmann/json.hpp>
#include <string>

namespace meshbed::cli {

inline constexpr int kOneLine = -1;
inline constexpr int kIndent = 2;

/// `Json`: nlohmann's json or ordered_json.
template <class Json>
std::string json_text(const Json& value, int indent = kOneLine, bool ascii_only = false) {
  return value.dump(indent, ' ', ascii_only, Json::error_handler_t::replace);
}

}  // namespace meshbed::cli
