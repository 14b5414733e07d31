#include "testbed/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "testbed/base/exit_status.h"
#include "testbed/base/units.h"
#include "testbed/report/bonds.h"
#include "testbed/report/congestion.h"
#include "testbed/report/iterations.h"
#include "testbed/report/nccl/decisions.h"
#include "testbed/report/operations.h"
#include "testbed/report/ring_report.h"
#include "testbed/report/software_report.h"
#include "testbed/report/state_report.h"
#include "testbed/scenario/cluster_lines.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kPairsShown = 24;

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

/// How the run ended, in one word or a few.
const char* outcome_of(const Simulation& simulation) {
  return simulation.errors.empty() ? describe(simulation.outcome.kind) : "failed";
}

class Text {
 public:
  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Arguments>(arguments)...);
    buffer_.push_back('\n');
  }
  std::string take() const { return fmt::to_string(buffer_); }

 private:
  fmt::memory_buffer buffer_;
};

/// "-" for the rank of a message that never found its responder.
std::string rank_text(int rank) { return rank < 0 ? "-" : fmt::format("{}", rank); }

void write_pairs(Text& text, const Scenario& scenario, const RunResult& result) {
  if (result.pairs.empty()) return;
  text.line("");
  text.line("{:>4} -> {:<4} {:<20} {:<24} {:<24} {:>9} {:>14}", "rank", "rank", "subnet", "from", "to", "messages",
            "payload (B)");
  std::size_t shown = 0;
  for (const auto& [key, usage] : result.pairs) {
    if (shown++ == kPairsShown) {
      text.line("  ... and {} more, all in summary.json", result.pairs.size() - kPairsShown);
      break;
    }
    text.line("{:>4} -> {:<4} {:<20} {:<24} {:<24} {:>9} {:>14}", rank_text(key.source_rank),
              rank_text(key.destination_rank), shared_subnet(scenario.cluster, key),
              sim::endpoint_name(scenario.cluster, key.source), sim::endpoint_name(scenario.cluster, key.destination),
              usage.messages, usage.payload_bytes);
  }
}

/// A line for each collective; each case is in summary.json.
void write_matrix(Text& text, const RunResult& result) {
  text.line("");
  text.line("{:<16} {:>8} {:>12} {:>8} {:>14}", "workload", "cases", "elements", "#wrong", "time (us)");
  MatrixOutcome all;
  std::map<std::string, std::pair<std::size_t, MatrixOutcome>> sums;
  const auto add = [](MatrixOutcome& sum, const MatrixOutcome& each) {
    sum.wrong += each.wrong;
    sum.checked += each.checked;
    sum.time_ps += each.time_ps;
  };
  const auto line = [&](const std::string& name, std::size_t cases, const MatrixOutcome& sum) {
    text.line("{:<16} {:>8} {:>12} {:>8} {:>14.3f}", name, cases, sum.checked, sum.wrong,
              static_cast<double>(sum.time_ps) / 1e6);
  };
  for (const MatrixOutcome& each : result.matrix) {
    auto& [cases, sum] = sums[each.collective];
    ++cases;
    add(sum, each);
    add(all, each);
  }
  for (const auto& [name, sum] : sums) line(name, sum.first, sum.second);
  line("matrix", result.matrix.size(), all);
  if (!result.first_wrong.empty()) text.line("first wrong element: {}", result.first_wrong);
}

