#pragma once
// JSON as text, for all output of the command. Text from other programs, such as a plugin's warning or the name of a
// file, may be any bytes and must not make the whole output invalid: bytes that are not UTF-8 become U+FFFD.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshbed::testbed {

inline constexpr int kOneLine = -1;
inline constexpr int kIndent = 2;

std::string json_text(const nlohmann::json& value, int indent = kOneLine, bool ascii_only = false);
std::string json_text(const nlohmann::ordered_json& value, int indent = kOneLine, bool ascii_only = false);

}  // namespace meshbed::testbed
