// [[node.bond]]: what its functions become, what is refused, and which messages appear.
#include "models/lan/bond.h"

#include <doctest/doctest.h>

#include "models/routing_rules.h"
#include "models/topology.h"
#include "testbed/render/render.h"
#include "testbed/result/bonds.h"
#include "testbed/result/expect.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"
#include "testbed/world/emulate.h"

namespace bond_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

using models::PortRef;

Scenario read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "test.toml", overrides);
}

std::string errors_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)read(text, overrides);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string kBoth = "functions = [\"rocep1s0f0\", \"rocep1s0f1\"]\n";

/// A bond of its own on each of two nodes with two cables; lines 8 and on are node0's.
std::string pair(const std::string& first, const std::string& second, const std::string& rest = "") {
  return "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n[[node]]\nname = \"node0\"\n[[node.bond]]\n" + first +
         rest + "[[node]]\nname = \"node1\"\n[[node.bond]]\n" + second;
}
std::string pair(const std::string& bond) { return pair("name = \"bond0\"\n" + bond, "name = \"bond0\"\n" + bond); }

std::string lag(const std::string& mode) { return pair(kBoth + "mode = \"" + mode + "\"\n"); }

/// Two cards a node, a cable each.
std::string two_cards(const std::string& mode = "active-backup") {
  std::string text;
  for (const std::string node : {"0", "1"}) {
    text += "[[node]]\nname = \"node" + node +
            "\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\n[[node.bond]]\nname = "
            "\"bond0\"\nfunctions = [\"rocep1s0f0\", \"rocep2s0f0\"]\naddresses = [\"192.168.100." +
            (node == "0" ? "1" : "2") + "/24\"]\nmode = \"" + mode + "\"\n";
  }
  return text +
         "[[cable]]\nends = [\"node0/rocep1s0f0\", \"node1/rocep1s0f0\"]\n[[cable]]\nends = [\"node0/rocep2s0f0\", "
         "\"node1/rocep2s0f0\"]\n";
}

}  // namespace

TEST_CASE("functions of one card are one RDMA device, with the bond's name and address") {
  const Scenario scenario = read(lag("802.3ad"));
  const models::Node& node = scenario.cluster.nodes[0];
  REQUIRE(node.bonds.size() == 1);
  CHECK(node.bonds[0].lag);
  CHECK(node.bonds[0].functions == std::vector<int>{0, 1});
  CHECK(node.nics[0].device == "mlx5_bond_0");
  CHECK(node.nics[0].function == "rocep1s0f0");
  CHECK(node.nics[0].netdev == "bond0");
  REQUIRE(node.nics[0].addresses.size() == 1);
  CHECK(to_text(node.nics[0].addresses[0]) == "192.168.100.1/24");
  CHECK_FALSE(node.nics[0].gids.empty());
  CHECK(node.nics[1].device == "rocep1s0f1");
  CHECK(node.nics[1].addresses.empty());
  CHECK(node.nics[1].gids.empty());
  const models::Topology topology = models::analyse(scenario.cluster);
  CHECK(models::direct_paths(topology, 0, 1).size() == 2);
  CHECK(topology.crossed.empty());
  CHECK(models::direct_paths(models::analyse(read(lag("active-backup")).cluster), 0, 1).size() == 1);
}