void write_result(Text& text, const Scenario& scenario, const RunResult& result) {
  if (!result.matrix.empty()) return write_matrix(text, result);
  text.line("");
  text.line("{:<16} {:>12} {:>12} {:>9} {:>9} {:>8} {:>10}", "workload", "size (B)", "time (us)", "algbw", "busbw",
            "#wrong", "messages");
  for (const FaultPhase& phase : fault_phases(scenario, result)) {  // a mean over all of them is the time of none
    const double time_ps = static_cast<double>(phase.time_ps);
    const double algbw_GBps = time_ps > 0 ? static_cast<double>(result.bytes) / time_ps * 1e3 : 0;
    text.line("{:<16} {:>12} {:>12.3f} {:>9.3f} {:>9.3f}  {} the fault, {}", result.workload, result.bytes,
              time_ps / 1e6, algbw_GBps, algbw_GBps * result.busbw_factor, phase.name,
              counted(static_cast<std::uint64_t>(phase.iterations), "iteration"));
  }
  text.line("{:<16} {:>12} {:>12.3f} {:>9.3f} {:>9.3f} {:>8} {:>10}", result.workload, result.bytes,
            static_cast<double>(result.time_ps) / 1e6, result.algbw_GBps(), result.busbw_GBps(), result.wrong,
            result.messages.messages);
  if (!result.first_wrong.empty()) text.line("first wrong element: {}", result.first_wrong);
  if (result.connect_ps >= 0) {
    text.line("connecting took {}{}", duration_text(result.connect_ps),
              result.warmup > 0 ? ", before what is timed" : ", within the first timed iteration");
  }
  if (result.warmup > 0) {
    text.line("messages, payload and wire bytes are of the whole run: {} warm-up and {}", result.warmup,
              counted(static_cast<std::uint64_t>(result.iterations), "timed iteration"));
  }
}

/// nullptr where the run called no collective, or many.
const CollectiveCase* modelled_case(const Scenario& scenario, const RunResult& result) {
  const bool has_one = scenario.workload.kind == WorkloadKind::kCollective && result.simulation.ended_well();
  return has_one ? &result.calls.collective : nullptr;
}

void write_operations(Text& text, const Scenario& scenario, const RunResult& result) {
  if (!result.simulation.ended_well() && !operation_lines(scenario, result).empty()) text.line("");
  for (const std::string& line : operation_lines(scenario, result)) text.line("{}", line);
}

void write_software(Text& text, const Scenario& scenario, const RunResult& result) {
  const auto lines = software_lines(scenario, modelled_case(scenario, result), result.time_ps);
  if (!lines.empty()) text.line("");
  for (const std::string& line : lines) text.line("{}", line);
}

void write_checks(Text& text, const char* title, const std::vector<sim::Proof>& checks) {
  if (checks.empty()) return;
  text.line("");
  text.line("{}", title);
  for (const sim::Proof& check : checks) text.line("  {:<6} {}: {}", mark_of(check), check.name, check.detail);
}

void write_faults(Text& text, const Scenario& scenario, const RunResult& result) {
  const std::vector<FaultEvent>& taken = result.simulation.faults;
  const std::vector<FaultStep> left = not_taken(scenario, taken);
  if (result.world.faults_by != FaultsBy::kSimulator || (taken.empty() && left.empty())) return;
  text.line("");
  text.line("faults");
  for (const FaultEvent& event : taken) {
    text.line("  {:>14}  {}", duration_text(event.at_ps), text_of(scenario, event.step));
  }
  for (const FaultStep& step : left) {
    text.line("  {:>14}  {}: the run ended before", "not reached", text_of(scenario, step));
  }
  if (const sim::HostCounters& host = result.simulation.host; host.stranger_connections > 0) {
    text.line("  strangers began {}, sent {}; ranks held {} at most", counted(host.stranger_connections, "connection"),
              counted(host.stranger_bytes, "byte"), host.peak_strangers_held);
  }
}

void write_failures(Text& text, const RunResult& result) {
  const Simulation& simulation = result.simulation;
  for (const RankError& error : simulation.errors) {
    text.line("");
    text.line("{} at {}: rank {}: {}", result.expected_error_seen ? "expected error seen" : "error",
              duration_text(error.at_ps), error.rank, error.text);
  }
  if (simulation.outcome.kind != sim::OutcomeKind::kFinished) {
    text.line("");
    text.line("{}; who waits for what:", describe(simulation.outcome.kind));
    for (const std::string& waiter : simulation.outcome.waiters) text.line("  {}", waiter);
  }
}

