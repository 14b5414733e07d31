// Checks of whether the ranks' messages have a path.

#include <algorithm>
#include <optional>

#include "models/algorithm.h"
#include "plugin/base/counted.h"
#include "testbed/scenario/findings/finder.h"
#include "testbed/scenario/findings/reach.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

models::Collective collective_of(const Workload& workload) { return *models::parse_collective(workload.collective); }

/// Along the cables alone, rather than round the ring or in pairs.
bool goes_along_cables(const Workload& workload) {
  const CollectivePattern pattern = pattern_of(collective_of(workload));
  const bool by_ring = pattern == CollectivePattern::kRing || pattern == CollectivePattern::kChain;
  return by_ring && (workload.algorithm == "auto" || workload.algorithm == "mesh");
}

}  // namespace

/// It runs no rank and hangs on no cable: only the management network knows it.
bool Finder::stands_apart(std::size_t node) const {
  const auto is_of_node = [&](models::PortRef port) { return port.node == static_cast<int>(node); };
  return ranks_on(scenario_, static_cast<int>(node)) == 0 &&
         std::none_of(later_.segments.begin(), later_.segments.end(), [&](const models::Segment& segment) {
           return std::any_of(segment.ports.begin(), segment.ports.end(), is_of_node);
         });
}

bool Finder::in_one_piece() const {
  if (models::classify(later_).connected) return true;
  std::optional<int> first;
  for (std::size_t node = 0; node < cluster_.nodes.size(); ++node) {
    if (stands_apart(node)) continue;
    if (!first) {
      first = static_cast<int>(node);
    } else if (models::shortest_path(later_, *first, static_cast<int>(node)).empty()) {
      return false;
    }
  }
  return true;
}

bool Finder::asks_for_tcp(int of) const {
  return has_variable(node(of), "NCCL_MESH_HYBRID_TCP", "1") || has_variable(node(of), "NCCL_MESH_DISABLE_RDMA", "1");
}

void Finder::falls_apart() {
  bool all_ask = true;
  for (std::size_t of = 0; of < cluster_.nodes.size(); ++of) all_ask = all_ask && asks_for_tcp(static_cast<int>(of));
  if (cluster_.nodes.size() < 2 || scenario_.expect.error || all_ask || in_one_piece()) return;
  add(FindingCode::kFallsApart, Severity::kWarning, "the cluster",
      "not every node reaches every other, not even by relay");
}

const std::vector<int>& Finder::hops_from(int from) {
  const auto [entry, is_new] = hops_.try_emplace(from);
  if (is_new) entry->second = models::hop_counts(later_, from);
  return entry->second;
}

/// Behind "no path"; empty: there is one.
std::string Finder::reason_for_no_path(int from, int to) {
  if (models::has_direct_path(later_, from, to)) return "";  // as nearly all have: hops_from() looks at all nodes
  const int cables = hops_from(from)[static_cast<std::size_t>(to)];
  if (cables == 1) return "";
  if (asks_for_tcp(from) && asks_for_tcp(to)) return "";
  if (cables < 0) return "not even by relay";
  if (has_variable(node(from), "NCCL_MESH_ENABLE_RELAY", "0")) {
    return "and relays are off (NCCL_MESH_ENABLE_RELAY=0)";
  }
  const int limit = relay_hop_limit(node(from));
  if (cables <= limit) return "";
  const std::uint64_t others = all_beyond_relays(cluster_, later_, nodes_of(scenario_), 0).count - 1;
  return fmt::format("and the {} cables between them are more than a chain may have (NCCL_MESH_MAX_RELAY_HOPS={}){}",
                     cables, limit, others > 0 ? fmt::format("; so it is with {}", counted(others, "other pair")) : "");
}

void Finder::no_path() {
  const Workload& workload = scenario_.workload;
  if (workload.kind != WorkloadKind::kCollective || !is_ours()) return;
  const int ranks = ranks_of(scenario_);
  const models::Collective collective = collective_of(workload);
  const bool to_all = is_all_to_all(collective);
  if (to_all && models::pairs_without_direct_path(later_, 0).count == 0) return;
  const int first = collective == models::Collective::kSendRecv ? workload.shift : 1;
  for (int step = first; step <= (to_all ? ranks - 1 : first); ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int from = node_of(scenario_, rank), to = node_of(scenario_, (rank + step) % ranks);
      const std::vector<int>& senders = workload.senders;
      const bool sends = senders.empty() || std::find(senders.begin(), senders.end(), rank) != senders.end();
      if (!sends || from == to) continue;
      const std::string reason = reason_for_no_path(from, to);
      if (reason.empty()) continue;
      if (goes_along_cables(workload) && hops_from(from)[static_cast<std::size_t>(to)] >= 0) continue;
      return add_failure(FindingCode::kNoPath, fmt::format("{} to {}", node(from).name, node(to).name),
                         fmt::format("no path for {}: no cable joins the two nodes, {}", workload.collective, reason),
                         "cable them, or promise the failure by expect.error", scenario_.expect.error.has_value());
    }
  }
}

}  // namespace meshbed::testbed
