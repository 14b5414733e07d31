// Which NICs are the mesh's, what they are called, which cables join them by which evidence, and the scenario of it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "testbed/import/import.h"
#include "testbed/scenario/scenario.h"

namespace infer_test {

using namespace meshbed::testbed::hosts;
using meshbed::testbed::parse_scenario;
using meshbed::testbed::Scenario;

namespace {

/// The machines of several texts, a node each.
Machines machines_of(const std::vector<std::pair<std::string, std::string>>& files) {
  Machines machines;
  for (const auto& [path, text] : files) {
    Machines more = read_text(path, text);
    for (HostFacts& host : more.hosts) machines.hosts.push_back(std::move(host));
    for (GivenCable& cable : more.cables) machines.cables.push_back(std::move(cable));
  }
  return machines;
}

Scenario scenario(const Imported& imported) { return parse_scenario(imported.toml, "imported.toml", {}); }

std::string netplan(const std::string& first, const std::string& second) {
  return fmt::format(
      "network:\n  ethernets:\n    enp1s0f0np0: {{addresses: [{}], mtu: 9000}}\n    enp1s0f1np1: "
      "{{addresses: [{}], mtu: 9000}}\n",
      first, second);
}

const Machines kTriangle = machines_of({{"s1.yaml", netplan("192.168.102.2/24", "192.168.100.1/24")},
                                        {"s2.yaml", netplan("192.168.100.2/24", "192.168.101.1/24")},
                                        {"s3.yaml", netplan("192.168.101.2/24", "192.168.102.1/24")}});

bool has_finding(const Imported& imported, const std::string& code, const std::string& part = "") {
  return std::any_of(imported.findings.begin(), imported.findings.end(), [&](const ImportFinding& finding) {
    return finding.code == code && (finding.place + finding.cause).find(part) != std::string::npos;
  });
}

bool has_assumed(const Imported& imported, const std::string& part) {
  return std::any_of(imported.assumed.begin(), imported.assumed.end(), [&](const Assumed& assumed) {
    return fmt::format("{}: {}", assumed.place, assumed.value).find(part) != std::string::npos;
  });
}

/// "s1/rocep1s0f1 s2/rocep1s0f0" for each cable.
std::vector<std::string> cables(const Scenario& of) {
  std::vector<std::string> list;
  for (const auto& cable : of.cluster.cables) {
    const auto name = [&](meshbed::models::PortRef port) {
      return of.cluster.at(port.node).name + "/" + of.cluster.nic_of(port).device;
    };
    list.push_back(name(cable.a) + " " + name(cable.b));
  }
  return list;
}

}  // namespace

TEST_CASE("a triangle's netplan: cables by subnets, devices by names; rate and devices are assumed and marked") {
  const Imported imported = scenario_of(kTriangle, {});
  const Scenario triangle = scenario(imported);
  CHECK(cables(triangle) == std::vector<std::string>{"s1/rocep1s0f1 s2/rocep1s0f0", "s2/rocep1s0f1 s3/rocep1s0f0",
                                                     "s3/rocep1s0f1 s1/rocep1s0f0"});
  CHECK(triangle.cluster.nic_of(0, 0).netdev == "enp1s0f0np0");
  CHECK(triangle.cluster.nic_of(0, 0).rate_bps == 100'000'000'000);
  CHECK(triangle.cluster.nic_of(0, 0).mtu_bytes == 9000);
  CHECK(has_assumed(imported,
                    "rate of s1/rocep1s0f0, s1/rocep1s0f1, s2/rocep1s0f0, s2/rocep1s0f1 and 2 others: 100Gb/s"));
  CHECK(has_assumed(imported,
                    "RDMA device of s1/enp1s0f0np0, s1/enp1s0f1np1, s2/enp1s0f0np0, s2/enp1s0f1np1 and 2 "
                    "others: roce and the interface's position"));
  CHECK(imported.toml.find("rate = \"100Gb/s\"  # assumed\n") != std::string::npos);
  CHECK(imported.toml.find("addresses = [\"192.168.102.2/24\"]  # s1.yaml:3\n") != std::string::npos);
  CHECK(imported.toml.find("# both are in subnet 192.168.100.0/24\n") != std::string::npos);
  CHECK(triangle.assumed.size() == imported.assumed.size());
  CHECK(imported.findings.empty());
}

TEST_CASE("--assume gives rate, MTU, latency and workload") {
  Assumptions assumptions;
  assumptions.rate_bps = 200'000'000'000;
  assumptions.mtu_bytes = 4200;
  assumptions.latency = "2us";
  assumptions.workload = "all_gather:1M";
  const Imported imported =
      scenario_of(machines_of({{"a.txt", "1: eth1: <UP> mtu 0 state UP\n    inet 10.0.0.1/24\n"},
                               {"b.txt", "1: eth1: <UP> mtu 0 state UP\n    inet 10.0.0.2/24\n"}}),
                  assumptions);
  const Scenario pair = scenario(imported);
  REQUIRE(pair.cluster.cables.size() == 1);
  CHECK(pair.cluster.cables[0].rate_bps == 200'000'000'000);
  CHECK(pair.cluster.cables[0].propagation_ps == 2'000'000);
  CHECK(pair.cluster.nic_of(0, 0).mtu_bytes == 4200);
  CHECK(pair.cluster.nic_of(0, 0).device == "mlx5_0");
  CHECK(pair.workload.collective == "all_gather");
  CHECK(pair.workload.bytes == 1U << 20U);
}

TEST_CASE("management NICs stay out, each with its reason") {
  const std::string text = R"(network:
  ethernets:
    enP7s7: {dhcp4: true}
    eno1: {addresses: [10.0.0.1/24], routes: [{to: default, via: 10.0.0.254}]}
    enx6c6e0705ec11: {addresses: [10.1.0.1/24]}
    enp1s0f0np0: {addresses: [192.168.100.1/24]}
  wifis:
    wlP9s9: {addresses: [192.168.9.1/24]}
  bridges:
    br0: {addresses: [172.16.0.1/16]}
)";
  const Imported imported = scenario_of(machines_of({{"s1.yaml", text}}), {});
  const Scenario one = scenario(imported);
  REQUIRE(one.cluster.nodes.size() == 1);
  REQUIRE(one.cluster.nodes[0].nics.size() == 1);
  CHECK(one.cluster.nodes[0].nics[0].netdev == "enp1s0f0np0");
  for (const char* reason :
       {"enP7s7 gets its address from DHCP (s1.yaml:3)", "eno1 the default route goes over it (s1.yaml:4)",
        "enx6c6e0705ec11 its name shows no adapter's port", "wlP9s9 is wireless", "br0 is of kind bridge"}) {
    CHECK_MESSAGE(imported.toml.find(reason) != std::string::npos, reason);
  }
  CHECK(has_finding(imported, "open-end", "s1/rocep1s0f0"));
}

TEST_CASE("with RDMA devices known, only those are the mesh's") {
  const Imported imported = scenario_of(
      machines_of({{"a.txt",
                    "mlx5_0 port 1 ==> ens1np0 (Up)\n1: ens1np0: <UP> mtu 9000 state UP\n    inet 10.0.1.1/24\n"
                    "2: ens2np0: <UP> mtu 9000 state UP\n    inet 10.0.2.1/24\n"}}),
      {});
  CHECK(scenario(imported).cluster.nodes[0].nics.size() == 1);
  CHECK(imported.toml.find("# ens2np0 has no RDMA device (a.txt:4)") != std::string::npos);
}

TEST_CASE("without any NIC of a mesh the error lists what was seen") {
  try {
    (void)scenario_of(machines_of({{"a.txt",
                                    "1: lo: <LOOPBACK> mtu 65536\n2: wlp2s0: <UP> mtu 1500 state UP\n    inet "
                                    "192.168.1.2/24\n"}}),
                      {});
    FAIL("accepted");
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    CHECK(text.find("no NIC of a mesh was found") == 0);
    CHECK(text.find("a/wlp2s0 is wireless (a.txt:2)") != std::string::npos);
  }
}

TEST_CASE("LLDP counts more than subnets, and the contradiction is a finding") {
  const auto node = [](const char* host, const char* address0, const char* address1, const char* see0,
                       const char* see1) {
    return fmt::format(
               "1: enp1s0f0np0: <UP> mtu 9000 state UP\n    inet {}\n2: enp1s0f1np1: <UP> mtu 9000 state UP\n"
               "    inet {}\nInterface:    enp1s0f0np0, via: LLDP\n  Chassis:\n    SysName: {}\n  Port:\n    PortID: "
               "ifname {}\n---\nInterface:    enp1s0f1np1, via: LLDP\n    SysName: {}\n    PortID: ifname {}\n---\n",
               address0, address1, std::string(see0).substr(0, 2), std::string(see0).substr(3),
               std::string(see1).substr(0, 2), std::string(see1).substr(3)) +
           host;
  };
  // The cables of s1 are crossed: its f0 leads to s2 and its f1 to s3, where the addresses say the reverse.
  const Imported imported = scenario_of(
      machines_of({{"s1.txt", node("", "192.168.102.2/24", "192.168.100.1/24", "s2 enp1s0f0np0", "s3 enp1s0f1np1")},
                   {"s2.txt", node("", "192.168.100.2/24", "192.168.101.1/24", "s1 enp1s0f0np0", "s3 enp1s0f0np0")},
                   {"s3.txt", node("", "192.168.101.2/24", "192.168.102.1/24", "s2 enp1s0f1np1", "s1 enp1s0f1np1")}}),
      {});
  const Scenario crossed = scenario(imported);
  const auto found = cables(crossed);
  CHECK(std::count(found.begin(), found.end(), "s2/rocep1s0f0 s1/rocep1s0f0") +
            std::count(found.begin(), found.end(), "s1/rocep1s0f0 s2/rocep1s0f0") ==
        1);
  CHECK(has_finding(imported, "contradiction", "its subnet 192.168.100.0/24 is that of"));
  CHECK(imported.toml.find("LLDP: s1/rocep1s0f0 sees s2/rocep1s0f0 (s1.txt:5)") != std::string::npos);
}

TEST_CASE("two ends of one cable that report different neighbours contradict each other") {
  const Imported imported = scenario_of(
      machines_of({{"a.txt", "net eth1 mtu 9000\nInterface: eth1, via: LLDP,\n  SysName: b\n  PortID: ifname eth1\n"},
                   {"b.txt", "net eth1 mtu 9000\nInterface: eth1, via: LLDP,\n  SysName: c\n  PortID: ifname eth1\n"},
                   {"c.txt", "net eth1 mtu 9000\nInterface: eth1, via: LLDP,\n  SysName: b\n  PortID: ifname eth1\n"}}),
      {});
  CHECK(has_finding(imported, "contradiction",
                    "LLDP: a/mlx5_0 sees b/mlx5_0 (a.txt:2), but LLDP: b/mlx5_0 sees c/mlx5_0"));
}

TEST_CASE("neighbour tables join ports by their MAC addresses") {
  const auto node = [](const char* mac, const char* other, const char* address) {
    return fmt::format(
        "mlx5_0 port 1 ==> eth1 (Up)\n1: eth1: <UP> mtu 9000 state UP\n    link/ether {}\n    inet {}\n10.0.0.9 "
        "dev eth1 lladdr {} REACHABLE\n",
        mac, address, other);
  };
  const Imported imported =
      scenario_of(machines_of({{"a.txt", node("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1/24")},
                               {"b.txt", node("02:00:00:00:00:02", "02:00:00:00:00:01", "10.0.7.1/24")}}),
                  {});
  CHECK(cables(scenario(imported)).size() == 1);
  CHECK(imported.toml.find("has 02:00:00:00:00:02 of b/mlx5_0 as neighbour (a.txt:5)") != std::string::npos);
}

TEST_CASE("a prefix of another length still joins the two ends; a switch is what more than two ports share") {
  const Imported wrong = scenario_of(machines_of({{"a.yaml", netplan("192.168.100.1/24", "192.168.7.1/24")},
                                                  {"b.yaml", netplan("192.168.100.2/30", "192.168.8.1/24")}}),
                                     {});
  CHECK(cables(scenario(wrong)).back() == "a/rocep1s0f0 b/rocep1s0f0");
  std::vector<std::pair<std::string, std::string>> files;
  for (int node = 1; node <= 4; ++node) {
    files.emplace_back(fmt::format("n{}.yaml", node),
                       fmt::format("network: {{ethernets: {{enp1s0f0np0: {{addresses: [10.0.0.{}/24]}}}}}}", node));
  }
  const Imported imported = scenario_of(machines_of(files), {});
  const Scenario star = scenario(imported);
  REQUIRE(star.cluster.switches.size() == 1);
  CHECK(star.cluster.switches[0].ports.size() == 4);
  CHECK(has_assumed(imported, "switch of 4 ports"));
}

TEST_CASE("the only two ports left are assumed to be cabled: crossed addresses stay visible") {
  const Imported imported = scenario_of(machines_of({{"s1.yaml", netplan("192.168.102.2/24", "192.168.109.1/24")},
                                                     {"s2.yaml", netplan("192.168.100.2/24", "192.168.101.1/24")},
                                                     {"s3.yaml", netplan("192.168.101.2/24", "192.168.102.1/24")}}),
                                        {});
  CHECK(scenario(imported).cluster.cables.size() == 3);
  CHECK(has_assumed(imported, "cable of s1/rocep1s0f1 to s2/rocep1s0f0"));
}

TEST_CASE("a Spark's two functions of one QSFP port are one connector") {
  const auto spark = [](int host) {
    return fmt::format(
        "network:\n  ethernets:\n    enp1s0f0np0: {{addresses: [192.168.10.1{0}/24]}}\n"
        "    enp1s0f1np1: {{addresses: [192.168.20.1{0}/24]}}\n    enP2p1s0f0np0: {{mtu: 9000}}\n"
        "    enP2p1s0f1np1: {{mtu: 9000}}\n",
        host);
  };
  const Imported imported = scenario_of(machines_of({{"s0.yaml", spark(0)}, {"s1.yaml", spark(1)}}), {});
  const Scenario pair = scenario(imported);
  CHECK(imported.toml.find("functions = \"spark\"  # assumed") != std::string::npos);
  CHECK(pair.cluster.cables.size() == 4);  // two wires, each between two pairs of functions
  CHECK(pair.cluster.nic_of(0, 2).qsfp == "qsfp0");
  // All four functions of one port's two ends in one subnet are a cable, too, and no switch.
  const auto joined = [](int host) {
    return fmt::format(
        "network: {{ethernets: {{enp1s0f0np0: {{addresses: [192.168.10.{}/24]}}, enP2p1s0f0np0: "
        "{{addresses: [192.168.10.{}/24]}}}}}}",
        10 + host, 12 + host);
  };
  const Scenario one_subnet = scenario(scenario_of(machines_of({{"s0.yaml", joined(0)}, {"s1.yaml", joined(1)}}), {}));
  CHECK(one_subnet.cluster.switches.empty());
  CHECK(one_subnet.cluster.cables.size() == 2);
}

TEST_CASE("named cables without addresses, and link-local netplan of two nodes, get addresses that are marked") {
  const std::string link_local =
      "network: {ethernets: {enp1s0f0np0: {link-local: [ipv4]}, enp1s0f1np1: {link-local: [ipv4]}}}";
  const Imported two = scenario_of(machines_of({{"a.yaml", link_local}, {"b.yaml", link_local}}), {});
  CHECK(scenario(two).cluster.cables.size() == 2);
  CHECK(has_assumed(two, "cable of a/rocep1s0f0 to b/rocep1s0f0"));
  CHECK(two.toml.find("# assumed: no file gives one\n") != std::string::npos);
  const Imported lab = scenario_of(read_text("lab.yml", R"(topology:
  nodes: {leaf: {kind: bridge}, a: {kind: linux}, b: {kind: linux}, c: {kind: linux, exec: [ip addr add 10.5.0.1/24 dev eth1]}}
  links:
    - endpoints: ["a:eth1", "leaf:1"]
    - endpoints: ["b:eth1", "leaf:2"]
    - endpoints: ["c:eth1", "leaf:3"]
    - endpoints: ["a:eth2", "b:eth2"]
)"),
                                   {});
  const Scenario made = scenario(lab);
  REQUIRE(made.cluster.switches.size() == 1);
  CHECK(made.cluster.switches[0].name == "leaf");
  CHECK(to_text(made.cluster.nic_of(0, 0).addresses.at(0)) == "10.5.0.2/24");  // the switch's subnet is known by c
  CHECK(to_text(made.cluster.nic_of(0, 1).addresses.at(0)) == "10.128.0.1/24");
  CHECK(has_assumed(lab, "address of "));
}

TEST_CASE("functions with one image GUID and one port number are one connector") {
  std::vector<std::pair<std::string, std::string>> files;
  for (int node = 0; node < 2; ++node) {
    files.emplace_back(
        fmt::format("n{}.txt", node),
        fmt::format(
            "rdma mlx5_0 sys_image_guid aa:0{0}\nrdma mlx5_0 netdev enp1s0np0\nrdma mlx5_1 sys_image_guid aa:0{0}\n"
            "rdma mlx5_1 netdev enp65s0np0\nrdma mlx5_0 rate 200 Gb/sec (4X)\nrdma mlx5_1 rate 200 Gb/sec (4X)\n"
            "1: enp1s0np0: <UP> mtu 9000 state UP\n    inet 10.0.1.{1}/24\n2: enp65s0np0: <UP> mtu 9000 state UP\n"
            "    inet 10.0.2.{1}/24\n",
            node, node + 1));
  }
  const Imported imported = scenario_of(machines_of(files), {});
  const Scenario pair = scenario(imported);
  CHECK(pair.cluster.nic_of(0, 0).qsfp == pair.cluster.nic_of(0, 1).qsfp);
  CHECK(pair.cluster.nic_of(0, 0).qsfp == "qsfp-mlx5_0");
  CHECK(pair.cluster.cables.size() == 2);
}

TEST_CASE("VLANs, GIDs, PCIe links, link states and variables become the scenario's") {
  const std::string text = R"(mlx5_0 port 1 ==> ens1np0 (Up)
rdma mlx5_0 pci 0000:01:00.0
pci 0000:01:00.0 current_link_speed 32.0 GT/s PCIe
pci 0000:01:00.0 current_link_width 4
pci 0000:01:00.0 max_link_width 16
rdma mlx5_0 rate 200 Gb/sec (4X)
mlx5_0 1 0 fe80:0000:0000:0000:0000:0000:0000:0001 v1 ens1np0
mlx5_0 1 1 0000:0000:0000:0000:0000:ffff:c0a8:0701 192.168.7.1 v2 ens1np0
mlx5_1 port 1 ==> ens2np0 (Down)
1: ens1np0: <UP> mtu 9000 state UP
2: ens1np0.100@ens1np0: <UP> mtu 9000 state UP
    inet 192.168.7.1/24
NCCL_DEBUG=INFO
)";
  const Imported imported = scenario_of(machines_of({{"a.txt", text}}), {});
  const Scenario one = scenario(imported);
  const auto& node = one.cluster.nodes.at(0);
  CHECK(node.nics.at(0).vlan == 100);
  CHECK(node.nics.at(0).gids.size() == 2);
  CHECK(node.nics.at(0).gids[1].type == meshbed::models::GidType::kRoceV2);
  REQUIRE(node.nics.at(0).pcie >= 0);
  CHECK(node.pcie.at(0).rate_bps == 100'000'000'000);
  CHECK(imported.toml.find("lanes = 4  # a.txt:4; it could be x16") != std::string::npos);
  CHECK_FALSE(node.nics.at(1).link_up);
  REQUIRE(node.environment.size() == 1);
  CHECK(node.environment[0] == std::pair<std::string, std::string>("NCCL_DEBUG", "INFO"));
}

TEST_CASE("an address that GIDs alone show has a prefix that is assumed, by which cables are found") {
  const auto gids = [](const std::string& last) {
    return "mlx5_0 1 2 0000:0000:0000:0000:0000:ffff:0a10:1d" + last +
           " 10.16.29.1 v1 ens1\nmlx5_0 1 3 "
           "0000:0000:0000:0000:0000:ffff:0a10:1d" +
           last + " 10.16.29.1 v2 ens1\n";
  };
  const Imported imported = scenario_of(machines_of({{"a.txt", gids("0d")}, {"b.txt", gids("0e")}}), {});
  const Scenario pair = scenario(imported);
  CHECK(to_text(pair.cluster.nic_of(0, 0).addresses.at(0)) == "10.16.29.13/24");
  CHECK(pair.cluster.cables.size() == 1);
  CHECK(has_assumed(imported, "prefix of a/mlx5_0, b/mlx5_0: /24"));
}

TEST_CASE("what two files say differently is a finding; the machine's own report counts") {
  const Imported imported = scenario_of(
      machines_of({{"h.txt",
                    "==> etc/netplan/1.yaml <==\nnetwork: {ethernets: {enp1s0f0np0: {addresses: [10.0.0.1/24], mtu: "
                    "9000}}}\n==> ip.txt <==\n1: enp1s0f0np0: <UP> mtu 1500 state UP\n"}}),
      {});
  CHECK(scenario(imported).cluster.nic_of(0, 0).mtu_bytes == 1500);
  CHECK(
      has_finding(imported, "contradiction", "MTU is 1500 in h.txt/ip.txt:1, but 9000 in h.txt/etc/netplan/1.yaml:1"));
}

TEST_CASE("names that no scenario takes are changed, and equal ones get a number") {
  const Imported imported = scenario_of(machines_of({{"my node!.yaml", netplan("10.0.0.1/24", "10.0.1.1/24")},
                                                     {"x/my node!.yaml", netplan("10.0.0.2/24", "10.0.1.2/24")}}),
                                        {});
  const Scenario pair = scenario(imported);
  CHECK(pair.cluster.nodes.at(0).name == "my-node-");
  CHECK(pair.cluster.nodes.at(1).name == "my-node--2");
}

}  // namespace infer_test
