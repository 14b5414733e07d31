#include "testbed/result/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "testbed/base/units.h"

namespace meshbed::testbed {

const char* describe(sim::OutcomeKind kind) {
  switch (kind) {
    case sim::OutcomeKind::kFinished:
      return "finished";
    case sim::OutcomeKind::kDeadlock:
      return "deadlock: nothing can happen any more";
    case sim::OutcomeKind::kStall:
      return "stall: ranks poll and nothing happens";
    case sim::OutcomeKind::kTimeLimit:
      return "the scenario's time limit has passed";
  }
  return "";
}

const char* outcome_of(const Simulation& simulation) {
  return simulation.errors.empty() ? describe(simulation.outcome.kind) : "failed";
}

std::string verdict_line(const RunResult& result) {
  const auto broken = [](const std::vector<sim::Proof>& checks) {
    return static_cast<std::uint64_t>(
        std::count_if(checks.begin(), checks.end(), [](const sim::Proof& check) { return !check.ok; }));
  };
  std::vector<std::string> parts;
  const auto add = [&](std::uint64_t count, const char* noun) {
    if (count > 0) parts.push_back(counted(count, noun));
  };
  if (!result.expected_error_seen) {
    add(result.simulation.errors.size(), "error");
    if (result.simulation.outcome.kind != sim::OutcomeKind::kFinished) {
      parts.emplace_back(describe(result.simulation.outcome.kind));
    }
  }
  add(broken(result.proofs), "broken proof");
  add(broken(result.expectations), "broken promise");
  return parts.empty() ? "" : fmt::format("FAILED: {}", fmt::join(parts, ", "));
}

std::string failure_line(const RunResult& result) {
  const Simulation& simulation = result.simulation;
  if (!simulation.errors.empty() && !result.expected_error_seen) {
    const RankError& error = simulation.errors.front();
    return fmt::format("error at {}: rank {}: {}", duration_text(error.at_ps), error.rank, error.text);
  }
  for (const auto* checks : {&result.proofs, &result.expectations}) {
    for (const sim::Proof& check : *checks) {
      if (!check.ok) return fmt::format("broken: {}: {}", check.name, check.detail);
    }
  }
  if (simulation.outcome.kind == sim::OutcomeKind::kFinished || result.expected_error_seen) return "";
  const auto& waiters = simulation.outcome.waiters;
  return fmt::format("{}{}", describe(simulation.outcome.kind),
                     waiters.empty() ? "" : "; " + fmt::format("{}", fmt::join(waiters, "; ")));
}

}  // namespace meshbed::testbed
