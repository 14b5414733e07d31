// Nomenclature: link - a pair of neighbours in one rail, becomes a cable; slot - a NIC's number within its node.
// Cost: O(nodes + NICs) time and memory, bounded by kNicsMax before anything is allocated.

#include "models/topology_generate.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace meshbed::models {
namespace {

Error refuse(std::string text) { return Error{ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

const char* kind_name(TopologyKind kind) {
  switch (kind) {
    case TopologyKind::kRing:
      return "ring";
    case TopologyKind::kLine:
      return "line";
    case TopologyKind::kFullMesh:
      return "full-mesh";
    case TopologyKind::kStar:
      return "star";
    case TopologyKind::kSwitch:
      return "switch";
    case TopologyKind::kTorus:
      return "torus";
  }
  return "?";
}

/// The largest number of neighbours that a node has in one rail; a switch counts as one neighbour.
std::int64_t degree_of(const TopologyOptions& options) {
  const std::int64_t n = options.nodes;
  switch (options.kind) {
    case TopologyKind::kRing:
    case TopologyKind::kLine:
      return std::min<std::int64_t>(n - 1, 2);
    case TopologyKind::kFullMesh:
    case TopologyKind::kStar:
      return n - 1;
    case TopologyKind::kSwitch:
      return 1;
    case TopologyKind::kTorus:
      break;
  }
  std::int64_t degree = 0;
  for (const int length : options.shape) degree += std::min(length - 1, 2);
  return degree;
}

std::int64_t nics_cabled(const TopologyOptions& options, std::int64_t degree) {
  const std::int64_t n = options.nodes;
  switch (options.kind) {
    case TopologyKind::kLine:
    case TopologyKind::kStar:
      return 2 * (n - 1);
    default:
      return n * degree;
  }
}

struct Link {
  int a, b;
};

/// One rail's links, ordered so that giving each end its node's next free slot puts the previous neighbour first.
std::vector<Link> links_of(const TopologyOptions& options) {
  const int n = options.nodes;
  std::vector<Link> links;
  switch (options.kind) {
    case TopologyKind::kRing:
    case TopologyKind::kLine:
      for (int i = 0; i + 1 < n; ++i) links.push_back({i, i + 1});
      if (options.kind == TopologyKind::kRing && n > 2) links.push_back({n - 1, 0});
      break;
    case TopologyKind::kFullMesh:
      for (int i = 0; i < n; ++i) {
        for (int j = i + 1; j < n; ++j) links.push_back({i, j});
      }
      break;
    case TopologyKind::kStar:
      for (int leaf = 1; leaf < n; ++leaf) links.push_back({0, leaf});
      break;
    case TopologyKind::kSwitch:
      break;
    case TopologyKind::kTorus: {
      int stride = 1;
      for (const int length : options.shape) {
        for (int i = 0; i < n && length > 1; ++i) {
          const int place = i / stride % length;
          const bool wraps = place == length - 1;
          // A dimension of two is one cable, not two between the same nodes.
          if (wraps && length == 2) continue;
          links.push_back({i, wraps ? i - place * stride : i + stride});
        }
        stride *= length;
      }
      break;
    }
  }
  return links;
}

/// Slots of a link's two ends in rail 0. In a ring the wrapping cable ends in node 0's first NIC, so node 0's cable to
/// node 1 takes its second; in every other kind the neighbours come in the order of their links.
class Slots {
 public:
  Slots(const TopologyOptions& options) : ring_(options.kind == TopologyKind::kRing && options.nodes > 2) {
    used_.resize(static_cast<std::size_t>(options.nodes), 0);
  }

  std::pair<int, int> next(const Link& link) {
    if (ring_) return {1, 0};
    const int a = used_[static_cast<std::size_t>(link.a)]++;
    return {a, used_[static_cast<std::size_t>(link.b)]++};
  }

 private:
  bool ring_;
  std::vector<int> used_;
};

struct Plan {
  int degree = 0;
  int rails = 1;
};

/// Settles rails and NICs against each other, and refuses what no machine could hold.
Result<Plan> plan_of(const TopologyOptions& options) {
  const std::string kind = kind_name(options.kind);
  if (options.kind == TopologyKind::kTorus) {
    std::int64_t product = 1;
    for (const int length : options.shape) {
      if (length < 1) return refuse("shape: every dimension of a torus is at least 1 long");
      product = std::min(product * length, kNodesMax + 1);
    }
    if (options.shape.empty()) return refuse("a torus needs shape, as in shape = [4, 4]");
    if (product != options.nodes) {
      return refuse("nodes = " + std::to_string(options.nodes) + " is not the product of shape");
    }
  }
  const int nodes_min = options.kind == TopologyKind::kSwitch ? 1 : 2;
  if (options.nodes < nodes_min || options.nodes > kNodesMax) {
    return refuse("a " + kind + " has " + std::to_string(nodes_min) + " to " + std::to_string(kNodesMax) +
                  " nodes, not " + std::to_string(options.nodes));
  }
  const std::int64_t degree = degree_of(options);
  const std::int64_t rails =
      options.rails > 0 ? options.rails : std::max<std::int64_t>(1, options.nics / std::max<std::int64_t>(degree, 1));
  const std::int64_t needed = degree * rails;
  const std::string shape_text = "a " + kind + " of " + std::to_string(options.nodes) + " nodes with " +
                                 std::to_string(rails) + (rails == 1 ? " rail" : " rails");
  if (options.nics > 0 && needed > options.nics) {
    return refuse(shape_text + " needs " + std::to_string(needed) +
                  " NICs a node, but nics = " + std::to_string(options.nics));
  }
  const std::int64_t per_node = std::max<std::int64_t>(options.nics, needed);
  if (per_node > kNicsPerNodeMax) {
    return refuse(shape_text + " needs " + std::to_string(per_node) + " NICs on one node; the most is " +
                  std::to_string(kNicsPerNodeMax));
  }
  const std::int64_t total =
      std::max(nics_cabled(options, degree) * rails, static_cast<std::int64_t>(options.nics) * options.nodes);
  if (total > kNicsMax) {
    return refuse(shape_text + " needs " + std::to_string(total) + " NICs; the most is " + std::to_string(kNicsMax));
  }
  return Plan{static_cast<int>(degree), static_cast<int>(rails)};
}

Nic& nic_at(Cluster& cluster, const TopologyOptions& options, PortRef port) {
  auto& nics = cluster.at(port.node).nics;
  while (nics.size() <= static_cast<std::size_t>(port.nic)) {
    Nic nic;
    name_nic(nic, static_cast<int>(nics.size()));
    nic.rate_bps = options.rate_bps;
    nic.mtu_bytes = options.mtu_bytes;
    nics.push_back(std::move(nic));
  }
  return nics[static_cast<std::size_t>(port.nic)];
}

std::string rail_suffix(int rail) { return rail == 0 ? "" : "-rail" + std::to_string(rail); }

/// NICs per rail of each node: rail r's slot s is NIC r * degree + s.
std::vector<int> node_degrees(const TopologyOptions& options, const std::vector<Link>& links) {
  std::vector<int> degrees(static_cast<std::size_t>(options.nodes), 0);
  for (const auto& link : links) {
    ++degrees[static_cast<std::size_t>(link.a)];
    ++degrees[static_cast<std::size_t>(link.b)];
  }
  return degrees;
}

Result<void> add_cables(Cluster& cluster, const TopologyOptions& options, const Plan& plan) {
  const auto links = links_of(options);
  const auto degrees = node_degrees(options, links);
  if (!links.empty() && host_capacity(options.first_subnet) < 2) {
    return refuse("first_subnet " + subnet_text(options.first_subnet) + " has no room for the two ends of a cable");
  }
  // A /31 has no network address of its own (RFC 3021): its two addresses are the two ends.
  const std::uint64_t first_host =
      host_capacity(options.first_subnet) == 2 && options.first_subnet.length_bits % 32 == 31 ? 0 : 1;
  std::uint64_t subnets = 0;
  for (int rail = 0; rail < plan.rails; ++rail) {
    Slots slots(options);
    for (const auto& link : links) {
      const auto [slot_a, slot_b] = slots.next(link);
      const PortRef a{link.a, rail * degrees[static_cast<std::size_t>(link.a)] + slot_a};
      const PortRef b{link.b, rail * degrees[static_cast<std::size_t>(link.b)] + slot_b};
      auto address_a = host_in_subnet(options.first_subnet, subnets, first_host);
      if (!address_a) return address_a.error();
      auto address_b = host_in_subnet(options.first_subnet, subnets, first_host + 1);
      if (!address_b) return address_b.error();
      ++subnets;
      nic_at(cluster, options, a).addresses = {*address_a};
      nic_at(cluster, options, b).addresses = {*address_b};
      cluster.cables.push_back({.name = cluster.at(a.node).name + "-" + cluster.at(b.node).name + rail_suffix(rail),
                                .a = a,
                                .b = b,
                                .rate_bps = options.rate_bps,
                                .propagation_ps = options.latency_ps});
    }
  }
  return ok();
}

Result<void> add_switches(Cluster& cluster, const TopologyOptions& options, const Plan& plan) {
  IpPrefix subnet = options.first_subnet;
  while (host_capacity(subnet) < static_cast<std::uint64_t>(options.nodes)) {
    subnet.length_bits = static_cast<std::uint8_t>(subnet.length_bits > 16 ? 16 : subnet.length_bits - 1);
  }
  const int rails_each = options.functions == NicLayout::kSpark ? kSparkLinks : 1;
  for (int rail = 0; rail < plan.rails; ++rail) {
    if (rail % rails_each == 0) {
      cluster.switches.push_back({.name = "switch" + std::to_string(rail / rails_each),
                                  .ports = {},
                                  .rate_bps = options.rate_bps,
                                  .latency_ps = options.switch_latency_ps,
                                  .propagation_ps = options.latency_ps});
    }
    for (int node = 0; node < options.nodes; ++node) {
      auto address = host_in_subnet(subnet, static_cast<std::uint64_t>(rail), static_cast<std::uint64_t>(node) + 1);
      if (!address) return address.error();
      nic_at(cluster, options, {node, rail}).addresses = {*address};
      cluster.switches.back().ports.push_back({node, rail});
    }
  }
  return ok();
}

/// Of the node's cabled NICs, and of those that options.nics adds.
Result<void> name_sparks(Node& node, const TopologyOptions& options, const Plan& plan, int cabled) {
  const int nics = static_cast<int>(node.nics.size());
  const auto functions = spark_functions(options.functions, cabled / plan.rails, plan.rails, nics);
  if (!functions) return functions.error();
  for (int nic = 0; nic < nics; ++nic) {
    name_spark_nic(node.nic(nic), (*functions)[static_cast<std::size_t>(nic)]);
  }
  join_spark_functions(node, options.functions);
  return ok();
}

}  // namespace

void name_nic(Nic& nic, int index) {
  // Two functions a card; a PCI domain has buses 1 to 255 (bus 0 is the root's own).
  const int card = index / 2;
  const int domain = card / 255;
  const int bus = card % 255 + 1;
  const std::string function = std::to_string(index % 2);
  const std::string place =
      (domain == 0 ? "" : "P" + std::to_string(domain)) + "p" + std::to_string(bus) + "s0f" + function;
  // systemd names the netdev "en", then the same place, then the port (systemd.net-naming-scheme(7)).
  nic.device = "roce" + place;
  nic.netdev = "en" + place + "np" + function;
  char pci[64];
  std::snprintf(pci, sizeof pci, "/sys/devices/pci%04x:00/%04x:00:%02x.0/%04x:%02x:00.%s",
                static_cast<unsigned>(domain), static_cast<unsigned>(domain), static_cast<unsigned>(bus) & 0x1fU,
                static_cast<unsigned>(domain), static_cast<unsigned>(bus), function.c_str());
  nic.pci_path = pci;
}

Result<Cluster> generate_topology(const TopologyOptions& options) {
  const auto plan = plan_of(options);
  if (!plan) return plan.error();
  Cluster cluster;
  if (options.kind == TopologyKind::kTorus) cluster.torus_shape = options.shape;
  cluster.nodes.resize(static_cast<std::size_t>(options.nodes));
  for (int node = 0; node < options.nodes; ++node) {
    cluster.at(node).name = "node" + std::to_string(node);
  }
  const auto cabled = options.kind == TopologyKind::kSwitch ? add_switches(cluster, options, *plan)
                                                            : add_cables(cluster, options, *plan);
  if (!cabled) return cabled.error();
  for (int index = 0; index < options.nodes; ++index) {
    Node& node = cluster.at(index);
    const int nics_cabled = static_cast<int>(node.nics.size());
    if (options.nics > 0) nic_at(cluster, options, {index, options.nics - 1});
    if (options.functions == NicLayout::kSeparate) continue;
    if (const auto named = name_sparks(node, options, *plan, nics_cabled); !named) return named.error();
  }
  return cluster;
}

}  // namespace meshbed::models
