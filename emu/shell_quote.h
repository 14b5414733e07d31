#pragma once
// Quoting: text of any kind as one word of a POSIX shell.

#include <string>
#include <vector>

namespace meshbed::emu {

/// `text` in single quotes, so that a shell reads it back byte for byte. It must not hold a zero byte.
std::string shell_quote(const std::string& text);
/// The words of a command, quoted, with one space between them.
std::string shell_command(const std::vector<std::string>& words);
/// ASCII letters made small.
std::string lower_case(std::string text);
/// Letters, digits and underscores, no digit first: what a shell can export.
bool is_variable_name(const std::string& text);

}  // namespace meshbed::emu
