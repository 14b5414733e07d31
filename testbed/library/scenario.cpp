#include "meshbed/scenario.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "testbed/base/diagnostics.h"
#include "testbed/library/scenario_state.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/override.h"
#include "testbed/scenario/placement.h"

namespace meshbed {
namespace testbed {

std::vector<meshbed::Finding> public_findings(const std::vector<Finding>& findings) {
  std::vector<meshbed::Finding> all;
  for (const Finding& each : findings) {
    all.push_back({name_of(each.severity), name_of(each.code), each.place, each.cause, each.fix});
  }
  return all;
}

InvalidScenario invalid(const ScenarioError& error) {
  return {error.what(), public_findings(findings_of(error.problems()))};
}

}  // namespace testbed

InvalidScenario::InvalidScenario(const std::string& text, std::vector<Finding> findings)
    : std::runtime_error(text), findings_(std::make_shared<const std::vector<Finding>>(std::move(findings))) {}
InvalidScenario::~InvalidScenario() = default;

Scenario::Scenario(std::unique_ptr<State> state) : state_(std::move(state)) {}
Scenario::Scenario(const Scenario& other) : state_(std::make_unique<State>(*other.state_)) {}
Scenario& Scenario::operator=(const Scenario& other) {
  *state_ = State(*other.state_);
  return *this;
}
Scenario::Scenario(Scenario&& other) noexcept = default;
Scenario& Scenario::operator=(Scenario&& other) noexcept = default;
Scenario::~Scenario() = default;

Scenario Scenario::load(const std::string& path) {
  try {
    return parse(testbed::read_scenario_text(path), path);
  } catch (const testbed::ScenarioError& error) {
    throw testbed::invalid(error);
  }
}

Scenario Scenario::parse(const std::string& text, const std::string& path) {
  try {
    return Scenario(std::make_unique<State>(
        State{.text = text, .path = path, .overrides = {}, .parsed = testbed::parse_scenario(text, path, {})}));
  } catch (const testbed::ScenarioError& error) {
    throw testbed::invalid(error);
  }
}

Scenario& Scenario::with(const std::vector<std::string>& added) {
  std::vector<std::string> overrides = state_->overrides;
  overrides.insert(overrides.end(), added.begin(), added.end());
  try {
    state_->parsed = testbed::parse_scenario(state_->text, state_->path, overrides);
  } catch (const testbed::ScenarioError& error) {
    throw testbed::invalid(error);
  }
  state_->overrides = std::move(overrides);
  return *this;
}

Scenario& Scenario::set(const std::string& key, const std::string& value) { return with({key + "=" + value}); }

Scenario& Scenario::set(const std::vector<std::pair<std::string, std::string>>& values) {
  std::vector<std::string> added;
  for (const auto& [key, value] : values) added.push_back(key + "=" + value);
  return with(added);
}

Scenario& Scenario::fault(const std::string& text) { return with({testbed::fault_override(text)}); }

Scenario& Scenario::fail(const std::string& target) {
  const auto& nodes = state_->parsed.cluster.nodes;
  const bool is_node = std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.name == target; });
  const bool is_port =
      target.find('/') != std::string::npos && testbed::switch_link(state_->parsed.cluster, target).empty();
  const auto kind = is_node   ? testbed::FaultKind::kNodeKill
                    : is_port ? testbed::FaultKind::kPortDown
                              : testbed::FaultKind::kCableDown;
  return fault(std::string(testbed::name_of(kind)) + ",target=" + target + ",at=0s");
}

std::string Scenario::get(const std::string& key) const {
  const auto text = testbed::value_of_key(state_->text, state_->overrides, key);
  if (text) return *text;
  throw std::out_of_range("neither " + state_->path + " nor set() gives " + key +
                          ": scenarios/README.md has its default");
}

const std::string& Scenario::path() const { return state_->path; }
std::string Scenario::name() const { return state_->parsed.name; }
std::uint64_t Scenario::seed() const { return state_->parsed.seed; }
int Scenario::ranks() const { return testbed::ranks_of(state_->parsed); }
const std::vector<std::string>& Scenario::overrides() const { return state_->overrides; }
std::vector<Finding> Scenario::check() const { return testbed::public_findings(testbed::findings_of(state_->parsed)); }

}  // namespace meshbed
