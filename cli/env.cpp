#include "cli/env.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/result.h"
#include "plugin/net/config.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

struct Row {
  net::Setting setting;
  std::string source;
};

/// As a process started from this shell would see it.
std::vector<Row> rows_of_shell() {
  std::vector<Row> rows;
  for (const net::VariableInfo& variable : net::kVariables) {
    const net::Setting setting = net::evaluate(variable, std::getenv(variable.name));
    rows.push_back({setting, net::to_text(setting.source)});
  }
  return rows;
}

/// As the ranks of one node see it: the scenario's environment and nothing else.
std::vector<Row> rows_of_node(const models::Node& node) {
  std::vector<Row> rows;
  for (const net::VariableInfo& variable : net::kVariables) {
    const auto given = std::find_if(node.environment.begin(), node.environment.end(),
                                    [&](const auto& entry) { return entry.first == variable.name; });
    const net::Setting setting =
        net::evaluate(variable, given == node.environment.end() ? nullptr : given->second.c_str());
    const char* source = setting.source == net::ValueSource::kEnvironment ? "scenario"
                         : setting.source == net::ValueSource::kRefused   ? "default (scenario refused)"
                                                                          : "default";
    rows.push_back({setting, source});
  }
  return rows;
}

void print(std::ostream& out, const std::vector<Row>& rows) {
  fmt::print(out, "{:<36} {:<12} {:<28} {}\n", "variable", "value", "source", "meaning");
  for (const Row& row : rows) {
    const net::VariableInfo& variable = *row.setting.variable;
    fmt::print(out, "{:<36} {:<12} {:<28} {}{}\n", variable.name, row.setting.text.empty() ? "-" : row.setting.text,
               row.source, variable.effective ? "" : "no effect: ", variable.meaning);
    if (!row.setting.problem.empty()) fmt::print(out, "  {}\n", row.setting.problem);
  }
}

nlohmann::ordered_json to_json(const std::vector<Row>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"name", row.setting.variable->name},
                    {"value", row.setting.text},
                    {"source", row.source},
                    {"effective", row.setting.variable->effective},
                    {"meaning", row.setting.variable->meaning},
                    {"problem", row.setting.problem}});
  }
  return list;
}

void show_scenario(std::ostream& out, const Scenario& scenario, bool json) {
  nlohmann::ordered_json object;
  std::vector<std::pair<std::string, std::string>> shown;
  for (std::size_t index = 0; index < scenario.cluster.nodes.size(); ++index) {
    const models::Node& node = scenario.cluster.nodes[index];
    if (json) {
      object[node.name] = to_json(rows_of_node(node));
      continue;
    }
    // Nodes mostly agree; only those that differ from the first get a table of their own.
    if (index > 0 && node.environment == shown) continue;
    if (index == 0) shown = node.environment;
    fmt::print(out, "{}{}\n", node.name, index == 0 ? " (and every node that is not listed below)" : "");
    print(out, rows_of_node(node));
  }
  if (json) out << object.dump(2) << "\n";
}

}  // namespace

int env_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RunOptions options;
  Syntax syntax("env [--scenario FILE] [--json]");
  syntax.options.add_options()  //
      ("scenario", po::value(&options.scenario_path)->value_name("FILE"),
       "show what the scenario's ranks see; default: what a process of this shell sees")                 //
      ("set", po::value(&options.overrides)->value_name("KEY=VALUE"), "override a key of the scenario")  //
      ("json", po::bool_switch(&options.json), "print JSON");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  if (options.scenario_path.empty() && !options.overrides.empty()) {
    throw std::runtime_error(fmt::format("env: --set {} changes a scenario, and none is named; add --scenario FILE",
                                         options.overrides.front()));
  }
  if (!options.scenario_path.empty()) {
    show_scenario(out, scenario_for(options), options.json);
    err << "simulated ranks see the scenario's variables, never this shell's\n";
  } else if (options.json) {
    out << to_json(rows_of_shell()).dump(2) << "\n";
  } else {
    print(out, rows_of_shell());
  }
  return kExitOk;
}

}  // namespace meshbed::cli
