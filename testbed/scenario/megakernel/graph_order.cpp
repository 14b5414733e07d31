#include "testbed/scenario/megakernel/graph_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace meshbed::testbed {
namespace {

using coll::Area;

/// Nodes: each slot, and behind them for each put its arrival.
class GraphOrder {
 public:
  explicit GraphOrder(const SlotGraph& graph) : graph_(graph) {
    for (const auto& slots : graph.ranks) {
      first_.push_back(nodes_);
      nodes_ += slots.size();
    }
    slots_ = nodes_;
    nodes_ *= 2;  // the second half are arrivals
    next_.resize(nodes_);
    lacks_.resize(nodes_);
    std::map<std::tuple<int, int, int>, std::size_t> last;  // put of a connection
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < graph.ranks[rank].size(); ++index) {
        const GraphSlot& slot = graph.ranks[rank][index];
        const std::size_t node = node_of({static_cast<int>(rank), index});
        for (const GraphNeed& need : slot.needs) {
          const GraphSlot& needed = graph.ranks[static_cast<std::size_t>(need.rank)][need.slot];
          const bool by_arrival = needed.op == GraphOp::kPut && need.rank != static_cast<int>(rank) &&
                                  needed.peer == static_cast<int>(rank);
          add(by_arrival ? arrival_of(node_of(need)) : node_of(need), node);
        }
        add(node, arrival_of(node));
        if (slot.op != GraphOp::kPut) continue;
        const auto [before, is_first] = last.emplace(std::tuple(static_cast<int>(rank), slot.peer, slot.channel), node);
        if (is_first) continue;
        add(before->second, node);
        add(arrival_of(before->second), arrival_of(node));
        before->second = node;
      }
    }
  }

  std::size_t node_of(const GraphNeed& slot) const { return first_[static_cast<std::size_t>(slot.rank)] + slot.slot; }
  std::size_t arrival_of(std::size_t node) const { return slots_ + node; }

  /// False: there is a cycle.
  bool close() {
    const std::size_t words = (nodes_ + 63) / 64;
    std::vector<std::size_t> order;
    for (std::size_t node = 0; node < nodes_; ++node) {
      if (lacks_[node] == 0) order.push_back(node);
    }
    for (std::size_t at = 0; at < order.size(); ++at) {
      for (const std::size_t next : next_[order[at]]) {
        if (--lacks_[next] == 0) order.push_back(next);
      }
    }
    if (order.size() != nodes_) return false;
    reached_.assign(nodes_, std::vector<std::uint64_t>(words));
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      std::vector<std::uint64_t>& own = reached_[*node];
      for (const std::size_t next : next_[*node]) {
        own[next / 64] |= 1ULL << next % 64;
        for (std::size_t word = 0; word < words; ++word) own[word] |= reached_[next][word];
      }
    }
    return true;
  }
  bool is_before(std::size_t node, std::size_t other) const {
    return (reached_[node][other / 64] >> other % 64 & 1) != 0;
  }

 private:
  void add(std::size_t from, std::size_t to) {
    next_[from].push_back(to);
    ++lacks_[to];
  }

  const SlotGraph& graph_;
  std::vector<std::size_t> first_;  // by rank: its first slot's node
  std::size_t nodes_ = 0, slots_ = 0;
  std::vector<std::vector<std::size_t>> next_;
  std::vector<int> lacks_;
  std::vector<std::vector<std::uint64_t>> reached_;  // by node: those behind it, a bit each
};

/// Bytes [begin, end) of a rank's space, from one node's start to another one's end.
struct Access {
  std::uint64_t begin = 0, end = 0;
  std::size_t from = 0, to = 0;
  GraphNeed slot{};        // whose it is, and
  const GraphSlot* place;  // at which it is reported: the wait of a message
  bool writes = false;
};

class AccessCheck {
 public:
  AccessCheck(const SlotGraph& graph, std::size_t element_bytes, Diagnostics& diagnostics)
      : graph_(graph), element_bytes_(element_bytes), diagnostics_(diagnostics), order_(graph) {}

