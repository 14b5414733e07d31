#include <doctest/doctest.h>
#include <netdb.h>

#include <cerrno>

#include "models/gid_table.h"
#include "sim/engine/network.h"
#include "tests/host/probe_world.h"

namespace sysfs_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::size_t kTextBytes = 4096;

std::string text_of(int (*read)(const char*, char*, std::size_t), const std::string& path) {
  std::string text(kTextBytes, '\0');
  const int result = read(path.c_str(), text.data(), text.size());
  if (result < 0) return "error " + std::to_string(-result);
  return text.c_str();
}

const models::Nic& first_nic() { return sim::World::get().cluster().nodes[0].nics[0]; }

}  // namespace

TEST_CASE("sysfs shows the RDMA device as Linux does") {
  run_probe(ring_cluster(3), 1, [](const ProbeTable& probe, int) {
    const auto& nic = first_nic();
    const std::string device = "/sys/class/infiniband/" + nic.device;
    CHECK(text_of(probe.read_file, device + "/node_type") == "1: CA\n");
    CHECK(text_of(probe.read_file, device + "/node_guid") == "004d:00ff:fe00:0000\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/state") == "4: ACTIVE\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/link_layer") == "Ethernet\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/rate") == "100 Gb/sec\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/gids/1") == "0000:0000:0000:0000:0000:ffff:c0a8:6401\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/gid_attrs/types/0") == "IB/RoCE v1\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/gid_attrs/types/1") == "RoCE v2\n");
    CHECK(text_of(probe.read_file, device + "/ports/1/gid_attrs/ndevs/1") == nic.netdev + "\n");
    CHECK(text_of(probe.list, device + "/device/net") == nic.netdev + " ");
    CHECK(text_of(probe.real_path, device + "/device") == nic.pci_path);
    CHECK(text_of(probe.real_path, device) == nic.pci_path + "/infiniband/" + nic.device);
    CHECK(text_of(probe.read_file, "/sys/class/infiniband_verbs/uverbs0/ibdev") == nic.device + "\n");
  });
}

TEST_CASE("a VLAN interface is a device of its own, has the NIC's addresses, and its GIDs name it") {
  models::Cluster cluster = ring_cluster(2);
  models::Nic& vlan_nic = cluster.nodes[0].nics[0];
  vlan_nic.vlan = 100;
  vlan_nic.gids = models::linux_gid_table({0, 0}, vlan_nic.addresses, vlan_nic.vlan);
  run_probe(cluster, 1, [](const ProbeTable& probe, int) {
    const auto& nic = first_nic();
    const std::string name = nic.netdev + ".100";
    const std::string port = "/sys/class/infiniband/" + nic.device + "/ports/1";
    CHECK(text_of(probe.read_file, port + "/gid_attrs/ndevs/1") == nic.netdev + "\n");
    CHECK(text_of(probe.read_file, port + "/gid_attrs/ndevs/3") == name + "\n");
    CHECK(text_of(probe.read_file, port + "/gid_attrs/ndevs/5") == name + "\n");
    CHECK(text_of(probe.read_file, port + "/gids/5") == "0000:0000:0000:0000:0000:ffff:c0a8:6401\n");
    CHECK(text_of(probe.read_file, "/sys/class/net/" + name + "/speed") == "100000\n");
    CHECK(text_of(probe.real_path, "/sys/class/net/" + name) == "/sys/devices/virtual/net/" + name);
    CHECK(text_of(probe.real_path, "/sys/class/net/" + name + "/lower_" + nic.netdev) ==
          nic.pci_path + "/net/" + nic.netdev);
    CHECK(text_of(probe.list, "/sys/class/infiniband/" + nic.device + "/device/net") == nic.netdev + " ");
    char text[kTextBytes]{};
    probe.interfaces(text, sizeof(text));
    // Behind lo, the NIC and the management port.
    CHECK(std::string(text).find(name + " 192.168.100.1/255.255.255.0 running 4\n") != std::string::npos);
    CHECK(std::string(text).find(nic.netdev + " 192") == std::string::npos);
    const std::string routes = text_of(probe.read_file, "/proc/net/route");
    CHECK(routes.find("\n" + name + "\t0064A8C0\t00000000\t0001\t") != std::string::npos);
    CHECK(routes.find("\n" + nic.netdev + "\t") == std::string::npos);
  });
}

