#pragma once
// The characters that are allowed in a scenario file, checked before TOML parsing.

#include <optional>
#include <string>

#include "testbed/base/diagnostics.h"

namespace meshbed::testbed {

/// The place of the first character that is not ASCII and stands neither in a comment nor in a one-line text.
/// TOML has no use for one anywhere else, and toml++ 3.3 leaves C++'s defined ground when it asks whether such a
/// character is white space (its is_non_ascii_horizontal_whitespace runs into "unreachable" for U+00A1 to U+0499, for
/// one).
std::optional<Place> misplaced_character(const std::string& text);

/// The place of the first key with more than models::kKeyPartsMax parts.
std::optional<Place> overlong_key_place(const std::string& text);

}  // namespace meshbed::testbed
