// Runs a scenario's collective: warm-up, then the timed and checked iterations; proofs against the closed forms.

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/nccl_environment.h"
#include "models/pcie.h"
#include "models/relay.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/torus_shape.h"
#include "testbed/base/files.h"
#include "testbed/base/progress.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/bounds.h"
#include "testbed/workload/collective.h"
#include "testbed/workload/software.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

models::Collective collective_of(const Scenario& scenario) {
  const auto op = models::parse_collective(scenario.workload.collective);
  if (!op) throw std::runtime_error("no collective \"" + scenario.workload.collective + "\"");
  return *op;
}

constexpr std::uint32_t kTimedSalt = 1'000'003;  // beyond those of all warm-ups

class CollectiveRun final : public WorkloadRun {
 public:
  CollectiveRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : ranks_(ranks),
        world_(ranks_of(scenario)),
        salt_(first_salt(scenario.seed)),
        points_(points_of(scenario)),
        local_ranks_(local_ranks(scenario)),
        workload_(scenario.workload),
        engine_(engine_options(scenario, files)),
        timed_{.op = collective_of(scenario),
               .type = parse_data_type("dtype", scenario.workload.dtype),
               .reduction = parse_reduction("op", scenario.workload.op),
               .bytes = scenario.workload.bytes,
               .in_place = scenario.workload.in_place,
               .iterations = scenario.workload.iterations,
               .check = true,
               .shared_data = scenario.workload.shared_data,
               .root = scenario.workload.root,
               .shift = scenario.workload.shift,
               .senders = scenario.workload.senders,
               .start_and_wait = scenario.workload.start_and_wait,
               .calls = &calls_,
               .log = &log_},
        warmup_(timed_),
        buffers_(buffers_for(ranks.count, timed_.bytes, !timed_.in_place, "workload.bytes", timed_.shared_data)),
        progress_(std::in_place, scenario.workload.collective,
                  scenario.workload.warmup + scenario.workload.iterations) {
    if (timed_.shared_data && ranks.count < world_) {
      throw std::runtime_error(
          "workload.data = shared: here ranks are processes, with memory of their own; leave it out");
    }
    timed_ = with_software(scenario, timed_);
    warmup_ = timed_;
    warmup_.iterations = scenario.workload.warmup;
    warmup_.timed = false;
  }

  Result<void> run_rank(RankHost& host) override;
  nlohmann::json findings() const override;
  void take_in(const nlohmann::json& findings) override;
  void conclude(RunResult& result) override;
  void prove_times(const Scenario& scenario, RunResult& result) const override;

 private:
  RankRange ranks_;
  int world_;
  std::uint32_t salt_;
  std::set<std::string> points_;
  std::vector<int> local_ranks_;
  Workload workload_;
  EngineOptions engine_;
  CollectiveCase timed_, warmup_;
  // Kept until the run has ended: memory that a failed rank leaves registered may still be written to.
  std::vector<CollectiveBuffers> buffers_;
  CaseResults board_;
  Picoseconds connect_ps_ = -1;  // as RunResult's
  OperationLog log_{ranks_.count};
  // Includes warm-up. Not on a rank's stack: the calls of a rank that waits for ever are needed, too.
  std::vector<CallTime> calls_;
  std::optional<Progress> progress_;  // until conclude()
};

