#pragma once
// The environment of this process, behind a function that a test can replace, and the programs that it names.

#include <functional>
#include <optional>
#include <string>

namespace meshbed::testbed {

/// A variable's value; nullopt: not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> from_environment(const char* name);

/// The file of a program as a shell finds it: `name` itself where it has a folder, else in PATH. Throws
/// std::runtime_error, which begins with `command`, where there is none.
std::string program_in_path(const std::string& command, const std::string& name);

}  // namespace meshbed::testbed