  void run() {
    if (!order_.close()) return;
    for (std::size_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < graph_.ranks[rank].size(); ++index) collect({static_cast<int>(rank), index});
    }
    for (auto& [where, all] : accesses_) compare(where.first, all);
  }

 private:
  void add(const GraphNeed& slot, int rank, const Area& area, std::uint64_t bytes, bool writes) {
    const std::size_t node = order_.node_of(slot);
    accesses_[{rank, area.space}].push_back({.begin = area.offset_bytes,
                                             .end = area.offset_bytes + bytes,
                                             .from = node,
                                             .to = node,
                                             .slot = slot,
                                             .place = &slot_of(slot),
                                             .writes = writes});
  }

  void collect(const GraphNeed& at) {
    const GraphSlot& slot = slot_of(at);
    const std::uint64_t reduced = slot.bytes * element_bytes_;
    switch (slot.op) {
      case GraphOp::kPut:
        add(at, at.rank, slot.from, slot.bytes, false);
        break;
      case GraphOp::kCopy:
        add(at, at.rank, slot.from, slot.bytes, false);
        add(at, at.rank, slot.to, slot.bytes, true);
        break;
      case GraphOp::kReduce:
        add(at, at.rank, slot.from, reduced, false);
        add(at, at.rank, slot.with, reduced, false);
        add(at, at.rank, slot.to, reduced, true);
        break;
      case GraphOp::kWait:
        if (!slot.lands) break;
        for (const GraphNeed& need : slot.needs) {
          const GraphSlot& put = slot_of(need);
          if (need.rank == at.rank || put.op != GraphOp::kPut || put.peer != at.rank) continue;
          const std::size_t node = order_.node_of(need);
          add(need, at.rank, slot.to, put.bytes, true);
          Access& access = accesses_[{at.rank, slot.to.space}].back();
          access.from = node;
          access.to = order_.arrival_of(node);
          access.place = &slot;
        }
        break;
      case GraphOp::kCompute:
        break;
    }
  }

  void compare(int rank, std::vector<Access>& all) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Access& left, const Access& right) { return left.begin < right.begin; });
    for (std::size_t one = 0; one < all.size(); ++one) {
      for (std::size_t other = one + 1; other < all.size() && all[other].begin < all[one].end; ++other) {
        if (!all[one].writes && !all[other].writes) continue;
        if (all[one].slot == all[other].slot) continue;
        if (order_.is_before(all[one].to, all[other].from) || order_.is_before(all[other].to, all[one].from)) continue;
        tell(rank, all[one], all[other]);
        if (diagnostics_.count() >= Diagnostics::kShownMax) return;
      }
    }
  }

  std::string words_of(int rank, const Access& access) const {
    const GraphSlot& slot = slot_of(access.slot);
    const std::string id = slot.id.empty() ? "a slot without an id" : "'" + slot.id + "'";
    if (access.slot.rank != rank) return fmt::format("the message of {} of rank {} lands in", id, access.slot.rank);
    return fmt::format("{} {}", id, access.writes ? "writes" : "reads");
  }

  void tell(int rank, const Access& one, const Access& other) {
    // At the reader, which lacks the need; of two writes at the later one.
    const bool at_other = !other.writes || (one.writes && other.slot.rank == rank);
    const Access& reported = at_other ? other : one;
    const Access& against = at_other ? one : other;
    const bool by_message = against.slot.rank != rank || reported.slot.rank != rank;
    diagnostics_.add(
        reported.place->place,
        fmt::format("needs: rank {}: {} bytes {} to {} that {} too, and nothing orders the two: {}", rank,
                    words_of(rank, reported), std::max(one.begin, other.begin), std::min(one.end, other.end) - 1,
                    words_of(rank, against),
                    by_message ? "a slot is missing in needs, as the wait for the message, or the places are to differ"
                               : "add the one to the other's needs, or let the places differ"));
  }

  const GraphSlot& slot_of(const GraphNeed& need) const {
    return graph_.ranks[static_cast<std::size_t>(need.rank)][need.slot];
  }

  const SlotGraph& graph_;
  std::size_t element_bytes_;
  Diagnostics& diagnostics_;
  GraphOrder order_;
  std::map<std::pair<int, coll::Space>, std::vector<Access>> accesses_;  // by rank and space
};

}  // namespace

void check_graph_order(const SlotGraph& graph, std::size_t element_bytes, Diagnostics& diagnostics) {
  if (graph.slots() > kOrderedSlotsMost) return;
  AccessCheck(graph, element_bytes, diagnostics).run();
}

}  // namespace meshbed::testbed
