// Which cable a bond's flows take, and when that changes.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "sim/engine/network.h"
#include "tests/support/bonded.h"
#include "tests/support/run_world.h"

namespace bond_test {

using namespace meshbed;
using models::BondMode;
using models::PortRef;

namespace {

constexpr int kFlows = 1000;

models::Cluster pair(BondMode mode, bool lag = true) {
  return test::bonded(test::ring_cluster(2, 100'000'000'000, kPicosecondsPerMicrosecond, 2), mode, lag);
}

/// How many of the flows from node 0 to node 1 leave by each of its functions.
std::map<int, int> flows_by_function(const sim::Network& network) {
  std::map<int, int> flows;
  for (std::uint64_t flow = 0; flow < kFlows; ++flow) {
    const sim::Path* path = network.path({0, 0}, {1, 0}, flow);
    REQUIRE(path != nullptr);
    CHECK(path->source.nic == path->destination.nic);  // cabled in order
    ++flows[path->source.nic];
  }
  return flows;
}

void cut(sim::Network& network, int nic) {
  for (const int node : {0, 1}) network.set_port_up({node, nic}, false);
}

void mend(sim::Network& network, int nic) {
  for (const int node : {0, 1}) network.set_port_up({node, nic}, true);
}

int looks(sim::Network& network, int nic) {
  int changes = 0;
  for (const int node : {0, 1}) changes += network.look_at_bond({node, nic}) ? 1 : 0;
  return changes;
}

}  // namespace

TEST_CASE("802.3ad spreads flows evenly over both functions; a flow keeps its own") {
  const models::Cluster cluster = pair(BondMode::k8023ad);
  const sim::Network network(cluster);
  const std::map<int, int> flows = flows_by_function(network);
  CHECK(flows.at(0) > kFlows * 2 / 5);
  CHECK(flows.at(1) > kFlows * 2 / 5);
  CHECK(network.path({0, 0}, {1, 0}, 7) == network.path({0, 0}, {1, 0}, 7));
  // Sockets, and callers that name a function by mistake, mean the device.
  CHECK(network.path({0, 1}, {1, 1}, 7) == network.path({0, 0}, {1, 0}, 7));
}

TEST_CASE("hashed by the ends' addresses, all flows between two nodes take one function; those to others may not") {
  models::Cluster cluster = pair(BondMode::k8023ad);
  for (models::Node& node : cluster.nodes) node.bonds[0].hashes_flows = false;
  const sim::Network network(cluster);
  CHECK(flows_by_function(network).size() == 1);
  const sim::Bonds bonds(cluster, [](PortRef) { return true; });
  int first = 0;
  for (int far = 1; far <= kFlows; ++far) first += bonds.egress({0, 0}, {far, 0}, 0).nic == 0 ? 1 : 0;
  CHECK(first > kFlows * 2 / 5);
  CHECK(first < kFlows * 3 / 5);
}

TEST_CASE("a lost link: its flows stand still until the bond looks, then all take the other; and come back with it") {
  const models::Cluster cluster = pair(BondMode::k8023ad);
  sim::Network network(cluster);
  const std::map<int, int> before = flows_by_function(network);
  cut(network, 0);
  CHECK(network.port_up({0, 0}));
  CHECK_FALSE(network.link_up({0, 0}));
  CHECK(flows_by_function(network) == before);
  CHECK_FALSE(network.usable(*network.wire({0, 0}, {1, 0})));
  CHECK(looks(network, 0) == 2);
  CHECK(flows_by_function(network) == std::map<int, int>{{1, kFlows}});
  CHECK(looks(network, 0) == 0);
  mend(network, 0);
  CHECK(looks(network, 0) == 2);
  CHECK(flows_by_function(network) == before);
  cut(network, 0);
  cut(network, 1);
  CHECK_FALSE(network.port_up({0, 0}));
}

TEST_CASE("active-backup sends all by one function, and stays with the other one when the first comes back") {
  const models::Cluster cluster = pair(BondMode::kActiveBackup);
  sim::Network network(cluster);
  CHECK(flows_by_function(network) == std::map<int, int>{{0, kFlows}});
  cut(network, 0);
  CHECK(looks(network, 0) == 2);
  CHECK(flows_by_function(network) == std::map<int, int>{{1, kFlows}});
  mend(network, 0);
  CHECK(looks(network, 0) == 0);
  CHECK(flows_by_function(network) == std::map<int, int>{{1, kFlows}});
}

TEST_CASE("a standby's lost link changes nothing") {
  const models::Cluster cluster = pair(BondMode::kActiveBackup);
  sim::Network network(cluster);
  cut(network, 1);
  CHECK(looks(network, 1) == 0);
  CHECK(network.port_up({0, 0}));
}

TEST_CASE("the bond's address answers over any function that has a link, by its device's port") {
  const models::Cluster cluster = pair(BondMode::k8023ad);
  sim::Network network(cluster);
  const models::IpAddress address = cluster.nodes[1].nics[0].addresses[0].address;
  CHECK(network.neighbour({0, 0}, address) == PortRef{1, 0});
  CHECK(network.neighbours({0, 0}) == std::vector<PortRef>{{1, 0}});
  cut(network, 0);
  CHECK(network.neighbour({0, 0}, address) == PortRef{1, 0});
  cut(network, 1);
  CHECK(network.neighbour({0, 0}, address) == PortRef{});
}

TEST_CASE("without RoCE LAG the functions are devices of their own, and the bond only says which one is active") {
  const models::Cluster cluster = pair(BondMode::kActiveBackup, false);
  sim::Network network(cluster);
  CHECK(network.device({0, 1}) == PortRef{0, 1});
  CHECK(network.path({0, 1}, {1, 1}) == network.wire({0, 1}, {1, 1}));
  cut(network, 0);
  CHECK_FALSE(network.port_up({0, 0}));
  const auto change = network.look_at_bond({0, 0});
  REQUIRE(change);
  CHECK(change->from == PortRef{0, 0});
  CHECK(change->to == PortRef{0, 1});
}

TEST_CASE("on a switch, a node without a bond reaches a RoCE LAG over whichever of its functions has a link") {
  models::Cluster cluster = pair(BondMode::k8023ad);
  models::Switch box{.name = "switch0", .ports = {}};
  for (const models::Cable& cable : cluster.cables) box.ports.insert(box.ports.end(), {cable.a, cable.b});
  cluster.cables.clear();
  cluster.switches.push_back(box);
  sim::Network network(cluster);
  CHECK(network.neighbours({0, 0}) == std::vector<PortRef>{{1, 0}});
  network.set_port_up({1, 0}, false);
  for (std::uint64_t flow = 0; flow < 32; ++flow) {
    CHECK(network.path({0, 0}, {1, 0}, flow)->destination == PortRef{1, 1});
  }
}

TEST_CASE("a RoCE LAG behind a router sends by both functions, and is reached over whichever has a link") {
  models::Cluster cluster = pair(BondMode::k8023ad);
  cluster.cables.clear();
  cluster.switches = {{.name = "leaf0", .ports = {{0, 0}, {0, 1}}, .mtu_bytes = 4200},
                      {.name = "leaf1", .ports = {{1, 0}, {1, 1}}}};
  cluster.routers = {{.name = "spine", .switches = {0, 1}, .rate_bps = 100'000'000'000}};
  for (const char* const own : {"10.1.0", "10.1.1"}) {
    const bool is_first = own == std::string("10.1.0");
    models::Nic& nic = cluster.nodes[is_first ? 0 : 1].nics[0];
    nic.addresses = {*models::read_prefix(own + std::string(".1/24"))};
    nic.router = 0;  // of the device: its other function has none of its own
    nic.routes = {{.destination = *models::read_prefix(is_first ? "10.1.1.0/24" : "10.1.0.0/24"),
                   .gateway = *models::parse_ip(own + std::string(".254"))}};
  }
  sim::Network network(cluster);
  CHECK(network.routed({0, 0}, *models::parse_ip("10.1.1.1")) == PortRef{1, 0});
  CHECK(network.routed({0, 0}, *models::parse_ip("10.1.0.1")) == PortRef{});
  CHECK(flows_by_function(network).size() == 2);
  const sim::Path* const path = network.path({0, 0}, {1, 0}, 7);
  CHECK(path->links.size() == 4);
  CHECK(path->mtu_bytes == 4200);
  network.set_port_up({1, 0}, false);
  for (std::uint64_t flow = 0; flow < 32; ++flow) {
    CHECK(network.path({0, 0}, {1, 0}, flow)->destination == PortRef{1, 1});
  }
}

}  // namespace bond_test
