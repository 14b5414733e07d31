// Commands of runs that demonstrate an answer.
#include <fmt/format.h>

#include <stdexcept>

#include "emu/shell_quote.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/questions.h"

namespace meshbed::testbed {
namespace {

/// In quotes only where a shell needs them.
std::string shell_word(const std::string& word) {
  const bool is_plain = !word.empty() && word.find_first_not_of(
                                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_-./:=,+@%") == std::string::npos;
  return is_plain ? word : emu::shell_quote(word);
}

}  // namespace

int node_named(const Scenario& scenario, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t node = 0; node < scenario.cluster.nodes.size(); ++node) {
    names.push_back(scenario.cluster.nodes[node].name);
    if (names.back() == name) return static_cast<int>(node);
  }
  const std::string closest = closest_name(name, names);
  throw std::runtime_error(
      fmt::format("{}: there is no node {}; {}", scenario.path, name,
                  closest.empty() ? "there are " + list_names(names) : "did you mean " + closest + "?"));
}

std::string run_command_text(const Scenario& scenario, const std::vector<std::string>& settings) {
  std::string text = "meshbed run " + shell_word(scenario.path);
  const auto add = [&](const std::string& setting) { text += " --set " + shell_word(setting); };
  for (const std::string& each : scenario.overrides) add(each);
  for (const std::string& each : settings) add(each);
  return text;
}

std::string failing_send_command(const Scenario& scenario, int from, int to, const std::string& error,
                                 const std::vector<std::string>& without, int lost_node) {
  // Other nodes relay only if they run ranks: all keep theirs.
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    if (node_of(scenario, rank) != lost_node) nodes.push_back(node_of(scenario, rank));
  }
  const auto rank_on = [&nodes](int node) {
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      if (nodes[rank] == node) return static_cast<int>(rank);
    }
    nodes.push_back(node);
    return static_cast<int>(nodes.size()) - 1;
  };
  const std::size_t before = nodes.size();
  const int sender = rank_on(from), receiver = rank_on(to);
  const int ranks = static_cast<int>(nodes.size());
  std::vector<std::string> settings = without;
  if (nodes.size() != before || lost_node >= 0) {
    std::string placement;
    for (const int node : nodes)
      placement += fmt::format("{}\"{}\"", placement.empty() ? "" : ",", scenario.cluster.at(node).name);
    settings.push_back("workload.placement=[" + placement + "]");
  }
  if (scenario.workload.kind != WorkloadKind::kCollective) settings.emplace_back("workload.kind=collective");
  settings.emplace_back("workload.collective=sendrecv");
  settings.push_back(fmt::format("workload.senders=[{}]", sender));
  settings.push_back(fmt::format("workload.shift={}", (receiver - sender + ranks) % ranks));
  for (const char* each :
       {"workload.algorithm=auto", "workload.bytes=64K", "workload.iterations=1", "workload.warmup=0"}) {
    settings.emplace_back(each);
  }
  settings.push_back(fmt::format("expect.error=\"{}\"", error));
  return run_command_text(scenario, settings);
}

}  // namespace meshbed::testbed
