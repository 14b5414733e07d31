// The rules of routing over all cablings of a few nodes.

#include <fmt/format.h>

#include <cstddef>
#include <functional>

#include "models/topology_generate.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

using models::Aim;

constexpr int kDevices = 2;

/// Nodes with two NICs each, a cable as the list says, each cable a subnet of its own.
models::Cluster cabled(int nodes, const std::vector<std::pair<int, int>>& cables) {
  models::Cluster cluster;
  for (int node = 0; node < nodes; ++node) {
    models::Node one;
    one.name = fmt::format("node{}", node);
    for (int nic = 0; nic < kDevices; ++nic) {
      models::Nic port;
      models::name_nic(port, nic);  // two functions of one card
      port.rate_bps = 100'000'000'000;
      one.nics.push_back(port);
    }
    cluster.nodes.push_back(one);
  }
  for (std::size_t index = 0; index < cables.size(); ++index) {
    const auto [left, right] = cables[index];
    models::Cable cable;
    cable.a = {left / kDevices, left % kDevices};
    cable.b = {right / kDevices, right % kDevices};
    cable.rate_bps = 100'000'000'000;
    std::uint8_t host = 0;
    for (const models::PortRef& port : {cable.a, cable.b}) {
      models::Nic& nic = cluster.nic_of(port);
      models::IpPrefix address{.address = {}, .length_bits = 24};
      address.address.bytes = {10, 0, static_cast<std::uint8_t>(index + 1), ++host};
      nic.addresses.push_back(address);
      nic.gids.push_back({.index = 0, .type = models::GidType::kRoceV2, .gid = models::gid_of(address.address)});
    }
    cluster.cables.push_back(cable);
  }
  return cluster;
}

/// Each way to put cables between ports of different nodes, at most one into a port; ports are numbered through.
void for_each_cabling(int ports, std::vector<std::pair<int, int>>& cables, std::vector<bool>& used, int port,
                      const std::function<void()>& visit) {
  while (port < ports && used[static_cast<std::size_t>(port)]) ++port;
  if (port == ports) return visit();
  for_each_cabling(ports, cables, used, port + 1, visit);  // no cable
  for (int other = port + 1; other < ports; ++other) {
    if (used[static_cast<std::size_t>(other)] || other / kDevices == port / kDevices) continue;
    used[static_cast<std::size_t>(other)] = true;
    cables.emplace_back(port, other);
    for_each_cabling(ports, cables, used, port + 1, visit);
    cables.pop_back();
    used[static_cast<std::size_t>(other)] = false;
  }
}

void count(RuleTally& tally, Aim aim, bool relayed, bool connected) {
  (aim == Aim::kReached ? tally.reached : aim == Aim::kRefused ? tally.refused : tally.lost) += 1;
  if (aim == Aim::kReached && relayed) ++tally.relayed;
  if (aim != Aim::kReached && connected) ++tally.cut_off;
}

void tally_one(const models::Cluster& cluster, CablingTally& tally) {
  const models::Topology topology = models::analyse(cluster);
  const MeshRules mesh(cluster, topology);
  std::vector<models::RuleAims> others;
  for (const models::RoutingRule rule : models::kRoutingRules) others.emplace_back(rule, cluster, topology);
  const int nodes = static_cast<int>(cluster.nodes.size());
  ++tally.cablings;
  for (int from = 0; from < nodes; ++from) {
    if (models::live_nics(cluster, topology, from).empty()) continue;
    const std::vector<int> hops = models::hop_counts(topology, from);
    for (int to = 0; to < nodes; ++to) {
      if (from == to || models::live_nics(cluster, topology, to).empty()) continue;
      const bool connected = hops[static_cast<std::size_t>(to)] > 0;
      for (int device = 0; device < kDevices; ++device) {
        ++tally.channels;
        if (connected) ++tally.connected;
        for (std::size_t index = 0; index < others.size(); ++index) {
          count(tally.rules[index], others[index].aim(from, to, device).aim, false, connected);
        }
        const MeshAim ours = mesh.aim(from, to, device);
        count(tally.rules.back(), ours.aim, ours.cables > 1, connected);
      }
    }
  }
}

}  // namespace

CablingTally tally_cablings(int nodes) {
  CablingTally tally{.nodes = nodes, .rules = {}};
  for (const models::RoutingRule rule : models::kRoutingRules) tally.rules.push_back({.rule = models::describe(rule)});
  tally.rules.push_back({.rule = "Mesh"});
  std::vector<std::pair<int, int>> cables;
  std::vector<bool> used(static_cast<std::size_t>(nodes * kDevices));
  for_each_cabling(nodes * kDevices, cables, used, 0, [&] { tally_one(cabled(nodes, cables), tally); });
  return tally;
}

std::string cablings_report(int least, int most) {
  std::string text =
      "all cablings of nodes with two NICs each: what becomes of a channel from node to node\n"
      "lost: aims with a NIC at another one to which it has no cable, and times out; refused: an error at once, which\n"
      "says why; cut off: lost or refused, although cables lead there\n";
  for (int nodes = least; nodes <= most; ++nodes) {
    const CablingTally tally = tally_cablings(nodes);
    text += fmt::format("\n{} nodes, {} cablings, {} channels, cables lead there for {}\n", nodes, tally.cablings,
                        tally.channels, tally.connected);
    text += fmt::format("  {:<38} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "reached", "by relay", "refused", "lost",
                        "cut off");
    for (const RuleTally& rule : tally.rules) {
      text += fmt::format("  {:<38} {:>9} {:>9} {:>9} {:>9} {:>9}\n", rule.rule, rule.reached, rule.relayed,
                          rule.refused, rule.lost, rule.cut_off);
    }
  }
  return text;
}

}  // namespace meshbed::testbed
