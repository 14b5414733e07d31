#include "cli/command/needs.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "cli/command/program.h"
#include "testbed/scenario/scenario.h"
#include "testbed/world/gpus.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kProgramTarget = "bin/meshbed";
constexpr const char* kToolsTarget = "bin/meshbed-tools";
constexpr const char* kEngineTargets = "first_run";  // with kProgramTarget: ranks of the engine, simulated
constexpr const char* kRankTargets = "worlds";       // with those of kEngineTargets: programs and the other worlds
constexpr const char* kCudaTargets = "cuda_libraries";

/// Commands of meshbed-tools that start ranks. They choose their workloads themselves, some with GPUs.
constexpr const char* kRunningTools[] = {"perf", "conformance", "fuzz", "tune", "bench", "sweep", "plan"};

template <typename List>
bool has_word(const List& list, const std::string& word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// The values of an option, given as "--set VALUE" or "--set=VALUE".
std::vector<std::string> values_of(const Arguments& words, const std::string& option) {
  std::vector<std::string> values;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at] == option && at + 1 < words.size()) values.push_back(words[at + 1]);
    if (words[at].rfind(option + "=", 0) == 0) values.push_back(words[at].substr(option.size() + 1));
  }
  return values;
}

bool has_value(const Arguments& words, const std::string& option, const std::string& value) {
  return has_word(values_of(words, option), value);
}

struct NamedScenario {
  bool is_named = false;             // one of the words names a scenario, or a pipe that only the command may read
  std::optional<Scenario> scenario;  // empty: a pipe
};

/// The scenario among the words of run or exec: the first file that can be read as one, with the settings beside it.
NamedScenario scenario_in(const Arguments& words) {
  std::vector<std::string> overrides = values_of(words, "--set");
  for (const std::string& profile : values_of(words, "--profile")) overrides.push_back("models.profile=" + profile);
  NamedScenario found;
  for (std::size_t at = 1; at < words.size(); ++at) {
    const bool is_option = words[at].rfind("--", 0) == 0;
    const std::string path = is_option ? words[at].substr(words[at].find('=') + 1) : words[at];
    std::error_code problem;
    const std::filesystem::file_status status = std::filesystem::status(path, problem);
    if (std::filesystem::is_fifo(status)) found.is_named = true;
    if (!std::filesystem::is_regular_file(status)) continue;
    try {
      return {.is_named = true, .scenario = read_scenario(path, overrides)};
    } catch (const std::exception&) {
      continue;  // another file, such as a result; or a scenario with errors, which the command reports
    }
  }
  return found;
}

/// Whether a run of the scenario is in the simulator, of ranks that load the engine or the net plugin alone.
bool runs_engine_alone(const Arguments& words, const Scenario& scenario) {
  const std::vector<std::string> worlds = values_of(words, "--world");
  const bool simulated = worlds.empty() || worlds == Arguments{name_of(WorldKind::kSimulated)};
  return words.front() != "exec" && simulated && scenario.workload.kind != WorkloadKind::kProgram;
}

std::vector<std::string> targets_of_scenario(const Arguments& words) {
  const NamedScenario named = scenario_in(words);
  if (!named.is_named) return {kProgramTarget};
  if (has_value(words, "--mode", "replay")) return {kProgramTarget};  // no rank loads anything
  if (!named.scenario) return {kRankTargets, kCudaTargets};
  const bool gpus = words.front() == "exec" ? calls_cuda(*named.scenario) || has_gpus(named.scenario->cluster)
                                            : calls_cuda(*named.scenario);
  if (gpus) return {kRankTargets, kCudaTargets};
  return {runs_engine_alone(words, *named.scenario) ? kEngineTargets : kRankTargets};
}

std::vector<std::string> targets_of(const Arguments& words, const Arguments& all) {
  const std::string& command = words.front();
  const std::string action = words.size() > 1 ? words[1] : "";
  if (command == "install") return {"installed"};
  if (command == "run" || command == "record" || command == "exec") return targets_of_scenario(words);
  if (command == "shell" || command == "emu" || command == "doctor") return {kRankTargets};
  if (has_word(kRunningTools, command) || (command == "nccl" && (action == "run" || action == "compare"))) {
    std::vector<std::string> targets{kRankTargets, kToolsTarget, kCudaTargets};
    if (command == "bench" && action == "cost") targets.emplace_back("cost_programs");
    if (command == "sweep" || command == "plan") targets.emplace_back("bin/meshbed-run");  // the process of each run
    return targets;
  }
  if (command == "diagnose" && (has_word(words, "--prove") || has_word(words, "--self-check"))) {
    return {kRankTargets, kToolsTarget, "bin/meshbed-run"};
  }
  // `cuda run` with a program behind its own words.
  if (command == "cuda" && action == "run" && all.size() > words.size())
    return {kProgramTarget, kToolsTarget, kCudaTargets};
  if (is_command_of_tools(command)) return {kProgramTarget, kToolsTarget};
  return {kProgramTarget};
}

/// Whether the command line starts emulated nodes.
bool boots_nodes(const Arguments& words) {
  const std::string& command = words.front();
  if (command == "shell" || command == "exec") return true;
  if (command == "compare") return has_word(words, name_of(WorldKind::kEmulated));
  if (command == "bench") {
    return words.size() > 1 && words[1] == "perftest" && !has_value(words, "--world", name_of(WorldKind::kMetal));
  }
  return (command == "run" || command == "perf" || command == "conformance") &&
         has_value(words, "--world", name_of(WorldKind::kEmulated));
}

/// Whether it sets the emulated nodes up in this host's own kernel.
bool sets_up_namespaces(const Arguments& words) {
  if (has_word(words, "--dry-run")) return false;
  if (words.front() == "emu") return has_word(words, "up");
  return words.front() == "run" && has_value(words, "--backend", "namespaces");
}

std::vector<std::string> packages_of(const Arguments& words) {
  std::vector<std::string> packages;
  if (sets_up_namespaces(words)) {
    packages.emplace_back("namespace");
  } else if (boots_nodes(words)) {
    packages.emplace_back("emu");
  }
  if (words.front() == "bench" && words.size() > 1 && words[1] == "perftest") packages.emplace_back("perftest");
  if (words.front() == "bench" && words.size() > 1 && (words[1] == "cost" || words[1] == "scale")) {
    packages.emplace_back("cost");
  }
  if (words.front() == "install") packages.emplace_back("python");
  return packages;
}

}  // namespace

bool asks_for_help(const Arguments& words) {
  const Arguments own = own_words(words);
  return has_word(own, "--help") || has_word(own, "-h");
}

Needs needs_of(const Arguments& words) {
  if (words.empty() || words.front() == "help" || words.front() == "--version" || asks_for_help(words)) return {};
  const Arguments own = own_words(words);
  if (own.empty()) return {.targets = {kProgramTarget}, .packages = {}};
  Needs needs{.targets = targets_of(own, words), .packages = {}};
  const bool is_refused = (own.front() == "run" || own.front() == "exec") && needs.targets.front() == kProgramTarget;
  if (!is_refused) needs.packages = packages_of(own);
  return needs;
}

std::string to_text(const Needs& needs) {
  std::string text;
  for (const std::string& target : needs.targets) text += "target " + target + "\n";
  for (const std::string& group : needs.packages) text += "packages " + group + "\n";
  return text;
}

}  // namespace meshbed::testbed
