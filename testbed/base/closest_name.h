#pragma once
// What somebody who wrote an unknown name may have meant, for the error that tells them so.

#include <string>
#include <vector>

namespace meshbed::testbed {

/// The accepted name closest to `word` where it is close enough to be a slip of the finger, or "".
std::string closest_name(const std::string& word, const std::vector<std::string>& accepted);
/// "a, b, c"; those behind the 24th are only counted.
std::string list_names(const std::vector<std::string>& names);

}  // namespace meshbed::testbed
