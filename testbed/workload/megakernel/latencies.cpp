#include "testbed/workload/megakernel/latencies.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "plugin/ring/abi/abi.h"
#include "plugin/ring/kernel/wait_chain.h"

namespace meshbed::testbed {
namespace {

enum Part : std::size_t { kQueueing, kExecution, kCompletion, kParts };
constexpr std::array<const char*, kParts> kPartNames{"queueing", "execution", "completion"};

enum Group : int { kAll, kByRank, kByOpcode, kByTenant, kByPriority };
constexpr std::array<const char*, 5> kGroupNames{"all", "rank", "opcode", "tenant", "priority"};
constexpr std::array<const char*, ring::priority::kLevels> kLevelNames{"CRITICAL", "HIGH", "NORMAL", "LOW", "IDLE"};

/// A slot between its publication and its end.
struct Open {
  Picoseconds arrived_ps = -1, claimed_ps = -1;
  int tenant = 0, priority = 0;
  std::uint32_t opcode = 0;
};

using Values = std::array<std::vector<Picoseconds>, kParts>;

std::string name_in(const RingOutcome& outcome, Group group, int key) {
  const auto index = static_cast<std::size_t>(key);
  if (group == kByTenant && key >= 0 && index < outcome.tenants.size()) return outcome.tenants[index];
  if (group == kByOpcode) return ring::operation_name(static_cast<ring::Word>(key));
  if (group == kByPriority && key >= 0 && key < static_cast<int>(kLevelNames.size())) {
    return kLevelNames[static_cast<std::size_t>(key)];
  }
  return group == kAll ? "" : std::to_string(key);
}

Picoseconds percentile(const std::vector<Picoseconds>& sorted, std::size_t percent) {
  const std::size_t rank = (percent * sorted.size() + 99) / 100;
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

std::vector<RingLatency> latencies_of(const RingOutcome& outcome) {
  std::map<std::tuple<int, int, std::uint32_t>, Open> open;  // rank, ring, slot
  std::map<std::pair<Group, int>, Values> groups;
  for (const RingEvent& event : outcome.trace.events()) {
    const std::tuple key(event.rank, event.ring, event.slot);
    if (event.kind == RingEventKind::kPublish) {
      open[key] = {.arrived_ps = event.arrived_ps >= 0 ? event.arrived_ps : event.at_ps,
                   .tenant = event.tenant,
                   .priority = event.priority,
                   .opcode = event.opcode};
      continue;
    }
    const auto found = open.find(key);
    if (found == open.end()) continue;
    Open& slot = found->second;
    if (event.kind == RingEventKind::kClaim && slot.claimed_ps < 0) slot.claimed_ps = event.at_ps;
    if (event.kind != RingEventKind::kDone && event.kind != RingEventKind::kFault) continue;
    const std::array<std::pair<Group, int>, 5> its{{{kAll, 0},
                                                    {kByRank, event.rank},
                                                    {kByOpcode, static_cast<int>(slot.opcode)},
                                                    {kByTenant, slot.tenant},
                                                    {kByPriority, slot.priority}}};
    // A program's fence is the host's own, and no tenant's.
    const bool is_fence = slot.opcode == ring::opcode::kBatchFence && outcome.program != "queue";
    for (const auto& group : its) {
      if (is_fence && (group.first == kByTenant || group.first == kByPriority)) continue;
      Values& values = groups[group];
      values[kCompletion].push_back(event.at_ps - slot.arrived_ps);
      if (slot.claimed_ps < 0) continue;
      values[kQueueing].push_back(slot.claimed_ps - slot.arrived_ps);
      values[kExecution].push_back(event.at_ps - slot.claimed_ps);
    }
    open.erase(found);
  }
  std::map<Group, std::size_t> members;
  for (const auto& [key, values] : groups) ++members[key.first];
  std::vector<RingLatency> latencies;
  for (auto& [key, values] : groups) {
    if (key.first != kAll && members[key.first] < 2) continue;
    for (std::size_t part = 0; part < kParts; ++part) {
      std::vector<Picoseconds>& sorted = values[part];
      if (sorted.empty()) continue;
      std::sort(sorted.begin(), sorted.end());
      latencies.push_back({.group = kGroupNames[key.first],
                           .name = name_in(outcome, key.first, key.second),
                           .part = kPartNames[part],
                           .count = sorted.size(),
                           .p50_ps = percentile(sorted, 50),
                           .p90_ps = percentile(sorted, 90),
                           .p99_ps = percentile(sorted, 99),
                           .most_ps = sorted.back()});
    }
  }
  return latencies;
}

}  // namespace meshbed::testbed