TEST_CASE("a bond's own address and device; functions in another order; --set") {
  const std::string bond = "name = \"team0\"\nfunctions = [\"rocep1s0f1\", \"rocep1s0f0\"]\ndevice = \"mlx5_0\"\n";
  const Scenario scenario =
      read(pair(bond + "addresses = [\"10.1.0.1/24\"]\n", bond + "addresses = [\"10.1.0.2/24\"]\n"),
           {"node.node0.bond.team0.mode=balance-xor", "node.node1.bond.team0.mode=balance-xor"});
  const models::Node& node = scenario.cluster.nodes[0];
  // What has no device comes behind what has one.
  CHECK(node.nics[0].function == "rocep1s0f1");
  CHECK(node.nics[0].device == "mlx5_0");
  CHECK(node.nics[0].netdev == "team0");
  CHECK(node.nics[1].device == "rocep1s0f0");
  CHECK(node.bonds[0].functions == std::vector<int>{0, 1});
  CHECK(node.bonds[0].mode == models::BondMode::kBalanceXor);
  CHECK(to_text(node.nics[0].addresses[0]) == "10.1.0.1/24");
  CHECK(models::direct_paths(models::analyse(scenario.cluster), 0, 1).size() == 2);
  CHECK(has(errors_of(lag("802.3ad"), {"node.node0.bond.bond7.mode=802.3ad"}),
            "there is no bond 'bond7' on node0 (did you mean 'bond0'?); --set changes bonds that are there: bond0"));
}

TEST_CASE("functions of two cards keep their devices; the active one has the address, the other nothing") {
  const Scenario scenario = read(two_cards());
  const models::Node& node = scenario.cluster.nodes[1];
  CHECK_FALSE(node.bonds[0].lag);
  CHECK(node.nics[0].device == "rocep1s0f0");
  CHECK(node.nics[0].netdev == "bond0");
  CHECK(node.nics[1].device == "rocep2s0f0");
  CHECK(node.nics[1].gids.empty());
  CHECK(models::rdma_devices(node) == 2);
  CHECK(finding_lines(scenario).empty());
}

TEST_CASE("PCI functions that the file gives say that two devices are one card's") {
  const auto nic = [](const std::string& device, const std::string& function) {
    return "[[node.nic]]\ndevice = \"" + device + "\"\npci_path = \"/sys/devices/pci0000:00/0000:03:00." + function +
           "\"\n";
  };
  const std::string node = "[[node]]\nname = \"node0\"\n" + nic("mlx5_0", "0") + nic("mlx5_1", "1") +
                           "[[node.bond]]\nname = \"bond0\"\nfunctions = [\"mlx5_0\", \"mlx5_1\"]\n";
  CHECK(read(node).cluster.nodes[0].bonds[0].lag);
}

