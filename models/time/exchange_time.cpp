#include "models/time/exchange_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

namespace meshbed::models {
namespace {

constexpr double kExchangeBytesPerUs = 1e3;  // of 1 GB/s

Error exchange_refused(std::string text) { return {.code = ErrorCode::kInvalidArgument, .text = std::move(text)}; }

/// Hops to every node, -1 where there is no way. O(nodes + hops).
std::vector<int> hops_to_all(const std::vector<std::vector<ExchangeFabric::Hop>>& hops, int from) {
  std::vector<int> count(hops.size(), -1);
  std::vector<int> reached{from};
  count[static_cast<std::size_t>(from)] = 0;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const auto node = static_cast<std::size_t>(reached[next]);
    for (const ExchangeFabric::Hop& hop : hops[node]) {
      int& there = count[static_cast<std::size_t>(hop.to)];
      if (there >= 0) continue;
      there = count[node] + 1;
      reached.push_back(hop.to);
    }
  }
  return count;
}

struct NodeMessage {
  std::size_t from = 0, to = 0;
  std::uint64_t bytes = 0;
};

/// Loads of the fabric.
class Loads {
 public:
  explicit Loads(const ExchangeFabric& fabric)
      : fabric_(fabric), out_(fabric.adapters.size()), in_(out_.size()), forwarded_(out_.size()) {
    if (fabric.direct) return;
    of_shared_.resize(fabric.shared.size());
    for (std::size_t node = 0; node < out_.size(); ++node) {
      of_hop_.emplace_back(fabric.hops[node].size());
      distance_.push_back(hops_to_all(fabric.hops, static_cast<int>(node)));
    }
  }

  /// Hops from one node to the other; -1: there is no way.
  int distance(std::size_t from, std::size_t to) const { return fabric_.direct ? 1 : distance_[from][to]; }

  /// Takes them as a whole: each way depends on the others'. Refused where they have too many hops.
  Result<void> add(const std::vector<NodeMessage>& messages);

  int relays() const { return relays_; }
  bool is_split() const { return split_; }

  /// The time of the busiest of nodes' adapters and hops at the rates that the library reaches.
  std::pair<double, ExchangeLoad> busiest(int ranks, int ranks_of_node) const;
  /// What the line's rates allow at least, in microseconds.
  double bound_us() const;

 private:
  std::size_t place_of(std::size_t node, std::size_t to) const {
    const auto& hops = fabric_.hops[node];
    const auto found = std::lower_bound(
        hops.begin(), hops.end(), to,
        [](const ExchangeFabric::Hop& hop, std::size_t wanted) { return static_cast<std::size_t>(hop.to) < wanted; });
    return static_cast<std::size_t>(found - hops.begin());
  }

  std::vector<std::size_t> best_way(const NodeMessage& message);
  /// Adds the message to the way's loads, or takes it from them.
  void carry(const NodeMessage& message, const std::vector<std::size_t>& way, bool is_new);

