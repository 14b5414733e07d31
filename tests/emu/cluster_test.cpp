// What can be emulated, and what is refused with a reason.
#include "emu/cluster.h"

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "tests/emu/clusters.h"

namespace cluster_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

std::string refusal(const std::function<void(EmuCluster&)>& spoil) {
  EmuCluster cluster = mesh_cluster(2);
  spoil(cluster);
  try {
    check_cluster(cluster);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a GID is the address, IPv4 as mapped into IPv6, the way sysfs prints it") {
  CHECK(gid_text("192.168.100.1/24") == "0000:0000:0000:0000:0000:ffff:c0a8:6401");
  CHECK(gid_text("fd00:1::a/64") == "fd00:0001:0000:0000:0000:0000:0000:000a");
  for (const char* wrong : {"", "/24", "192.168.100.1", "192.168.100.1/33", "192.168.100.1/0", "192.168.100/24",
                            "fd00::1/129", "192.168.100.1/24x", "192.168.100.1/-1", "host/24"}) {
    CHECK_THROWS_AS(gid_text(wrong), std::runtime_error);
  }
}

TEST_CASE("a cluster that can be emulated passes") {
  CHECK_NOTHROW(check_cluster(mesh_cluster(3)));
  CHECK_NOTHROW(check_cluster(switch_cluster_of(4)));
}

TEST_CASE("what the guests' kernel would refuse is refused before it boots, with the node and the reason") {
  CHECK(refusal([](EmuCluster& one) { one.nodes.clear(); }) == "the cluster cannot be emulated: it has no nodes");
  CHECK(refusal([](EmuCluster& one) { one.nodes[1].name = "node0"; }) ==
        "node 'node0' cannot be emulated: another node has this name");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].name = "a b"; }) ==
        "node 'a b' cannot be emulated: its name is no host name");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].name = ".."; }) ==
        "node '..' cannot be emulated: its name is no host name");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].memory_mib = 64; }) ==
        "node 'node0' cannot be emulated: 64 MiB of memory are too little to boot; give it 128 or more");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].nics[0].netdev = "sixteen_letters_"; }) ==
        "node 'node0', NIC 'sixteen_letters_' cannot be emulated: its name is none that the kernel takes");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].nics[0].netdev = "lo"; }) ==
        "node 'node0', NIC 'lo' cannot be emulated: the node has this interface already");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].nics[0].rdma_device = "a/b"; }) ==
        "node 'node0', NIC 'cable0' cannot be emulated: 'a/b' is no name of a verbs device");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].nics[0].mac = "03:00:00:00:00:01"; }) ==
        "node 'node0', NIC 'cable0' cannot be emulated: '03:00:00:00:00:01' is no MAC address of a NIC");
  CHECK(refusal([](EmuCluster& one) { one.nodes[1].nics[0].mac = one.nodes[0].nics[0].mac; }) ==
        "node 'node1', NIC 'cable0' cannot be emulated: the MAC address 02:00:00:00:00:00 is taken");
  CHECK(refusal([](EmuCluster& one) { one.nodes[1].nics[0].wire = -1; }) ==
        "wire 0 cannot be emulated: it has 1 ends; a cable has two");
  CHECK(refusal([](EmuCluster& one) { one.nodes[1].nics[0].wire = 7; }) ==
        "node 'node1', NIC 'cable0' cannot be emulated: wire 7 of 1");
  CHECK(refusal([](EmuCluster& one) { one.nodes[1].nics[0].addresses = {"10.0.0.1"}; }) ==
        "node 'node1', NIC 'cable0' cannot be emulated: '10.0.0.1' is no address: it has no prefix length; write it as "
        "192.168.100.1/24 or fd00::1/64");
  CHECK(refusal([](EmuCluster& one) {
          one.nodes[0].environment = {{"A B", ""}};
        }) == "node 'node0' cannot be emulated: 'A B' is no name of an environment variable");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].commands = {{}}; }) ==
        "node 'node0' cannot be emulated: one of its commands is empty");
  CHECK(refusal([](EmuCluster& one) { one.nodes[0].nics[0].mtu = 68; }) ==
        "node 'node0', NIC 'cable0' cannot be emulated: an MTU of 68; 256 to 9216 bytes work");
}

}  // namespace cluster_test
