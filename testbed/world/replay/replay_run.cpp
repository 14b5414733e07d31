#include "testbed/world/replay/replay_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "models/algorithm.h"
#include "models/pcie.h"
#include "plugin/coll/plan/plan.h"
#include "sim/replay/replay.h"
#include "sim/trace/digest.h"
#include "testbed/base/progress.h"
#include "testbed/base/units.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/placement.h"
#include "testbed/world/replay/planned_run.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

[[noreturn]] void refuse(const Scenario& scenario, const std::string& what, const std::string& fix) {
  throw ScenarioError(scenario.path, fmt::format("--mode replay: {}; {}", what, fix));
}

constexpr const char* kRealPlugin = "leave --mode out to run the real plugin";

void check_replayable(const Scenario& scenario) {
  const Workload& workload = scenario.workload;
  if (workload.kind != WorkloadKind::kCollective) {
    refuse(scenario,
           fmt::format("a workload of kind {} has no schedule that could be replayed", name_of(workload.kind)),
           kRealPlugin);
  }
  if (!scenario.faults.empty()) {
    refuse(scenario, fmt::format("faults ({}) need the plugin's recovery", name_of(scenario.faults.front().kind)),
           kRealPlugin);
  }
  if (scenario.software.machine != nullptr) {
    refuse(scenario,
           fmt::format("the profile {} is of software, which a replay does not run", scenario.software.profile),
           "set models.profile = ideal, or leave --mode out");
  }
  if (!is_one_a_node(scenario)) refuse(scenario, "it has one rank a node", "set workload.ranks_per_node = 1");
  if (workload.late_by_ps > 0) refuse(scenario, "late ranks are not replayed", kRealPlugin);
  if (!workload.channel_devices.empty()) {
    refuse(scenario, "channel c takes link c of those to a neighbour, in order", "leave workload.channel_devices out");
  }
  if (workload.protocol != "simple" && scenario.replay_detail != "plugin") {
    refuse(scenario, fmt::format("protocol {} changes what messages carry", workload.protocol),
           "set workload.protocol = simple");
  }
}

struct NamedAlgorithm {
  const char* name;
  sim::ReplayAlgorithm algorithm;
};
constexpr NamedAlgorithm kRing{"ring", sim::ReplayAlgorithm::kRing};
constexpr NamedAlgorithm kTree{"tree", sim::ReplayAlgorithm::kTree};
constexpr NamedAlgorithm kHalvingDoubling{"halving-doubling", sim::ReplayAlgorithm::kHalvingDoubling};
constexpr NamedAlgorithm kTorus{"torus", sim::ReplayAlgorithm::kTorus};
constexpr NamedAlgorithm kPairs{"pairs", sim::ReplayAlgorithm::kPairs};

/// Those that do the collective; those with fewest messages first.
std::vector<NamedAlgorithm> algorithms_for(models::Collective collective, bool is_torus) {
  switch (pattern_of(collective)) {
    case CollectivePattern::kRing:
    case CollectivePattern::kChain:
      if (collective == models::Collective::kAllReduce && is_torus) return {kTree, kTorus, kHalvingDoubling, kRing};
      if (collective == models::Collective::kAllReduce) return {kTree, kHalvingDoubling, kRing};
      return has_root(collective) ? std::vector<NamedAlgorithm>{kTree, kRing} : std::vector<NamedAlgorithm>{kRing};
    case CollectivePattern::kPairs:
      if (collective == models::Collective::kAllToAll) return {kPairs};
      return {};
    default:
      return {};
  }
}

