// NCCL's pure functions, each held against its source (connect.cc and topo.cc of NCCL 2.30.7).
#include "models/routing_rules.h"

#include <doctest/doctest.h>

#include "models/gid_table.h"

namespace routing_rules_test {

using namespace meshbed::models;

namespace {

RawGid gid(const char* address) { return gid_of(*parse_ip(address)); }

std::vector<GidEntry> table(const std::vector<const char*>& addresses) {
  std::vector<IpPrefix> prefixes;
  for (const char* one : addresses) prefixes.push_back(*read_prefix(one));
  return linux_gid_table({1, 2}, prefixes);
}

}  // namespace

TEST_CASE("the GID of a port: RoCE v2 of the wanted family; link-local, and v1, where there is no other") {
  CHECK(nccl_gid(table({"10.0.0.1/24"}), {})->index == 3);
  CHECK(nccl_gid(table({"fd00:1::1/64", "10.0.0.1/24"}), {})->index == 5);
  CHECK(nccl_gid(table({"fd00:1::1/64", "10.0.0.1/24"}), {.family = Family::kIpv6})->index == 3);
  CHECK(nccl_gid(table({"10.0.0.1/24"}), {.gid_type = GidType::kRoceV1})->index == 2);
  // Nothing is better than entry 0: fe80, RoCE v1.
  CHECK(nccl_gid(table({}), {})->index == 0);
  CHECK(nccl_gid(table({"fd00:1::1/64"}), {})->index == 0);
  // A pinned index is not looked at; the port that lacks it has none.
  CHECK(nccl_gid(table({"10.0.0.1/24"}), {.gid_index = 1})->index == 1);
  CHECK_FALSE(nccl_gid(table({}), {.gid_index = 3}));
}

TEST_CASE("what is a subnet to NCCL: 24 bits of IPv4 whatever the interfaces say, 64 of IPv6; link-local counts not") {
  CHECK(nccl_same_subnet(gid("10.0.0.1"), gid("10.0.0.200"), 24));
  CHECK_FALSE(nccl_same_subnet(gid("10.0.0.1"), gid("10.0.0.200"), 25));
  CHECK_FALSE(nccl_same_subnet(gid("10.0.0.1"), gid("fd00::1"), 24));
  CHECK(nccl_same_subnet(gid("fd00:1::1"), gid("fd00:1::2"), 24));
  CHECK_FALSE(nccl_same_subnet(gid("fd00:1::1"), gid("fd00:2::1"), 24));
  CHECK_FALSE(nccl_is_valid(gid("fe80::1")));
  CHECK_FALSE(nccl_is_valid(RawGid{}));
  CHECK(nccl_is_valid(gid("169.254.1.1")));
}

TEST_CASE("a device is taken where all its functions share a subnet with the peer; else the wanted one stays") {
  const std::vector<NcclGids> devices{
      {gid("10.0.0.1")}, {gid("10.0.1.1")}, {gid("10.0.0.1"), gid("10.0.1.1")}, {gid("fe80::1")}};
  CHECK(nccl_find_device(devices, {gid("10.0.1.2")}, 0, 24) == 1);
  CHECK(nccl_find_device(devices, {gid("10.0.0.2")}, 0, 24) == 0);
  // A fused device of which one function fits is not kept, and one whose functions all fit is.
  CHECK(nccl_find_device(devices, {gid("10.0.1.2")}, 2, 24) == 1);
  CHECK(nccl_find_device(devices, {gid("10.0.1.2"), gid("10.0.0.2")}, 2, 24) == 2);
  CHECK(nccl_find_device(devices, {gid("10.0.7.2")}, 2, 24) == 2);
  CHECK(nccl_find_device(devices, {gid("fe80::2")}, 3, 24) == 3);
  // A handle has room for two GIDs; without the setting they are not compared.
  const NcclGids three{gid("10.0.8.1"), gid("10.0.9.1"), gid("10.0.1.2")};
  CHECK(nccl_connector_device(devices, three, 0, {.subnet_aware = true}) == 0);
  CHECK(nccl_acceptor_device(devices, three, 0, {.subnet_aware = true}) == 1);
  CHECK(nccl_connector_device(devices, {gid("10.0.1.2")}, 0, {}) == 0);
}

TEST_CASE("fused are the functions of one card, and no others") {
  Cluster cluster;
  cluster.nodes.resize(2);
  for (Node& node : cluster.nodes) {
    for (const char* pci : {"/sys/devices/pci0000:00/0000:01:00.0", "/sys/devices/pci0000:00/0000:01:00.1",
                            "/sys/devices/pci0000:00/0000:02:00.0", "/sys/devices/pci0000:00/0000:03:00.0"}) {
      Nic nic;
      nic.pci_path = pci;
      node.nics.push_back(nic);
    }
  }
  for (int nic = 0; nic < 3; ++nic) cluster.cables.push_back({.name = "", .a = {0, nic}, .b = {1, nic}});
  const NcclDevices fused = nccl_devices(cluster, 0, {});
  CHECK(fused.devices == std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1}});  // the fourth has no link
  CHECK(fused.channels == std::vector<int>{3, 2});
  CHECK(nccl_devices(cluster, 0, {.merge_nics = false}).channels == std::vector<int>{0, 1, 2});
}

}  // namespace routing_rules_test
