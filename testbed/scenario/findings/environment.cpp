// Checks of the environment that a scenario gives its nodes.

#include <algorithm>

#include "plugin/net/process/config.h"
#include "testbed/scenario/findings/finder.h"
#include "testbed/scenario/idle_variables.h"

namespace meshbed::testbed {
namespace {

net::Setting setting_on(const models::Node& node, const net::VariableInfo& info) {
  const auto given = std::find_if(node.environment.begin(), node.environment.end(),
                                  [&](const auto& entry) { return entry.first == info.name; });
  return net::evaluate(info, given != node.environment.end() ? given->second.c_str() : nullptr);
}

}  // namespace

/// What Meshbed's own plugin would warn of; each once, for nodes mostly agree.
void Finder::variables() {
  if (!is_ours()) return;
  std::set<std::string> known;
  const auto note = [&](FindingCode code, const std::string& cause) {
    if (!cause.empty() && known.insert(cause).second) add(code, Severity::kWarning, "environment", cause);
  };
  for (const models::Node& one : cluster_.nodes) {
    const auto of = [&](net::Variable other) {
      return setting_on(one, net::kVariables[static_cast<std::size_t>(other)]);
    };
    for (const net::VariableInfo& info : net::kVariables) {
      note(FindingCode::kVariable, net::complaint_of(setting_on(one, info), of));
    }
    for (const auto& [name, value] : one.environment) {
      if (!net::is_unknown_mesh_variable(name)) continue;
      note(FindingCode::kUnknownVariable, name + " is not a variable of the mesh plugin; meshbed env lists them");
    }
  }
  for (const std::string& idle : idle_variable_notes(scenario_)) note(FindingCode::kIdleVariable, idle);
  const bool any = std::any_of(cluster_.nodes.begin(), cluster_.nodes.end(), [](const models::Node& one) {
    return has_variable(one, "NCCL_MESH_ALLOW_ROUTED", "1");
  });
  if (any && cluster_.routers.empty()) {
    note(FindingCode::kIdleVariable,
         "NCCL_MESH_ALLOW_ROUTED=1, and there is no [[router]]: each connection that needs relays first dials in vain");
  }
}

}  // namespace meshbed::testbed
