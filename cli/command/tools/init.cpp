#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "plugin/base/counted.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/import/collect/collect_here.h"
#include "testbed/import/import.h"
#include "testbed/render/render.h"
#include "testbed/result/tables.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/topology/report.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

/// A folder of this process's own, gone with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "meshbed-init.").string() + std::string(6, 'X');
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder beside " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code problem;
    std::filesystem::remove_all(path_, problem);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void take_assumption(const std::string& said, hosts::Assumptions& assumptions) {
  const std::size_t sign = said.find('=');
  const std::string key = said.substr(0, sign), value = sign == std::string::npos ? "" : said.substr(sign + 1);
  const std::vector<std::string> keys{"rate", "mtu", "latency", "workload"};
  const auto refused = [&](const std::string& why) { return std::runtime_error("--assume " + said + ": " + why); };
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
    const std::string close = closest_name(key, keys);
    throw refused(
        fmt::format("there is no such key{}; accepted: rate=200Gb/s, mtu=9000, latency=1us, "
                    "workload=all_reduce:64M",
                    close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close)));
  }
  if (key == "rate") {
    const auto rate = parse_rate_bps(value);
    if (!rate || *rate == 0) throw refused(rate ? "the rate is 0" : rate.error().text);
    assumptions.rate_bps = *rate;
  } else if (key == "mtu") {
    assumptions.mtu_bytes = static_cast<std::uint32_t>(parse_count("--assume mtu", value, 576, 65535));
  } else if (key == "latency") {
    const auto time = parse_time_ps(value);
    if (!time) throw refused(time.error().text);
    assumptions.latency = value;
  } else {
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) throw refused("expects COLLECTIVE:SIZE, as in all_reduce:64M");
    if (const auto size = parse_size_bytes(value.substr(colon + 1)); !size) throw refused(size.error().text);
    assumptions.workload = value;
  }
}

std::string line_of(const hosts::ImportFinding& finding) {
  return fmt::format("{}: {}: {}; {} [{}]", name_of(finding.severity), finding.place, finding.cause, finding.fix,
                     finding.code);
}

/// Sources within the scratch folder lose its path: it is gone when they are read.
void shorten(std::string& text, const std::string& path) {
  for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at)) text.erase(at, path.size());
}

/// What was made, and whether it can be run.
struct Made {
  hosts::Imported imported;
  std::optional<Scenario> scenario;
  std::vector<Finding> findings;

  bool has_error() const { return count_of(findings, Severity::kError) > 0; }
};

Made make(const std::vector<std::string>& paths, const hosts::Assumptions& assumptions, const std::string& name,
          const std::string& scratch) {
  Made made{.imported = hosts::import_machines(paths, assumptions), .scenario = {}, .findings = {}};
  if (!scratch.empty()) {
    shorten(made.imported.toml, scratch);
    for (hosts::ImportFinding& each : made.imported.findings) shorten(each.cause, scratch);
  }
  try {
    made.scenario = parse_scenario(made.imported.toml, name, {});
    made.findings = findings_of(*made.scenario);
  } catch (const ScenarioError& error) {
    made.findings = findings_of(error.problems());
  }
  return made;
}

/// The report's first line: what was read, and what could not be known.
std::string first_line(const Made& made, const std::string& path) {
  std::string text = path + ": ";
  if (made.scenario) {
    const models::Cluster& cluster = made.scenario->cluster;
    std::size_t nics = 0;
    for (const models::Node& node : cluster.nodes) nics += node.nics.size();
    text += fmt::format("{}, {}, {}, {}", counted(cluster.nodes.size(), "node"), counted(nics, "NIC"),
                        counted(cluster.cables.size(), "cable"),
                        fmt::format("{} switch{}", cluster.switches.size(), cluster.switches.size() == 1 ? "" : "es"));
  } else {
    text += "cannot be run as it is";
  }
  const std::size_t assumed = made.imported.assumed.size();
  if (assumed == 0) return text + "; nothing is assumed\n";
  text += "; assumed:";
  for (std::size_t index = 0; index < assumed; ++index) {
    const hosts::Assumed& each = made.imported.assumed[index];
    text += fmt::format("{} {} = {}", index == 0 ? "" : ",", each.place.substr(0, each.place.find(" of ")), each.value);
  }
  return text + "\n";
}

