#pragma once
// Checks of option values.

#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::testbed {

/// A whole number of `least` to `most`, for an option whose argument is text; throws naming `option` and the range.
/// (Boost would read -1 into an unsigned number as 2^64 - 1.)
std::uint64_t parse_count(const std::string& option, const std::string& text, std::uint64_t least, std::uint64_t most);

/// Throws std::runtime_error unless `value` is one of `accepted`: "--fabric x: there is no such fabric; accepted: ...".
void require_choice(const std::string& option, const std::string& what, const std::string& value,
                    const std::vector<std::string>& accepted);

}  // namespace meshbed::testbed
