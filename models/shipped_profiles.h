#pragma once
// The files of models/profiles, models/data/decode and models/intervals, which are part of the program: found by name
// wherever it runs (models/embed_folder.cmake).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::models {

/// Not a profile, but a name for one in a scenario: the class of DGX Sparks with the scenario's cabling.
inline constexpr const char* kSparkFamily = "dgx-spark";

/// The text of models/profiles/NAME.toml.
std::optional<std::string_view> shipped_profile(std::string_view name);
std::vector<std::string> shipped_profile_names();

/// The text of models/data/decode/NAME.toml: a token of a model that several nodes compute together.
std::optional<std::string_view> shipped_decode(std::string_view name);
std::vector<std::string> shipped_decode_names();

/// The text of models/intervals/NAME.toml: what left-out files were off (models/time/interval_table.h).
std::optional<std::string_view> shipped_interval(std::string_view name);
std::vector<std::string> shipped_interval_names();

}  // namespace meshbed::models
