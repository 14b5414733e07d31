#include "plugin/ring/kernel/wait_chain.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "plugin/ring/abi/slot.h"
#include "plugin/ring/kernel/scan.h"

namespace meshbed::ring {
namespace {

std::string numbered(const char* what, std::uint64_t value) { return what + std::to_string(value); }

struct WaitEdge {
  std::optional<std::size_t> to;  // a node; nothing: an end
  std::string text;
};

/// A slot of one of the rings that is queued, with what it waits for.
struct WaitNode {
  std::size_t ring = 0;
  Word slot = 0;
  std::optional<Word> block;
  std::vector<WaitEdge> edges;
};

class WaitGraph {
 public:
  explicit WaitGraph(std::span<const RingWaits> rings) : rings_(rings) {
    for (std::size_t ring = 0; ring < rings.size(); ++ring) add_nodes(ring);
    for (WaitNode& node : nodes_) add_edges(node);
  }

  WaitChain shortest() const {
    Way cycle;
    std::optional<std::size_t> waiter, any;  // the first of those from where an end is nearest
    const std::vector<std::size_t> links = links_to_end();
    for (std::size_t start = 0; start < nodes_.size(); ++start) {
      const WaitNode& node = nodes_[start];
      if (node.block) {  // no cycle is without a claimed slot
        Way way = way_from(start, true);
        if (!way.empty() && (cycle.empty() || way.size() < cycle.size())) cycle = std::move(way);
      }
      if (links[start] == 0) continue;
      std::optional<std::size_t>& nearest = node.block && rings_[node.ring].stands_still.empty() ? waiter : any;
      if (!nearest || links[start] < links[*nearest]) nearest = start;
    }
    if (!cycle.empty()) return told(cycle, true);
    const std::optional<std::size_t> start = waiter ? waiter : any;
    return start ? told(way_from(*start, false), false) : WaitChain{};
  }

 private:
  using Way = std::vector<std::pair<std::size_t, std::size_t>>;  // node, its edge

  const Word* words_of(const WaitNode& node) const { return slot_at(*rings_[node.ring].kernel, node.slot); }
  const Word* args_of(const WaitNode& node) const { return words_of(node) + kLayout2026_05.arg0_word; }
  static std::uint64_t key_of(std::size_t ring, Word part) { return static_cast<std::uint64_t>(ring) << 32U | part; }

  void add_nodes(std::size_t index) {
    const RingWaits& ring = rings_[index];
    std::unordered_map<Word, Word> holders;
    for (const KernelLane& lane : ring.lanes) {
      if (lane.phase == LanePhase::kScan || lane.phase == LanePhase::kStopped) continue;
      if (lane.phase != LanePhase::kCandidate) holders.emplace(lane.slot, lane.index);
      at_.emplace(key_of(index, lane.index), lane.slot);
    }
    for (Word slot = 0; slot < ring.kernel->slots; ++slot) {
      const Word* const words = slot_at(*ring.kernel, slot);
      if (opcode::is_mesh(words[slot_word::kOpcode])) {
        ids_.emplace(key_of(index, words[kLayout2026_05.arg0_word + mesh_arg::kId]), slot);
      }
      if (!status::is_queued(words[slot_word::kStatus])) continue;
      WaitNode node{.ring = index, .slot = slot, .block = std::nullopt, .edges = {}};
      if (const auto holder = holders.find(slot); holder != holders.end()) node.block = holder->second;
      by_slot_.emplace(key_of(index, slot), nodes_.size());
      nodes_.push_back(std::move(node));
    }
  }

  void add_edges(WaitNode& node) {
    const RingWaits& ring = rings_[node.ring];
    const Word now = words_of(node)[slot_word::kStatus];
    const auto end = [&](std::string text) { node.edges.push_back({std::nullopt, std::move(text)}); };
    if (!ring.stands_still.empty()) return end("is not gone on with: its kernel stands still, " + ring.stands_still);
    if (now == status::kFault) return end("has faulted");
    if (node.block) return add_waits(node);
    if (now == status::kClaimed || now == status::kWaitIo) return end("is claimed, and no block has it");
    if (!status::is_known(now)) return end(numbered("has the unknown status ", now));
    add_claim(node);
  }