TEST_CASE("an empty GID is all zero, and its type opens but cannot be read") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const std::string port = "/sys/class/infiniband/" + first_nic().device + "/ports/1";
    CHECK(text_of(probe.read_file, port + "/gids/9") == "0000:0000:0000:0000:0000:0000:0000:0000\n");
    CHECK(text_of(probe.read_file, port + "/gid_attrs/types/9") == "error " + std::to_string(EINVAL));
    CHECK(text_of(probe.read_stdio, port + "/gid_attrs/types/9") == "error " + std::to_string(EINVAL));
    CHECK(text_of(probe.read_file, port + "/gids/4000") == "error " + std::to_string(ENOENT));
    CHECK(text_of(probe.read_file, port) == "error " + std::to_string(EISDIR));
    CHECK(text_of(probe.read_file, port + "/state/x") == "error " + std::to_string(ENOTDIR));
  });
}

TEST_CASE("files read alike through open, fopen and std::ifstream") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const std::string path = "/sys/class/net/" + first_nic().netdev + "/mtu";
    CHECK(text_of(probe.read_file, path) == "9000\n");
    CHECK(text_of(probe.read_stdio, path) == "9000\n");
    CHECK(text_of(probe.read_stream, path) == "9000");
    CHECK(text_of(probe.read_file, "/proc/self/comm") != "error 2");  // all else is the real file system's
  });
}

TEST_CASE("link states are those of the moment") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const auto& nic = first_nic();
    const std::string netdev = "/sys/class/net/" + nic.netdev;
    CHECK(text_of(probe.read_file, netdev + "/operstate") == "up\n");
    CHECK(text_of(probe.read_file, netdev + "/speed") == "100000\n");
    sim::World::get().network().set_port_up({1, 0}, false);  // the other end of the cable
    CHECK(text_of(probe.read_file, netdev + "/operstate") == "down\n");
    CHECK(text_of(probe.read_file, netdev + "/speed") == "-1\n");
    CHECK(text_of(probe.read_file, "/sys/class/infiniband/" + nic.device + "/ports/1/state") == "1: DOWN\n");
    char text[kTextBytes]{};
    probe.interfaces(text, sizeof(text));
    CHECK(std::string(text).find(nic.netdev + " 192.168.100.1/255.255.255.0 2\n") != std::string::npos);
  });
}

TEST_CASE("addresses and GIDs are those of the moment") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const std::string port = "/sys/class/infiniband/" + first_nic().device + "/ports/1/";
    CHECK(text_of(probe.read_file, port + "gids/1") == "0000:0000:0000:0000:0000:ffff:c0a8:6401\n");
    models::Nic& nic = sim::World::get().change_nic({0, 0});
    nic.addresses = {*models::read_prefix("192.168.100.77/24")};
    nic.gids = {{3, models::GidType::kRoceV2, models::gid_of(nic.addresses[0].address)}};
    CHECK(text_of(probe.read_file, port + "gids/1") == "0000:0000:0000:0000:0000:0000:0000:0000\n");
    CHECK(text_of(probe.read_file, port + "gid_attrs/types/1") == "error 22");
    CHECK(text_of(probe.read_file, port + "gids/3") == "0000:0000:0000:0000:0000:ffff:c0a8:644d\n");
    CHECK(text_of(probe.read_file, port + "gid_attrs/types/3") == "RoCE v2\n");
    char text[kTextBytes]{};
    probe.interfaces(text, sizeof(text));
    CHECK(std::string(text).find(nic.netdev + " 192.168.100.77/255.255.255.0 running 2\n") != std::string::npos);
    CHECK(std::string(text).find("192.168.100.1/") == std::string::npos);
  });
}

