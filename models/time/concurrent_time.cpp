#include "models/time/concurrent_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "models/time/channels.h"

namespace meshbed::models {
namespace {

/// What a call needs of what is shared.
struct Demand {
  double start_us = 0;  // needs nothing of it
  double wire_us = 0;   // of the whole wire, once no channel slows it
  double gpu_us = 0;    // sums, copies, waves
  double work_us = 0;   // alone
  double use = 1;       // part of the shared rate while at work

  double busy_us() const { return work_us * use; }
};

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Part of the wire that the call's channels fill.
double use_of_wire(const Machine& machine, const CollectiveCall& call, const CollectiveTime& alone) {
  if (machine[MachineParameter::kChannels] < 1) return 1;
  Machine unlimited = machine;
  unlimited.clear(MachineParameter::kChannels);
  CollectiveCall same = call;
  same.protocol = alone.protocol;
  same.algorithm = alone.algorithm;
  const auto wire_of = [](const CollectiveTime& time) {
    const auto part = std::find_if(time.parts.begin(), time.parts.end(),
                                   [](const TimePart& each) { return std::string_view(each.name) == "wire"; });
    return part == time.parts.end() ? 0.0 : part->us;
  };
  const double with = wire_of(alone), without = wire_of(collective_time(unlimited, same));
  return with > 0 ? std::clamp(without / with, 0.01, 1.0) : 1;
}

Demand demand_of(const Machine& machine, const CollectiveCall& call, const CollectiveTime& alone) {
  Demand demand;
  double on_wire_us = 0, wire_us = 0;
  for (const TimePart& part : alone.parts) {
    if (is_any_of(part.name, {"reduce", "copy", "waves"})) {
      demand.gpu_us += part.us;
    } else if (is_any_of(part.name, {"wire", "fill", "ramp", "LL spill"})) {
      on_wire_us += part.us;
      if (is_any_of(part.name, {"wire"})) wire_us += part.us;
    } else {
      demand.start_us += part.us;
    }
  }
  const double use = use_of_wire(machine, call, alone);
  demand.wire_us = use * wire_us;
  demand.work_us = on_wire_us + demand.gpu_us;
  if (demand.work_us > 0) demand.use = (use * on_wire_us + demand.gpu_us) / demand.work_us;
  return demand;
}

/// Speeds, 1 where a call works as if alone: equal parts of the shared rate, none more than it uses.
std::vector<double> speeds_of(const std::vector<Demand>& demands, const std::vector<std::size_t>& working) {
  std::vector<std::size_t> order = working;
  std::sort(order.begin(), order.end(),
            [&demands](std::size_t one, std::size_t other) { return demands[one].use < demands[other].use; });
  std::vector<double> speeds(demands.size());
  double left = 1;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const double use = demands[order[place]].use;
    const double part = std::min(use, left / static_cast<double>(order.size() - place));
    speeds[order[place]] = part / use;
    left -= part;
  }
  return speeds;
}

/// When each call ends: its start, then its work at the speeds that the calls at work have.
std::vector<double> ends_of(const std::vector<Demand>& demands) {
  std::vector<double> left, ends(demands.size(), -1);
  left.reserve(demands.size());
  for (const Demand& demand : demands) left.push_back(demand.work_us);
  double now = 0;
  for (;;) {
    std::vector<std::size_t> working;
    double next = -1;
    const auto sooner = [&next](double us) { next = next < 0 ? us : std::min(next, us); };
    for (std::size_t index = 0; index < demands.size(); ++index) {
      if (ends[index] >= 0) continue;
      if (demands[index].start_us > now) {
        sooner(demands[index].start_us);
      } else if (left[index] <= 0) {
        ends[index] = now;
      } else {
        working.push_back(index);
      }
    }
    const std::vector<double> speeds = speeds_of(demands, working);
    std::size_t first = demands.size();
    for (const std::size_t index : working) {
      const double us = now + left[index] / speeds[index];
      if (next < 0 || us <= next) first = index;
      sooner(us);
    }
    if (next < 0) return ends;
    for (const std::size_t index : working) left[index] -= (next - now) * speeds[index];
    if (first < demands.size()) left[first] = 0;  // without rounding
    now = next;
  }
}

}  // namespace

ConcurrentTime concurrent_time(const Machine& machine, const std::vector<CollectiveCall>& calls) {
  ConcurrentTime time;
  std::vector<Demand> demands;
  double least_start_us = -1, wire_us = 0, gpu_us = 0, high_us = 0, lowest = 1;
  for (const CollectiveCall& call : calls) {
    ConcurrentCall each{.call = call, .alone = collective_time(machine, call), .of_alone = {}};
    each.of_alone = interval_of(machine, call, each.alone.us);
    demands.push_back(demand_of(machine, call, each.alone));
    const Demand& demand = demands.back();
    least_start_us = least_start_us < 0 ? demand.start_us : std::min(least_start_us, demand.start_us);
    wire_us += demand.wire_us;
    gpu_us += demand.gpu_us;
    time.serial_us += each.alone.us;
    time.sharing_us = std::max(time.sharing_us, each.alone.us);
    high_us += each.of_alone.high_us;
    lowest = std::min(lowest, each.of_alone.low_us / each.alone.us);
    time.calls.push_back(std::move(each));
  }
  time.sharing_us = std::max({time.sharing_us, least_start_us + wire_us, least_start_us + gpu_us});
  const std::vector<double> ends = ends_of(demands);
  for (std::size_t index = 0; index < calls.size(); ++index) {
    ConcurrentCall& each = time.calls[index];
    each.us = calls.size() == 1 ? each.alone.us : std::max(ends[index], each.alone.us);
    each.low_us = each.of_alone.low_us;
    each.high_us = high_us;
    time.us = std::max(time.us, each.us);
  }
  // Rounding alone may leave what the equations bound.
  time.sharing_us = std::min(time.sharing_us, time.us);
  time.serial_us = std::max(time.serial_us, time.us);
  time.low_us = time.sharing_us * lowest;
  time.high_us = high_us;
  return time;
}

HeldSms held_sms(const Machine& machine, const CollectiveCall& call) {
  constexpr int kMostChannels = 64;  // NCCL's MAXCHANNELS
  const CollectiveTime time = collective_time(machine, call);
  const auto by_size = [&](int most) {
    if (call.limits.most_channels > 0) most = std::min(most, call.limits.most_channels);
    return static_cast<double>(channels_used(call, time.algorithm, time.protocol, most));
  };
  const int own = static_cast<int>(std::lround(machine[MachineParameter::kChannels]));
  if (own >= 1) return {.expected = by_size(own), .least = by_size(own), .most = by_size(own)};
  // Of kernels that are not NCCL's neither channels nor blocks are known.
  const bool is_nccl = machine.transport != MachineTransport::kKernel && !is_one_shot(machine);
  const int rings = static_cast<int>(std::lround(std::max(1.0, nics_used(machine, 1))));
  constexpr int kDoubled = 2;
  const int expected = std::min(kDoubled * rings, kMostChannels);
  if (!is_nccl) return {.expected = static_cast<double>(expected), .least = 1, .most = kMostChannels};
  return {.expected = by_size(expected), .least = 1, .most = by_size(kMostChannels)};
}

double exposed_us(double us, const Overlap& overlap) {
  return std::max(us - overlap.share * overlap.compute_us, (overlap.share > 0 ? overlap.held : 1) * us);
}

}  // namespace meshbed::models