  /// For a slot that no lane has claimed: its block, or why its block cannot claim it.
  void add_claim(WaitNode& node) {
    const RingWaits& ring = rings_[node.ring];
    const Kernel& kernel = *ring.kernel;
    const auto end = [&](std::string text) { node.edges.push_back({std::nullopt, std::move(text)}); };
    const Word tenant = words_of(node)[slot_word::kTenant];
    if (!is_claimable(kernel, words_of(node)[slot_word::kStatus])) {
      return end("is not claimed: the plain kernel does not look at it again");
    }
    if (authority_of<PlainWords>(kernel, tenant) == Authority::kNo) {
      const std::uint64_t mask = std::uint64_t{kernel.control[control_word::kTenantBase]} + tenant;
      const bool masked = mask >= kernel.control_words || kernel.control[mask] == 0;
      return end(numbered("is not claimed: its tenant ", tenant) + (masked ? " is masked" : " has used up its quota"));
    }
    const std::optional<Word> block = block_for(kernel, node.slot);
    if (!block || *block >= ring.lanes.size()) return end("is not claimed: no block looks at it");
    const std::string of_block = numbered("is not claimed: its block ", *block);
    if (*block < ring.resident.size() && !ring.resident[*block]) {
      return end(of_block + " has no place on the GPU, which those that wait hold");
    }
    const auto at = at_.find(key_of(node.ring, *block));
    if (at == at_.end()) return end(of_block + " has nothing else, and does not claim it");
    const auto other = by_slot_.find(key_of(node.ring, at->second));
    if (other == by_slot_.end()) return end(of_block + numbered(" is at slot ", at->second));
    node.edges.push_back({other->second, of_block + numbered(" is in slot ", at->second)});
  }

  static std::optional<Word> block_for(const Kernel& kernel, Word slot) {
    if (kernel.lanes == 0) return std::nullopt;
    if (!kernel.by_priority) return owner_of(kernel, slot);
    for (Word level = 0; level < priority::kLevels; ++level) {
      const Partition partition = partition_of<PlainWords>(kernel, level);
      if (slot < partition.begin || slot >= partition.end) continue;
      return (slot - partition.begin) % kernel.lanes;
    }
    return std::nullopt;
  }

  /// Of a slot that a block has claimed.
  void add_waits(WaitNode& node) {
    const RingWaits& ring = rings_[node.ring];
    const Word* const args = args_of(node);
    const Word op = words_of(node)[slot_word::kOpcode];
    const auto end = [&](std::string text) { node.edges.push_back({std::nullopt, std::move(text)}); };
    if (words_of(node)[slot_word::kStatus] == status::kWaitIo || op == opcode::kLoadMiss) {
      return end("waits for the host, which does not serve its IO queue");
    }
    if (!opcode::is_mesh(op)) return end("is at an operation that does not end");
    for (const Word word : {mesh_arg::kAfter, mesh_arg::kAlsoAfter}) add_after(node, args[word]);
    if (args[mesh_arg::kConnection] < ring.board.connections) {
      if (op == opcode::kWait) add_message(node);
      if (op == opcode::kFence) add_completion(node);
    }
    if (node.edges.empty()) end("has all that it needs, and does not go on");
  }

  void add_after(WaitNode& node, Word id) {
    const RingWaits& ring = rings_[node.ring];
    if (id == kNoId || id >= ring.board.ids) return;
    const Word* const observables = ring.kernel->control + kLayout2026_05.observables;
    if (count_reached(observables[ring.board.done_of(id)], args_of(node)[mesh_arg::kEpoch])) return;
    const auto found = ids_.find(key_of(node.ring, id));
    if (found == ids_.end()) {
      node.edges.push_back({std::nullopt, numbered("waits for operation ", id) + ", which is not published"});
      return;
    }
    node.edges.push_back({node_of(node.ring, found->second),
                          numbered("waits for slot ", found->second) + unless_queued(node.ring, found->second)});
  }

