#pragma once
// The words of a line.

#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed {

/// What stands between separators; of several in a row nothing is between them.
std::vector<std::string> words_of(std::string_view text, std::string_view separators = " \t\r");

/// Whether there are digits, and nothing else.
bool is_digits(std::string_view text);

}  // namespace meshbed::testbed