/// Whom each rank's net plugin waited for: what `lines_of` makes of its state, below `title` where it makes anything.
void write_states(Text& text, const RunResult& result, const char* title,
                  std::vector<std::string> (*lines_of)(const nlohmann::ordered_json&)) {
  std::vector<std::string> lines;
  for (std::size_t rank = 0; rank < result.simulation.states.size(); ++rank) {
    const std::string& state = result.simulation.states[rank];
    if (state.empty()) continue;
    for (const std::string& line : lines_of(parse_state(state)))
      lines.push_back(fmt::format("  rank {}: {}", rank, line));
  }
  if (lines.empty()) return;
  text.line("");
  text.line("{}{}:", title, result.simulation.errors.empty() ? "" : " when the first error came");
  for (const std::string& line : lines) text.line("{}", line);
}

/// Those that were checked; a proof without anything to check is in nothing_to_check_json instead.
nlohmann::ordered_json checks_json(const std::vector<sim::Proof>& checks) {
  auto list = nlohmann::ordered_json::array();
  for (const sim::Proof& check : checks) {
    if (check.checked) list.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
  }
  return list;
}

nlohmann::ordered_json nothing_to_check_json(const std::vector<sim::Proof>& checks) {
  auto list = nlohmann::ordered_json::array();
  for (const sim::Proof& check : checks) {
    if (!check.checked) list.push_back({{"name", check.name}, {"detail", check.detail}});
  }
  return list;
}

/// By rank; null where the rank has no plugin.
nlohmann::ordered_json states_json(const std::vector<std::string>& states) {
  auto list = nlohmann::ordered_json::array();
  for (const std::string& state : states) list.push_back(state.empty() ? nullptr : parse_state(state));
  return list;
}

/// null where there is no such time.
nlohmann::ordered_json nanoseconds_json(Picoseconds time_ps) {
  if (time_ps <= 0) return nullptr;
  return static_cast<double>(time_ps) / 1e3;
}

nlohmann::ordered_json pairs_json(const Scenario& scenario, const RunResult& result) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [key, usage] : result.pairs) {
    list.push_back({{"source_rank", key.source_rank},
                    {"destination_rank", key.destination_rank},
                    {"source", sim::endpoint_name(scenario.cluster, key.source)},
                    {"destination", sim::endpoint_name(scenario.cluster, key.destination)},
                    {"subnet", shared_subnet(scenario.cluster, key)},
                    {"messages", usage.messages},
                    {"payload_bytes", usage.payload_bytes},
                    {"wire_bytes", usage.wire_bytes}});
  }
  return list;
}

nlohmann::ordered_json links_json(const Simulation& simulation) {
  auto list = nlohmann::ordered_json::array();
  for (const sim::Link& link : simulation.links) {
    list.push_back(
        {{"name", link.name}, {"rate_bps", link.rate_bps}, {"wire_bytes", link.bytes_out}, {"busy_ps", link.busy_ps}});
  }
  return list;
}

}  // namespace

std::string duration_text(Picoseconds time_ps) {
  const auto time = static_cast<double>(time_ps);
  if (time_ps < kPicosecondsPerMicrosecond) return fmt::format("{:.3f} ns", time / 1e3);
  if (time_ps < kPicosecondsPerMillisecond) return fmt::format("{:.3f} us", time / 1e6);
  if (time_ps < kPicosecondsPerSecond) return fmt::format("{:.3f} ms", time / 1e9);
  return fmt::format("{:.3f} s", time / 1e12);
}

nlohmann::ordered_json faults_json(const Scenario& scenario, const std::vector<FaultEvent>& taken) {
  auto list = nlohmann::ordered_json::array();
  for (const FaultEvent& event : taken) {
    const Fault& fault = scenario.faults[event.step.fault];
    auto cut = nlohmann::ordered_json::array();
    for (const models::PortRef port : ports_of(scenario.cluster, fault)) {
      if (cuts(fault.kind)) cut.push_back(sim::port_name(scenario.cluster, port));
    }
    list.push_back({{"fault", text_of(scenario, event.step)},
                    {"kind", name_of(fault.kind)},
                    {"target", fault.target},
                    {"point", point_of(fault)},
                    {"begins", event.step.begins},
                    {"at_ns", static_cast<double>(event.at_ps) / 1e3},
                    {"cuts", std::move(cut)}});
  }
  return list;
}

