#include "testbed/world/replay/planned_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "models/nccl_environment.h"
#include "models/topology.h"
#include "plugin/coll/run/communicator.h"
#include "sim/trace/digest.h"
#include "sim/trace/proof.h"
#include "testbed/base/memory.h"
#include "testbed/base/progress.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/workload.h"
#include "testbed/world/replay/planned_replay.h"
#include "testbed/world/replay/replay_run.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kRecord = "record a run (meshbed record)";

[[noreturn]] void refuse_plugin(const Scenario& scenario, const std::string& what,
                                const std::string& fix = std::string(kRecord) + ", or set replay.detail = data") {
  throw ScenarioError(scenario.path, fmt::format("--mode replay: replay.detail = plugin: {}; {}", what, fix));
}

/// Where every two ranks have connections there are as many as the square of the ranks.
void check_memory(const Scenario& scenario, const PlannedWork& work) {
  constexpr std::uint64_t kConnectionBytes = 6144;  // measured, with what both channel runs keep of it
  const coll::PlanRequest& plan = work.plan;
  if (!is_all_to_all(plan.collective) && work.way.algorithm != coll::Algorithm::kDirect) return;
  const auto ranks = static_cast<std::uint64_t>(plan.ranks), channels = static_cast<std::uint64_t>(plan.channels);
  const std::uint64_t connections = ranks * (ranks - 1) * channels, bytes = connections * kConnectionBytes;
  const std::uint64_t available_bytes = available_memory_bytes();
  if (bytes <= available_bytes) return;
  refuse_plugin(scenario,
                fmt::format("{} connections of {} ranks take {} MiB of memory, and {} MiB are available", connections,
                            ranks, bytes / kMiB, available_bytes / kMiB),
                "take fewer ranks, or set replay.detail = data");
}

/// As Engine::open() and Communicator have it.
PlannedDevices devices_planned(const Scenario& scenario) {
  auto topology = std::make_shared<const models::Topology>(models::analyse(models::in_use(scenario.cluster)));
  auto by_rank = std::make_shared<const std::vector<std::vector<int>>>(devices_by_rank(scenario, *topology));
  return [&scenario, topology = std::move(topology), by_rank = std::move(by_rank)](int rank, int channel) {
    const std::vector<int> nics = device_nics(scenario, *topology, node_of(scenario, rank));
    const std::vector<int>& own = (*by_rank)[static_cast<std::size_t>(rank)];
    const auto at = static_cast<std::size_t>(channel);
    const std::size_t device = own.empty() ? at % nics.size() : static_cast<std::size_t>(own[at % own.size()]);
    return PlannedDevice{.index = static_cast<int>(device), .nic = nics[device]};
  };
}

}  // namespace

void check_plugin_detail(const Scenario& scenario, models::Collective collective) {
  const Workload& workload = scenario.workload;
  if (pattern_of(collective) == CollectivePattern::kMessage) {
    refuse_plugin(scenario, fmt::format("{} is not replayed", workload.collective));
  }
  if (workload.warmup == 0) {
    refuse_plugin(scenario, "connections are made in a first iteration, which is not replayed (workload.warmup = 1)");
  }
  if (!workload.net_plugin.empty()) refuse_plugin(scenario, "other net plugins send other messages");
  if (workload.gpu_memory) refuse_plugin(scenario, "it has no GPUs (workload.memory)");
  if (std::string_view(fabric_name(scenario)) == "fluid")
    refuse_plugin(scenario, "it shares links in chunks (fabric.kind)");
  for (const models::Node& node : scenario.cluster.nodes) {
    if (!node.environment.empty()) {
      refuse_plugin(scenario, fmt::format("{} of {} may change the plugin's messages", node.environment.front().first,
                                          node.name));
    }
    if (!node.bonds.empty()) refuse_plugin(scenario, fmt::format("{} has bonds", node.name));
    for (const models::Nic& nic : node.nics) {
      const bool is_ipv4 = std::all_of(nic.addresses.begin(), nic.addresses.end(), [](const models::IpPrefix& prefix) {
        return prefix.address.family == models::Family::kIpv4;
      });
      if (nic.vlan != 0 || !is_ipv4)
        refuse_plugin(scenario, fmt::format("{} of {} has other headers", nic.device, node.name));
    }
  }
}