void print_text(const Made& made, const std::string& path, const std::string& picture, std::ostream& out) {
  out << first_line(made, path);
  for (const hosts::Assumed& each : made.imported.assumed) {
    out << fmt::format("  assumed: {}: {}; {}\n", each.place, each.value, each.question);
  }
  for (const hosts::ImportFinding& each : made.imported.findings) out << "  " << line_of(each) << "\n";
  for (const FoldedFinding& each : folded(made.findings)) {
    if (each.first.code != FindingCode::kAssumed) out << "  " << line_of(each) << "\n";
  }
  if (made.scenario) out << "\n" << topology_report(*made.scenario, false);
  if (!picture.empty()) out << picture << "\n";
  out << fmt::format("\nmeshbed run {0}\nmeshbed topo rules {0}\n", path);
}

void print_json(const Made& made, const std::string& path, std::ostream& out) {
  nlohmann::ordered_json document{{"file", path}, {"toml", made.imported.toml}};
  auto& assumed = document["assumed"] = nlohmann::ordered_json::array();
  for (const hosts::Assumed& each : made.imported.assumed) {
    assumed.push_back({{"what", each.place}, {"value", each.value}, {"question", each.question}});
  }
  auto& import_findings = document["import_findings"] = nlohmann::ordered_json::array();
  for (const hosts::ImportFinding& each : made.imported.findings) {
    import_findings.push_back({{"severity", name_of(each.severity)},
                               {"code", each.code},
                               {"place", each.place},
                               {"cause", each.cause},
                               {"fix", each.fix}});
  }
  document["findings"] = json_of(document::finding_rows(made.findings));
  out << json_text(document, kIndent) << "\n";
}

/// m.toml: m.svg. Empty: there is nothing to draw.
std::string draw(const Made& made, const std::string& output) {
  if (!made.scenario || output.empty() || made.scenario->cluster.nodes.size() > kDrawnNodesMax) return "";
  const std::string path = std::filesystem::path(output).replace_extension(".svg").string();
  write_text_file(path, topology_svg(*made.scenario));
  return path;
}

}  // namespace

int init_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::vector<std::string> paths, assumed;
  std::string output;
  bool json = false;
  Syntax syntax("init [PATH...] [-o FILE] [options]");
  syntax.operands.add_options()("path", po::value(&paths)->value_name("PATH..."),
                                "what `meshbed collect` wrote, a folder with etc/netplan/*.yaml, or a file: netplan, "
                                "output of ip or ibv_devinfo, "
                                "NCCL's topology, InfraGraph, containerlab; none: this host");
  syntax.positions.add("path", -1);
  syntax.options.add_options()  //
      ("output,o", po::value(&output)->value_name("FILE"),
       "the scenario, and beside it FILE.svg; default: standard output")  //
      ("assume", po::value(&assumed)->value_name("KEY=VALUE"),
       "in place of what no file contains: rate=200Gb/s, mtu=9000, latency=1us, workload=all_reduce:64M; may be "
       "repeated")  //
      ("json", po::bool_switch(&json), "print the scenario, what is assumed and the findings as JSON");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  hosts::Assumptions assumptions;
  for (const std::string& each : assumed) take_assumption(each, assumptions);
  std::optional<ScratchFolder> scratch;
  if (paths.empty()) {
    scratch.emplace();
    paths = {scratch->path() + "/this-host"};
    hosts::collect_here(paths.front(), true);
  }
  const std::string name = output.empty() ? "scenario.toml" : output;
  Made made;
  try {
    made = make(paths, assumptions, name, scratch ? scratch->path() + "/" : "");
  } catch (const std::runtime_error& error) {
    if (!scratch) throw;
    std::string text = error.what();
    shorten(text, scratch->path() + "/");
    throw std::runtime_error(text);
  }
  if (!output.empty()) write_text_file(output, made.imported.toml);
  const std::string picture = draw(made, output);
  if (json) {
    print_json(made, name, out);
  } else if (output.empty()) {
    out << made.imported.toml;
    print_text(made, name, "", err);
  } else {
    print_text(made, name, picture, out);
  }
  return made.has_error() ? kExitBroken : kExitOk;
}

}  // namespace meshbed::testbed