TEST_CASE("a bond that cannot be is refused, with place, cause and fix") {
  CHECK(errors_of(pair(kBoth)).empty());
  const std::string bond = "name = \"bond0\"\n" + kBoth;
  CHECK(errors_of(pair(bond + "mode = \"balance-rr\"\n", bond)) ==
        "test.toml:10:8: mode: RoCE does not run over a bond of mode 'balance-rr'; take active-backup, balance-xor or "
        "802.3ad");
  CHECK(errors_of(pair(kBoth, bond)) == "test.toml:7:1: [[node.bond]] needs name");
  CHECK(errors_of(pair("name = \"bond0\"\nfunctions = [\"rocep1s0f0\"]\n", bond)) ==
        "test.toml:9:13: functions: a bond has two or more, as in [\"rocep1s0f0\", \"rocep1s0f1\"]; a single NIC needs "
        "none");
  CHECK(has(errors_of(pair("name = \"bond0\"\nfunctions = [\"rocep1s0f0\", \"rocep9s0f1\"]\n", bond)),
            "functions: 'rocep9s0f1' is not a NIC of node0; it has: rocep1s0f0, rocep1s0f1"));
  CHECK(has(errors_of(pair("name = \"bond0\"\nfunctions = [\"rocep1s0f0\", \"rocep1s0f0\"]\n", bond)),
            "functions: 'rocep1s0f0' is listed twice"));
  CHECK(has(errors_of(pair(bond + "[[node.bond]]\nname = \"bond1\"\n" + kBoth, bond)),
            "functions: 'rocep1s0f0' is in bond0 already; a function is in one bond"));
  CHECK(has(errors_of(pair(bond + "[[node.bond]]\n" + bond, bond)),
            "name: two [[node.bond]] of node0 are called 'bond0'"));
  CHECK(has(errors_of(pair("name = \"bond0123456789ab\"\n" + kBoth, bond)), "is longer than 15 characters"));
  CHECK(has(
      errors_of(pair(bond, bond, "[[node.nic]]\ndevice = \"rocep1s0f1\"\naddresses = [\"10.0.0.1/24\"]\n")),
      "test.toml:12:13: addresses: rocep1s0f1 is a function of bond0, which has them in its place; move them to the "
      "[[node.bond]]"));
  CHECK(has(errors_of(pair(bond, bond, "[[node.nic]]\ndevice = \"rocep1s0f1\"\nrate = \"25Gb/s\"\n")),
            "functions: rocep1s0f0 has 100 Gb/s and rocep1s0f1 25 Gb/s; those of a bond have one rate"));
  CHECK(has(errors_of(pair(bond, bond, "[[node.nic]]\ndevice = \"rocep1s0f0\"\nlink = \"down\"\n")),
            "functions: rocep1s0f0 is the active one and down from the start; list one that is up first"));
  CHECK(errors_of(pair(bond + "xmit_hash_policy = \"layer2\"\n", bond)) ==
        "test.toml:10:20: xmit_hash_policy: active-backup hashes nothing; leave it out");
  CHECK(
      has(errors_of(pair(bond + "device = \"rocep1s0f1\"\n", bond)), "device: 'rocep1s0f1' is a NIC of node0 already"));
  for (const char* mode : {"balance-xor", "802.3ad"}) {
    CHECK(has(errors_of(two_cards(mode)),
              std::string("mode: ") + mode + " over several cards sends a queue pair's answers to the wrong one"));
  }
}

TEST_CASE("a bond's cables lead to one switch, or to the functions of one other bond in their order") {
  const std::string bond = "name = \"bond0\"\n" + kBoth;
  const std::string crossed = "name = \"bond0\"\nfunctions = [\"rocep1s0f1\", \"rocep1s0f0\"]\n";
  CHECK(has(
      errors_of(pair(bond, crossed)),
      "test.toml:9:13: functions: node0/rocep1s0f0 is number 1 of bond0 of node0 and is cabled to node1/rocep1s0f0, "
      "number 2 of bond0 of node1; list one bond's functions in the order of the other's"));
  CHECK(has(errors_of(pair(bond + "mode = \"802.3ad\"\n", bond)),
            "mode: bond0 of node0 is 802.3ad, and bond0 of node1 at the other end active-backup; give both the same"));
  const std::string alone =
      "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n[[node]]\nname = \"node0\"\n[[node.bond]]\n";
  CHECK(has(errors_of(alone + bond),
            "the other end of its cable, node1/rocep1s0f0, is in no bond; put it into one, or "
            "take a switch"));
  const std::string switches =
      "[topology]\nkind = \"switch\"\nnodes = 2\nrails = 2\n[[node]]\nname = \"node0\"\n[[node.bond]]\n";
  CHECK(has(errors_of(switches + bond), "functions: those of bond0 of node0 lead to different places"));
  const Scenario one_switch = read(
      "[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\ndevice = \"rocep1s0f1\"\n"
      "[[node.bond]]\nname = \"bond0\"\nmode = \"802.3ad\"\naddresses = [\"10.0.0.1/24\"]\n" +
      kBoth +
      "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\naddresses = [\"10.0.0.2/24\"]\n"
      "[[switch]]\nports = [\"node0/rocep1s0f0\", \"node0/rocep1s0f1\", \"node1/rocep1s0f0\"]\n");
  CHECK(models::direct_paths(models::analyse(one_switch.cluster), 0, 1).size() == 1);
}

