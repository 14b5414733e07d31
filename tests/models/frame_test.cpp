// How large packets are to a switch, and which switches are too small for them.
#include "models/lan/frame.h"

#include <doctest/doctest.h>

#include "models/topology_generate.h"

namespace frame_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

Cluster on_switch(int nodes) {
  auto cluster = generate_topology({.kind = TopologyKind::kSwitch,
                                    .nodes = nodes,
                                    .rate_bps = 100'000'000'000,
                                    .first_subnet = *read_prefix("192.168.100.0/24")});
  REQUIRE(cluster.has_value());
  return *cluster;
}

std::vector<SmallSwitchMtu> small_in(const Cluster& cluster) { return small_switch_mtus(cluster, analyse(cluster)); }

Nic nic_with(std::uint32_t switch_mtu_bytes) {
  Nic nic;
  nic.switch_mtu_bytes = switch_mtu_bytes;
  return nic;
}

}  // namespace

TEST_CASE("a packet's frame has its IP, UDP and transport headers; the first and the last have their own beside them") {
  CHECK(packet_headers_bytes(GidType::kRoceV2, Family::kIpv4) == 20 + 8 + 12 + 4);
  CHECK(packet_headers_bytes(GidType::kRoceV2, Family::kIpv6) == 40 + 8 + 12 + 4);
  CHECK(packet_headers_bytes(GidType::kRoceV1, Family::kIpv4) == 40 + 12 + 4);
  // A write with immediate value.
  const PacketTrain train{.payload_bytes = 3 * 1024 + 10,
                          .pmtu_bytes = 1024,
                          .headers_bytes = 44,
                          .first_bytes = kRethBytes,
                          .last_bytes = kImmBytes};
  REQUIRE(train.count() == 4);
  CHECK(train.frame_bytes(0) == 44 + 1024 + 16);
  CHECK(train.frame_bytes(1) == 44 + 1024);
  CHECK(train.frame_bytes(2) == 44 + 1024);
  CHECK(train.frame_bytes(3) == 44 + 10 + 4);
  const PacketTrain empty{.payload_bytes = 0, .headers_bytes = 44, .first_bytes = 16, .last_bytes = 4};
  REQUIRE(empty.count() == 1);
  CHECK(empty.frame_bytes(0) == 44 + 16 + 4);
}

TEST_CASE("the next packet that passes an MTU, or does not, is what a look at each of them finds") {
  for (const std::uint64_t payload_bytes : {0, 10, 1024, 1034, 2048, 3082, 5120}) {
    const PacketTrain train{
        .payload_bytes = payload_bytes, .pmtu_bytes = 1024, .headers_bytes = 44, .first_bytes = 16, .last_bytes = 4};
    for (const std::uint32_t mtu_bytes : {40U, 60U, 1067U, 1068U, 1071U, 1072U, 1083U, 1084U, 1087U, 1088U}) {
      for (const bool passes : {false, true}) {
        for (std::uint32_t from = 0; from <= train.count(); ++from) {
          std::uint32_t expected = from;
          while (expected < train.count() && (train.frame_bytes(expected) <= mtu_bytes) != passes) ++expected;
          CAPTURE(payload_bytes);
          CAPTURE(mtu_bytes);
          CHECK(next_packet(train, from, mtu_bytes, passes) == expected);
        }
      }
    }
  }
}

TEST_CASE("through a switch passes what both ports forward; a port's own MTU comes before the switch's") {
  Switch box;
  CHECK(forwarded_bytes(box, nic_with(0), nic_with(0)) == 0);
  CHECK(forwarded_bytes(box, nic_with(1500), nic_with(0)) == 1500);
  CHECK(forwarded_bytes(box, nic_with(0), nic_with(1500)) == 1500);
  box.mtu_bytes = 4200;
  CHECK(forwarded_bytes(box, nic_with(0), nic_with(0)) == 4200);
  CHECK(forwarded_bytes(box, nic_with(9000), nic_with(0)) == 4200);
  CHECK(forwarded_bytes(box, nic_with(9000), nic_with(9216)) == 9000);
  CHECK(forwarded_bytes(box, nic_with(1500), nic_with(9000)) == 1500);
}

TEST_CASE("a switch's MTU is too small where two ports' own are larger: for RDMA, or for TCP alone") {
  Cluster cluster = on_switch(3);
  CHECK(small_in(cluster).empty());
  Switch& box = cluster.switches[0];
  box.mtu_bytes = 9000;
  CHECK(small_in(cluster).empty());
  box.mtu_bytes = 1500;
  const std::vector<SmallSwitchMtu> small = small_in(cluster);
  REQUIRE(small.size() == 1);
  CHECK(small[0].rdma_is_lost);
  CHECK(small[0].of_switch);
  CHECK(small[0].mtu_bytes == 1500);
  CHECK(small[0].ports == std::vector<PortRef>{{0, 0}, {1, 0}, {2, 0}});
  CHECK(small[0].path_mtu_bytes == 4096);
  CHECK(small[0].needed_bytes == 9000);
  // 4096 bytes with the headers of a write with immediate value.
  box.mtu_bytes = 4096 + 44 + 16 + 4;
  REQUIRE(small_in(cluster).size() == 1);
  CHECK_FALSE(small_in(cluster)[0].rdma_is_lost);
  --box.mtu_bytes;
  REQUIRE(small_in(cluster).size() == 1);
  CHECK(small_in(cluster)[0].rdma_is_lost);
}

TEST_CASE("the smaller of two netdevs' MTUs is what passes between them, and a single port may be the small one") {
  Cluster cluster = on_switch(3);
  cluster.switches[0].mtu_bytes = 1500;
  cluster.nodes[1].nics[0].mtu_bytes = cluster.nodes[2].nics[0].mtu_bytes = 1500;
  CHECK(small_in(cluster).empty());  // node 0 has 9000, and no peer to use them with
  cluster = on_switch(3);
  cluster.nodes[2].nics[0].switch_mtu_bytes = 1500;
  const std::vector<SmallSwitchMtu> small = small_in(cluster);
  REQUIRE(small.size() == 1);
  CHECK_FALSE(small[0].of_switch);
  CHECK(small[0].ports == std::vector<PortRef>{{2, 0}});
}

}  // namespace frame_test
