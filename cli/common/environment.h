#pragma once
// The environment of this process, behind a function that a test can replace.

#include <functional>
#include <optional>
#include <string>

namespace meshbed::cli {

/// A variable's value; nullopt: not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> from_environment(const char* name);

}  // namespace meshbed::cli
