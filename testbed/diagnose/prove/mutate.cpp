#include "testbed/diagnose/prove/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/lan/bond.h"
#include "models/topology.h"
#include "testbed/base/units.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed::diagnose {
namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

/// Makes the mutations of one scenario.
class Mutator {
 public:
  explicit Mutator(const Scenario& scenario) : scenario_(scenario), cluster_(scenario.cluster) {}
  std::vector<Mutation> of(CauseCode cause);

 private:
  std::string name(models::PortRef port) const {
    return cluster_.at(port.node).name + "/" + models::function_name(cluster_.nic_of(port));
  }
  std::string key(models::PortRef port, const char* field) const {
    return fmt::format("node.{}.nic.{}.{}", cluster_.at(port.node).name, cluster_.nic_of(port).device, field);
  }
  std::string quoted(models::PortRef port) const { return "\"" + name(port) + "\""; }
  /// Ports with a cable or on a switch, by node.
  std::vector<models::PortRef> ports() const;
  std::string when() const {
    return info_of(scenario_.workload.kind).has_iterations ? "point=iteration,iteration=1" : "at=1ms";
  }
  void add(std::string place, Changes changes) { found_.push_back({cause_, std::move(place), std::move(changes)}); }
  void add_fault(models::PortRef port, const char* kind, const std::string& more = "");

  void crossed_cables();
  void swapped_at_switches();
  void wrong_prefixes();
  void shared_subnets();
  void wrong_gids();
  void mtus();
  void half_rates();
  void management();
  void no_paths();
  void ranks();

  const Scenario& scenario_;
  const models::Cluster& cluster_;
  CauseCode cause_ = CauseCode::kNoPath;
  std::vector<Mutation> found_;
};

std::vector<models::PortRef> Mutator::ports() const {
  std::set<models::PortRef> all;
  for (const CableLink& link : links_of(cluster_)) all.insert(link.ports.begin(), link.ports.end());
  return {all.begin(), all.end()};
}

void Mutator::add_fault(models::PortRef port, const char* kind, const std::string& more) {
  add(name(port), {{"fault.+", fmt::format("{},target={},{}{}", kind, name(port), when(), more)}});
}

void Mutator::crossed_cables() {
  const auto& cables = cluster_.cables;
  for (std::size_t one = 0; one < cables.size(); ++one) {
    for (std::size_t two = one + 1; two < cables.size(); ++two) {
      for (const models::PortRef left : {cables[one].a, cables[one].b}) {
        for (const models::PortRef right : {cables[two].a, cables[two].b}) {
          if (left.node != right.node) continue;
          const auto ends = [&](const models::Cable& cable, models::PortRef from, models::PortRef to) {
            return fmt::format("[{}, {}]", quoted(cable.a == from ? to : cable.a),
                               quoted(cable.b == from ? to : cable.b));
          };
          add("cables " + cables[one].name + " and " + cables[two].name,
              {{"cable." + cables[one].name + ".ends", ends(cables[one], left, right)},
               {"cable." + cables[two].name + ".ends", ends(cables[two], right, left)}});
        }
      }
    }
  }
}

void Mutator::swapped_at_switches() {
  const auto& switches = cluster_.switches;
  for (std::size_t one = 0; one < switches.size(); ++one) {
    for (std::size_t two = one + 1; two < switches.size(); ++two) {
      for (std::size_t node = 0; node < cluster_.nodes.size(); ++node) {
        const auto own = [&](const models::Switch& box) {
          return std::find_if(box.ports.begin(), box.ports.end(),
                              [&](models::PortRef port) { return port.node == static_cast<int>(node); });
        };
        const auto left = own(switches[one]), right = own(switches[two]);
        if (left == switches[one].ports.end() || right == switches[two].ports.end()) continue;
        const auto list = [&](const models::Switch& box, models::PortRef from, models::PortRef to) {
          std::string text;
          for (const models::PortRef port : box.ports)
            text += (text.empty() ? "" : ", ") + quoted(port == from ? to : port);
          return "[" + text + "]";
        };
        add("switches " + switches[one].name + " and " + switches[two].name + " at " + cluster_.nodes[node].name,
            {{"switch." + switches[one].name + ".ports", list(switches[one], *left, *right)},
             {"switch." + switches[two].name + ".ports", list(switches[two], *right, *left)}});
      }
    }
  }
}

