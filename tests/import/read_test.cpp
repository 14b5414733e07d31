// What readers take of each format, with its source; and what they refuse, with its place.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "testbed/import/import.h"
#include "tests/import/machines.h"

namespace read_test {

using namespace meshbed::testbed::hosts;
using meshbed::to_text;
using meshbed::test::nic_of;
using meshbed::test::only_host;

namespace {

std::string problem(const std::string& path, const std::string& text) {
  try {
    (void)read_text(path, text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

const char* const kNetplan = R"(network:
  version: 2
  renderer: networkd
  ethernets:
    enp1s0f0np0:
      dhcp4: no
      mtu: 9000
      addresses:
        - 192.168.100.1/24
        - 10.9.0.1/24: {label: "one"}
    enP7s7: {dhcp4: true}
    lom:
      match: {macaddress: "AA:BB:CC:00:11:22"}
      set-name: eth7
      gateway4: 10.0.0.1
  vlans:
    enp1s0f0np0.100: {id: 100, link: enp1s0f0np0, addresses: [192.168.7.1/24]}
  wifis:
    wlP9s9: {access-points: {"net": {password: REMOVED}}}
)";

}  // namespace

TEST_CASE("netplan: addresses, MTU, VLAN, DHCP and gateways, each with its line") {
  const Machines machines = read_text("s1.yaml", kNetplan);
  const HostFacts& host = only_host(machines);
  CHECK(host.name.value == "s1");
  const NicFacts& nic = nic_of(host, "enp1s0f0np0");
  REQUIRE(nic.addresses.size() == 2);
  CHECK(to_text(nic.addresses[0].prefix) == "192.168.100.1/24");
  CHECK(nic.addresses[0].source == "s1.yaml:9");
  CHECK(to_text(nic.addresses[1].prefix) == "10.9.0.1/24");
  CHECK(nic.mtu_bytes.value == 9000);
  CHECK(nic.mtu_bytes.source == "s1.yaml:7");
  CHECK(nic.dhcp.empty());
  CHECK(nic_of(host, "enP7s7").dhcp == "s1.yaml:11");
  CHECK(nic_of(host, "eth7").mac.value == "aa:bb:cc:00:11:22");
  CHECK(nic_of(host, "eth7").default_via == "s1.yaml:15");
  const NicFacts& vlan = nic_of(host, "enp1s0f0np0.100");
  CHECK(vlan.vlan.value == 100);
  CHECK(vlan.parent == "enp1s0f0np0");
  CHECK(nic_of(host, "wlP9s9").kind == "wifi");
}

TEST_CASE("NetworkManager's connections: addresses, MTU, VLAN, automatic ones, and those that do not start") {
  const auto host_of = [](const std::string& text) {
    return read_text("s1/etc/NetworkManager/system-connections/mesh.nmconnection", text);
  };
  const Machines mesh = host_of(
      "# written by nmtui\n[connection]\nid=mesh\ntype=ethernet\ninterface-name=enp1s0f0np0\n\n[ethernet]\nmtu=9000\n"
      "mac-address=AA:BB:CC:00:11:22\n[ipv4]\nmethod=manual\naddress1=192.168.100.1/24\naddress2=10.9.0.1/"
      "16,10.9.0.254\n"
      "[ipv6]\nmethod=disabled\naddresses=fd00::1/64;fd01::1/64;\n");
  const NicFacts& nic = nic_of(only_host(mesh), "enp1s0f0np0");
  CHECK(nic.mtu_bytes.value == 9000);
  CHECK(nic.mtu_bytes.source == "s1/etc/NetworkManager/system-connections/mesh.nmconnection:8");
  CHECK(nic.mtu_bytes.origin == Origin::kConfigured);
  CHECK(nic.mac.value == "aa:bb:cc:00:11:22");
  REQUIRE(nic.addresses.size() == 4);
  CHECK(to_text(nic.addresses[0].prefix) == "192.168.100.1/24");
  CHECK(to_text(nic.addresses[1].prefix) == "10.9.0.1/16");
  CHECK(to_text(nic.addresses[3].prefix) == "fd01::1/64");
  CHECK(nic.default_via == "s1/etc/NetworkManager/system-connections/mesh.nmconnection:13");
  CHECK(nic.dhcp.empty());
  CHECK_FALSE(
      nic_of(only_host(host_of("[connection]\ntype=802-3-ethernet\ninterface-name=eth0\n[ipv4]\nmethod=auto\n")),
             "eth0")
          .dhcp.empty());
  const NicFacts vlan =
      nic_of(only_host(host_of("[connection]\ntype=vlan\ninterface-name=mesh.7\n[vlan]\nid=7\n"
                               "parent=enp1s0f0np0\n[ipv4]\nmethod=manual\naddress=192.168.7.1/24\n")),
             "mesh.7");
  CHECK(vlan.kind == "vlan");
  CHECK(vlan.vlan.value == 7);
  CHECK(vlan.parent == "enp1s0f0np0");
  CHECK(vlan.addresses.size() == 1);
  CHECK(nic_of(only_host(host_of("[connection]\ntype=ethernet\ninterface-name=e0\nmaster=bond0\nslave-type=bond\n")),
               "e0")
            .master == "bond0");
  CHECK(nic_of(only_host(host_of("[connection]\ntype=wifi\ninterface-name=wl0\n")), "wl0").kind == "wifi");
  // Those that do not start by themselves, and profiles of no interface in particular, configure none.
  for (const char* nothing : {"[connection]\ntype=ethernet\nautoconnect=false\ninterface-name=e0\n",
                              "[connection]\ntype=ethernet\n[ipv4]\naddress1=10.0.0.1/24\n"}) {
    const Machines machines = host_of(nothing);
    CHECK((machines.hosts.empty() || machines.hosts.front().nics.empty()));
  }
}

TEST_CASE("systemd's .network files: the interface that they match, addresses, MTU, DHCP and default routes") {
  const auto host_of = [](const std::string& text) {
    return read_text("s1/etc/systemd/network/10-mesh.network", text);
  };
  const Machines mesh = host_of(
      "[Match]\nName=enp1s0f0np0\n[Link]\nMTUBytes=9000\n[Network]\nAddress=192.168.100.1/24\nAddress=fd00::1/64\n"
      "DHCP=no\n[Address]\nAddress=192.168.101.1/24\n[Route]\nGateway=192.168.100.254\n");
  const NicFacts& nic = nic_of(only_host(mesh), "enp1s0f0np0");
  CHECK(nic.mtu_bytes.value == 9000);
  CHECK(nic.addresses.size() == 3);
  CHECK(nic.addresses[1].source == "s1/etc/systemd/network/10-mesh.network:7");
  CHECK(nic.dhcp.empty());
  CHECK(nic.default_via == "s1/etc/systemd/network/10-mesh.network:12");
  CHECK_FALSE(nic_of(only_host(host_of("[Match]\nName=eth0\n[Network]\nDHCP=yes\n")), "eth0").dhcp.empty());
  CHECK(nic_of(only_host(host_of("[Match]\nName=e1\n[Network]\nBond=bond0\n[Route]\nDestination=10.0.0.0/8\n"
                                 "Gateway=10.1.1.1\n")),
               "e1")
            .default_via.empty());
  const Machines many = host_of("[Match]\nName=en*\n[Network]\nAddress=192.168.100.1/24\n");
  CHECK((many.hosts.empty() || many.hosts.front().nics.empty()));
}

TEST_CASE("ip addr as text: states, MTU, MAC addresses, VLANs, and what is no hardware") {
  const Machines machines =
      read_text("ip.txt",
                R"(1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
2: enP7s7: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000
    link/ether 4c:bb:47:2f:fb:97 brd ff:ff:ff:ff:ff:ff
    inet 10.0.0.15/24 brd 10.0.0.255 scope global dynamic noprefixroute enP7s7
       valid_lft 65609sec preferred_lft 65609sec
3: enp1s0f0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000
    link/ether 4C:BB:47:2F:FB:98 brd ff:ff:ff:ff:ff:ff
    inet 192.168.100.1/24 scope global enp1s0f0np0
    inet6 fe80::4ebb:47ff:fe2f:fb98/64 scope link
4: enp1s0f1np1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN group default qlen 1000
    link/ether 4c:bb:47:2f:fb:99 brd ff:ff:ff:ff:ff:ff
5: enp1s0f0np0.100@enp1s0f0np0: <BROADCAST,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP
    vlan protocol 802.1Q id 100 <REORDER_HDR>
    inet 192.168.7.1/24 scope global enp1s0f0np0.100
default via 10.0.0.1 dev enP7s7 proto dhcp metric 100
192.168.100.0/24 dev enp1s0f0np0 proto kernel scope link src 192.168.100.1
192.168.100.2 dev enp1s0f0np0 lladdr 4c:bb:47:2f:00:01 REACHABLE
192.168.100.9 dev enp1s0f0np0 FAILED
)");
  const HostFacts& host = only_host(machines);
  CHECK(nic_of(host, "lo").kind == "loopback");
  const NicFacts& nic = nic_of(host, "enp1s0f0np0");
  CHECK(nic.mtu_bytes.value == 9000);
  CHECK(nic.mtu_bytes.source == "ip.txt:8");
  CHECK(nic.mac.value == "4c:bb:47:2f:fb:98");
  CHECK(nic.link_up.value);
  REQUIRE(nic.addresses.size() == 1);  // link-local IPv6 identifies no cable
  REQUIRE(nic.neighbours.size() == 1);
  CHECK(nic.neighbours[0].mac == "4c:bb:47:2f:00:01");
  CHECK(nic.neighbours[0].source == "ip.txt:19");
  CHECK_FALSE(nic_of(host, "enp1s0f1np1").link_up.value);
  CHECK(nic_of(host, "enP7s7").addresses[0].is_dynamic);
  CHECK(nic_of(host, "enP7s7").default_via == "ip.txt:17");
  CHECK(nic_of(host, "enp1s0f0np0.100").vlan.value == 100);
}

TEST_CASE("ip -br, ip -o and calls of ip contain the same") {
  const Machines brief = read_text("a.txt",
                                   "lo  UNKNOWN  127.0.0.1/8 ::1/128\nenp1s0f0np0  UP  192.168.100.1/24 "
                                   "fe80::1/64\nenp1s0f1np1 DOWN\n");
  CHECK(to_text(nic_of(only_host(brief), "enp1s0f0np0").addresses.at(0).prefix) == "192.168.100.1/24");
  CHECK_FALSE(nic_of(only_host(brief), "enp1s0f1np1").link_up.value);
  const Machines one_line = read_text("b.txt",
                                      "2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\       "
                                      "valid_lft forever\n");
  CHECK(to_text(nic_of(only_host(one_line), "eth0").addresses.at(0).prefix) == "10.0.0.1/24");
  const Machines calls = read_text("c.sh",
                                   "#!/bin/sh\nip link set dev eth1 mtu 9000 up\nsudo ip -4 addr add 10.1.0.1/30 "
                                   "dev eth1\nip link add link eth1 name eth1.7 type vlan id 7\n");
  CHECK(nic_of(only_host(calls), "eth1").mtu_bytes.value == 9000);
  CHECK(to_text(nic_of(only_host(calls), "eth1").addresses.at(0).prefix) == "10.1.0.1/30");
  CHECK(nic_of(only_host(calls), "eth1.7").parent == "eth1");
}

TEST_CASE("ip -j and rdma -j: one NIC of its device and its interface") {
  const Machines machines = read_text("h.txt", R"(==> ip-addr.json <==
[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK"],"mtu":65536,"link_type":"loopback","addr_info":[]},
{"ifindex":3,"ifname":"enp1s0f0np0","flags":["UP"],"mtu":9000,"operstate":"UP","link_type":"ether",
"address":"4c:bb:47:2f:fb:98","addr_info":[{"family":"inet","local":"192.168.100.1","prefixlen":24,"dynamic":true}]},
{"ifname":"enp1s0f0np0.5","link":"enp1s0f0np0","mtu":9000,"linkinfo":{"info_kind":"vlan","info_data":{"id":5}}}]
==> ip-neigh.json <==
[{"dst":"192.168.100.2","dev":"enp1s0f0np0","lladdr":"4C:BB:47:00:00:01","state":["REACHABLE"]},
{"dst":"192.168.100.3","dev":"enp1s0f0np0","lladdr":"4c:bb:47:00:00:02","state":["FAILED"]}]
==> ip-route.json <==
[{"dst":"default","gateway":"10.0.0.1","dev":"eth0"},{"dst":"10.0.0.0/24","dev":"eth0"}]
==> rdma-link.json <==
[{"ifindex":0,"ifname":"rocep1s0f0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"enp1s0f0np0"}]
==> hostname <==
spark1.example.org
)");
  const HostFacts& host = only_host(machines);
  CHECK(host.name.value == "spark1");
  const NicFacts& nic = nic_of(host, "rocep1s0f0");
  CHECK(nic.netdev.value == "enp1s0f0np0");
  CHECK(nic.mtu_bytes.value == 9000);
  CHECK(nic.mtu_bytes.source == "h.txt/ip-addr.json:2");
  CHECK(nic.addresses.at(0).is_dynamic);
  REQUIRE(nic.neighbours.size() == 1);
  CHECK(nic.neighbours[0].mac == "4c:bb:47:00:00:01");
  CHECK(nic_of(host, "eth0").default_via == "h.txt/ip-route.json:1");
  CHECK(nic_of(host, "enp1s0f0np0.5").vlan.value == 5);
  CHECK(nic_of(host, "lo").kind == "loopback");
}

TEST_CASE("ibv_devinfo, show_gids, ibdev2netdev and rdma link") {
  const Machines machines = read_text("v.txt", R"(hca_id: rocep1s0f1
        transport:                      InfiniBand (0)
        node_guid:                      4CBB:4700:032B:0102
        sys_image_guid:                 4cbb:4700:032b:0100
                port:   1
                        state:                  PORT_ACTIVE (4)
                        active_mtu:             4096 (5)
                        link_layer:             Ethernet
                        active_width:           4X (2)
                        active_speed:           50.0 Gbps (64)
                        GID[  0]:               fe80::4ebb:47ff:fe2b:102, RoCE v1
                        GID[  3]:               ::ffff:192.168.100.1, RoCE v2
                port:   2
                        state:                  PORT_DOWN (1)
rocep1s0f0 port 1 ==> enp1s0f0np0 (Down)
0000:01:00.1 rocep1s0f1 (MT4129 - X) ConnectX-7 fw 28.39 port 1 (ACTIVE) ==> enp1s0f1np1 (Up)
link roceP2p1s0f0/1 state DOWN physical_state DISABLED netdev enP2p1s0f0np0
DEV     PORT    INDEX   GID                                     IPv4            VER     DEV
---     ----    -----   ---                                     ------------    ---     ---
rocep1s0f0      1       2       0000:0000:0000:0000:0000:ffff:c0a8:6401 192.168.100.1   v1      enp1s0f0np0
rocep1s0f0      1       3       0000:0000:0000:0000:0000:ffff:c0a8:6401 192.168.100.1   v2      enp1s0f0np0
)");
  const HostFacts& host = only_host(machines);
  REQUIRE(host.nics.size() == 3);
  const NicFacts& nic = nic_of(host, "rocep1s0f1");
  CHECK(&nic == &host.nics.front());  // ibv_devinfo's order
  CHECK(nic.node_guid.value == "4cbb:4700:032b:0102");
  CHECK(nic.rate_bps.value == 200'000'000'000);
  CHECK(nic.rate_bps.source == "v.txt:10");
  CHECK(nic.link_up.value);  // of port 1
  CHECK(nic.netdev.value == "enp1s0f1np1");
  CHECK(nic.pci_address.value == "0000:01:00.1");
  REQUIRE(nic.gids.size() == 2);
  CHECK(nic.gids[1].index == 3);
  CHECK(nic.gids[1].type == "v2");
  const NicFacts& other = nic_of(host, "rocep1s0f0");
  CHECK(other.gids.size() == 2);
  CHECK_FALSE(other.link_up.value);
  CHECK(nic_of(host, "roceP2p1s0f0").netdev.value == "enP2p1s0f0np0");
}

TEST_CASE("ethtool, lspci, lldpctl, collect's listings and variables") {
  const Machines machines = read_text("m.txt", R"(Settings for eth1:
	Speed: 25000Mb/s
	Link detected: yes
0000:01:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]
		LnkCap:	Port #0, Speed 32GT/s, Width x8, ASPM L1
		LnkSta:	Speed 32GT/s, Width x4 (downgraded)
000f:01:00.0 3D controller: NVIDIA Corporation GB20B [GB10] (rev a1)
Interface:    eth1, via: LLDP, RID: 1, Time: 0 day, 00:01:00
  Chassis:
    SysName:      spark2
  Port:
    PortID:       mac 4c:bb:47:00:00:07
    PortDescr:    enp1s0f1np1
-------------------------------------------------------------------------------
net eth1 mtu 9000
rdma mlx5_0 netdev eth1
rdma mlx5_0 state 4: ACTIVE
rdma mlx5_0 rate 200 Gb/sec (4X HDR)
pci 0000:01:00.0 current_link_width 4
module nvidia_peermem 580.1
export NCCL_IB_HCA="mlx5_0"
NCCL_DEBUG=INFO
)");
  const HostFacts& host = only_host(machines);
  const NicFacts& nic = nic_of(host, "mlx5_0");
  CHECK(nic.netdev.value == "eth1");
  CHECK(nic.rate_bps.value == 25'000'000'000);
  CHECK(nic.rate_bps.contradiction == "200000000000 in m.txt:18");
  REQUIRE(nic.lldp.size() == 1);
  CHECK(nic.lldp[0].system == "spark2");
  CHECK(nic.lldp[0].port == "enp1s0f1np1");
  CHECK(nic.lldp[0].mac == "4c:bb:47:00:00:07");
  const PciFacts& pci = host.pci.at("0000:01:00.0");
  CHECK(pci.lanes.value == 4);
  CHECK(pci.lanes_most.value == 8);
  CHECK(pci.generation.value == 5);
  REQUIRE(host.gpus.size() == 1);
  CHECK(host.gpus[0].model.value == "GB10");
  CHECK(host.others.at("nvidia_peermem").value == "580.1");
  REQUIRE(host.environment.size() == 2);
  CHECK(host.environment[0].second.value == "mlx5_0");
}

TEST_CASE("lldpctl -f json in its three forms") {
  for (
      const char* form :
      {R"({"lldp":{"interface":[{"eth1":{"chassis":{"s2":{"id":{"type":"mac","value":"aa"}}},"port":{"id":{"type":"ifname","value":"eth5"}}}}]}})",
       R"({"lldp":{"interface":{"eth1":{"chassis":{"s2":{"id":{"type":"mac","value":"aa"}}},"port":{"id":{"type":"ifname","value":"eth5"}}}}}})",
       R"({"lldp":[{"interface":[{"name":"eth1","chassis":[{"id":[{"type":"mac","value":"aa"}],"name":[{"value":"s2"}]}],"port":[{"id":[{"type":"ifname","value":"eth5"}]}]}]}]})"}) {
    const Machines machines = read_text("l.json", form);
    const NicFacts& nic = nic_of(only_host(machines), "eth1");
    REQUIRE_MESSAGE(nic.lldp.size() == 1, form);
    CHECK(nic.lldp[0].system == "s2");
    CHECK(nic.lldp[0].port == "eth5");
  }
}

TEST_CASE("NCCL's topology and graph, and nvidia-smi's XML") {
  const Machines machines = read_text("t.xml", R"(<system version="1">
  <cpu numaid="0">
    <pci busid="0000:02:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="4">
      <nic><net name="rocep2" dev="1" speed="200000" port="1" guid="0x12"/></nic>
    </pci>
    <pci busid="0000:01:00.0" class="0x020000"><nic><net name="rocep1" dev="0" speed="100000"/></nic></pci>
    <pci busid="000f:01:00.0" class="0x030200"><gpu dev="0" sm="121" rank="0"/></pci>
  </cpu>
</system>)");
  const HostFacts& host = only_host(machines);
  REQUIRE(host.nics.size() == 2);
  CHECK(host.nics[0].device.value == "rocep1");  // by dev
  CHECK(host.nics[1].rate_bps.value == 200'000'000'000);
  CHECK(host.nics[1].rate_bps.source == "t.xml:4");
  CHECK(host.pci.at("0000:02:00.0").lanes.value == 4);
  REQUIRE(host.gpus.size() == 1);
  CHECK(host.gpus[0].model.value == "GB10");
  const Machines graph = read_text("g.xml", R"(<graphs version="1"><graph id="0" pattern="4" nchannels="2">
<channel><net dev="0"/><gpu dev="0"/><net dev="0"/></channel><channel><net dev="1"/><gpu dev="0"/></channel>
</graph></graphs>)");
  CHECK(only_host(graph).others.at("nccl-channels").value == "2");
  CHECK(only_host(graph).others.at("nccl-channel-devices").value == "0 1");
  const Machines smi = read_text("n.xml",
                                 "<nvidia_smi_log><driver_version>580</driver_version><gpu id=\"0000000F:01:00.0\">"
                                 "<product_name>NVIDIA GB10</product_name></gpu></nvidia_smi_log>");
  CHECK(only_host(smi).gpus.at(0).model.value == "NVIDIA GB10");
  CHECK(only_host(smi).others.at("nvidia").value == "580");
}

TEST_CASE("containerlab: hosts, switches, cables and addresses") {
  const Machines machines = read_text("lab.clab.yml", R"(name: lab
topology:
  nodes:
    leaf: {kind: nokia_srlinux}
    h1: {kind: linux, exec: ["ip addr add 192.168.1.1/24 dev eth1"]}
    h2: {kind: linux}
  links:
    - endpoints: ["h1:eth1", "leaf:e1-1"]
    - endpoints: ["h2:eth1", "leaf: e1-2"]
      mtu: 9500
)");
  CHECK(machines.hosts.size() == 2);
  CHECK(machines.switches.size() == 1);
  REQUIRE(machines.cables.size() == 2);
  CHECK(machines.cables[1].port[1] == "e1-2");
  CHECK(machines.cables[1].source == "lab.clab.yml:9");
  CHECK(to_text(nic_of(machines.hosts[0], "eth1").addresses.at(0).prefix) == "192.168.1.1/24");
  CHECK(nic_of(machines.hosts[1], "eth1").mtu_bytes.value == 9500);
}

TEST_CASE("what is malformed is refused with its file, line and column") {
  CHECK(problem("a.yaml", "network:\n  ethernets:\n    a: [1\n").rfind("a.yaml:4:1: not YAML: ", 0) == 0);
  CHECK(problem("a.yaml", "network:\n\tethernets: 1\n").rfind("a.yaml:2:11: not YAML: ", 0) == 0);
  CHECK(problem("a.xml", "<system>\n  <cpu>\n</system>").rfind("a.xml:3:3: not XML: ", 0) == 0);
  CHECK(problem("a.json", "[{\"ifname\":\n \"x\" \"y\"}]").rfind("a.json:2:8: not JSON: ", 0) == 0);
  CHECK(problem("a.yaml", std::string(100000, '[')).find("nests deeper") != std::string::npos);
  std::string dashes;
  for (int depth = 0; depth < 300; ++depth) dashes += "- ";
  CHECK(problem("a.yaml", dashes).find("nests deeper") != std::string::npos);
}

TEST_CASE("ifconfig, ibstatus and hwloc's XML") {
  const Machines nets = read_text("nets.txt", R"(bond0: flags=5187<UP,BROADCAST,RUNNING,MASTER,MULTICAST>  mtu 1500
        inet 10.213.250.174  netmask 255.255.252.0  broadcast 10.213.251.255

eth2: flags=4099<UP,BROADCAST,MULTICAST>  mtu 9000
        inet 192.168.100.1  netmask 255.255.255.0  broadcast 192.168.100.255
        inet6 fd00::1  prefixlen 64  scopeid 0x0<global>
        ether 0C:C4:7A:73:1A:B8  txqueuelen 1000  (Ethernet)
        RX packets 103116  bytes 139395305 (132.9 MiB)
eth2:1: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 9000
        inet 192.168.101.1  netmask 255.0.255.0
lo: flags=73<UP,LOOPBACK,RUNNING>  mtu 65536
)");
  const HostFacts& host = only_host(nets);
  CHECK(nic_of(host, "bond0").kind == "bond");
  CHECK(to_text(nic_of(host, "bond0").addresses.at(0).prefix) == "10.213.250.174/22");
  CHECK(nic_of(host, "eth2").addresses.size() == 2);  // 255.0.255.0 is no mask
  CHECK(nic_of(host, "eth2").mtu_bytes.value == 9000);
  CHECK(nic_of(host, "eth2").mac.value == "0c:c4:7a:73:1a:b8");
  CHECK_FALSE(nic_of(host, "eth2").link_up.value);
  CHECK(nic_of(host, "lo").kind == "loopback");
  const Machines old = read_text("old.txt", R"(eth2      Link encap:Ethernet  HWaddr 0C:C4:7A:73:1A:B8
          inet addr:192.168.100.1  Bcast:192.168.100.255  Mask:255.255.255.0
          inet6 addr: fd00::1/64 Scope:Global
          UP BROADCAST RUNNING MULTICAST  MTU:9000  Metric:1
)");
  CHECK(to_text(nic_of(only_host(old), "eth2").addresses.at(0).prefix) == "192.168.100.1/24");
  CHECK(nic_of(only_host(old), "eth2").addresses.size() == 2);
  CHECK(nic_of(only_host(old), "eth2").mtu_bytes.value == 9000);
  CHECK(nic_of(only_host(old), "eth2").mac.value == "0c:c4:7a:73:1a:b8");
  CHECK(nic_of(only_host(old), "eth2").link_up.value);
  const Machines status = read_text("ib.txt", R"(Infiniband device 'mlx5_0' port 1 status:
	default gid:	 fe80:0000:0000:0000:5054:00ff:fe12:3456
	state:		 4: ACTIVE
	rate:		 200 Gb/sec (4X HDR)
	link_layer:	 Ethernet
Infiniband device 'mlx5_0' port 2 status:
	rate:		 10 Gb/sec (4X SDR)
)");
  REQUIRE(only_host(status).nics.size() == 1);
  CHECK(only_host(status).nics[0].rate_bps.value == 200'000'000'000);
  CHECK(only_host(status).nics[0].link_up.value);
  const Machines tree = read_text("node.xml", R"(<?xml version="1.0" encoding="UTF-8"?>
<topology version="2.0"><object type="Machine">
<object type="PCIDev" pci_busid="0000:0c:00.0" pci_type="0207 [15b3:1017]">
<object type="OSDev" name="enp12s0np0" osdev_type="2"><info name="Address" value="98:03:9b:16:65:ce"/></object>
<object type="OSDev" name="mlx5_0" osdev_type="3"><info name="NodeGUID" value="9803:9b03:0016:65ce"/>
<info name="Port1State" value="4"/></object></object>
<object type="PCIDev" pci_busid="0000:2d:00.0"><object type="OSDev" name="nvml0" osdev_type="5">
<info name="GPUModel" value="NVIDIA H100 80GB HBM3"/></object></object></object></topology>)");
  const NicFacts& nic = nic_of(only_host(tree), "enp12s0np0");  // one PCI function, one NIC
  CHECK(nic.device.value == "mlx5_0");
  CHECK(nic.link_up.value);
  CHECK(nic.pci_address.value == "0000:0c:00.0");
  // hwloc 3: each type is a bit, and an RDMA device is a network, too (48); 3 is a disk that is memory.
  const Machines bits = read_text("node.xml", R"(<?xml version="1.0" encoding="UTF-8"?>
<topology version="3.0"><object type="Machine">
<object type="PCIDev" pci_busid="0000:01:00.0"><object type="OSDev" name="enp1s0f0np0" osdev_type="16"/>
<object type="OSDev" name="rocep1s0f0" osdev_type="48"><info name="Port1State" value="4"/></object></object>
<object type="PCIDev" pci_busid="0000:05:00.0"><object type="OSDev" name="mem0" osdev_type="3"/></object>
</object></topology>)");
  REQUIRE(only_host(bits).nics.size() == 1);
  CHECK(nic_of(only_host(bits), "enp1s0f0np0").device.value == "rocep1s0f0");
  REQUIRE(only_host(tree).gpus.size() == 1);
  CHECK(only_host(tree).gpus[0].model.value == "NVIDIA H100 80GB HBM3");
}

TEST_CASE("a text of no known format is listed as such") {
  const Machines machines = read_text("poem.txt", "roses are red\n");
  CHECK(only_host(machines).unread == std::vector<std::string>{"poem.txt"});
}

}  // namespace read_test