TEST_CASE("devices that a node's LAGs become have names of their own, whatever the file calls one of them") {
  const auto node = [](const std::string& first, const std::string& nics) {
    return "[topology]\nkind = \"none\"\n[[node]]\nname = \"node0\"\n" + nics + "[[node.bond]]\nname = \"bond0\"\n" +
           kBoth + first + "[[node.bond]]\nname = \"bond1\"\nfunctions = [\"rocep2s0f0\", \"rocep2s0f1\"]\n";
  };
  std::string nics;
  for (const char* const device : {"rocep1s0f0", "rocep1s0f1", "rocep2s0f0", "rocep2s0f1"}) {
    nics += std::string("[[node.nic]]\ndevice = \"") + device + "\"\n";
  }
  const auto names = [&](const std::string& text) {
    const models::Node own = read(text).cluster.nodes.at(0);
    return std::vector<std::string>{own.nics.at(0).device, own.nics.at(1).device};
  };
  CHECK(names(node("", nics)) == std::vector<std::string>{"mlx5_bond_0", "mlx5_bond_1"});
  CHECK(names(node("device = \"mlx5_bond_1\"\n", nics)) == std::vector<std::string>{"mlx5_bond_1", "mlx5_bond_0"});
  const models::Node taken =
      read(node("", nics + "[[node.nic]]\ndevice = \"mlx5_bond_0\"\nnetdev = \"eth9\"\n")).cluster.nodes.at(0);
  CHECK(taken.nics.at(0).device == "mlx5_bond_1");
  CHECK(taken.nics.at(1).device == "mlx5_bond_2");
  CHECK(taken.nics.at(2).device == "mlx5_bond_0");
}

TEST_CASE("a RoCE LAG has all functions of its card") {
  const auto nic = [](const std::string& function) { return "[[node.nic]]\ndevice = \"rocep1s0f" + function + "\"\n"; };
  const std::string nics = "[[node]]\nname = \"node0\"\n" + nic("0") + nic("1") + nic("2");
  CHECK(errors_of(nics + "[[node.bond]]\nname = \"bond0\"\n" + kBoth) ==
        "test.toml:11:13: functions: rocep1s0f2 is a function of the same card, and the driver makes a RoCE LAG of all "
        "of a card's functions or of none; list it as well");
  CHECK(read(nics + "[[node.bond]]\nname = \"bond0\"\nfunctions = [\"rocep1s0f0\", \"rocep1s0f1\", "
                    "\"rocep1s0f2\"]\n")
            .cluster.nodes[0]
            .bonds[0]
            .lag);
}

TEST_CASE("what a function behind the first says in vain is refused") {
  const std::string bond = "name = \"bond0\"\n" + kBoth;
  const auto said = [&](const std::string& device, const std::string& what) {
    return errors_of(pair(bond, bond, "[[node.nic]]\ndevice = \"" + device + "\"\n" + what));
  };
  CHECK(said("rocep1s0f1", "mtu = 1500\n") ==
        "test.toml:12:7: mtu: rocep1s0f0 has 9000 and rocep1s0f1 1500; a bond gives its functions one MTU, the first "
        "one's");
  CHECK(said("rocep1s0f1", "mtu = 9000\n").empty());
  CHECK(said("rocep1s0f0", "mtu = 1500\n").empty());
  CHECK(has(said("rocep1s0f1", "gids = [{index = 3, address = \"192.168.100.1\"}]\n"),
            "gids: rocep1s0f1 is a function of bond0, whose GIDs are at the first one, rocep1s0f0; move them there"));
}

TEST_CASE("an active-backup bond whose first function has no link, and another has, is refused") {
  CHECK(errors_of(two_cards()).empty());
  const std::string uncabled =
      "[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\n"
      "[[node.bond]]\nname = \"bond0\"\nfunctions = [\"rocep1s0f0\", \"rocep2s0f0\"]\n"
      "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n"
      "[[switch]]\nsubnet = \"10.0.0.0/24\"\nports = [\"node0/rocep2s0f0\", \"node1/rocep1s0f0\"]\n";
  CHECK(errors_of(uncabled) ==
        "test.toml:9:13: functions: node0/rocep1s0f0 is the active one of bond0 and has no link from the start (no "
        "cable, or its other end is down); list node0/rocep2s0f0 first");
}