/// What to replay: the scenario's algorithm, or all where it is the fastest one.
std::vector<NamedAlgorithm> candidates(const Scenario& scenario, models::Collective collective) {
  const std::string& name = scenario.workload.algorithm;
  const std::vector<NamedAlgorithm> known = algorithms_for(collective, !scenario.cluster.torus_shape.empty());
  if (known.empty()) {
    refuse(scenario, fmt::format("{} is not replayed", scenario.workload.collective),
           "replayed are all_reduce, all_gather, reduce_scatter, broadcast, reduce and alltoall");
  }
  if (name == "auto" || pattern_of(collective) == CollectivePattern::kPairs) return known;
  std::string names;
  for (const NamedAlgorithm& each : known) {
    if (name == each.name) return {each};
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  refuse(scenario, fmt::format("{} by algorithm {} is not replayed", scenario.workload.collective, name),
         fmt::format("set workload.algorithm to one of: auto, {}", names));
}

struct Chosen {
  sim::ReplayOutcome outcome;
  std::string algorithm;
  std::vector<ReplayChoice> choices;  // empty: there was one candidate
};

/// The fastest of them: each is replayed until it takes longer than one before it.
Chosen fastest(const Scenario& scenario, sim::ReplayRequest request, const std::vector<NamedAlgorithm>& algorithms) {
  Chosen best;
  std::string refusal;
  bool too_long = false;
  const Picoseconds limit_ps = replay_limit_ps(scenario);
  for (const NamedAlgorithm& each : algorithms) {
    request.algorithm = each.algorithm;
    request.give_up_ps = best.algorithm.empty() ? limit_ps : best.outcome.time_ps;
    const Result<sim::ReplayOutcome> outcome = sim::replay(request);
    if (!outcome) {
      const std::string& text = outcome.error().text;
      if (refusal.empty() || each.algorithm == sim::ReplayAlgorithm::kTorus) refusal = text;
      best.choices.push_back({.algorithm = each.name, .time_ps = 0, .refused = text});
      continue;
    }
    if (best.algorithm.empty() && (outcome->gave_up || outcome->time_ps > limit_ps)) {
      too_long = true;
      best.choices.push_back({.algorithm = each.name, .time_ps = 0, .refused = ""});
      continue;
    }
    best.choices.push_back({.algorithm = each.name, .time_ps = outcome->gave_up ? 0 : outcome->time_ps, .refused = ""});
    if (outcome->gave_up || (!best.algorithm.empty() && outcome->time_ps >= best.outcome.time_ps)) continue;
    best.outcome = *outcome;
    best.algorithm = each.name;
  }
  if (best.algorithm.empty() && too_long) refuse_too_long(scenario);
  if (best.algorithm.empty()) throw ScenarioError(scenario.path, "--mode replay: " + refusal);
  if (algorithms.size() == 1) best.choices.clear();
  return best;
}

/// Detail plugin round a ring of cables, where each rank takes one event a slice (sim/replay/plugin_ring.h): much
/// faster than the engine's own channel runs, and as exact. nullopt: it is no such ring.
std::optional<Chosen> plugin_ring(const Scenario& scenario, sim::ReplayRequest request, const PlannedWork& work) {
  const coll::PlanRequest& plan = work.plan;
  const bool widens = models::reduces(plan.collective) && plan.partial_bytes != plan.element_bytes;
  const bool is_simple_ring = work.way == coll::AlgorithmProtocol{};
  if (widens || !is_simple_ring || pattern_of(plan.collective) == CollectivePattern::kPairs) return std::nullopt;
  request.detail = sim::ReplayDetail::kPlugin;
  request.slice_elements = coll::make_plan(plan).slice_count;
  request.warmup = scenario.workload.warmup + scenario.workload.iterations - 1;
  const SimulationProgress progress;
  Result<sim::ReplayOutcome> outcome = sim::replay(request);
  if (!outcome) return std::nullopt;
  if (outcome->time_ps > replay_limit_ps(scenario)) refuse_too_long(scenario);
  return Chosen{.outcome = std::move(*outcome), .algorithm = kRing.name, .choices = {}};
}

std::string digest_of(const RunResult& result, const sim::ReplayOutcome& outcome) {
  sim::Digest digest;
  digest.add(result.workload);
  digest.add(result.replay->algorithm);
  digest.add(result.bytes);
  digest.add(outcome.messages);
  digest.add(outcome.payload_bytes);
  digest.add(static_cast<std::uint64_t>(outcome.time_ps));
  digest.add(outcome.digest);
  return digest.hex();
}

std::string replay_csv(std::vector<sim::ReplayRecord> messages) {
  std::stable_sort(messages.begin(), messages.end(), [](const sim::ReplayRecord& left, const sim::ReplayRecord& right) {
    return std::tie(left.posted_ps, left.source) < std::tie(right.posted_ps, right.source);
  });
  std::string text = "posted_ps,started_ps,delivered_ps,completed_ps,source_rank,destination_rank,payload_bytes\n";
  for (const sim::ReplayRecord& each : messages) {
    text += fmt::format("{},{},{},{},{},{},{}\n", each.posted_ps, each.started_ps, each.delivered_ps, each.completed_ps,
                        each.source, each.destination, each.payload_bytes);
  }
  return text;
}

}  // namespace