void Mutator::wrong_prefixes() {
  for (const models::PortRef port : ports()) {
    const models::Nic& nic = cluster_.nic_of(port);
    if (nic.addresses.empty() || nic.addresses.front().address.family != models::Family::kIpv4) continue;
    const models::IpPrefix& own = nic.addresses.front();
    if (own.length_bits < 8 || own.length_bits > 28) continue;
    add(name(port), {{key(port, "addresses"), fmt::format("[\"{}/{}\"]", to_text(own.address), own.length_bits + 1)}});
  }
}

/// A second port of a node gets an address in the subnet of the first one, and so does its other end.
void Mutator::shared_subnets() {
  const std::vector<models::PortRef> all = ports();
  for (const models::PortRef first : all) {
    for (const models::PortRef second : all) {
      if (first.node != second.node || !(first < second)) continue;
      const models::Nic& nic = cluster_.nic_of(first);
      if (nic.addresses.empty() || (!nic.qsfp.empty() && nic.qsfp == cluster_.nic_of(second).qsfp)) continue;
      models::IpPrefix shared = nic.addresses.front();
      if (shared.address.family != models::Family::kIpv4) continue;
      shared.address.bytes[3] = 101;
      add(name(second), {{key(second, "addresses"), fmt::format("[\"{}\"]", to_text(shared))}});
    }
  }
}

void Mutator::wrong_gids() {
  for (const models::Node& node : cluster_.nodes) {
    add(node.name, {{"node." + node.name + ".environment.NCCL_IB_GID_INDEX", "0"}});
  }
  add("all nodes", {{"environment.NCCL_IB_GID_INDEX", "77"}});
}

void Mutator::mtus() {
  constexpr std::uint32_t kEthernet = 1500;
  for (const models::PortRef port : ports()) {
    if (cluster_.nic_of(port).mtu_bytes > 2 * kEthernet)
      add(name(port), {{key(port, "mtu"), fmt::format("{}", kEthernet)}});
  }
}

void Mutator::half_rates() {
  for (const models::PortRef port : ports()) {
    const std::uint64_t rate = cluster_.nic_of(port).rate_bps / 2;
    if (rate > 0) add(name(port), {{key(port, "rate"), fmt::format("{}", rate)}});
  }
}

void Mutator::management() {
  for (const models::Node& node : cluster_.nodes) {
    if (!node.management) continue;
    add("environment",
        {{"environment.NCCL_MESH_DISABLE_RDMA", "1"}, {"environment.NCCL_SOCKET_IFNAME", node.management->netdev}});
    return;
  }
}

/// Two nodes between which no cable is left to use: each keeps to a NIC that the other one has no cable to.
void Mutator::no_paths() {
  const models::Topology topology = models::analyse(cluster_);
  const int nodes = nodes_of(scenario_);
  for (int from = 0; from < nodes; ++from) {
    for (int to = from + 1; to < nodes; ++to) {
      const auto paths = models::direct_paths(topology, from, to);
      const std::string pair = cluster_.at(from).name + " and " + cluster_.at(to).name;
      if (paths.empty()) {
        add(pair, {{"workload.collective", "alltoall"}, {"environment.NCCL_MESH_ENABLE_RELAY", "0"}});
        continue;
      }
      const std::size_t left = cluster_.at(from).nics.size(), right = cluster_.at(to).nics.size();
      if (paths.size() < 2 || left < 2 || right < 2) continue;
      add(pair, {{"workload.collective", "alltoall"},
                 {"environment.NCCL_MESH_ENABLE_RELAY", "0"},
                 {"node." + cluster_.at(from).name + ".environment.NCCL_IB_HCA", "=" + cluster_.at(from).nic(0).device},
                 {"node." + cluster_.at(to).name + ".environment.NCCL_IB_HCA", "=" + cluster_.at(to).nic(1).device}});
    }
  }
}

