// Who reaches whom over a router.
#include "models/lan/router.h"

#include <doctest/doctest.h>

#include "models/routing_rules.h"
#include "models/topology.h"
#include "tests/support/run_world.h"

namespace router_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

IpAddress address(const char* text) { return *parse_ip(text); }

/// Nodes 0 and 1 on switch0, 2 and 3 on switch1, router0 between.
Cluster four() { return test::routed_cluster(4); }

}  // namespace

TEST_CASE("a NIC's route by way of its router: the longest prefix, from the address in the gateway's subnet") {
  Cluster cluster = four();
  Nic& nic = cluster.nodes[0].nics[0];
  REQUIRE(route_by_router(nic, address("192.168.101.3")) != nullptr);
  CHECK(to_text(route_by_router(nic, address("192.168.101.3"))->gateway) == "192.168.100.254");
  CHECK(to_text(*source_of(nic, nic.routes[0])) == "192.168.100.1/24");
  CHECK(route_by_router(nic, address("192.168.102.3")) == nullptr);
  nic.routes.push_back({.destination = *read_prefix("192.168.101.3/32"), .gateway = address("192.168.100.253")});
  CHECK(to_text(route_by_router(nic, address("192.168.101.3"))->gateway) == "192.168.100.253");
  // A NIC that loses its address in the gateway's subnet loses the route, as in Linux.
  nic.addresses = {*read_prefix("10.1.0.1/24")};
  CHECK(route_by_router(nic, address("192.168.101.3")) == nullptr);
}

TEST_CASE("switches between which packets may go stand together") {
  Cluster cluster = four();
  CHECK(joined_switches(cluster) == std::vector<std::vector<int>>{{0, 1}});
  CHECK(switches_of_ports(cluster) == std::vector<std::vector<int>>{{0}, {0}, {1}, {1}});
  cluster.routers.clear();
  CHECK(joined_switches(cluster) == std::vector<std::vector<int>>{{0}, {1}});
  for (const char* name : {"switch2", "switch3"}) {
    cluster.switches.push_back(cluster.switches.front());
    cluster.switches.back().name = name;
  }
  cluster.routers = {{.name = "a", .switches = {3, 2}}, {.name = "b", .switches = {0, 2}}};
  CHECK(joined_switches(cluster) == std::vector<std::vector<int>>{{0, 2, 3}, {1}});
}

TEST_CASE("a path over a router is a direct path: of one switch's ports the switch's own is the only one") {
  const Cluster cluster = four();
  const Topology topology = analyse(cluster);
  REQUIRE(topology.segments.size() == 3);
  CHECK(topology.segments[2].router == 0);
  CHECK(topology.segments[2].port_switches == std::vector<int>{0, 0, 1, 1});
  const auto near = direct_paths(topology, 0, 1);
  REQUIRE(near.size() == 1);
  CHECK(near[0].segment == 0);
  const auto far = direct_paths(topology, 0, 3);
  REQUIRE(far.size() == 1);
  CHECK(far[0].segment == 2);
  CHECK(far[0].rate_bps == 100'000'000'000);
  CHECK(pairs_without_direct_path(topology, 9).count == 0);
  CHECK(describe(classify(topology), 4) == "full mesh");
  CHECK(hop_counts(topology, 0) == std::vector<int>{0, 1, 1, 1});
}

TEST_CASE(
    "a path over a router is no faster than the router's ports, and needs a route and a RoCE v2 GID at both ends") {
  Cluster slow = four();
  slow.routers[0].rate_bps = 40'000'000'000;
  CHECK(direct_paths(analyse(slow), 0, 2)[0].rate_bps == 40'000'000'000);
  Cluster without = four();
  without.nodes[2].nics[0].router = -1;
  CHECK(direct_paths(analyse(without), 0, 2).empty());
  CHECK(direct_paths(analyse(without), 0, 3).size() == 1);
  Cluster v1 = four();
  v1.nodes[2].nics[0].gids.pop_back();
  CHECK(direct_paths(analyse(v1), 0, 2).empty());
  Cluster down = four();
  down.nodes[2].nics[0].link_up = false;
  CHECK(direct_paths(analyse(down), 0, 2).empty());
}

TEST_CASE("the ancestor refuses a routed peer; NCCL connects by GID, subnet-aware or not") {
  const Cluster cluster = four();
  const Topology topology = analyse(cluster);
  CHECK(RuleAims(RoutingRule::kAncestor, cluster, topology).aim(0, 2, 0).aim == Aim::kRefused);
  for (const RoutingRule rule :
       {RoutingRule::kNccl, RoutingRule::kNcclSubnetAware, RoutingRule::kNcclSubnetAwareFused}) {
    CHECK(RuleAims(rule, cluster, topology).aim(0, 2, 0).aim == Aim::kReached);
    CHECK(RuleAims(rule, cluster, topology).aim(0, 1, 0).aim == Aim::kReached);
  }
  Cluster without = four();
  without.nodes[2].nics[0].routes.clear();  // it gets what is sent, and cannot answer
  const Topology of_without = analyse(without);
  CHECK(RuleAims(RoutingRule::kNccl, without, of_without).aim(0, 2, 0).aim == Aim::kLost);
  REQUIRE(settings_that_work(cluster, topology, 4));
  CHECK(settings_that_work(cluster, topology, 4)->text.empty());
}

}  // namespace router_test
