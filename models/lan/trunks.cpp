#include "models/lan/trunks.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "plugin/base/check.h"

namespace meshbed::models {
namespace {

/// Finaliser of MurmurHash3: every bit of the input reaches every bit of the result.
std::uint64_t mixed(std::uint64_t value) {
  value ^= value >> 33U;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33U;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ value >> 33U;
}

Error misfit(std::string text) { return Error{ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

class BoxMaker {
 public:
  BoxMaker(Switch& network, const FabricOptions& options, std::string prefix)
      : network_(network), options_(options), prefix_(std::move(prefix)) {}

  int add(const std::string& name) {
    network_.boxes.push_back(prefix_ + name);
    return static_cast<int>(network_.boxes.size()) - 1;
  }

  void join(int a, int b, int count) {
    for (int number = 0; number < count; ++number) {
      std::string name = box(a) + "-" + box(b) + (number == 0 ? "" : "-" + std::to_string(number));
      network_.trunks.push_back({.name = std::move(name),
                                 .a = a,
                                 .b = b,
                                 .rate_bps = options_.uplink_rate_bps,
                                 .propagation_ps = network_.propagation_ps});
    }
  }

  /// The ports in their order, evenly over the first `lowest` boxes, of which the first ones have one more.
  void spread(int lowest) {
    const std::size_t ports = network_.ports.size(), boxes = static_cast<std::size_t>(lowest);
    network_.box_of_port.clear();
    for (std::size_t port = 0; port < ports; ++port) {
      network_.box_of_port.push_back(static_cast<int>(port * boxes / std::max(ports, boxes)));
    }
  }

 private:
  const std::string& box(int index) const { return network_.boxes[static_cast<std::size_t>(index)]; }

  Switch& network_;
  const FabricOptions& options_;
  std::string prefix_;
};

std::string numbered(const char* name, int number) { return name + std::to_string(number); }

Result<void> leaf_spine(Switch& network, const FabricOptions& options, BoxMaker& make) {
  const int ports = static_cast<int>(network.ports.size());
  if (options.leaves < 1) return misfit("leaves: a leaf-spine fabric needs leaves, as in leaves = 4");
  if (options.leaves > ports) {
    return misfit("leaves: " + std::to_string(options.leaves) + " for " + std::to_string(ports) +
                  " nodes; each leaf has one at least");
  }
  int spines = options.spines;
  if (options.oversubscription > 0) {
    const double of_leaf =
        std::ceil(static_cast<double>(ports) / options.leaves) * static_cast<double>(network.rate_bps);
    const double of_spine = static_cast<double>(options.uplinks) * static_cast<double>(options.uplink_rate_bps);
    spines = static_cast<int>(std::ceil(of_leaf / options.oversubscription / of_spine - 1e-9));
  }
  if (spines < 1) return misfit("spines: a leaf-spine fabric needs spines, or oversubscription, as in spines = 2");
  for (int leaf = 0; leaf < options.leaves; ++leaf) make.add(numbered("leaf", leaf));
  for (int spine = 0; spine < spines; ++spine) {
    const int top = make.add(numbered("spine", spine));
    for (int leaf = 0; leaf < options.leaves; ++leaf) make.join(leaf, top, options.uplinks);
  }
  make.spread(options.leaves);
  return ok();
}

/// Al-Fares, Loukissas and Vahdat, "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008: k pods of
/// k/2 edge and k/2 aggregation boxes, and k^2/4 core boxes, each with one trunk to each pod.
Result<void> fat_tree(Switch& network, const FabricOptions& options, BoxMaker& make) {
  const int half = options.arity / 2, pods = options.arity;
  if (options.arity < 2 || options.arity % 2 != 0) {
    return misfit("arity: a fat tree needs the ports of a box, an even number, as in arity = 8");
  }
  const std::int64_t most = fat_tree_nodes(options);
  if (static_cast<std::int64_t>(network.ports.size()) > most) {
    return misfit("nodes: " + std::to_string(network.ports.size()) + " on a fat tree that has room for " +
                  std::to_string(most) + "; raise arity or oversubscription");
  }
  for (int edge = 0; edge < pods * half; ++edge) make.add(numbered("edge", edge));
  const int first = pods * half;
  for (int upper = 0; upper < pods * half; ++upper) make.add(numbered("aggregation", upper));
  for (int pod = 0; pod < pods; ++pod) {
    for (int edge = 0; edge < half; ++edge) {
      for (int upper = 0; upper < half; ++upper) make.join(pod * half + edge, first + pod * half + upper, 1);
    }
  }
  for (int core = 0; core < half * half; ++core) {
    const int top = make.add(numbered("core", core));
    for (int pod = 0; pod < pods; ++pod) make.join(first + pod * half + core / half, top, 1);
  }
  make.spread(pods * half);
  return ok();
}

/// Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008, routed minimally:
/// boxes of a group are all joined, and every two groups, over boxes that take turns.
Result<void> dragonfly(Switch& network, const FabricOptions& options, BoxMaker& make) {
  if (options.groups < 1) return misfit("groups: a dragonfly needs groups, as in groups = 4");
  if (options.boxes < 1) return misfit("boxes: a dragonfly needs the boxes of a group, as in boxes = 4");
  const int all = options.groups * options.boxes;
  if (all > static_cast<int>(network.ports.size())) {
    return misfit("groups: " + std::to_string(all) + " boxes for " + std::to_string(network.ports.size()) +
                  " nodes; each box has one at least");
  }
  for (int box = 0; box < all; ++box) {
    make.add(numbered("group", box / options.boxes) + "-" + std::to_string(box % options.boxes));
  }
  std::vector<int> used(static_cast<std::size_t>(options.groups), 0);
  const auto next = [&](int group) {
    return group * options.boxes + used[static_cast<std::size_t>(group)]++ % options.boxes;
  };
  for (int group = 0; group < options.groups; ++group) {
    for (int one = 0; one < options.boxes; ++one) {
      for (int two = one + 1; two < options.boxes; ++two) {
        make.join(group * options.boxes + one, group * options.boxes + two, 1);
      }
    }
  }
  for (int one = 0; one < options.groups; ++one) {
    for (int two = one + 1; two < options.groups; ++two) {
      for (int number = 0; number < options.uplinks; ++number) {
        const int from = next(one);
        make.join(from, next(two), 1);
      }
    }
  }
  make.spread(all);
  return ok();
}

}  // namespace

TrunkRoutes::TrunkRoutes(const Switch& network)
    : network_(network), exits_(network.boxes.size()), distances_(network.boxes.size()) {
  for (std::size_t index = 0; index < network.trunks.size(); ++index) {
    const Trunk& trunk = network.trunks[index];
    exits_[static_cast<std::size_t>(trunk.a)].push_back({static_cast<int>(index), trunk.b});
    exits_[static_cast<std::size_t>(trunk.b)].push_back({static_cast<int>(index), trunk.a});
  }
}

const std::vector<int>& TrunkRoutes::distances_to(int box) {
  std::vector<int>& distances = distances_[static_cast<std::size_t>(box)];
  if (!distances.empty()) return distances;
  distances.assign(exits_.size(), -1);
  distances[static_cast<std::size_t>(box)] = 0;
  for (std::deque<int> reached{box}; !reached.empty(); reached.pop_front()) {
    const auto here = static_cast<std::size_t>(reached.front());
    for (const Exit& exit : exits_[here]) {
      int& distance = distances[static_cast<std::size_t>(exit.to)];
      if (distance >= 0) continue;
      distance = distances[here] + 1;
      reached.push_back(exit.to);
    }
  }
  return distances;
}

std::vector<TrunkHop> TrunkRoutes::way(int from, int to, std::uint64_t flow) {
  const std::vector<int>& distances = distances_to(to);
  std::vector<TrunkHop> hops;
  std::vector<const Exit*> nearer;
  while (from != to) {
    const int distance = distances[static_cast<std::size_t>(from)];
    MESHBED_CHECK_MSG(distance > 0, "trunks lead from each box to every other one");
    nearer.clear();
    for (const Exit& exit : exits_[static_cast<std::size_t>(from)]) {
      if (distances[static_cast<std::size_t>(exit.to)] == distance - 1) nearer.push_back(&exit);
    }
    // Each box hashes by itself: one hash for all would leave most trunks of the next stage unused (hash polarisation).
    const std::uint64_t hash = mixed(flow ^ mixed(static_cast<std::uint64_t>(from) + 1));
    const Exit& next = *nearer[hash % nearer.size()];
    hops.push_back({next.trunk, network_.trunks[static_cast<std::size_t>(next.trunk)].a == from});
    from = next.to;
  }
  return hops;
}

bool TrunkRoutes::all_joined() {
  if (exits_.empty()) return true;
  const std::vector<int>& distances = distances_to(0);
  return std::find(distances.begin(), distances.end(), -1) == distances.end();
}

bool has_boxes(const Cluster& cluster) {
  return std::any_of(cluster.switches.begin(), cluster.switches.end(),
                     [](const Switch& network) { return !network.boxes.empty(); });
}

std::int64_t fat_tree_nodes(const FabricOptions& options) {
  const double ratio = options.oversubscription > 0 ? options.oversubscription : 1;
  const std::int64_t edges = static_cast<std::int64_t>(options.arity) * (options.arity / 2);
  return edges * static_cast<std::int64_t>(ratio * (options.arity / 2));
}

Result<void> join_boxes(Switch& network, const FabricOptions& options, const std::string& prefix) {
  constexpr std::int64_t kTrunksMost = 1 << 20;
  const std::int64_t arity = options.arity, groups = options.groups, boxes = options.boxes;
  const std::int64_t trunks = arity * arity * arity / 2 + groups * boxes * boxes / 2 +
                              groups * groups * options.uplinks +
                              std::int64_t{options.leaves} * options.spines * options.uplinks;
  if (trunks > kTrunksMost) {
    return misfit("kind: the fabric would have more than " + std::to_string(kTrunksMost) + " cables between its boxes");
  }
  BoxMaker make(network, options, prefix);
  switch (options.kind) {
    case FabricKind::kLeafSpine:
      return leaf_spine(network, options, make);
    case FabricKind::kFatTree:
      return fat_tree(network, options, make);
    case FabricKind::kDragonfly:
      break;
  }
  return dragonfly(network, options, make);
}

}  // namespace meshbed::models
