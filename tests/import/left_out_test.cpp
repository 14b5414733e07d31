// What a file has and a scenario has not: interfaces to other places, patterns of names, second ports.
#include <doctest/doctest.h>

#include <string>

#include "plugin/base/address.h"
#include "testbed/import/import.h"
#include "tests/import/machines.h"

namespace left_out_test {

using namespace meshbed;
using namespace meshbed::testbed::hosts;
using test::nic_of;
using test::only_host;

TEST_CASE("containerlab: addresses of links, and ends that are no node of the file are listed") {
  const Machines machines = read_text("lab.clab.yml", R"(name: lab
topology:
  nodes:
    a: {kind: linux}
    b: {kind: linux}
  links:
    - endpoints: ["a:eth1", "b:eth1"]
      ipv4: ["192.168.0.1/24", "192.168.0.2/24"]
    - type: veth
      endpoints:
        - {node: a, interface: eth2, ipv4: 10.0.0.1/31}
        - {node: b, interface: eth2, ipv4: 10.0.0.0/31}
    - endpoints: ["a:eth3", "host:x"]
    - type: dummy
      endpoint: {node: b, interface: dummy0}
)");
  REQUIRE(machines.cables.size() == 2);
  CHECK(to_text(nic_of(machines.hosts[1], "eth1").addresses.at(0).prefix) == "192.168.0.2/24");
  CHECK(to_text(nic_of(machines.hosts[0], "eth2").addresses.at(0).prefix) == "10.0.0.1/31");
  CHECK(machines.hosts[0].nics.size() == 2);
  REQUIRE(machines.hosts[0].left_out.size() == 1);
  CHECK(machines.hosts[0].left_out[0].name == "eth3");
  CHECK(machines.hosts[0].left_out[0].reason == "leads to 'host:x', which is no node of the file");
  REQUIRE(machines.hosts[1].left_out.size() == 1);
  CHECK(machines.hosts[1].left_out[0].reason == "leads to a link of type dummy");
  const Machines pattern = read_text("a.yaml",
                                     "network:\n  ethernets:\n    vf1: {match: {name: \"enp1s16f[2-3]\"}}\n"
                                     "    enp1s0f0np0: {addresses: [10.1.0.1/24]}\n");
  REQUIRE(only_host(pattern).left_out.size() == 1);
  CHECK(only_host(pattern).left_out[0].reason == "matches several names, 'enp1s16f[2-3]'");
  CHECK(scenario_of(pattern, {}).toml.find("# vf1 matches several names") != std::string::npos);
}

TEST_CASE("two ports of one RDMA device: the one that is up is the NIC's, and the other one is listed") {
  for (const char* text : {"CA 'mlx4_0'\n\tNode GUID: 0x0002c90300a1b2c3\n\tPort 1:\n\t\tState: Down\n\t\tRate: 10\n"
                           "\tPort 2:\n\t\tState: Active\n\t\tRate: 56\n\t\tLink layer: Ethernet\n",
                           "Infiniband device 'mlx4_0' port 1 status:\n\tstate:\t\t 1: DOWN\n\trate:\t\t 10 Gb/sec\n\n"
                           "Infiniband device 'mlx4_0' port 2 status:\n\tstate:\t\t 4: ACTIVE\n\trate:\t\t 56 Gb/sec\n",
                           "hca_id:\tmlx4_0\n\t\tport:\t1\n\t\t\tstate:\tPORT_DOWN (1)\n\t\tport:\t2\n\t\t\tstate:\t"
                           "PORT_ACTIVE (4)\n\t\t\tactive_width:\t4X (2)\n\t\t\tactive_speed:\t14.0 Gbps (16)\n"}) {
    const Machines machines = read_text("ports.txt", text);
    const HostFacts& host = only_host(machines);
    REQUIRE_MESSAGE(host.nics.size() == 1, text);
    CHECK_MESSAGE(host.nics[0].link_up.value, text);
    CHECK_MESSAGE(host.nics[0].rate_bps.value == 56'000'000'000, text);
    CHECK_MESSAGE(host.nics[0].rate_bps.contradiction.empty(), text);
    REQUIRE_MESSAGE(host.left_out.size() == 1, text);
    CHECK(host.left_out[0].name == "mlx4_0 port 1");
  }
}

}  // namespace left_out_test