Result<void> CollectiveRun::run_rank(RankHost& host) {
  CollectiveBuffers& buffers = buffers_[static_cast<std::size_t>(host.rank() - ranks_.first)];
  if (workload_.gpu_memory) {
    const int device = local_ranks_[static_cast<std::size_t>(host.rank())];
    if (const Result<void> entered = buffers.enter_gpu(device); !entered) return entered;
  }
  Result<Engine> engine = Engine::open(host, engine_);
  if (!engine) return engine.error();
  CaseResults unread;
  const auto step = [this] { progress_->step(); };
  const auto before = [&](int iteration) -> Result<void> {
    if (auto reached = reach_if_used(host, points_, iteration_point(iteration)); !reached) return reached;
    if (workload_.late_by_ps > 0 && host.rank() == workload_.late_rank && iteration == workload_.late_iteration) {
      host.be_elsewhere(workload_.late_by_ps);
    }
    return ok();
  };
  if (const Result<void> warm = run_case(host, *engine, buffers, warmup_, salt_, unread, step); !warm) return warm;
  CollectiveCase own = timed_;
  if (host.rank() == workload_.differing_rank) {
    own.bytes /= 2;
    own.log = nullptr;  // it records operations that all ranks call
  }
  const Result<void> done = run_case(host, *engine, buffers, own, salt_ + kTimedSalt, board_, step, before);
  if (!done) return done;
  const Result<meshcoll_stats> stats = engine->stats();
  if (!stats) return stats.error();
  connect_ps_ = std::max(connect_ps_, stats->connect_ns * kPicosecondsPerNanosecond);
  // A slower rank may still need its connections: close them only after all ranks are done.
  if (const Result<void> all = host.rendezvous(); !all) return all;
  buffers.leave_gpu();
  return engine->close();
}

nlohmann::json CollectiveRun::findings() const {
  nlohmann::json found = board_findings(board_);
  found["connect_ps"] = connect_ps_;
  if (!workload_.tell_calls) return found;
  nlohmann::json& calls = found["calls"] = nlohmann::json::array();
  for (const CallTime& call : calls_) calls.push_back({call.rank, call.start_ps, call.returned_ps, call.end_ps});
  return found;
}

void CollectiveRun::take_in(const nlohmann::json& findings) {
  take_in_findings(board_, findings);
  connect_ps_ = std::max(connect_ps_, findings.at("connect_ps").get<Picoseconds>());
  if (!workload_.tell_calls) return;
  for (const nlohmann::json& call : findings.at("calls")) {
    calls_.push_back({.rank = call.at(0).get<int>(),
                      .start_ps = call.at(1).get<Picoseconds>(),
                      .returned_ps = call.at(2).get<Picoseconds>(),
                      .end_ps = call.at(3).get<Picoseconds>()});
  }
}

void CollectiveRun::conclude(RunResult& result) {
  progress_.reset();
  const CollectiveShape shape = shape_of(timed_.op, timed_.bytes, world_, timed_.type);
  result.workload = models::name_of(timed_.op);
  result.bytes = shape.bytes;
  result.iterations = timed_.iterations;
  result.warmup = warmup_.iterations;
  result.wrong = board_.wrong;
  result.checked = board_.checked;
  result.first_wrong = board_.first_wrong;
  result.data = board_.results;
  result.busbw_factor = models::bus_factor(timed_.op, world_);
  result.calls = {.collective = timed_, .times = std::move(calls_)};
  result.operations = log_.take();
  if (!result.simulation.ended_well()) return;
  result.time_ps = board_.average_ps();
  result.iteration_times = board_.iterations;
  result.connect_ps = connect_ps_;
  result.proofs.push_back(sim::data_right(board_.wrong, board_.checked, shape.recv_count > 0));
  if (timed_.shared_data && result.proofs.back().ok) {
    result.proofs.back().detail += " in the one buffer of all ranks: contents, not whose they are";
  }
  if (board_.gpu_calls > 0) {
    result.proofs.push_back(gpu_kept_going(board_.gpu, board_.gpu_calls, board_.gpu_direct_calls));
  }
}

void CollectiveRun::prove_times(const Scenario& scenario, RunResult& result) const {
  const BoundTable table(scenario, result.simulation, result.pairs);
  const Bounds bounds = table.of(timed_, shape_of(timed_.op, timed_.bytes, world_, timed_.type).bytes);
  const models::RingBound& ring = bounds.ring;
  result.bound_ps = ring.time_ps > 0 ? ring.time_ps : bounds.any_algorithm_ps;
  std::vector<sim::Proof> proofs;
  if (ring.time_ps > 0) {
    const char* const label = ring.equal_shares ? "no ring of equal shares is faster" : "no ring is faster";
    proofs.push_back(sim::bound_kept(label, board_.fastest_ps(), ring.time_ps));
  }
  proofs.push_back(sim::bound_kept("no algorithm is faster", board_.fastest_ps(), bounds.any_algorithm_ps));
  result.proofs.insert(result.proofs.begin(), proofs.begin(), proofs.end());
}

