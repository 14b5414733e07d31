#pragma once
// Suggestions for unknown names, for error messages ("did you mean").

#include <string>
#include <vector>

namespace meshbed::testbed {

/// The accepted name closest to `word` if the difference may be a typing error, else "".
std::string closest_name(const std::string& word, const std::vector<std::string>& accepted);
/// "a, b, c"; names after the 24th are only counted.
std::string list_names(const std::vector<std::string>& names);

}  // namespace meshbed::testbed
