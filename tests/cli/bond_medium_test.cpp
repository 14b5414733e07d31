// Bonds and what their functions are plugged into: routers, VLANs, ports of a switch with a small MTU.
#include <doctest/doctest.h>

#include <cstddef>

#include "models/lan/bond.h"
#include "models/topology.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"

namespace bond_medium_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

using models::PortRef;

constexpr const char* kBothPorts = "\"n0/ens1f0\", \"n0/ens1f1\"";

/// What the file says of the bond and of its two functions, from lines 5, 7 and on; the functions' ports.
struct Said {
  std::string first = "", second = "", bond = "", ports = kBothPorts;
};

/// n0 with a bond of two functions, n1 with a NIC four times as fast.
std::string nodes_of(const Said& said) {
  return "[[node]]\nname = \"n0\"\n[[node.nic]]\ndevice = \"ens1f0\"\n" + said.first +
         "[[node.nic]]\ndevice = \"ens1f1\"\n" + said.second +
         "[[node.bond]]\nname = \"bond0\"\nfunctions = [\"ens1f0\", \"ens1f1\"]\nmode = \"802.3ad\"\n" + said.bond +
         "[[node]]\nname = \"n1\"\n[[node.nic]]\ndevice = \"mlx5_0\"\nrate = \"400Gb/s\"\n";
}

/// Each on a switch of its own, with a router between.
std::string routed(const Said& said) {
  return nodes_of(said) + "[[switch]]\nname = \"leaf0\"\nrate = \"400Gb/s\"\nsubnet = \"10.1.0.0/24\"\nports = [" +
         said.ports +
         "]\n[[switch]]\nname = \"leaf1\"\nrate = \"400Gb/s\"\nsubnet = \"10.1.1.0/24\"\nports = [\"n1/mlx5_0\"]\n"
         "[[router]]\nname = \"spine\"\njoins = [\"leaf0\", \"leaf1\"]\nrate = \"400Gb/s\"\n";
}

Scenario parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "test.toml", overrides);
}

std::string errors_of(const Said& said) {
  try {
    (void)parse(routed(said));
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::vector<models::Nic>& nics_of(const Scenario& scenario, std::size_t node) {
  return scenario.cluster.nodes[node].nics;
}

std::vector<models::DirectPath> paths_of(const Scenario& scenario) {
  return models::direct_paths(models::analyse(scenario.cluster), 0, 1);
}

}  // namespace

TEST_CASE("a bond on a routed switch has the routes once, with its addresses, and the rate of all its functions") {
  const Scenario scenario = parse(routed({}));
  const std::vector<models::Nic>& own = nics_of(scenario, 0);
  REQUIRE(own[0].routes.size() == 1);
  CHECK(to_text(own[0].routes[0].gateway) == "10.1.0.254");
  CHECK(own[1].routes.empty());
  CHECK(own[0].router == 0);
  CHECK(own[1].router == 0);
  CHECK(nics_of(scenario, 1)[0].routes.size() == 1);
  const std::vector<models::DirectPath> paths = paths_of(scenario);
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].from == PortRef{0, 0});
  CHECK(paths[0].to == PortRef{1, 0});
  CHECK(paths[0].rate_bps == 200'000'000'000);
  CHECK(paths_of(parse(routed({}), {"router.spine.rate=50Gb/s"})).at(0).rate_bps == 50'000'000'000);
}

TEST_CASE("of an active-backup bond one function sends to the router") {
  const Scenario scenario = parse(routed({}), {"node.n0.bond.bond0.mode=active-backup"});
  const std::vector<models::DirectPath> paths = paths_of(scenario);
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].rate_bps == 100'000'000'000);
}

TEST_CASE("a bond whose first function is not plugged in has its routes all the same") {
  const Scenario scenario = parse(routed({.bond = "addresses = [\"10.1.0.9/24\"]\n", .ports = "\"n0/ens1f1\""}));
  CHECK(nics_of(scenario, 0)[0].routes.size() == 1);
  const std::vector<models::DirectPath> paths = paths_of(scenario);
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].from == PortRef{0, 0});
  CHECK(paths[0].rate_bps == 100'000'000'000);
}

TEST_CASE("a bond's gateway is what its first function says, and only there") {
  const Scenario scenario = parse(routed({.first = "gateway = \"none\"\n"}));
  for (const models::Nic& nic : nics_of(scenario, 0)) {
    CHECK(nic.router == -1);
    CHECK(nic.routes.empty());
  }
  CHECK(paths_of(scenario).empty());
  CHECK(nics_of(parse(routed({.first = "gateway_table = \"policy\"\n"})), 0)[0].policy_routed);
  CHECK(has(errors_of({.second = "gateway = \"spine\"\n"}),
            "test.toml:7:11: gateway: ens1f1 is a function of bond0, whose routes the first one, ens1f0, says; move it "
            "there"));
  CHECK(has(errors_of({.second = "gateway_table = \"policy\"\n"}), "gateway_table: ens1f1 is a function of bond0"));
}

TEST_CASE("a bond has no VLAN interface") {
  for (const Said& said : {Said{.first = "vlan = 100\n"}, Said{.second = "vlan = 100\n"}}) {
    CHECK(has(errors_of(said),
              " is a function of bond0, and a bond has no VLAN interface here; leave the VLAN out, and "
              "make it a [[switch]] of its own"));
  }
  CHECK(errors_of({.second = "vlan = 0\n"}).empty());
}

TEST_CASE("a small MTU of the port that a function behind the first is plugged into is found") {
  const Scenario scenario =
      parse(nodes_of({.second = "switch_mtu = 1500\n"}) +
            "[[switch]]\nname = \"leaf0\"\nsubnet = \"10.1.0.0/24\"\nports = [" + kBothPorts + ", \"n1/mlx5_0\"]\n");
  const std::vector<std::string> found = finding_lines(scenario);
  REQUIRE_FALSE(found.empty());
  CHECK(has(found[0], "switch 'leaf0': switch_mtu = 1500 drops full RDMA packets of n0/ens1f1 ("));
}

}  // namespace bond_medium_test
