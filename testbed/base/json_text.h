#pragma once
// JSON as text, wherever the command writes some. What others wrote, as a plugin's warning or the name of a file, may
// be any bytes, and must not cost the rest: what is no UTF-8 becomes U+FFFD.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshbed::testbed {

inline constexpr int kOneLine = -1;
inline constexpr int kIndent = 2;

std::string json_text(const nlohmann::json& value, int indent = kOneLine, bool ascii_only = false);
std::string json_text(const nlohmann::ordered_json& value, int indent = kOneLine, bool ascii_only = false);

}  // namespace meshbed::testbed