TEST_CASE("interfaces: loopback, the NICs, the management port") {
  run_probe(ring_cluster(3), 2, [](const ProbeTable& probe, int rank) {
    char text[kTextBytes]{};
    probe.interfaces(text, sizeof(text));
    const auto& nics = sim::World::get().cluster().nodes[static_cast<std::size_t>(rank)].nics;
    std::string expected =
        "lo 127.0.0.1/255.0.0.0 running loopback 1\n"
        "lo ::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff running loopback 1\n";
    int index = 2;
    for (const auto& nic : nics) {
      expected += nic.netdev + " " + to_text(nic.addresses[0].address) + "/255.255.255.0 running " +
                  std::to_string(index++) + "\n";
    }
    expected += "mgmt0 10.0.0." + std::to_string(rank + 1) + "/255.255.0.0 running " + std::to_string(index) + "\n";
    CHECK(std::string(text) == expected);
  });
}

TEST_CASE("names: numbers, localhost and nodes; there is no DNS") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    char text[64]{};
    CHECK(probe.resolve("192.168.100.2", "4000", text, sizeof(text)) == 0);
    CHECK(std::string(text) == "192.168.100.2:4000");
    CHECK(probe.resolve("node1", "1", text, sizeof(text)) == 0);
    CHECK(std::string(text) == "10.0.0.2:1");
    CHECK(probe.resolve("localhost", "1", text, sizeof(text)) == 0);
    CHECK(std::string(text) == "127.0.0.1:1");
    CHECK(probe.resolve("example.org", "1", text, sizeof(text)) == EAI_NONAME);
    CHECK(probe.resolve("node1", "http", text, sizeof(text)) == EAI_SERVICE);
  });
}

// fib_route_seq_show, net/ipv4/fib_trie.c: addresses as numbers of this machine's order, lines of 127 characters.
TEST_CASE("/proc/net/route shows the main table: subnets, and routes by way of a router") {
  models::Cluster cluster = routed_cluster(2);
  const auto second = models::read_prefix("fd00:1::1/64");
  cluster.nodes[0].nics[0].addresses.push_back(*second);
  cluster.nodes[0].nics[0].routes.push_back(
      {.destination = *models::read_prefix("fd00:2::/64"), .gateway = *models::parse_ip("fd00:1::ff")});
  cluster.nodes[1].nics[0].policy_routed = true;
  run_probe(cluster, 2, [](const ProbeTable& probe, int rank) {
    const std::string table = text_of(probe.read_file, "/proc/net/route");
    CHECK(table.find("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT ") == 0);
    CHECK(table.find('\n') == 127);
    const std::string by_router = "enp1s0f0np0\t0065A8C0\tFE64A8C0\t0003\t0\t0\t100\t00FFFFFF\t0\t0\t0";
    CHECK((table.find(by_router) != std::string::npos) == (rank == 0));  // the other one's rule has it
    const std::string on_link = "\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0";
    CHECK(table.find((rank == 0 ? "enp1s0f0np0\t0064A8C0" : "enp1s0f0np0\t0065A8C0") + on_link) != std::string::npos);
    if (rank != 0) return;
    const std::string ipv6 = text_of(probe.read_file, "/proc/net/ipv6_route");
    CHECK(ipv6.find("fd000002000000000000000000000000 40 00000000000000000000000000000000 00 "
                    "fd0000010000000000000000000000ff 00000064 00000001 00000000 00000003 enp1s0f0np0\n") !=
          std::string::npos);
    // A NIC that has lost its address in the gateway's subnet has lost the route.
    sim::World::get().change_nic({0, 0}).addresses = {*models::read_prefix("10.1.0.1/24")};
    CHECK(text_of(probe.read_file, "/proc/net/route").find("0003") == std::string::npos);
  });
}

}  // namespace sysfs_test
