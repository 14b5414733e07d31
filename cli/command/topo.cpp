#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/command/commands.h"
#include "cli/common/command_line.h"
#include "cli/common/document_output.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/topology/questions.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

struct Wish {
  std::string action, output, cablings;
  std::vector<std::string> words;  // behind the action: files, and nodes of why
  std::vector<std::string> overrides;
  bool all = false, json = false;
};

constexpr const char* kTopoActions[] = {"check", "draw", "rules", "why", "cuts", "env", "diff"};
constexpr const char* kTopoUsage =
    "usage: meshbed topo check|draw|rules|cuts|env FILE, topo why FROM TO FILE, topo diff OLD NEW, or topo rules "
    "--cablings N";

/// What is wrong with the words behind the action; empty: nothing.
std::string words_problem(const Wish& wish) {
  const std::size_t count = wish.words.size();
  if (wish.action == "why") return count == 3 ? "" : "why takes two nodes and a FILE";
  if (wish.action == "diff") {
    if (count == 1 && wish.overrides.empty()) return "diff takes two files, or one and --set";
    return count == 1 || count == 2 ? "" : "diff takes two files";
  }
  if (count == 0) return "FILE is missing";
  return count == 1 ? "" : "one FILE at a time";
}

/// What is wrong with it; empty: nothing.
std::string problem_of(const Wish& wish) {
  if (wish.action.empty()) return "say check, draw, rules, why, cuts, env or diff";
  const bool draws = wish.action == "draw", rules = wish.action == "rules", checks = wish.action == "check";
  if (std::find(std::begin(kTopoActions), std::end(kTopoActions), wish.action) == std::end(kTopoActions)) {
    const std::string closest = closest_name(wish.action, {std::begin(kTopoActions), std::end(kTopoActions)});
    return "there is no \"" + wish.action + "\"" + (closest.empty() ? "" : "; did you mean " + closest + "?");
  }
  if (!wish.output.empty() && !draws) return "--output is for draw only";
  if (wish.all && !checks) return "--all is for check only";
  if (wish.json && (checks || draws)) return "--json is for rules, why, cuts, env and diff";
  if (wish.cablings.empty()) return words_problem(wish);
  if (!rules) return "--cablings is for rules only";
  if (!wish.words.empty()) return "--cablings takes no FILE";
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

/// Of why, cuts, env and diff.
document::Document answer_to(const Wish& wish) {
  if (wish.action == "diff") {
    // With --set the second scenario, or the only one's other version, is what is set.
    const Scenario older = read_scenario(wish.words.front(), {});
    return difference_document(older, read_scenario(wish.words.back(), wish.overrides));
  }
  const Scenario scenario = read_scenario(wish.words.back(), wish.overrides);
  if (wish.action == "cuts") return cuts_document(scenario);
  if (wish.action == "env") return environment_document(scenario);
  const int from = node_named(scenario, wish.words[0]), to = node_named(scenario, wish.words[1]);
  if (from == to) throw std::runtime_error("topo why: " + wish.words[0] + " is one node; name two");
  return why_document(scenario, from, to);
}

}  // namespace

int topo_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  namespace po = boost::program_options;
  Wish wish;
  Syntax syntax("topo check|draw|rules|cuts|env FILE | topo why FROM TO FILE | topo diff OLD NEW [options]");
  syntax.operands.add_options()  //
      ("action", po::value(&wish.action)->value_name("QUESTION"),
       "check: who reaches whom over which subnet; draw: a picture (SVG); rules: what other plugins, NCCL and Mesh "
       "make of it; why: what lies between two nodes; cuts: what partitions the nodes, alone; env: the environment "
       "that "
       "stock NCCL needs; diff: what a change does")  //
      ("file", po::value(&wish.words)->value_name("FILE"), "scenario file; of why behind two names of nodes");
  syntax.positions.add("action", 1).add("file", -1);
  syntax.options.add_options()  //
      ("set", po::value(&wish.overrides)->value_name("KEY=VALUE"),
       "override a key of the scenario, of diff of NEW; may be repeated")               //
      ("all", po::bool_switch(&wish.all), "check: every pair, however many there are")  //
      ("cablings", po::value(&wish.cablings)->value_name("N|M..N"),
       "rules: instead of a file, all cablings of 2 (or M) to N nodes (6 at most) with two NICs each")  //
      ("json", po::bool_switch(&wish.json), "rules, why, cuts, env, diff: as JSON")                     //
      ("output,o", po::value(&wish.output)->value_name("FILE"), "draw: where the SVG goes; default: standard output");
  if (!parse_arguments(arguments, syntax, out)) return 0;
  if (const std::string problem = problem_of(wish); !problem.empty()) {
    err << "meshbed: topo: " << problem << "; " << kTopoUsage << "\n";
    return 2;
  }
  if (!wish.cablings.empty()) {
    const auto [least, most] = nodes_of(wish.cablings);
    out << cablings_report(least, most);
    return 0;
  }
  if (wish.action == "why" || wish.action == "cuts" || wish.action == "env" || wish.action == "diff") {
    const document::Document answer = answer_to(wish);
    DocumentOutput{.json = wish.json}.finish(answer, out);
    return kExitOk;
  }
  const Scenario scenario = read_scenario(wish.words.front(), wish.overrides);
  const std::vector<Finding> findings = findings_of(scenario);
  const int status = count_of(findings, Severity::kError) > 0 ? kExitBroken : kExitOk;
  if (wish.action == "rules") {
    DocumentOutput{.json = wish.json}.finish(rules_document(scenario), out);
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
