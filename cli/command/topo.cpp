#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/command/commands.h"
#include "cli/common/command_line.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

struct Wish {
  std::string action, file, output, cablings;
  std::vector<std::string> overrides;
  bool all = false, json = false;
};

/// What is wrong with it; empty: nothing.
std::string problem_of(const Wish& wish) {
  if (wish.action.empty()) return "say check, draw or rules";
  const bool draws = wish.action == "draw", rules = wish.action == "rules";
  if (!draws && !rules && wish.action != "check") return "there is no \"" + wish.action + "\"";
  if (!wish.output.empty() && !draws) return "--output is for draw only";
  if (wish.all && (draws || rules)) return "--all is for check only";
  if (wish.json && !rules) return "--json is for rules only";
  if (wish.cablings.empty()) return wish.file.empty() ? "FILE is missing" : "";
  if (!rules) return "--cablings is for rules only";
  if (!wish.file.empty()) return "--cablings takes no FILE";
  if (wish.json) return "--json is for rules FILE, not for --cablings";
  return wish.overrides.empty() ? "" : "--cablings has no scenario whose keys --set could override";
}

/// "3..6", or "6" for two to six.
std::pair<int, int> nodes_of(const std::string& cablings) {
  constexpr int kLeast = 2, kMost = 6;
  const std::size_t dots = cablings.find("..");
  const auto count = [](const std::string& text, int least) {
    return static_cast<int>(parse_count("--cablings", text, static_cast<std::uint64_t>(least), kMost));
  };
  if (dots == std::string::npos) return {kLeast, count(cablings, kLeast)};
  const int least = count(cablings.substr(0, dots), kLeast);
  return {least, count(cablings.substr(dots + 2), least)};
}

std::string findings_section(const std::vector<Finding>& findings) {
  std::string text = findings.empty() ? "" : "\nFindings:\n";
  for (const std::string& line : finding_lines(findings)) text += "  " + line + "\n";
  return text;
}

}  // namespace

int topo_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  namespace po = boost::program_options;
  Wish wish;
  Syntax syntax("topo check|draw|rules FILE [options]");
  syntax.operands.add_options()  //
      ("action", po::value(&wish.action)->value_name("check|draw|rules"),
       "check: who reaches whom over which subnet; draw: a picture (SVG); rules: what other plugins, NCCL and Mesh "
       "make "
       "of it")  //
      ("file", po::value(&wish.file)->value_name("FILE"), "scenario file");
  syntax.positions.add("action", 1).add("file", 1);
  syntax.options.add_options()  //
      ("set", po::value(&wish.overrides)->value_name("KEY=VALUE"),
       "override a key of the scenario; may be repeated")                               //
      ("all", po::bool_switch(&wish.all), "check: every pair, however many there are")  //
      ("cablings", po::value(&wish.cablings)->value_name("N|M..N"),
       "rules: instead of a file, all cablings of 2 (or M) to N nodes (6 at most) with two NICs each")  //
      ("json", po::bool_switch(&wish.json), "rules: as JSON, an object for each rule")                  //
      ("output,o", po::value(&wish.output)->value_name("FILE"), "draw: where the SVG goes; default: standard output");
  if (!parse_arguments(arguments, syntax, out)) return 0;
  if (const std::string problem = problem_of(wish); !problem.empty()) {
    err << "meshbed: topo: " << problem
        << "; usage: meshbed topo check|draw|rules FILE [options], or meshbed topo rules --cablings N\n";
    return 2;
  }
  if (!wish.cablings.empty()) {
    const auto [least, most] = nodes_of(wish.cablings);
    out << cablings_report(least, most);
    return 0;
  }
  const Scenario scenario = read_scenario(wish.file, wish.overrides);
  const std::vector<Finding> findings = findings_of(scenario);
  const int status = count_of(findings, Severity::kError) > 0 ? kExitBroken : kExitOk;
  if (wish.action == "rules") {
    out << (wish.json ? rules_json(scenario) : rules_report(scenario) + findings_section(findings));
    return status;
  }
  if (wish.action == "check") {
    out << topology_report(scenario, wish.all) << findings_section(findings);
    return status;
  }
  const std::string svg = topology_svg(scenario);
  if (wish.output.empty() || wish.output == "-") {
    out << svg;
    return 0;
  }
  errno = 0;
  std::ofstream picture(wish.output, std::ios::binary);
  picture << svg;
  picture.close();
  if (!picture) {
    throw std::runtime_error("cannot write " + wish.output +
                             (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
  }
  out << wish.output << "\n";
  return 0;
}

}  // namespace meshbed::testbed