  std::optional<std::size_t> node_of(std::size_t ring, Word slot) const {
    const auto found = by_slot_.find(key_of(ring, slot));
    return found == by_slot_.end() ? std::nullopt : std::optional<std::size_t>(found->second);
  }
  std::string unless_queued(std::size_t ring, Word slot) const {
    return node_of(ring, slot) ? "" : ", which is not published";
  }

  /// The slot with the first SIGNAL of `ring` on `connection` that lets at least so many go.
  std::optional<Word> signal_of(std::size_t ring, Word connection, Word wanted) const {
    std::optional<Word> best, best_over;
    const Kernel& kernel = *rings_[ring].kernel;
    for (Word slot = 0; slot < kernel.slots; ++slot) {
      const Word* const words = slot_at(kernel, slot);
      const Word* const args = words + kLayout2026_05.arg0_word;
      if (words[slot_word::kOpcode] != opcode::kSignal || args[mesh_arg::kConnection] != connection) continue;
      if (words[slot_word::kStatus] == status::kEmpty || !count_reached(args[mesh_arg::kCount], wanted)) continue;
      const Word over = args[mesh_arg::kCount] - wanted;
      if (best && over >= *best_over) continue;
      best = slot;
      best_over = over;
    }
    return best;
  }

  void add_message(WaitNode& node) {
    const RingWaits& ring = rings_[node.ring];
    const Word* const args = args_of(node);
    const Word connection = args[mesh_arg::kConnection], wanted = args[mesh_arg::kCount];
    const Word* const observables = ring.kernel->control + kLayout2026_05.observables;
    if (count_reached(observables[ring.board.arrivals_of(connection)], wanted)) return;
    const auto add = [&](std::optional<std::size_t> to, const std::string& rest) {
      std::string text = numbered("waits for message ", args[mesh_arg::kMessage]) +
                         numbered(" of connection ", connection) + numbered(" in epoch ", args[mesh_arg::kEpoch]);
      if (connection < ring.receives.size()) {
        text += numbered(" from rank ", static_cast<std::uint64_t>(ring.receives[connection].rank));
      }
      node.edges.push_back({to, text + rest});
    };
    if (connection >= ring.receives.size()) return add(std::nullopt, "");
    const PeerConnection& peer = ring.receives[connection];
    const auto source = std::find_if(rings_.begin(), rings_.end(), [&](const RingWaits& one) {
      return one.rank == peer.rank && one.ring == peer.ring;
    });
    if (source == rings_.end()) return add(std::nullopt, ", whose kernel has ended");
    const auto index = static_cast<std::size_t>(source - rings_.begin());
    const std::optional<Word> signal = signal_of(index, peer.connection, wanted);
    if (!signal) return add(std::nullopt, ", which has published no SIGNAL of it");
    if (const auto queued = node_of(index, *signal)) return add(queued, numbered("'s slot ", *signal));
    add(std::nullopt, numbered("'s slot ", *signal) + ", which has signalled it: its queue pair does not deliver");
  }

  void add_completion(WaitNode& node) {
    const RingWaits& ring = rings_[node.ring];
    const Word* const args = args_of(node);
    const Word connection = args[mesh_arg::kConnection], wanted = args[mesh_arg::kCount];
    if (connection < ring.completed.size() && count_reached(ring.completed[connection], wanted)) return;
    std::string text = numbered("waits until ", wanted) + numbered(" puts of connection ", connection);
    if (connection < ring.sends.size()) {
      text += numbered(" to rank ", static_cast<std::uint64_t>(ring.sends[connection].rank));
    }
    text += " are complete";
    const std::optional<Word> signal = signal_of(node.ring, connection, wanted);
    const auto queued = signal ? node_of(node.ring, *signal) : std::nullopt;
    node.edges.push_back({queued, text + (queued ? numbered(", which slot ", *signal) + " signals"
                                                 : ": its queue pair does not say so")});
  }