void Mutator::ranks() {
  const int count = ranks_of(scenario_);
  for (int rank = count - 1; rank >= 0; --rank) {
    const std::string place = fmt::format("rank {}", rank);
    const std::string& node = cluster_.at(node_of(scenario_, rank)).name;
    switch (cause_) {
      case CauseCode::kCollectiveMismatch:
        add(place, {{"workload.differing_rank", fmt::format("{}", rank)}});
        break;
      case CauseCode::kRankLate:
        add(place, {{"workload.late_rank", fmt::format("{}", rank)},
                    {"workload.late_by", "40s"},
                    {"workload.late_iteration", "1"},
                    {"environment.NCCL_MESH_TIMEOUT_SEC", "5"},
                    {"environment.NCCL_MESH_FATAL_ON_TIMEOUT", "0"}});
        break;
      default:
        add(node, {{"fault.+", fmt::format("node_kill,target={},{}", node, when())}});
        break;
    }
  }
}

std::vector<Mutation> Mutator::of(CauseCode cause) {
  cause_ = cause;
  found_.clear();
  const bool is_collective = scenario_.workload.kind == WorkloadKind::kCollective;
  switch (cause) {
    case CauseCode::kCrossedCable:
      crossed_cables();
      swapped_at_switches();
      break;
    case CauseCode::kWrongPrefix:
      wrong_prefixes();
      break;
    case CauseCode::kPortsInOneSubnet:
      shared_subnets();
      break;
    case CauseCode::kWrongGid:
      wrong_gids();
      break;
    case CauseCode::kMtuMismatch:
      mtus();
      break;
    case CauseCode::kPortDown:
      for (const models::PortRef port : ports()) add_fault(port, "port_down");
      break;
    case CauseCode::kHalfRate:
      half_rates();
      break;
    case CauseCode::kManagementNic:
      management();
      break;
    case CauseCode::kPluginNotLoaded:
      add("net plugin", {{"workload.net_plugin", "\"/nonexistent/libnccl-net-mesh.so\""}});
      break;
    case CauseCode::kNoPath:
      if (is_collective) no_paths();
      break;
    case CauseCode::kCollectiveMismatch:
    case CauseCode::kRankLate:
      if (is_collective) ranks();
      break;
    case CauseCode::kRankDead:
      ranks();
      break;
    case CauseCode::kRetryExceeded:
      for (const models::PortRef port : ports()) add_fault(port, "loss", ",amount=1");
      break;
    case CauseCode::kRnrExceeded:
      for (const models::PortRef port : ports()) add_fault(port, "refuse", ",status=not-ready");
      break;
    case CauseCode::kAccessError:
      for (const models::PortRef port : ports()) add_fault(port, "refuse", ",status=access");
      break;
    default:
      break;  // from text alone
  }
  return std::move(found_);
}

}  // namespace

std::vector<std::string> Mutation::texts() const {
  std::vector<std::string> texts;
  for (const auto& [key, value] : changes) {
    texts.push_back(key == "fault.+" ? "--fault " + value : "--set '" + key + "=" + value + "'");
  }
  return texts;
}

std::vector<Mutation> mutations(const Scenario& scenario, CauseCode cause, std::size_t most) {
  std::vector<Mutation> all = Mutator(scenario).of(cause);
  if (all.size() <= most) return all;
  // Spread over the cluster rather than the first ones alone.
  std::vector<Mutation> some;
  for (std::size_t index = 0; index < most; ++index) some.push_back(std::move(all[index * all.size() / most]));
  return some;
}

}  // namespace meshbed::testbed::diagnose
