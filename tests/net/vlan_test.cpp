// Ports whose addresses lie on VLAN interfaces: the plugin takes the interface's GIDs, which stand behind the netdev's,
// and speaks by the interface where only its name says where to.
#include <doctest/doctest.h>

#include "models/gid_table.h"
#include "tests/net/failover_streams.h"

namespace vlan_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

models::Cluster in_vlan(models::Cluster cluster, std::uint16_t vlan) {
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    auto& nics = cluster.nodes[node].nics;
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      nics[nic].vlan = vlan;
      nics[nic].gids =
          models::linux_gid_table({static_cast<int>(node), static_cast<int>(nic)}, nics[nic].addresses, vlan);
    }
  }
  return cluster;
}

/// 192.168.(100+i).h/24 becomes fd00:(100+i)::h/64.
models::Cluster with_ipv6(models::Cluster cluster) {
  for (models::Node& node : cluster.nodes) {
    for (models::Nic& nic : node.nics) {
      const auto& bytes = nic.addresses.front().address.bytes;
      nic.addresses = {
          *models::read_prefix("fd00:" + std::to_string(bytes[2]) + "::" + std::to_string(bytes[3]) + "/64")};
    }
  }
  return cluster;
}

void send_five_bytes(MeshRank& rank, const Comms& comms, bool sends) {
  void* comm = sends ? comms.send : comms.receive;
  Buffer buffer = rank.buffer(comm, 5, 3);
  CHECK(rank.finish(sends ? rank.send(comm, buffer, 5) : rank.receive(comm, buffer)) == 5);
  rank.release(comm, buffer);
}

}  // namespace

TEST_CASE("over VLAN interfaces the plugin takes their address' GID, at index 5, and names the interface") {
  const auto result = run_mesh(in_vlan(pair_cluster(2), 100), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    send_five_bytes(rank, comms, rank.rank() == 0);
    CHECK(count(rank.infos(), "(index 5, ") >= 2);
    CHECK(count(rank.infos(), "enp1s0f0np0.100 ") >= 1);
    CHECK(rank.warnings().empty());
    rank.meet("passed", 2);
    rank.close(comms);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("relays are found by IPv6 multicasts, which go out by the VLAN interface") {
  const auto result = run_mesh(in_vlan(with_ipv6(line_cluster(3)), 100), [](MeshRank& rank) {
    if (rank.rank() != 1) {
      const Comms comms = rank.connect_both(2 - rank.rank(), 0);
      CHECK(count(rank.infos(), "no subnet shared with the peer: through") >= 1);
      send_five_bytes(rank, comms, rank.rank() == 0);
      rank.meet("passed", 2);
      rank.close(comms);
    }
    rank.meet("end", 3);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace vlan_test
