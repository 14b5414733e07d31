#pragma once
// --set section.key=value: changes the parsed table before anything is read from it.

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {

/// `argument` is KEY.KEY...=VALUE. A list of tables is entered by index (cable.0.rate) or by name (node.node1.gpus).
/// A name that the file does not list can only be that of something generated: it gets an entry, and stands in
/// `generated` for Builder::refuse_unknown_names to look up once the topology is there. VALUE is TOML; what is not
/// (64M, ring) is taken as text.
/// KEY "fault.+" appends a [[fault]]; its VALUE is KIND,KEY=VALUE,... as `--fault` takes it.
void apply_override(toml::table& root, const std::string& argument, std::vector<GeneratedName>& generated,
                    Diagnostics& diagnostics);

/// What stands at "KEY.KEY...", as apply_override() takes it; nullptr: nothing.
const toml::node* find_value(toml::table& root, const std::string& key);

/// The override that `--fault KIND,target=TARGET,at=TIME,...` stands for; the keys are those of [[fault]].
std::string fault_override(const std::string& argument);

}  // namespace meshbed::testbed