/// Between any two of the first `nodes` nodes what their cables carry together; empty if any two are joined by a
/// switch, whose ports are shared.
std::vector<coll::MeshCable> cables_between(const models::Topology& topology, int nodes) {
  constexpr std::uint64_t kMegabit = 1'000'000;
  const auto has_switch = [](const models::Segment& segment) { return segment.cable < 0; };
  if (std::any_of(topology.segments.begin(), topology.segments.end(), has_switch)) return {};
  std::vector<coll::MeshCable> cables;
  for (int from = 0; from < nodes; ++from) {
    for (const int to : models::neighbours(topology, from)) {
      if (to <= from || to >= nodes) continue;
      const std::uint64_t rate_bps = models::joint_rate_bps(topology, models::direct_paths(topology, from, to));
      cables.push_back({from, to, static_cast<int>(rate_bps / kMegabit)});
    }
  }
  return cables;
}

/// The box that the node's first port of a switch is in; none: it has no such port.
std::pair<int, int> box_of(const models::Cluster& cluster, int node) {
  std::pair<int, int> first{-1, -1};
  int first_nic = std::numeric_limits<int>::max();
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    const models::Switch& each = cluster.switches[index];
    for (std::size_t port = 0; port < each.ports.size(); ++port) {
      if (each.ports[port].node != node || each.ports[port].nic >= first_nic) continue;
      first_nic = each.ports[port].nic;
      first = {static_cast<int>(index), each.box_of_port.empty() ? 0 : each.box_of_port[port]};
    }
  }
  return first;
}

/// One way between two nodes that a cable or a switch joins: the slowest. 0: none does, or it takes no time.
Picoseconds farthest_latency_ps(const models::Cluster& cluster) {
  Picoseconds latency_ps = 0;
  for (const models::Cable& cable : cluster.cables) latency_ps = std::max(latency_ps, cable.propagation_ps);
  for (const models::Switch& each : cluster.switches) {
    Picoseconds way_ps = 2 * each.propagation_ps + each.latency_ps;
    Picoseconds trunk_ps = 0;
    for (const models::Trunk& trunk : each.trunks) trunk_ps = std::max(trunk_ps, trunk.propagation_ps);
    if (!each.trunks.empty()) way_ps += 2 * (trunk_ps + each.latency_ps);  // up to a spine and down again
    latency_ps = std::max(latency_ps, way_ps);
  }
  return latency_ps;
}

/// How many ranks in a row share what `key_of` gives; 0: not everywhere as many.
template <typename KeyOf>
int run_length(int ranks, KeyOf key_of) {
  int length = 0, begin = 0;
  for (int rank = 1; rank <= ranks; ++rank) {
    if (rank < ranks && key_of(rank) == key_of(begin)) continue;
    if (length == 0) length = rank - begin;
    if (rank - begin != length) return 0;
    begin = rank;
  }
  return length;
}

/// Of ranks behind switches: first those of a node, then those of a leaf switch, then all others, by prime factors.
/// Empty: the engine finds it, as it does on cables.
std::string shape_behind_switches(const Scenario& scenario, int ranks) {
  std::map<int, std::pair<int, int>> boxes;
  for (int rank = 0; rank < ranks; ++rank) {
    const int node = node_of(scenario, rank);
    if (boxes.count(node) == 0) boxes[node] = box_of(scenario.cluster, node);
    if (boxes[node].first < 0) return "";
  }
  const int node_ranks = std::max(run_length(ranks, [&](int rank) { return node_of(scenario, rank); }), 1);
  const int leaf_ranks =
      std::max(run_length(ranks, [&](int rank) { return boxes[node_of(scenario, rank)]; }), node_ranks);
  if (leaf_ranks % node_ranks != 0 || ranks % leaf_ranks != 0) return "";
  std::string text;
  for (const int level : {node_ranks, leaf_ranks / node_ranks, ranks / leaf_ranks}) {
    for (const int factor : coll::prime_factors(level)) text += (text.empty() ? "" : "x") + std::to_string(factor);
  }
  return text;
}

