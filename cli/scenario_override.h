#pragma once
// --set section.key=value: changes the parsed table before anything is read from it.

#include <toml++/toml.h>

#include <string>

#include "cli/scenario_diagnostics.h"

namespace meshbed::cli {

/// `argument` is KEY.KEY...=VALUE. A list of tables is entered by index (cable.0.rate) or by name (node.node1.gpus),
/// which adds an entry of that name where there is none; so generated nodes and cables can be changed, too. VALUE is
/// TOML; what is not (64M, ring) is taken as text.
void apply_override(toml::table& root, const std::string& argument, Diagnostics& diagnostics);

}  // namespace meshbed::cli
