// Bonds, VLANs on them, and bridges over ports, as netplan, NetworkManager, systemd, ip and /proc have them.
#include "models/lan/bond.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "testbed/import/import.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/bring_up.h"

namespace bond_test {

using namespace meshbed::testbed::hosts;
using meshbed::models::Bond;
using meshbed::models::BondMode;
using meshbed::models::Node;
using meshbed::testbed::parse_scenario;
using meshbed::testbed::Scenario;

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

/// Each file is a node, or part of the node that its folder names.
Imported import_of(const Files& files) {
  std::string list;
  for (const auto& [path, text] : files) list += "==> " + path + " <==\n" + text + "\n";
  return scenario_of(read_text("nodes", list), {});
}

Scenario scenario(const Imported& imported) {
  INFO(imported.toml);
  return parse_scenario(imported.toml, "imported.toml", {});
}

std::string findings(const Imported& imported) {
  std::string text;
  for (const ImportFinding& each : imported.findings)
    text += each.code + ": " + each.place + ": " + each.cause + "; " + each.fix + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

/// What a node's only bond is: "bond0 802.3ad rocep1s0f0 rocep1s0f1".
std::string bond_text(const Node& node) {
  if (node.bonds.size() != 1) return "no bond, or several";
  const Bond& bond = node.bonds.front();
  std::string text = bond.name + " " + std::string(to_string(bond.mode));
  for (const int function : bond.functions) text += " " + function_name(node.nic(function));
  return text;
}

std::string netplan_bond(const std::string& address, const std::string& parameters = "mode: 802.3ad") {
  return "network:\n  version: 2\n  ethernets:\n    enp1s0f0np0: {mtu: 9000}\n    enp1s0f1np1: {mtu: 9000}\n  bonds:\n"
         "    bond0:\n      interfaces: [enp1s0f0np0, enp1s0f1np1]\n      mtu: 9000\n      addresses: [" +
         address + "]\n      parameters: {" + parameters + "}\n";
}

}  // namespace

TEST_CASE("netplan's bond of both functions of a card becomes a bond, cabled function by function") {
  const Imported imported = import_of(
      {{"s1/etc/netplan/1.yaml", netplan_bond("10.0.0.1/24")}, {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}});
  const Scenario pair = scenario(imported);
  REQUIRE(pair.cluster.nodes.size() == 2);
  CHECK(bond_text(pair.cluster.at(0)) == "bond0 802.3ad rocep1s0f0 rocep1s0f1");
  CHECK(pair.cluster.at(0).bonds[0].lag);
  CHECK_FALSE(pair.cluster.at(0).bonds[0].hashes_flows);  // Linux' default is layer2
  CHECK(pair.cluster.cables.size() == 2);
  CHECK(to_text(pair.cluster.nic_of(1, 0).addresses.at(0)) == "10.0.0.2/24");
  CHECK(findings(imported).empty());
  has(imported.toml, "mode = \"802.3ad\"  # nodes/s1/etc/netplan/1.yaml:11\n");
  has(imported.toml, "addresses = [\"10.0.0.1/24\"]  # nodes/s1/etc/netplan/1.yaml:10\n");
}

TEST_CASE("a bond and what is not one, on a subnet, have a switch between them; so have three bonds") {
  const std::string plain = "network: {ethernets: {enp1s0f0np0: {mtu: 9000, addresses: [10.0.0.2/24]}}}\n";
  const Imported mixed =
      import_of({{"s1/etc/netplan/1.yaml", netplan_bond("10.0.0.1/24")}, {"s2/etc/netplan/1.yaml", plain}});
  CHECK(scenario(mixed).cluster.switches.size() == 1);
  const Imported three = import_of({{"s1/etc/netplan/1.yaml", netplan_bond("10.0.0.1/24")},
                                    {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")},
                                    {"s3/etc/netplan/1.yaml", netplan_bond("10.0.0.3/24")}});
  const Scenario switched = scenario(three);
  REQUIRE(switched.cluster.switches.size() == 1);
  CHECK(switched.cluster.switches[0].ports.size() == 6);
}

TEST_CASE("netplan's ids, primary and hash policy; a VLAN on the bond gives it its addresses, with a finding") {
  const std::string text = R"(network:
  ethernets:
    left: {match: {name: enp1s0f0np0}, set-name: enp1s0f0np0}
    right: {match: {name: enp1s0f1np1}}
  bonds:
    bond0:
      interfaces: [left, right]
      parameters: {mode: 802.3ad, transmit-hash-policy: layer3+4, lacp-rate: fast, mii-monitor-interval: 100}
  vlans:
    bond0.10: {id: 10, link: bond0, addresses: [192.168.9.1/24], routes: [{to: default, via: 192.168.9.254}]}
    bond0.20: {id: 20, link: bond0, addresses: [10.0.0.1/24]}
)";
  const Imported imported =
      import_of({{"s1/etc/netplan/1.yaml", text}, {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}});
  const Scenario pair = scenario(imported);
  CHECK(bond_text(pair.cluster.at(0)) == "bond0 802.3ad rocep1s0f0 rocep1s0f1");
  CHECK(pair.cluster.at(0).bonds[0].hashes_flows);
  REQUIRE(pair.cluster.nic_of(0, 0).addresses.size() == 1);  // the VLAN with the default route is another network
  CHECK(to_text(pair.cluster.nic_of(0, 0).addresses[0]) == "10.0.0.1/24");
  has(findings(imported), "vlan: s1/bond0: bond0.20 is a VLAN interface on a bond");
  const Imported backup =
      import_of({{"s1/etc/netplan/1.yaml", netplan_bond("10.0.0.1/24", "mode: active-backup, primary: enp1s0f1np1")},
                 {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24", "mode: 1, primary: enp1s0f1np1")}});
  CHECK(bond_text(scenario(backup).cluster.at(0)) == "bond0 active-backup rocep1s0f1 rocep1s0f0");
}

TEST_CASE("a bond that no scenario has: its first member has the addresses, and a finding names cause and fix") {
  const auto of = [](const std::string& one) {
    return import_of({{"s1/etc/netplan/1.yaml", one}, {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}});
  };
  const Imported no_mode = of(netplan_bond("10.0.0.1/24", "mii-monitor-interval: 100"));
  has(findings(no_mode),
      "bond: s1/bond0: the bond is not imported, since the mlx5 driver makes no RoCE LAG of mode "
      "balance-rr (nodes/s1/etc/netplan/1.yaml:7): enp1s0f0np0 has its addresses");
  has(findings(no_mode), "; take 802.3ad or active-backup\n");
  CHECK(to_text(scenario(no_mode).cluster.nic_of(0, 0).addresses.at(0)) == "10.0.0.1/24");
  std::string cards = netplan_bond("10.0.0.1/24");
  for (std::size_t at = 0; (at = cards.find("enp1s0f1np1", at)) != std::string::npos;)
    cards.replace(at, 11, "enp2s0f0np0");
  has(findings(of(cards)), "its members are not functions of one card, so that mode 802.3ad makes no RoCE LAG");
  const std::size_t mode = cards.find("mode: 802.3ad");
  const Imported two_cards = of(std::string(cards).replace(mode, 13, "mode: active-backup"));
  CHECK(bond_text(scenario(two_cards).cluster.at(0)) == "bond0 active-backup rocep1s0f0 rocep2s0f0");
  const std::string one_member =
      "network: {ethernets: {enp1s0f0np0: {}}, bonds: {bond0: {interfaces: [enp1s0f0np0], "
      "addresses: [10.0.0.1/24], parameters: {mode: 802.3ad}}}}\n";
  has(findings(of(one_member)), "it has one member");
  // A bond of the management network is none of the mesh's, and no finding.
  const Imported management =
      of("network:\n  ethernets: {eno1: {}, eno2: {}, enp1s0f0np0: {addresses: [10.0.0.1/24]}}\n  bonds: {bond1: "
         "{interfaces: [eno1, eno2], dhcp4: true, parameters: {mode: balance-alb}}}\n");
  CHECK(findings(management).find("bond1") == std::string::npos);
  CHECK(scenario(management).cluster.at(0).nics.size() == 1);
}

TEST_CASE("a VLAN that no scenario has is left out with a finding, and what is left is a scenario") {
  // The kernel's name of 16 characters, which the machine does not use itself.
  const Imported named = import_of({{"s1/50.yaml", R"(network:
  version: 2
  ethernets:
    enp1s0f0np0: {addresses: [10.0.0.1/24]}
    enp1s0f1np1: {}
  vlans:
    vlan2000: {id: 2000, link: enp1s0f1np1, addresses: [10.0.1.1/24]}
)"}});
  has(findings(named), "vlan: s1/vlan2000: its interface would be enp1s0f1np1.2000 here, longer than 15 characters");
  CHECK(scenario(named).cluster.nodes.size() == 1);
  const Imported member = import_of({{"s1/50.yaml", R"(network:
  version: 2
  ethernets:
    enp1s0f0np0: {}
    enp1s0f1np1: {}
  bonds:
    bond0: {interfaces: [enp1s0f0np0, enp1s0f1np1], addresses: [10.0.0.1/24], parameters: {mode: 802.3ad}}
  vlans:
    v7: {id: 7, link: enp1s0f0np0, addresses: [10.0.1.1/24]}
)"}});
  has(findings(member), "vlan: s1/v7: enp1s0f0np0 below it is a member of bond0");
  CHECK(scenario(member).cluster.nodes.size() == 1);
}

TEST_CASE("NetworkManager: ports by name and by UUID, a VLAN by its parent's UUID") {
  const Files files{
      {"s1/etc/NetworkManager/system-connections/a.nmconnection",
       "[connection]\nid=mesh\nuuid=5ccf0d0c-0001\ntype=bond\ninterface-name=bond0\n[bond]\nmode=802.3ad\n"
       "xmit_hash_policy=layer3+4\nmiimon=100\n[ipv4]\nmethod=disabled\n"},
      {"s1/etc/NetworkManager/system-connections/b.nmconnection",
       "[connection]\ntype=ethernet\ninterface-name=enp1s0f0np0\nmaster=5ccf0d0c-0001\nslave-type=bond\n"},
      {"s1/etc/NetworkManager/system-connections/c.nmconnection",
       "[connection]\ntype=ethernet\ninterface-name=enp1s0f1np1\ncontroller=bond0\nport-type=bond\n"},
      {"s1/etc/NetworkManager/system-connections/d.nmconnection",
       "[connection]\ntype=vlan\n[vlan]\nid=20\nparent=5ccf0d0c-0001\n[ipv4]\naddress1=10.0.0.1/24\nmethod=manual\n"},
      {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}};
  const Imported imported = import_of(files);
  const Scenario pair = scenario(imported);
  CHECK(bond_text(pair.cluster.at(0)) == "bond0 802.3ad rocep1s0f0 rocep1s0f1");
  CHECK(to_text(pair.cluster.nic_of(0, 0).addresses.at(0)) == "10.0.0.1/24");
  const Imported old_form = import_of({{"s1/etc/NetworkManager/system-connections/a",
                                        "[connection]\ntype=bond\n[bond]\ninterface-name=bond0\noptions=mode=4,miimon="
                                        "100\n[ipv4]\naddress1=10.0.0.1/24\n"},
                                       files[1],
                                       files[2],
                                       files[4]});
  CHECK(bond_text(scenario(old_form).cluster.at(0)) == "no bond, or several");  // whose UUID is not that bond's
}

TEST_CASE("systemd: .netdev files, ports by name, list and pattern, VLAN= and PrimarySlave=") {
  const std::string bond = "[NetDev]\nName=bond0\nKind=bond\nMTUBytes=9000\n[Bond]\nMode=active-backup\n";
  const std::string network = "[Match]\nName=bond0\n[Network]\nVLAN=storage\nAddress=10.0.0.1/24\n";
  const Imported imported = import_of(
      {{"s1/etc/systemd/network/1.netdev", bond},
       {"s1/etc/systemd/network/2.network", network},
       {"s1/etc/systemd/network/3.network", "[Match]\nName=enp1s0f0np0\n[Network]\nBond=bond0\n"},
       {"s1/etc/systemd/network/4.network", "[Match]\nName=enp1s0f1np1\n[Network]\nBond=bond0\nPrimarySlave=true\n"},
       {"s1/etc/systemd/network/5.netdev", "[NetDev]\nName=storage\nKind=vlan\n[VLAN]\nId=30\n"},
       {"s1/etc/systemd/network/6.network", "[Match]\nName=storage\n[Network]\nAddress=10.0.3.1/24\n"},
       {"s2/etc/systemd/network/1.netdev", bond},
       {"s2/etc/systemd/network/2.network", "[Match]\nName=bond0\n[Network]\nAddress=10.0.0.2/24\n"},
       {"s2/etc/systemd/network/3.network", "[Match]\nName=enp1s0f0np0 enp1s0f1np1\n[Network]\nBond=bond0\n"}});
  const Scenario pair = scenario(imported);
  CHECK(bond_text(pair.cluster.at(0)) == "bond0 active-backup rocep1s0f1 rocep1s0f0");
  CHECK(bond_text(pair.cluster.at(1)) == "bond0 active-backup rocep1s0f0 rocep1s0f1");
  CHECK(pair.cluster.nic_of(0, 0).addresses.size() == 2);
  CHECK(pair.cluster.nic_of(0, 0).mtu_bytes == 9000);
  const Imported pattern =
      import_of({{"s1/etc/systemd/network/1.netdev", bond},
                 {"s1/etc/systemd/network/2.network", network},
                 {"s1/etc/systemd/network/3.network", "[Match]\nName=enp1s0f*\n[Network]\nBond=bond0\n"},
                 {"s1/ip-link.txt", "2: enp1s0f0np0: <UP> mtu 9000 state UP\n3: enp1s0f1np1: <UP> mtu 9000 state UP\n"},
                 {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24", "mode: active-backup")}});
  CHECK(bond_text(scenario(pattern).cluster.at(0)) == "bond0 active-backup rocep1s0f0 rocep1s0f1");
}

TEST_CASE("archives: ip -d -j, /proc/net/bonding, and the RoCE LAG that ibdev2netdev shows") {
  const auto links = [](const std::string& address) {
    return R"([{"ifname":"ens1f0np0","flags":["UP","SLAVE"],"mtu":9000,"operstate":"UP","master":"bond0","address":"aa:00:00:00:00:01",
"linkinfo":{"info_slave_kind":"bond"},"addr_info":[]},
{"ifname":"ens1f1np1","flags":["UP","SLAVE"],"mtu":9000,"operstate":"UP","master":"bond0","address":"aa:00:00:00:00:01","addr_info":[]},
{"ifname":"bond0","flags":["UP","MASTER"],"mtu":9000,"operstate":"UP","address":"aa:00:00:00:00:01","linkinfo":{"info_kind":"bond",
"info_data":{"mode":"802.3ad","miimon":100,"xmit_hash_policy":"layer3+4"}},"addr_info":[{"family":"inet","local":")" +
           address + R"(","prefixlen":24}]}])";
  };
  const std::string gids = "mlx5_bond_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v2 bond0\n";
  const Imported imported =
      import_of({{"s1/ip-addr.json", links("10.0.0.1")},
                 {"s1/ibdev2netdev.txt", "mlx5_bond_0 port 1 ==> bond0 (Up)\n"},
                 {"s1/show_gids.txt", gids},
                 {"s1/ethtool-bond0.txt", "Settings for bond0:\n\tSpeed: 200000Mb/s\n\tLink detected: yes\n"},
                 {"s2/ip-addr.json", links("10.0.0.2")},
                 {"s2/rdma-link.txt", "link mlx5_bond_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0\n"}});
  const Scenario pair = scenario(imported);
  CHECK(bond_text(pair.cluster.at(0)) == "bond0 802.3ad roces1f0 roces1f1");
  CHECK(pair.cluster.nic_of(0, 0).device == "mlx5_bond_0");
  CHECK(pair.cluster.nic_of(0, 0).rate_bps == 100'000'000'000);  // bonding reports the sum
  CHECK(pair.cluster.nic_of(0, 0).gids.at(0).index == 3);
  CHECK(pair.cluster.nic_of(1, 0).device == "mlx5_bond_0");
  CHECK(pair.cluster.cables.size() == 2);

  const std::string proc = R"(Ethernet Channel Bonding Driver: v6.8.0-31-generic

Bonding Mode: fault-tolerance (active-backup)
Primary Slave: None
Currently Active Slave: enp1s0f1np1
MII Status: up
MII Polling Interval (ms): 100

Slave Interface: enp1s0f0np0
MII Status: up
Speed: 100000 Mbps
Permanent HW addr: aa:00:00:00:00:01

Slave Interface: enp1s0f1np1
MII Status: up
Speed: 100000 Mbps
)";
  const Imported seen = import_of({{"s1/proc/net/bonding/bond0", proc},
                                   {"s1/ip.txt", "9: bond0    inet 10.0.0.1/24 scope global bond0\n"},
                                   {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24", "mode: active-backup")}});
  CHECK(bond_text(scenario(seen).cluster.at(0)) == "bond0 active-backup rocep1s0f1 rocep1s0f0");
}

TEST_CASE("LLDP shows which functions the cables join; two switches below one bond become one") {
  const auto lldp = [](const std::string& netdev, const std::string& system, const std::string& port) {
    return "\"" + netdev + R"(": {"chassis": {")" + system +
           R"(": {"id": {"type": "local", "value": "x"}}}, "port": {"id": {"type": "ifname", "value": ")" + port +
           "\"}}}";
  };
  const std::string crossed = R"({"lldp": {"interface": [{)" + lldp("enp1s0f0np0", "s2", "enp1s0f1np1") + "}, {" +
                              lldp("enp1s0f1np1", "s2", "enp1s0f0np0") + "}]}}";
  const Imported imported = import_of({{"s1/etc/netplan/1.yaml", netplan_bond("10.0.0.1/24")},
                                       {"s1/hostname", "s1\n"},
                                       {"s1/lldpctl.json", crossed},
                                       {"s2/hostname", "s2\n"},
                                       {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}});
  const Scenario pair = scenario(imported);
  CHECK(bond_text(pair.cluster.at(0)) == "bond0 802.3ad rocep1s0f0 rocep1s0f1");
  CHECK(bond_text(pair.cluster.at(1)) == "bond0 802.3ad rocep1s0f1 rocep1s0f0");
  CHECK(to_text(pair.cluster.nic_of(1, 0).addresses.at(0)) == "10.0.0.2/24");
  const std::string two = R"({"lldp": {"interface": [{)" + lldp("enp1s0f0np0", "tor1", "p1") + "}, {" +
                          lldp("enp1s0f1np1", "tor2", "p1") + "}]}}";
  const Imported switched = import_of({{"s1/etc/netplan/1.yaml", netplan_bond("10.0.0.1/24")},
                                       {"s1/lldpctl.json", two},
                                       {"s2/lldpctl.json", two},
                                       {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}});
  CHECK(scenario(switched).cluster.switches.size() == 1);
  has(findings(switched), "2 switches that the cables of one bond lead to become one (tor1, tor2)");
}

TEST_CASE("bridges: of one port its addresses are the port's, of several they are the first one's, with a finding") {
  const auto with = [](const std::string& ports, const std::string& more) {
    return "network:\n  ethernets: {enp1s0f0np0: {}, enp1s0f1np1: {}}\n  bridges: {br0: {interfaces: [" + ports +
           "], addresses: [10.0.0.1/24]" + more + "}}\n";
  };
  const std::string other = "network: {ethernets: {enp1s0f0np0: {addresses: [10.0.0.2/24]}}}\n";
  const Imported one =
      import_of({{"s1/etc/netplan/1.yaml", with("enp1s0f1np1", "")}, {"s2/etc/netplan/1.yaml", other}});
  CHECK(findings(one).empty());
  CHECK(to_text(scenario(one).cluster.nic_of(0, 1).addresses.at(0)) == "10.0.0.1/24");
  const Imported two =
      import_of({{"s1/etc/netplan/1.yaml", with("enp1s0f0np0, enp1s0f1np1", "")}, {"s2/etc/netplan/1.yaml", other}});
  has(findings(two), "bridge: s1/br0: the bridge joins 2 ports (enp1s0f0np0, enp1s0f1np1)");
  // A bridge over a bond, as hypervisors have it.
  std::string stacked = netplan_bond("10.9.9.9/24");
  stacked.erase(stacked.find("      addresses"), stacked.find("      parameters") - stacked.find("      addresses"));
  stacked += "  bridges: {vmbr0: {interfaces: [bond0], addresses: [10.0.0.1/24]}}\n";
  const Imported over =
      import_of({{"s1/etc/netplan/1.yaml", stacked}, {"s2/etc/netplan/1.yaml", netplan_bond("10.0.0.2/24")}});
  CHECK(bond_text(scenario(over).cluster.at(0)) == "bond0 802.3ad rocep1s0f0 rocep1s0f1");
  CHECK(to_text(scenario(over).cluster.nic_of(0, 0).addresses.at(0)) == "10.0.0.1/24");
}

}  // namespace bond_test
