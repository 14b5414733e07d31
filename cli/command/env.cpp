#include "cli/command/env.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "models/lan/bond.h"
#include "plugin/net/process/config.h"
#include "plugin/net/process/nic_filter.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/idle_variables.h"
#include "testbed/scenario/nccl/library.h"
#include "testbed/workload/result.h"
#include "testbed/world/metal_devices.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr std::string_view kOurNames = "NCCL_MESH_";

/// The closest known name, compared without the common prefix.
std::string closest_variable(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::string> ends;
  for (const std::string& one : known) ends.push_back(one.substr(kOurNames.size()));
  const std::string close = closest_name(name.substr(kOurNames.size()), ends);
  return close.empty() ? "" : std::string(kOurNames) + close;
}

struct Row {
  std::string name, value, source, meaning;
  bool effective = true;
  std::string problem;
};

/// One variable: its given value (nullptr: none) and the source of it.
using LookUp = std::function<const char*(const char* name)>;

Row row_of(const net::VariableInfo& variable, const LookUp& given) {
  const net::Setting setting = net::evaluate(variable, given(variable.name));
  const auto of = [&given](net::Variable other) {
    const net::VariableInfo& info = net::kVariables[static_cast<std::size_t>(other)];
    return net::evaluate(info, given(info.name));
  };
  Row row{.name = variable.name,
          .value = setting.text,
          .source = net::to_text(setting.source),
          .meaning = variable.meaning,
          .effective = variable.effective,
          .problem = net::complaint_of(setting, of)};
  // 0 means the value of another variable, which is shown instead.
  if (variable.zero_means != net::Variable::kCount && setting.number == 0) row.value = net::value_text(setting, of);
  return row;
}

void add_problem(Row& row, const std::string& problem) {
  if (!problem.empty()) row.problem += (row.problem.empty() ? "" : "; ") + problem;
}

/// An unknown name with our prefix: no part of Meshbed reads it.
Row row_of_unknown(const std::string& name, const std::string& value, const std::string& source) {
  std::vector<std::string> known;
  for (const net::VariableInfo& variable : net::kVariables) {
    if (std::string_view(variable.name).rfind(kOurNames, 0) == 0) known.emplace_back(variable.name);
  }
  const std::string close = closest_variable(name, known);
  return {.name = name,
          .value = value,
          .source = source,
          .meaning = "unknown: no variable of this plugin" + (close.empty() ? "" : fmt::format("; {}?", close)),
          .effective = false,
          .problem = ""};
}

/// The variables of a process started from this shell.
std::vector<Row> rows_of_shell() {
  std::vector<Row> rows;
  for (const net::VariableInfo& variable : net::kVariables) {
    rows.push_back(row_of(variable, [](const char* name) { return std::getenv(name); }));
    if (variable.id == net::Variable::kIbHca) add_problem(rows.back(), hca_problem_of_shell());
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const std::string name = line.substr(0, line.find('='));
    const std::string value = line.substr(std::min(name.size() + 1, line.size()));
    if (const std::string note = bypass_note(name, value); !note.empty()) {
      rows.push_back({name, value, "environment", note, true, ""});
    }
    if (net::is_unknown_mesh_variable(name)) rows.push_back(row_of_unknown(name, value, "environment"));
  }
  return rows;
}

/// The variables of the ranks of one node: only the scenario's environment.
std::vector<Row> rows_of_node(const models::Node& node, bool own_nccl) {
  const auto given = [&](const char* name) -> const char* {
    const auto found = std::find_if(node.environment.begin(), node.environment.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    return found != node.environment.end() ? found->second.c_str() : nullptr;
  };
  std::vector<net::PortName> ports;
  for (std::size_t nic = 0; nic < models::rdma_devices(node); ++nic) {
    // Lower ones exist, but are down.
    for (int port = 1; port <= node.nics[nic].port; ++port) {
      ports.push_back({.device = node.nics[nic].device, .port = port});
    }
  }
  std::vector<Row> rows;
  for (const net::VariableInfo& variable : net::kVariables) {
    Row row = row_of(variable, given);
    row.source = row.source == net::to_text(net::ValueSource::kEnvironment) ? "scenario"
                 : row.source == net::to_text(net::ValueSource::kRefused)   ? "default (scenario refused)"
                                                                            : "default";
    if (variable.id == net::Variable::kIbHca) add_problem(row, net::hca_problem(row.value, ports));
    rows.push_back(std::move(row));
  }
  for (const auto& [name, value] : node.environment) {
    if (net::is_unknown_mesh_variable(name)) rows.push_back(row_of_unknown(name, value, "scenario"));
    if (const std::string note = idle_variable_note(name, own_nccl); !note.empty()) {
      rows.push_back({name, value, "scenario", note, false, ""});
    }
    if (const std::string note = bypass_note(name, value); !note.empty()) {
      rows.push_back({name, value, "scenario", note, true, ""});
    }
  }
  return rows;
}

void print(std::ostream& out, const std::vector<Row>& rows) {
  fmt::print(out, "{:<36} {:<12} {:<28} {}\n", "variable", "value", "source", "meaning");
  for (const Row& row : rows) {
    const bool silent = row.effective || row.meaning.rfind("unknown", 0) == 0;
    fmt::print(out, "{:<36} {:<12} {:<28} {}{}\n", row.name, row.value.empty() ? "-" : row.value, row.source,
               silent ? "" : "no effect: ", row.meaning);
    if (!row.problem.empty()) fmt::print(out, "  {}\n", row.problem);
  }
}

nlohmann::ordered_json to_json(const std::vector<Row>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"name", row.name},
                    {"value", row.value},
                    {"source", row.source},
                    {"effective", row.effective},
                    {"meaning", row.meaning},
                    {"problem", row.problem}});
  }
  return list;
}

void show_scenario(std::ostream& out, const Scenario& scenario, bool json) {
  nlohmann::ordered_json object;
  std::vector<std::pair<std::string, std::string>> shown;
  for (std::size_t index = 0; index < scenario.cluster.nodes.size(); ++index) {
    const models::Node& node = scenario.cluster.nodes[index];
    if (json) {
      object[node.name] = to_json(rows_of_node(node, runs_own_nccl(scenario)));
      continue;
    }
    // Nodes are mostly equal; only nodes that differ from the first get a separate table.
    if (index > 0 && node.environment == shown) continue;
    if (index == 0) shown = node.environment;
    fmt::print(out, "{}{}\n", node.name, index == 0 ? " (and every node that is not listed below)" : "");
    print(out, rows_of_node(node, runs_own_nccl(scenario)));
  }
  if (json) out << json_text(object, kIndent) << "\n";
}

}  // namespace

std::string hca_problem_of_shell() {
  const char* list = std::getenv("NCCL_IB_HCA");
  if (list == nullptr) return "";
  std::vector<net::PortName> ports;
  for (const std::string& device : machine_devices()) {
    std::error_code none;
    for (const auto& port : fs::directory_iterator(fs::path(kDevicesFolder) / device / "ports", none)) {
      ports.push_back({.device = device, .port = std::atoi(port.path().filename().c_str())});
    }
  }
  return net::hca_problem(list, ports);
}

int env_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RunOptions options;
  Syntax syntax("env [--scenario FILE] [--json]");
  syntax.options.add_options()  //
      ("scenario", po::value(&options.scenario_path)->value_name("FILE"),
       "show the environment of the scenario's ranks; default: that of this shell")                      //
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
    out << json_text(to_json(rows_of_shell()), kIndent) << "\n";
  } else {
    print(out, rows_of_shell());
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
