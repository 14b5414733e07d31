#pragma once
// The profiles of models/profiles, which travel inside the program: found by name wherever it runs. Their text is put
// together when the program is built (models/embed_profiles.cmake).

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

}  // namespace meshbed::models