Picoseconds any_algorithm_bound_of(const Scenario& scenario, models::Collective collective, std::uint64_t bytes) {
  const models::Cluster& cluster = scenario.cluster;
  std::vector<std::vector<int>> cabled(cluster.nodes.size());
  std::vector<std::uint64_t> rates(cluster.nodes.size(), 0);
  const auto add = [&](models::PortRef port, std::uint64_t rate_bps) {
    if (!cluster.nic_of(port).link_up) return;
    cabled[static_cast<std::size_t>(port.node)].push_back(port.nic);
    rates[static_cast<std::size_t>(port.node)] += rate_bps;
  };
  for (const models::Cable& cable : cluster.cables) {
    add(cable.a, cable.rate_bps);
    add(cable.b, cable.rate_bps);
  }
  for (const models::Switch& each : cluster.switches) {
    for (const models::PortRef port : each.ports) add(port, std::min(each.rate_bps, cluster.nic_of(port).rate_bps));
  }
  std::vector<models::NodePort> ports;
  for (int node = 0; node < ranks_of(scenario); ++node) {
    const auto at = static_cast<std::size_t>(node);
    ports.push_back({.rate_bps = std::min(rates[at], models::node_rate_bps(cluster.at(node), cabled[at])), .ranks = 1});
  }
  return models::any_algorithm_bound_ps(collective, bytes, ports);
}

Picoseconds replay_limit_ps(const Scenario& scenario) {
  constexpr double kLimitMost_s = 1e6;  // fits into picoseconds
  return static_cast<Picoseconds>(std::min(scenario.time_limit_s, kLimitMost_s) *
                                  static_cast<double>(kPicosecondsPerSecond));
}

void refuse_too_long(const Scenario& scenario) {
  throw ScenarioError(scenario.path, fmt::format("--mode replay: it takes longer than limits.time, {}; set that higher",
                                                 duration_text(replay_limit_ps(scenario))));
}

RunResult run_replay(const Scenario& scenario, std::string* trace) {
  check_replayable(scenario);
  const Workload& workload = scenario.workload;
  const models::Collective collective = *models::parse_collective(workload.collective);
  const coll::DataType type = parse_data_type("dtype", workload.dtype);
  const int ranks = ranks_of(scenario);
  const CollectiveShape shape = shape_of(collective, workload.bytes, ranks, type);
  sim::ReplayRequest request{.cluster = &scenario.cluster,
                             .collective = collective,
                             .ranks = ranks,
                             .root = workload.root,
                             .shape = scenario.cluster.torus_shape,
                             .elements = shape.count,
                             .element_bytes = coll::size_of(type),
                             .channels = workload.channels,
                             .fold = scenario.fold};
  if (workload.slice_bytes > 0) request.slice_bytes = workload.slice_bytes;
  request.on_progress = &SimulationProgress::show;
  std::vector<sim::ReplayRecord> messages;
  if (trace != nullptr) request.trace = &messages;
  Chosen chosen;
  if (scenario.replay_detail == "plugin") {
    check_plugin_detail(scenario, collective);
    PlannedWork work;
    plan_work(scenario, collective, type, &work);
    auto ring = plugin_ring(scenario, request, work);
    if (!ring) {
      messages.clear();
      RunResult result = run_planned(scenario, work, request.trace);
      if (trace != nullptr) *trace = replay_csv(std::move(messages));
      return result;
    }
    chosen = std::move(*ring);
  } else {
    const SimulationProgress progress;
    chosen = fastest(scenario, request, candidates(scenario, collective));
  }
  const sim::ReplayOutcome& outcome = chosen.outcome;

  RunResult result;
  result.world = run_world(WorldKind::kSimulated).facts();
  result.workload = workload.collective;
  result.bytes = shape.bytes;
  result.iterations = 1;
  result.time_ps = outcome.time_ps;
  result.busbw_factor = models::bus_factor(collective, ranks);
  result.bound_ps = any_algorithm_bound_of(scenario, collective, shape.bytes);
  result.replay = {.detail = scenario.replay_detail,
                   .algorithm = chosen.algorithm,
                   .events = outcome.events,
                   .skipped = outcome.skipped,
                   .folded = outcome.folded,
                   .contended = outcome.contended,
                   .choices = chosen.choices};
  result.messages.messages = result.messages.succeeded = outcome.messages;
  result.messages.payload_bytes = outcome.payload_bytes;
  result.simulation.elapsed_ps = outcome.time_ps;
  result.proofs.push_back(sim::bound_kept("no algorithm is faster", result.time_ps, result.bound_ps));
  result.proofs.insert(result.proofs.end(), outcome.proofs.begin(), outcome.proofs.end());
  result.digest = digest_of(result, outcome);
  if (trace != nullptr) *trace = replay_csv(std::move(messages));
  return result;
}

}  // namespace meshbed::testbed