  /// Of the shortest way to an end, by node, backwards from the ends; 0: there is none.
  std::vector<std::size_t> links_to_end() const {
    std::vector<std::size_t> links(nodes_.size()), queue;
    std::vector<std::vector<std::size_t>> before(nodes_.size());
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      for (const WaitEdge& edge : nodes_[node].edges) {
        if (edge.to) {
          before[*edge.to].push_back(node);
        } else if (links[node] == 0) {
          links[node] = 1;
          queue.push_back(node);
        }
      }
    }
    for (std::size_t next = 0; next < queue.size(); ++next) {
      for (const std::size_t node : before[queue[next]]) {
        if (links[node] > 0) continue;
        links[node] = links[queue[next]] + 1;
        queue.push_back(node);
      }
    }
    return links;
  }

  /// Back to the start, or to an end.
  Way way_from(std::size_t start, bool back) const {
    struct Came {
      std::size_t from = 0, edge = 0;
      bool seen = false;
    };
    std::vector<Came> came(nodes_.size());
    std::vector<std::size_t> queue{start};
    came[start].seen = true;
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const std::size_t here = queue[next];
      for (std::size_t edge = 0; edge < nodes_[here].edges.size(); ++edge) {
        const std::optional<std::size_t> to = nodes_[here].edges[edge].to;
        if (back ? to == start : !to) {
          Way way{{here, edge}};
          for (std::size_t at = here; at != start; at = came[at].from) way.emplace_back(came[at].from, came[at].edge);
          std::reverse(way.begin(), way.end());
          return way;
        }
        if (!to || came[*to].seen) continue;
        came[*to] = {.from = here, .edge = edge, .seen = true};
        queue.push_back(*to);
      }
    }
    return {};
  }

  WaitChain told(const Way& way, bool is_cycle) const {
    WaitChain chain{.is_cycle = is_cycle, .links = {}};
    for (const auto& [index, edge] : way) {
      const WaitNode& node = nodes_[index];
      const RingWaits& ring = rings_[node.ring];
      chain.links.push_back({.rank = ring.rank,
                             .ring = ring.ring,
                             .slot = node.slot,
                             .opcode = words_of(node)[slot_word::kOpcode],
                             .block = node.block,
                             .text = node.edges[edge].text});
    }
    return chain;
  }

  std::span<const RingWaits> rings_;
  std::vector<WaitNode> nodes_;
  std::unordered_map<std::uint64_t, std::size_t> by_slot_;  // ring and slot: the node
  std::unordered_map<std::uint64_t, Word> ids_;             // ring and operation's id: its slot
  std::unordered_map<std::uint64_t, Word> at_;              // ring and lane: the slot that it is at
};

}  // namespace

std::string operation_name(Word op) {
  switch (op) {
    case opcode::kPut:
      return "PUT";
    case opcode::kSignal:
      return "SIGNAL";
    case opcode::kWait:
      return "WAIT";
    case opcode::kReduce:
      return "REDUCE";
    case opcode::kCopy:
      return "COPY";
    case opcode::kFence:
      return "FENCE";
    case opcode::kCompute:
      return "COMPUTE";
    default:
      return opcode_name(op);
  }
}

std::string WaitChain::text() const {
  std::string text;
  for (const WaitLink& link : links) {
    if (!text.empty()) text += "; ";
    text += numbered("rank ", static_cast<std::uint64_t>(link.rank)) +
            numbered(" ring ", static_cast<std::uint64_t>(link.ring)) + numbered(" slot ", link.slot) + " (" +
            operation_name(link.opcode) + (link.block ? numbered(", block ", *link.block) : "") + ") " + link.text;
  }
  if (is_cycle) text += ": a cycle";
  return text;
}

WaitChain shortest_wait_chain(std::span<const RingWaits> rings) { return WaitGraph(rings).shortest(); }

}  // namespace meshbed::ring