nlohmann::ordered_json errors_json(const std::vector<RankError>& errors) {
  auto list = nlohmann::ordered_json::array();
  for (const RankError& error : errors) {
    list.push_back({{"rank", error.rank}, {"at_ps", error.at_ps}, {"class", error.error_class}, {"text", error.text}});
  }
  return list;
}

std::vector<RankError> errors_from_json(const nlohmann::ordered_json& list) {
  std::vector<RankError> errors;
  for (const auto& error : list)
    errors.push_back({error.at("rank"), error.at("at_ps"), error.at("text"), error.at("class")});
  return errors;
}

std::string text_report(const Scenario& scenario, const RunResult& result, const std::string& results_folder,
                        bool each_iteration) {
  Text text;
  const bool simulated = result.world.virtual_time;
  text.line("{}{}", topology_line(scenario), simulated ? fmt::format(", fabric {}", fabric_name(scenario)) : "");
  for (const std::string& line : bond_lines(scenario.cluster)) text.line("{}", line);
  write_pairs(text, scenario, result);
  if (result.simulation.ended_well()) write_result(text, scenario, result);
  write_operations(text, scenario, result);
  if (simulated) write_software(text, scenario, result);
  if (each_iteration) {
    text.line("");
    for (const std::string& line : iteration_lines(scenario, result)) text.line("{}", line);
    if (result.iteration_times.empty()) text.line("no iteration has a time of its own here");
  }
  if (result.rings != nullptr) {
    for (const std::string& line : ring_lines(*result.rings)) text.line("{}", line);
  }
  if (const auto lines = congestion_lines(result.simulation.links); !lines.empty()) {
    text.line("");
    for (const std::string& line : lines) text.line("{}", line);
  }
  if (const auto lines = nccl_lines(result.simulation.nccl); !lines.empty()) {
    text.line("");
    for (const std::string& line : lines) text.line("{}", line);
  }
  write_faults(text, scenario, result);
  write_failures(text, result);
  write_states(text, result, "connections that had something under way", stuck_lines);
  write_states(text, result, "connections that were being made", making_lines);
  write_checks(text, "proofs", result.proofs);
  write_checks(text, "expected", result.expectations);
  text.line("");
  text.line("{} {}, {:.2f} CPU s, {} MiB", simulated ? "simulated" : "took",
            duration_text(result.simulation.elapsed_ps), result.cpu_s, result.peak_rss_bytes / kMiB);
  if (!results_folder.empty()) text.line("results in {}", results_folder);
  if (const std::string verdict = verdict_line(result); !verdict.empty()) text.line("{}", verdict);
  text.line("digest {}", result.digest);
  return text.take();
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

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

nlohmann::ordered_json matrix_json(const RunResult& result) {
  auto cases = nlohmann::ordered_json::array();
  for (const MatrixOutcome& each : result.matrix) {
    auto data = nlohmann::ordered_json::array();
    for (const std::uint64_t hash : each.data) data.push_back(hash_text(hash));
    cases.push_back({{"case", each.text},
                     {"wrong", each.wrong},
                     {"checked", each.checked},
                     {"time_ns", static_cast<double>(each.time_ps) / 1e3},
                     {"data", std::move(data)}});
  }
  return cases;
}

nlohmann::ordered_json summary(const Scenario& scenario, const RunResult& result) {
  const Simulation& simulation = result.simulation;
  nlohmann::ordered_json json{
      {"scenario", scenario.name},
      {"world", result.world.name},
      {"seed", scenario.seed},
      {"plugin_sha256", simulation.plugin_sha256},
      {"ranks", ranks_of(scenario)},
      {"collective", result.workload},
      {"bytes", result.bytes},
      {"time_ns", static_cast<double>(result.time_ps) / 1e3},
      {"algbw_GBps", result.algbw_GBps()},
      {"busbw_GBps", result.busbw_GBps()},
      {"wrong", result.checked > 0 ? nlohmann::ordered_json(result.wrong) : nullptr},
      {"messages", result.messages.messages},
      {"cpu_s", result.cpu_s},
      {"peak_rss_bytes", result.peak_rss_bytes},
      {"proofs", checks_json(result.proofs)},
      {"digest", result.digest},
      // beyond what every tool reads
      {"fabric", result.world.virtual_time ? nlohmann::ordered_json(fabric_name(scenario)) : nullptr},
      {"findings", findings_json(findings_of(scenario))},
      {"engine_sha256", simulation.engine_sha256},
      {"nccl", nccl_json(simulation.nccl)},
      {"iterations", result.iterations},
      {"warmup_iterations", result.warmup},
      {"checked", result.checked},
      {"bound_ns", nanoseconds_json(result.bound_ps)},
      {"over_bound", result.bound_ps > 0 ? nlohmann::ordered_json(result.over_bound()) : nullptr},
      {"connections", result.connections},
      {"connect_ns",
       result.connect_ps >= 0 ? nlohmann::ordered_json(static_cast<double>(result.connect_ps) / 1e3) : nullptr},
      {"operations", operations_json(scenario, result)},
      {"fault_phases", fault_phases_json(scenario, result)},
      {"iteration_times", iterations_json(result)},
      {"retransmissions", simulation.verbs.retransmissions},
      {"management_bytes", simulation.host.management_bytes},
      {"simulated_ns", static_cast<double>(simulation.elapsed_ps) / 1e3},
      {"outcome", outcome_of(simulation)},
      {"passed", exit_status(result) == kExitOk},
      {"nothing_to_check", nothing_to_check_json(result.proofs)},
      {"expected", checks_json(result.expectations)},
      {"pairs", pairs_json(scenario, result)},
      {"links", links_json(simulation)},
      {"congestion", congestion_json(simulation.links)},
  };
  // What each rank got, by rank: XXH3-64 as 16 hex digits.
  json["data"] = nlohmann::ordered_json::array();
  for (const std::uint64_t hash : result.data) json["data"].push_back(hash_text(hash));
  if (result.rings != nullptr) json["rings"] = rings_json(*result.rings);
  if (scenario.software.machine != nullptr && result.world.virtual_time) {
    json["software"] = software_json(scenario, modelled_case(scenario, result), result.time_ps);
  }
  if (auto bonds = bonds_json(scenario.cluster); !bonds.empty()) json["bonds"] = std::move(bonds);
  if (!result.matrix.empty()) json["cases"] = matrix_json(result);
  json["errors"] = errors_json(simulation.errors);
  json["waiters"] = simulation.outcome.waiters;
  json["states"] = states_json(simulation.states);
  json["faults"] = faults_json(scenario, simulation.faults);
  json["strangers"] = {{"connections", simulation.host.stranger_connections},
                       {"bytes", simulation.host.stranger_bytes},
                       {"held_at_most", simulation.host.peak_strangers_held}};
  return json;
}

nlohmann::ordered_json provenance(const Scenario& scenario, const RunResult& result,
                                  const std::vector<std::string>& command_line) {
  return {{"meshbed", kVersion},
          {"command_line", command_line},
          {"scenario_file", scenario.path},
          {"scenario_sha256", sha256_of_file(scenario.path)},
          {"overrides", scenario.overrides},
          {"seed", scenario.seed},
          {"fabric", result.world.virtual_time ? nlohmann::ordered_json(fabric_name(scenario)) : nullptr},
          {"plugin_sha256", result.simulation.plugin_sha256},
          {"engine_sha256", result.simulation.engine_sha256},
          {"compiler", __VERSION__},
          {"digest", result.digest}};
}

}  // namespace meshbed::testbed