/// [node] total rate of its cables if a shared PCIe link limits it to less than their sum; 0 for other nodes. Empty if
/// there is no such link.
std::vector<int> node_rates_mbps(const Scenario& scenario, const models::Topology& topology, int nodes) {
  constexpr std::uint64_t kMegabit = 1'000'000, kMegabitsMax = 1'000'000'000;
  std::vector<int> rates;
  const std::vector<std::vector<int>> cabled = models::cabled_nics(scenario.cluster);
  for (const models::SharedLink& link : topology.shared_links) {
    if (link.node >= nodes) continue;
    rates.resize(static_cast<std::size_t>(nodes));
    const models::Node& node = scenario.cluster.at(link.node);
    const std::uint64_t rate_mbps =
        std::min(models::node_rate_bps(node, cabled[static_cast<std::size_t>(link.node)]) / kMegabit, kMegabitsMax);
    rates[static_cast<std::size_t>(link.node)] = static_cast<int>(rate_mbps);
  }
  return rates;
}

}  // namespace

EngineOptions engine_options(const Scenario& scenario, const BuiltFiles& files) {
  const Workload& workload = scenario.workload;
  EngineOptions options{.library = files.engine,
                        .net_plugin = net_plugin_of(scenario, files),
                        .net_version = workload.net_version,
                        .channels = workload.channels,
                        .channel_devices = workload.channel_devices,
                        .rank_devices = {},
                        .slice_bytes = workload.slice_bytes,
                        .algorithm = workload.algorithm,
                        .protocol = workload.protocol,
                        .tuning = {},
                        .cables = {},
                        .rank_mbps = {},
                        .shape = {},
                        .warnings = std::make_shared<RepeatedLines>(std::cerr)};
  if (!workload.tuning.empty()) options.tuning = read_text_file(path_beside(scenario, workload.tuning));
  const int nodes = nodes_of(scenario);
  const models::Topology topology = models::analyse(models::in_use(scenario.cluster));
  if (options.channel_devices.empty()) options.rank_devices = devices_by_rank(scenario, topology);
  const bool chooses = workload.algorithm == "auto" || workload.protocol == "auto";
  const bool knows_shape = chooses || workload.algorithm == "torus";
  if (!knows_shape && workload.algorithm != "mesh") return options;
  if (is_one_a_node(scenario)) {
    options.cables = cables_between(topology, nodes);
    options.rank_mbps = node_rates_mbps(scenario, topology, nodes);
  }
  if (options.cables.empty()) options.shape = shape_behind_switches(scenario, ranks_of(scenario));
  if (!chooses) return options;
  std::uint64_t rate_bps = ~0ULL;
  for (int node = 0; node < nodes; ++node) {
    const models::Node& each = scenario.cluster.at(node);
    for (const models::Nic& nic : each.nics) {
      rate_bps = std::min(rate_bps, models::behind_pcie_bps(each, nic, nic.rate_bps));
    }
  }
  const Picoseconds message_ps = farthest_latency_ps(scenario.cluster);
  constexpr Picoseconds kPicosecondsPerNanosecond = 1000, kLatencyMost = kPicosecondsPerSecond;
  options.message_ns = static_cast<int>(std::min(message_ps, kLatencyMost) / kPicosecondsPerNanosecond);
  // As the engine's defaults are to one another: what a relay adds to a first message.
  constexpr int kHopPerMille = 3050;
  options.hop_ns = static_cast<int>(std::int64_t{options.message_ns} * kHopPerMille / 1000);
  constexpr std::uint64_t kMegabit = 1'000'000, kMegabitsMax = 1'000'000'000;
  options.link_mbps = static_cast<int>(std::clamp<std::uint64_t>(rate_bps / kMegabit, 1, kMegabitsMax));
  constexpr double kPerMille = 1000;
  options.hops_per_mille = static_cast<int>(models::mean_far_hops(topology, nodes) * kPerMille);
  return options;
}

std::unique_ptr<WorkloadRun> make_collective(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<CollectiveRun>(scenario, files, ranks);
}

}  // namespace meshbed::testbed