TEST_CASE("a bond's addresses lie in the subnet of its switch, or of one of its cables") {
  const auto on_switch = [](const std::string& addresses) {
    return "[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\ndevice = "
           "\"rocep1s0f1\"\n[[node.bond]]\nname = \"bond0\"\n" +
           kBoth + addresses +
           "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n"
           "[[switch]]\nports = [\"node0/rocep1s0f0\", \"node0/rocep1s0f1\", \"node1/rocep1s0f0\"]\n"
           "subnet = \"10.0.0.0/24\"\n";
  };
  CHECK(errors_of(on_switch("")).empty());
  CHECK(errors_of(on_switch("addresses = [\"10.0.0.9/24\"]\n")).empty());
  CHECK(errors_of(on_switch("addresses = [\"10.0.1.9/24\"]\n")) ==
        "test.toml:17:10: subnet: 10.0.1.9/24 of node0's bond0 is outside switch0's prefix 10.0.0.0/24");
  std::string cables = two_cards();
  cables.insert(cables.rfind("[[cable]]") + 10, "subnet = \"192.168.101.0/24\"\n");
  cables.insert(cables.find("[[cable]]") + 10, "subnet = \"192.168.100.0/24\"\n");
  CHECK(errors_of(cables).empty());
}

TEST_CASE("what a bond says that it sends is what its functions with a link do") {
  CHECK(has(bond_lines(read(lag("802.3ad"), {"node.node0.nic.rocep1s0f1.link=down"}).cluster).front(),
            "is RDMA device mlx5_bond_0, 100 Gb/s; a queue pair uses one of them, 100 Gb/s"));
  CHECK(json_of(bond_table(read(lag("802.3ad"), {"node.node0.nic.rocep1s0f1.link=down"}).cluster))[0].at("rate_bps") ==
        100'000'000'000);
}

TEST_CASE("a RoCE LAG is plugged in where any of its functions is, and is one device of its node") {
  const auto text = [](const std::string& rest) {
    return "[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\ndevice = "
           "\"rocep1s0f1\"\n[[node.bond]]\nname = \"bond0\"\nmode = \"802.3ad\"\naddresses = "
           "[\"10.0.0.1/24\"]\n" +
           kBoth +
           "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n"
           "[[switch]]\nports = [\"node0/rocep1s0f1\", \"node1/rocep1s0f0\"]\nsubnet = \"10.0.0.0/24\"\n" +
           rest;
  };
  CHECK(finding_lines(read(text(""))) == std::vector<std::string>{});
  CHECK(errors_of(text("[workload]\nchannels = 1\nchannel_devices = [0]\n")).empty());
  CHECK(has(errors_of(text("[workload]\nchannels = 2\nchannel_devices = [0, 1]\n")),
            "channel_devices: there is no device 1 on node0, which has 1"));
}

TEST_CASE("a bond's standby is no idle rail") {
  const Scenario scenario = read(two_cards());
  std::map<sim::PairKey, sim::PairUsage> pairs;
  pairs[{.source_rank = 0, .destination_rank = 1, .source = {0, 0}, .destination = {1, 0}}].payload_bytes = 1000;
  CHECK_FALSE(rail_imbalance(scenario.cluster, pairs).has_value());
  pairs[{.source_rank = 0, .destination_rank = 1, .source = {0, 1}, .destination = {1, 1}}].payload_bytes = 500;
  CHECK(rail_imbalance(scenario.cluster, pairs) == 0.5);
}

TEST_CASE("topo rules: a RoCE LAG whose first function is down is reached by the other") {
  const Scenario scenario = read(lag("802.3ad"), {"node.node0.nic.rocep1s0f0.link=down"});
  const models::Topology topology = models::analyse(scenario.cluster);
  const MeshRules rules(scenario.cluster, topology);
  CHECK(rules.aim(0, 1, 0).aim == models::Aim::kReached);
  CHECK(rules.aim(1, 0, 0).aim == models::Aim::kReached);
  CHECK(models::RuleAims(models::RoutingRule::kAncestor, scenario.cluster, topology).aim(0, 1, 0).aim ==
        models::Aim::kReached);
}

TEST_CASE("a fault finds a function by its own name, and all of a RoCE LAG's by the device's") {
  const auto targets = [](const std::string& target) {
    const Scenario scenario =
        read(lag("802.3ad") + "[[fault]]\nkind = \"port_down\"\ntarget = \"" + target + "\"\npoint = \"start\"\n");
    return ports_of(scenario.cluster, scenario.faults.at(0));
  };
  CHECK(targets("node0/rocep1s0f0") == std::vector<PortRef>{{0, 0}});
  CHECK(targets("node0/rocep1s0f1") == std::vector<PortRef>{{0, 1}});
  CHECK(targets("node0/mlx5_bond_0") == std::vector<PortRef>{{0, 0}, {0, 1}});
}

TEST_CASE("lint, topo check and run say which function RDMA uses, and how fast") {
  CHECK(finding_lines(read(lag("802.3ad"))).empty());
  CHECK(bond_lines(read(lag("802.3ad")).cluster).front() ==
        "node0/bond0, 802.3ad: RoCE LAG of rocep1s0f0, rocep1s0f1 is RDMA device mlx5_bond_0, 200 Gb/s; a queue pair "
        "uses "
        "one of them, 100 Gb/s, or another if that one's link goes");
  CHECK(has(bond_lines(read(lag("802.3ad"), {"node.node0.bond.bond0.xmit_hash_policy=layer2"}).cluster).front(),
            "200 Gb/s; all queue pairs to one node use one of them, 100 Gb/s"));
  CHECK(
      bond_lines(read(lag("active-backup")).cluster).back() ==
      "node1/bond0, active-backup: RoCE LAG of rocep1s0f0, rocep1s0f1 is RDMA device mlx5_bond_0, 100 Gb/s; its queue "
      "pairs use rocep1s0f0, or rocep1s0f1 if that one's link goes");
  CHECK(
      bond_lines(read(two_cards()).cluster).front() ==
      "node0/bond0, active-backup over several cards: no RoCE LAG; RDMA uses rocep1s0f0 of rocep1s0f0, rocep2s0f0, 100 "
      "Gb/s; if its link goes, so do its connections, and the addresses to rocep2s0f0");
  CHECK(bond_lines(read("[topology]\nkind = \"ring\"\nnodes = 2\n").cluster).empty());
  const auto json = json_of(bond_table(read(lag("802.3ad")).cluster));
  REQUIRE(json.size() == 2);
  CHECK(json[0].at("device") == "mlx5_bond_0");
  CHECK(json[0].at("rate_bps") == 200'000'000'000);
  CHECK(json[0].at("queue_pair_rate_bps") == 100'000'000'000);
  CHECK(json[1].at("functions") == std::vector<std::string>{"rocep1s0f0", "rocep1s0f1"});
  const std::string report = topology_report(read(lag("802.3ad")), false);
  CHECK(has(report, "\nBonds:\n  node0/bond0, 802.3ad: RoCE LAG of"));
  CHECK(has(report, "rocep1s0f1  rocep1s0f1"));
}

TEST_CASE("virtual machines have no bonds") {
  CHECK_THROWS_WITH(emulated_cluster(read(lag("802.3ad")), {}),
                    doctest::Contains("bond0 of node0 in test is a bond, and the virtual machines' soft-RoCE devices"));
}

}  // namespace bond_test