void plan_work(const Scenario& scenario, models::Collective collective, coll::DataType type, PlannedWork* work) {
  const int ranks = ranks_of(scenario);
  const Workload& workload = scenario.workload;
  EngineOptions options;
  options.channels = workload.channels;
  options.slice_bytes = workload.slice_bytes;
  options.algorithm = workload.algorithm;
  options.protocol = workload.protocol;
  // What the network is like is only needed where something depends on it; to find that out takes memory.
  const bool chooses = workload.algorithm == coll::kAutomatic || workload.protocol == coll::kAutomatic;
  const bool needs_cables =
      workload.algorithm == name_of(coll::Algorithm::kMesh) || workload.algorithm == name_of(coll::Algorithm::kTorus);
  if (chooses || needs_cables) options = engine_options(scenario, {});
  const coll::CommunicatorOptions defaults;
  coll::ChoiceRules rules;
  rules.algorithm = coll::parse_algorithm(options.algorithm).value_or(rules.algorithm);
  rules.protocol = coll::parse_protocol_choice(options.protocol).value_or(rules.protocol);
  if (options.link_mbps > 0) rules.network.gigabits_per_s = options.link_mbps / 1000.0;
  if (options.message_ns > 0) rules.network.message_ns = options.message_ns;
  if (options.hop_ns > 0) rules.network.hop_ns = options.hop_ns;
  if (options.hops_per_mille > 0) rules.network.hops = options.hops_per_mille / 1000.0;
  if (!options.tuning.empty()) {
    auto table = coll::parse_tuning(options.tuning);
    if (!table) throw ScenarioError(scenario.path, "workload.tuning: " + table.error().text);
    rules.tuning = std::move(*table);
  }
  work->mesh = coll::make_mesh(ranks, options.cables, options.rank_mbps);
  std::vector<int> lengths;
  if (!options.shape.empty()) lengths = *coll::parse_shape(options.shape, ranks);
  work->torus = coll::torus_shape(work->mesh, lengths);
  const bool has_mesh = !work->mesh.trees.empty();
  const bool rooted = pattern_of(collective) == CollectivePattern::kChain;
  if (rooted && has_mesh) work->root_trees = coll::root_trees(work->mesh, workload.root);
  work->plan = {.collective = collective,
                .ranks = ranks,
                .root = workload.root,
                .count = shape_of(collective, workload.bytes, ranks, type).count,
                .element_bytes = coll::size_of(type),
                .partial_bytes = coll::size_of(coll::accumulator_of(type)),
                .channels = options.channels,
                .slice_bytes_max = options.slice_bytes > 0 ? options.slice_bytes : defaults.slice_bytes,
                .slots = defaults.steps,
                .mesh = has_mesh ? &work->mesh : nullptr,
                .root_trees = rooted && has_mesh ? &work->root_trees : nullptr,
                .torus = work->torus.lengths.empty() ? nullptr : &work->torus};
  work->way = coll::choose_way(rules, work->plan);
}

RunResult run_planned(const Scenario& scenario, const PlannedWork& work, std::vector<sim::ReplayRecord>* trace,
                      const std::vector<int>& arrivals) {
  const Workload& workload = scenario.workload;
  const coll::PlanRequest& plan = work.plan;
  check_memory(scenario, work);
  const SimulationProgress progress;
  const PlannedRequest request{.cluster = &scenario.cluster,
                               .plan = plan,
                               .way = work.way,
                               .devices = devices_planned(scenario),
                               .iterations = workload.warmup + workload.iterations,
                               .in_place = workload.in_place,
                               .arrivals = arrivals,
                               .trace = trace,
                               .on_progress = &SimulationProgress::show,
                               .give_up_ps = replay_limit_ps(scenario)};
  const Result<PlannedOutcome> outcome = replay_plan(request);
  if (!outcome) refuse_plugin(scenario, outcome.error().text, kRecord);
  if (outcome->gave_up) refuse_too_long(scenario);
  const CollectiveShape shape =
      shape_of(plan.collective, workload.bytes, plan.ranks, parse_data_type("dtype", workload.dtype));
  RunResult result;
  result.world = run_world(WorldKind::kSimulated).facts();
  result.workload = workload.collective;
  result.bytes = shape.bytes;
  result.iterations = 1;
  result.time_ps = outcome->time_ps;
  result.busbw_factor = models::bus_factor(plan.collective, plan.ranks);
  result.bound_ps = any_algorithm_bound_of(scenario, plan.collective, shape.bytes);
  const std::string algorithm = coll::algorithm_name({.collective = plan.collective, .way = work.way});
  result.replay = {.detail = scenario.replay_detail, .algorithm = algorithm, .events = outcome->totals.messages};
  result.messages.messages = result.messages.succeeded = outcome->totals.messages;
  result.messages.payload_bytes = outcome->totals.payload_bytes;
  result.simulation.elapsed_ps = outcome->end_ps;
  result.simulation.links = outcome->links;
  result.proofs.push_back(sim::bound_kept("no algorithm is faster", result.time_ps, result.bound_ps));
  result.proofs.push_back({.name = "what was sent was received",
                           .ok = outcome->planned_bytes == outcome->received_bytes,
                           .detail = fmt::format("{} of {} bytes, over {} connections", outcome->received_bytes,
                                                 outcome->planned_bytes, outcome->connections)});
  result.proofs.push_back({.name = "every message arrived and was acknowledged",
                           .ok = outcome->under_way == 0,
                           .detail = fmt::format("{} under way at the end", outcome->under_way)});
  result.proofs.push_back(sim::bytes_conserved(outcome->links));
  result.proofs.push_back(sim::utilisation_possible(outcome->links, outcome->end_ps, outcome->events));
  sim::Digest digest;
  digest.add(result.workload);
  digest.add(algorithm);
  digest.add(result.bytes);
  digest.add(outcome->totals.messages);
  digest.add(outcome->totals.payload_bytes);
  digest.add(static_cast<std::uint64_t>(outcome->time_ps));
  digest.add(outcome->totals.digest);
  result.digest = digest.hex();
  return result;
}

}  // namespace meshbed::testbed
