#include "testbed/world/replay/planned_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "models/nccl_environment.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/run/channel_schedule.h"
#include "plugin/net/wire/ring.h"
#include "sim/replay/recorded_replay.h"

namespace meshbed::testbed {
namespace {

Error invalid(std::string text) { return {ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

// Channel runs add to the addresses of their buffers; nothing is ever read or written there.
char* no_memory() {
  static char nowhere = 0;
  return &nowhere;
}

void reduce_nothing(void*, const void*, const void*, std::uint64_t, std::uint32_t) {}

constexpr coll::ReduceKernels kKernels{&reduce_nothing, &reduce_nothing, &reduce_nothing, &reduce_nothing};
constexpr coll::PartialKernels kPartialKernels{&reduce_nothing, nullptr};

}  // namespace

PlannedRuns::PlannedRuns(const models::Cluster& cluster, PlannedNet& net, PlannedDevices devices)
    : cluster_(cluster), topology_(models::analyse(models::in_use(cluster))), net_(net), devices_(std::move(devices)) {}

/// As the plugin chooses (plugin/net/connect/routing.h, plugin/net/rdma/rail_layer.cpp).
Result<PlannedWay> PlannedRuns::way_of(int from, int to, int channel) const {
  std::vector<models::DirectPath> paths = models::direct_paths(topology_, from, to);
  const auto names = [&] { return fmt::format("{} and {}", cluster_.at(from).name, cluster_.at(to).name); };
  if (paths.empty()) {
    return invalid(fmt::format(
        "{} exchange messages and share no cable and no switch, so that the plugin would relay them", names()));
  }
  std::sort(paths.begin(), paths.end(), [](const models::DirectPath& left, const models::DirectPath& right) {
    return std::tie(left.from, left.to) < std::tie(right.from, right.to);
  });
  for (std::size_t index = 0; index < paths.size(); ++index) {
    if (topology_.segments[static_cast<std::size_t>(paths[index].segment)].router >= 0) {
      return invalid(fmt::format("a router joins {}", names()));
    }
    for (std::size_t other = 0; other < index; ++other) {
      if (paths[index].from != paths[other].from && paths[index].to != paths[other].to) continue;
      return invalid(fmt::format("several ports of one switch join {}", names()));
    }
  }
  if (paths.size() > 1) {
    const PlannedDevice mine = devices_(from, channel), theirs = devices_(to, channel);
    const auto find = [&](const auto& is) { return std::find_if(paths.begin(), paths.end(), is); };
    auto best = find([&](const models::DirectPath& path) { return path.from.nic == mine.nic; });
    if (best == paths.end()) best = find([&](const models::DirectPath& path) { return path.to.nic == theirs.nic; });
    if (best == paths.end()) best = paths.begin() + mine.index % static_cast<std::ptrdiff_t>(paths.size());
    std::rotate(paths.begin(), best, best + 1);
    const std::uint64_t rate_bps = cluster_.nic_of(paths.front().from).rate_bps;
    std::erase_if(paths, [&](const auto& path) { return 2 * cluster_.nic_of(path.from).rate_bps < rate_bps; });
    paths.resize(std::min<std::size_t>(paths.size(), 1 + net::kMaxRails));
  }
  PlannedWay way;
  for (const models::DirectPath& path : paths) {
    way.push_back({.from = path.from, .to = path.to, .mtu_bytes = sim::mtu_between(cluster_, path.from, path.to)});
  }
  return way;
}

Result<PlannedNet::Connection*> PlannedRuns::connection(int from, int to, const coll::PlanRequest& request, int way) {
  const int number = request.channel + request.channels * way;
  if (PlannedNet::Connection* known = net_.find(from, to, number)) return known;
  const auto found = way_of(from, to, request.channel);
  if (!found) return found.error();
  ++connections_;
  return &net_.connection(from, to, number, *found);
}

Result<std::vector<PlannedRun>> PlannedRuns::make(coll::PlanRequest request, coll::AlgorithmProtocol way,
                                                  bool in_place) {
  std::vector<PlannedRun> runs;
  request.slice_bytes_max = coll::slice_bytes_of(way.protocol, request.slice_bytes_max);
  if (way.algorithm != coll::Algorithm::kRing) {
    for (request.channel = 0; request.channel < request.channels; ++request.channel) {
      if (auto added = add_schedule(way.algorithm, request, runs); !added) return added.error();
    }
    return runs;
  }
  for (const coll::SubPlan& sub_plan : coll::sub_plans_of(request)) {
    coll::PlanRequest part = sub_plan.request;
    part.in_place = in_place && is_all_to_all(request.collective);
    for (part.channel = 0; part.channel < part.channels; ++part.channel) {
      if (auto added = add_plan(part, runs); !added) return added.error();
    }
  }
  return runs;
}

Result<void> PlannedRuns::add_plan(const coll::PlanRequest& request, std::vector<PlannedRun>& runs) {
  coll::Plan plan = coll::make_plan(request);
  const std::uint64_t copy_bytes = plan.copy.count * request.element_bytes;
  if (plan.send_steps == 0 && plan.recv_steps == 0 && copy_bytes == 0) return ok();
  plan.copy = {};
  coll::ChannelMemory memory;
  memory.input = memory.own = memory.output = no_memory();
  memory.kernels = kKernels;
  memory.tag = 0;
  if (plan.send_steps > 0) {
    const auto found = connection(request.rank, plan.send_peer, request, 0);
    if (!found) return found.error();
    memory.send_comm = PlannedNet::sender_of(**found);
  }
  if (plan.recv_steps > 0) {
    const auto found = connection(plan.recv_peer, request.rank, request, 0);
    if (!found) return found.error();
    memory.recv_comm = PlannedNet::receiver_of(**found);
  }
  runs.push_back({std::make_unique<coll::PlanRun>(&net_, plan, memory), copy_bytes});
  return ok();
}

Result<void> PlannedRuns::add_schedule(coll::Algorithm algorithm, const coll::PlanRequest& request,
                                       std::vector<PlannedRun>& runs) {
  coll::Schedule schedule = coll::make_schedule(algorithm, request);
  if (schedule.part.count == 0) return ok();
  const std::uint64_t copy_bytes = schedule.copy.count * request.element_bytes;
  schedule.copy = {};
  coll::ScheduleMemory memory;
  memory.input = memory.own = memory.output = memory.work = no_memory();
  memory.kernels = kKernels;
  memory.partial_kernels = kPartialKernels;
  memory.streams = coll::streams_of(schedule);
  for (coll::StreamMemory& stream : memory.streams) {
    const int from = stream.receives ? stream.peer : request.rank, to = stream.receives ? request.rank : stream.peer;
    const auto found = connection(from, to, request, stream.way);
    if (!found) return found.error();
    stream.comm = stream.receives ? PlannedNet::receiver_of(**found) : PlannedNet::sender_of(**found);
    stream.staging = no_memory();  // kernels get it
  }
  runs.push_back({std::make_unique<coll::ChannelSchedule>(&net_, std::move(schedule), std::move(memory)), copy_bytes});
  return ok();
}

}  // namespace meshbed::testbed
