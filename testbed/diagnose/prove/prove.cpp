#include "testbed/diagnose/prove/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "meshbed/run.h"
#include "testbed/base/words.h"
#include "testbed/diagnose/prove/show.h"
#include "testbed/diagnose/read/read.h"
#include "testbed/library/scenario_state.h"

namespace meshbed::testbed::diagnose {
namespace {

constexpr double kTimeLimit_s = 60;
constexpr const char* kLogName = "the run's log";
constexpr const char* kSummaryName = "the run's summary.json";

/// How many of the mutation's words the evidence has.
std::size_t named_in(const Mutation& mutation, const FoundCause& cause) {
  std::size_t count = 0;
  for (const std::string& word : words_of(mutation.place, " /")) {
    for (const Sign& sign : cause.evidence) count += sign.at.text.find(word) != std::string::npos ? 1 : 0;
  }
  return count;
}

const FoundCause* first_of(const Diagnosis& diagnosis) {
  return diagnosis.causes.empty() ? nullptr : &diagnosis.causes.front();
}

}  // namespace

Shown show(const meshbed::Scenario& scenario) {
  Shown shown;
  try {
    const RunResult result = meshbed::run(scenario, {.messages = false, .time_limit_s = kTimeLimit_s});
    shown.log = result.output();
    for (const FailedRank& error : result.errors())
      shown.log += fmt::format("error at the end: rank {}: {}\n", error.rank, error.text);
    shown.summary = result.json();
    shown.digest = result.digest();
  } catch (const InvalidScenario& error) {
    shown.refused = error.what();
  }
  return shown;
}

Diagnosis diagnose_run(const Shown& shown, From from) {
  Case found;
  if (!shown.refused.empty()) {
    const Line at{.file = kSummaryName, .number = 0, .text = shown.refused};
    found.match(at);
    return judge(found);
  }
  if (from != From::kResults && shown.log.find_first_not_of(" \n") != std::string::npos)
    read_text(shown.log, kLogName, found);
  if (from != From::kLog) read_summary(parse_json(shown.summary, kSummaryName), kSummaryName, found);
  return judge(found);
}

std::string cause_in_state(const meshbed::Scenario& base, const Mutation& mutation) {
  Case found;
  try {
    const meshbed::Scenario scenario = mutated(base, mutation);
    const Scenario& parsed = scenario.state().parsed;
    causes_of_scenario(parsed, findings_of(parsed), base.path(), found);
  } catch (const InvalidScenario& error) {
    found.match({.file = base.path(), .number = 0, .text = error.what()});
  }
  const Diagnosis diagnosis = judge(found);
  return diagnosis.causes.empty() ? "none" : name_of(diagnosis.causes.front().code);
}

meshbed::Scenario mutated(const meshbed::Scenario& base, const Mutation& mutation) {
  meshbed::Scenario scenario = base;
  auto changes = mutation.changes;
  // With an error promised a run takes place though lint finds one; the text is in no error, and is not looked at.
  changes.insert(changes.begin(),
                 {{"expect", "{error = \"an error that this fault may cause\"}"}, {"environment.NCCL_DEBUG", "INFO"}});
  const Scenario& parsed = base.state().parsed;
  if (info_of(parsed.workload.kind).has_iterations && parsed.workload.iterations < 3) {
    changes.insert(changes.begin(), {"workload.iterations", "3"});
  }
  scenario.set(changes);
  return scenario;
}

void prove(Diagnosis& diagnosis, const std::string& path, const std::vector<std::string>& overrides, std::size_t most) {
  meshbed::Scenario base = path.empty() ? built_in_scenarios().front() : meshbed::Scenario::load(path);
  for (const std::string& each : overrides) {
    const std::size_t equals = each.find('=');
    base.set(each.substr(0, equals), equals == std::string::npos ? "" : each.substr(equals + 1));
  }
  const Mutation as_is{CauseCode::kNoPath, "the scenario", {}};
  std::size_t tried = 0;
  const auto try_one = [&](FoundCause& cause, const Mutation& mutation) {
    Shown shown;
    try {
      shown = show(mutated(base, mutation));
    } catch (const InvalidScenario& error) {
      shown.refused = error.what();
    }
    const Diagnosis seen = diagnose_run(shown, From::kBoth);
    const FoundCause* const first = first_of(seen);
    if (first == nullptr || first->code != cause.code) return false;
    const std::string what = mutation.changes.empty() ? "nothing changed" : "";
    cause.proof = Proof{.scenario = base.path(),
                        .changes = what.empty() ? mutation.texts() : std::vector<std::string>{what},
                        .shown = first->evidence.empty() ? "" : first->evidence.front().at.text,
                        .digest = shown.digest};
    return true;
  };
  for (FoundCause& cause : diagnosis.causes) {
    if (!info_of(cause.code).reproducible) continue;
    if (++tried > most) return;
    if (try_one(cause, as_is)) continue;
    constexpr std::size_t kPlaces = 16;
    std::vector<Mutation> places = mutations(base.state().parsed, cause.code, kPlaces);
    std::stable_sort(places.begin(), places.end(), [&](const Mutation& one, const Mutation& other) {
      return named_in(one, cause) > named_in(other, cause);
    });
    constexpr std::size_t kTries = 3;
    for (std::size_t index = 0; index < std::min(places.size(), kTries); ++index) {
      if (try_one(cause, places[index])) break;
    }
  }
}

std::vector<meshbed::Scenario> built_in_scenarios() {
  constexpr const char* kWorkload =
      "[workload]\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nbytes = \"256K\"\niterations = 3\n[limits]\ntime "
      "= \"600s\"\n";
  std::vector<meshbed::Scenario> scenarios;
  for (const auto& [name, topology] :
       {std::pair{"pair", "kind = \"ring\"\nnodes = 2\nrails = 2\n"}, std::pair{"ring", "kind = \"ring\"\nnodes = 4\n"},
        std::pair{"switch", "kind = \"switch\"\nnodes = 4\nrails = 2\n"}}) {
    scenarios.push_back(meshbed::Scenario::parse(
        fmt::format("name = \"{}\"\n[topology]\n{}{}", name, topology, kWorkload), fmt::format("built-in {}", name)));
  }
  return scenarios;
}

}  // namespace meshbed::testbed::diagnose