  const ExchangeFabric& fabric_;
  std::vector<std::uint64_t> out_, in_, forwarded_;  // [node]
  std::vector<std::vector<std::uint64_t>> of_hop_;   // [node][place in its hops]
  std::vector<double> of_shared_;                    // [shared]
  std::vector<std::vector<int>> distance_;
  std::vector<double> cost_;         // [node] of the best way so far; between searches none is known
  std::vector<std::size_t> before_;  // [node] on that way
  double byte_hops_ = 0;
  int relays_ = 0;
  bool split_ = false;
};

void Loads::carry(const NodeMessage& message, const std::vector<std::size_t>& way, bool is_new) {
  const auto change = [&](std::uint64_t& load) { load = is_new ? load + message.bytes : load - message.bytes; };
  for (std::size_t step = 0; step + 1 < way.size(); ++step) {
    change(of_hop_[way[step]][place_of(way[step], way[step + 1])]);
    if (step > 0) change(forwarded_[way[step]]);
    const auto parts = fabric_.parts.find({static_cast<int>(way[step]), static_cast<int>(way[step + 1])});
    if (parts == fabric_.parts.end()) continue;
    for (const ExchangeFabric::Share& share : parts->second) {
      const double bytes = share.part * static_cast<double>(message.bytes);
      of_shared_[static_cast<std::size_t>(share.shared)] += is_new ? bytes : -bytes;
      split_ = split_ || share.part < 1;
    }
  }
}

/// Hops of all messages together: above the first, ways are chosen once and not balanced again, as each must be kept
/// for that; above the second, the choice alone takes minutes.
constexpr std::uint64_t kBalancedHopsMost = 5'000'000, kHopsMost = 400'000'000;

Result<void> Loads::add(const std::vector<NodeMessage>& messages) {
  std::uint64_t all_hops = 0;
  for (const NodeMessage& message : messages)
    all_hops += static_cast<std::uint64_t>(distance(message.from, message.to));
  if (!fabric_.direct && all_hops > kHopsMost) {
    return exchange_refused(std::to_string(messages.size()) + " messages between nodes cross " +
                            std::to_string(all_hops) + " cables over relays, of which a prediction follows " +
                            std::to_string(kHopsMost) + " at most; give fewer ranks, or --topology switch");
  }
  const bool is_balanced = all_hops <= kBalancedHopsMost;
  std::vector<std::vector<std::size_t>> ways(is_balanced ? messages.size() : 0);
  for (std::size_t index = 0; index < messages.size(); ++index) {
    const NodeMessage& message = messages[index];
    const int hops = distance(message.from, message.to);
    out_[message.from] += message.bytes;
    in_[message.to] += message.bytes;
    byte_hops_ += static_cast<double>(message.bytes) * hops;
    relays_ = std::max(relays_, hops - 1);
    if (fabric_.direct) continue;
    std::vector<std::size_t> way = best_way(message);
    carry(message, way, true);
    if (is_balanced) ways[index] = std::move(way);
  }
  constexpr int kMostRounds = 8;
  bool changed = relays_ > 0 && !fabric_.direct && is_balanced;
  for (int round = 0; round < kMostRounds && changed; ++round) {
    changed = false;
    for (std::size_t index = 0; index < messages.size(); ++index) {
      if (ways[index].size() <= 2) continue;
      carry(messages[index], ways[index], false);
      std::vector<std::size_t> way = best_way(messages[index]);
      changed = changed || way != ways[index];
      ways[index] = std::move(way);
      carry(messages[index], ways[index], true);
    }
  }
  return {};
}

/// Of the shortest ways the one that adds least to the sum of the squared times of all hops and relays; of equal ones
/// that over the lowest nodes.
std::vector<std::size_t> Loads::best_way(const NodeMessage& message) {
  const auto& [from, to, bytes] = message;
  const int length = distance_[from][to];
  if (length == 1) return {from, to};
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const auto added = [&message](std::uint64_t load, double GBps) {
    const auto own = static_cast<double>(message.bytes);
    return own * (own + 2 * static_cast<double>(load)) / (GBps * GBps);
  };
  std::vector<double>& cost = cost_;
  std::vector<std::size_t>& before = before_;
  cost.resize(out_.size(), kNone);
  before.resize(out_.size());
  std::vector<std::size_t> level{from}, seen{from};
  cost[from] = 0;
  for (int step = 0; step < length; ++step) {
    std::vector<std::size_t> next;
    for (const std::size_t node : level) {
      for (std::size_t place = 0; place < fabric_.hops[node].size(); ++place) {
        const ExchangeFabric::Hop& hop = fabric_.hops[node][place];
        const auto there = static_cast<std::size_t>(hop.to);
        if (distance_[there][to] != length - step - 1) continue;
        double with = cost[node] + added(of_hop_[node][place], hop.rate.reached_GBps);
        if (there != to) {
          with += added(forwarded_[there] + std::max(out_[there], in_[there]), fabric_.adapters[there].reached_GBps);
        }
        if (cost[there] == kNone) {
          next.push_back(there);
          seen.push_back(there);
        }
        if (with >= cost[there]) continue;
        cost[there] = with;
        before[there] = node;
      }
    }
    std::sort(next.begin(), next.end());
    level = std::move(next);
  }
  std::vector<std::size_t> way{to};
  while (way.back() != from) way.push_back(before[way.back()]);
  std::reverse(way.begin(), way.end());
  for (const std::size_t node : seen) cost[node] = kNone;
  return way;
}

std::string adapters_text(std::size_t node, bool is_rank, const char* direction) {
  return std::string("adapters of ") + (is_rank ? "rank " : "node ") + std::to_string(node) + ", " + direction;
}

std::pair<double, ExchangeLoad> Loads::busiest(int ranks, int ranks_of_node) const {
  double most_us = 0;
  ExchangeLoad load;
  const auto take = [&](std::uint64_t bytes, std::uint64_t forwarded, double GBps, const auto& what) {
    const double us = static_cast<double>(bytes) / (GBps * kExchangeBytesPerUs);
    constexpr double kMore = 1 + 1e-12;  // than rounding
    if (us <= most_us * kMore) return;
    most_us = us;
    load = {.what = what(), .bytes = bytes, .forwarded = forwarded, .GBps = GBps};
  };
  for (std::size_t node = 0; node < out_.size(); ++node) {
    const double GBps = fabric_.adapters[node].reached_GBps;
    if (GBps <= 0) continue;  // without a cable, and so without a byte
    const bool is_rank = ranks_of_node == 1 && node < static_cast<std::size_t>(ranks);
    take(out_[node] + forwarded_[node], forwarded_[node], GBps, [&] { return adapters_text(node, is_rank, "out"); });
    take(in_[node] + forwarded_[node], forwarded_[node], GBps, [&] { return adapters_text(node, is_rank, "in"); });
  }
  for (std::size_t node = 0; node < of_hop_.size(); ++node) {
    for (std::size_t place = 0; place < of_hop_[node].size(); ++place) {
      const ExchangeFabric::Hop& hop = fabric_.hops[node][place];
      take(of_hop_[node][place], 0, hop.rate.reached_GBps,
           [&] { return "path from node " + std::to_string(node) + " to node " + std::to_string(hop.to); });
    }
  }
  for (std::size_t index = 0; index < of_shared_.size(); ++index) {
    const ExchangeFabric::Shared& shared = fabric_.shared[index];
    if (shared.rate.reached_GBps <= 0) continue;  // without a limit
    take(static_cast<std::uint64_t>(std::llround(of_shared_[index])), 0, shared.rate.reached_GBps,
         [&] { return shared.what; });
  }
  return {most_us, load};
}

double Loads::bound_us() const {
  double most = 0, all_GBps = 0;
  for (std::size_t node = 0; node < out_.size(); ++node) {
    const double GBps = fabric_.adapters[node].line_GBps;
    all_GBps += GBps;
    if (GBps > 0) most = std::max(most, static_cast<double>(std::max(out_[node], in_[node])) / GBps);
  }
  // Each byte leaves as many nodes as its way has hops, and all adapters together send no more than their rates.
  if (all_GBps > 0) most = std::max(most, byte_hops_ / all_GBps);
  return most / kExchangeBytesPerUs;
}

/// What the ranks have for others: totals, peers, and whether a uniform call has the same messages.
struct Messages {
  std::vector<std::uint64_t> out, in;                // [rank] for ranks of other nodes
  std::vector<std::uint64_t> out_within, in_within;  // [rank] for ranks of its own node
  int most_peers = 0;
  bool is_uniform = true, is_permutation = true;
  std::uint64_t between = 0, within = 0;
};

Messages messages_of(const ExchangeMatrix& matrix, int ranks_of_node) {
  const auto ranks = static_cast<std::size_t>(matrix.ranks);
  Messages all;
  for (auto* each : {&all.out, &all.in, &all.out_within, &all.in_within}) each->resize(ranks);
  std::vector<int> sends(ranks), receives(ranks);
  const std::uint64_t first = matrix.at(0, 1);
  std::uint64_t message = 0;  // of a permutation
  for (int from = 0; from < matrix.ranks; ++from) {
    for (int to = 0; to < matrix.ranks; ++to) {
      if (from == to) continue;
      const std::uint64_t bytes = matrix.at(from, to);
      all.is_uniform = all.is_uniform && bytes == first;
      if (bytes == 0) continue;
      if (message == 0) message = bytes;
      all.is_permutation = all.is_permutation && bytes == message;
      const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
      ++sends[source];
      ++receives[target];
      const bool is_within = from / ranks_of_node == to / ranks_of_node;
      (is_within ? all.out_within : all.out)[source] += bytes;
      (is_within ? all.in_within : all.in)[target] += bytes;
      (is_within ? all.within : all.between) += bytes;
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all.most_peers = std::max({all.most_peers, sends[rank], receives[rank]});
    all.is_permutation = all.is_permutation && sends[rank] == 1 && receives[rank] == 1;
  }
  return all;
}

/// Of nodes to other nodes: those with a path of their own first, then the longest.
std::vector<NodeMessage> node_messages(const ExchangeMatrix& matrix, int nodes, int ranks_of_node, const Loads& loads) {
  const auto width = static_cast<std::size_t>(nodes);
  std::vector<std::uint64_t> bytes(width * width);
  for (int from = 0; from < matrix.ranks; ++from) {
    for (int to = 0; to < matrix.ranks; ++to) {
      const auto source = static_cast<std::size_t>(from / ranks_of_node);
      const auto target = static_cast<std::size_t>(to / ranks_of_node);
      if (source != target) bytes[source * width + target] += matrix.at(from, to);
    }
  }
  std::vector<NodeMessage> all;
  for (std::size_t from = 0; from < width; ++from) {
    for (std::size_t to = 0; to < width; ++to) {
      if (bytes[from * width + to] > 0) all.push_back({from, to, bytes[from * width + to]});
    }
  }
  std::stable_sort(all.begin(), all.end(), [&loads](const NodeMessage& one, const NodeMessage& other) {
    const bool has_path = loads.distance(one.from, one.to) == 1;
    if (has_path != (loads.distance(other.from, other.to) == 1)) return has_path;
    return one.bytes > other.bytes;
  });
  return all;
}

/// Where a rank's own part of the adapters, or its links within the node, are busier than `most_us`.
void take_ranks(const Machine& machine, const Messages& all, const ExchangeFabric& fabric, int ranks_of_node,
                double& most_us, ExchangeLoad& load) {
  const double part = node_GBps(machine, 1) / node_GBps(machine, ranks_of_node);
  const double within_GBps = machine[MachineParameter::kIntraGBps];
  const auto take = [&](std::uint64_t bytes, double GBps, std::size_t rank, const char* what) {
    const double us = static_cast<double>(bytes) / (GBps * kExchangeBytesPerUs);
    constexpr double kMore = 1 + 1e-9;  // than rounding
    if (us <= most_us * kMore) return;
    most_us = us;
    load = {.what = what + std::to_string(rank), .bytes = bytes, .forwarded = 0, .GBps = GBps};
  };
  for (std::size_t rank = 0; rank < all.out.size(); ++rank) {
    const double GBps = fabric.adapters[rank / static_cast<std::size_t>(ranks_of_node)].reached_GBps * part;
    if (GBps > 0) {
      take(all.out[rank], GBps, rank, "adapters, out, that rank ");
      take(all.in[rank], GBps, rank, "adapters, in, that rank ");
    }
    take(all.out_within[rank], within_GBps, rank, "links within the node, out of rank ");
    take(all.in_within[rank], within_GBps, rank, "links within the node, into rank ");
  }
}

/// The busiest rank of a matrix that stays within nodes.
ExchangeLoad busiest_within(const Messages& all) {
  ExchangeLoad load;
  for (std::size_t rank = 0; rank < all.out_within.size(); ++rank) {
    const std::string name = std::to_string(rank);
    if (all.out_within[rank] > load.bytes) {
      load = {.what = "links within the node, out of rank " + name, .bytes = all.out_within[rank]};
    }
    if (all.in_within[rank] > load.bytes) {
      load = {.what = "links within the node, into rank " + name, .bytes = all.in_within[rank]};
    }
  }
  return load;
}

/// The call of the same shape whose node sends `bytes`, W of collective_time.h.
CollectiveCall call_that_sends(const Machine& machine, CollectiveCall call, double bytes) {
  constexpr std::uint64_t kProbe = std::uint64_t{1} << 40;
  call.bytes = kProbe;
  const CollectiveAlgorithm algorithm = call.algorithm.value_or(CollectiveAlgorithm::kRing);
  const double of_byte = sent_bytes(call, algorithm, machine.cabling) / static_cast<double>(kProbe);
  call.bytes = static_cast<std::uint64_t>(std::llround(bytes / of_byte));
  return call;
}

}  // namespace

Result<ExchangeTime> exchange_time(const Machine& machine, const ExchangeMatrix& matrix, const ExchangeFabric& fabric) {
  if (machine.transport == MachineTransport::kMessage || machine.transport == MachineTransport::kExpert) {
    return exchange_refused(machine.name + " is of " + name_of(machine.transport) +
                            "s; a matrix needs a class with collectives");
  }
  const int nodes = machine.transport == MachineTransport::kWithin ? 1 : nodes_of(machine, matrix.ranks);
  const int ranks_of_node = (matrix.ranks + nodes - 1) / nodes;
  const Messages all = messages_of(matrix, ranks_of_node);
  if (all.most_peers == 0) return exchange_refused("the matrix has no byte for another rank");
  ExchangeTime time;
  time.most_peers = all.most_peers;
  time.bytes = all.between + all.within;
  time.between_nodes = all.between;
  CollectiveCall call{.collective = all.most_peers == 1 ? Collective::kSendRecv : Collective::kAllToAll,
                      .ranks = matrix.ranks,
                      .nodes = nodes};
  if (is_one_shot(machine)) call.algorithm = CollectiveAlgorithm::kDirect;
  double sent = 0;
  if (all.between == 0) {
    call.ranks = ranks_of_node;
    call.nodes = 1;
    time.busiest = busiest_within(all);
    sent = static_cast<double>(time.busiest.bytes);
  } else {
    Loads loads(fabric);
    const std::vector<NodeMessage> messages = node_messages(matrix, nodes, ranks_of_node, loads);
    for (const NodeMessage& message : messages) {
      if (loads.distance(message.from, message.to) < 0) {
        return exchange_refused("no cables lead from node " + std::to_string(message.from) + " to node " +
                                std::to_string(message.to));
      }
    }
    if (const auto added = loads.add(messages); !added) return added.error();
    auto [busy_us, busiest] = loads.busiest(matrix.ranks, ranks_of_node);
    if (ranks_of_node > 1) take_ranks(machine, all, fabric, ranks_of_node, busy_us, busiest);
    const double GBps = node_GBps(machine, ranks_of_node);
    // Where what is busiest has the rate of the class's nodes, its bytes without rounding.
    sent = busiest.GBps == GBps ? static_cast<double>(busiest.bytes) : busy_us * GBps * kExchangeBytesPerUs;
    time.busiest = std::move(busiest);
    time.relays = loads.relays();
    time.split = loads.is_split();
    time.bound_us = loads.bound_us();
  }
  time.as = call_that_sends(machine, call, sent);
  time.is_call = (all.is_permutation || all.is_uniform) && time.as.ranks == matrix.ranks;
  const CollectiveTime uniform = collective_time(machine, time.as);
  time.parts = uniform.parts;
  time.us = uniform.us;
  const auto change = [&time](const char* name, double us) {
    const auto part = std::find_if(time.parts.begin(), time.parts.end(),
                                   [name](const TimePart& each) { return std::strcmp(each.name, name) == 0; });
    if (part != time.parts.end()) {
      if (part->us == us) return;
      time.us += us - part->us;
      part->us = us;
    } else if (us > 0) {
      time.us += us;
      time.parts.push_back({name, us});
    }
  };
  if (!call.algorithm) change("peers", all.most_peers * machine[MachineParameter::kPeerUs]);
  change("relays", time.relays * machine[MachineParameter::kWireUs]);
  return time;
}

Interval interval_of(const Machine& machine, const ExchangeTime& time, Standing standing) {
  if (time.is_call) return interval_of(machine, time.as, time.us, standing);
  return interval_of(machine, "point-to-point matrix, " + ranks_text(time.as.ranks, time.as.nodes), time.as.bytes,
                     time.us, standing);
}

}  // namespace meshbed::models
