// VLAN interfaces on a port: the GIDs of eth0.100 stand in the port's table, their packets have a tag, and only the
// same VLAN's interfaces answer (Linux roce_gid_mgmt.c, rdma_read_gid_l2_fields; IEEE 802.1Q).
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "models/gid_table.h"
#include "models/link.h"
#include "tests/verbs/pair.h"

namespace vlan_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;
constexpr int kVlanLinkLocal = 3, kVlanAddress = 5;  // RoCE v2, in linux_gid_table's order

void put_in_vlan(models::Nic& nic, models::PortRef port, std::uint16_t vlan) {
  nic.vlan = vlan;
  nic.gids = models::linux_gid_table(port, nic.addresses, vlan);
}

/// Two nodes on one cable, or on one switch.
PairOptions in_vlans(models::Cluster cluster, std::uint16_t left, std::uint16_t right, ibv_qp_state until) {
  PairOptions options;
  options.cluster = std::move(cluster);
  put_in_vlan(options.cluster.nodes[0].nics[0], {0, 0}, left);
  put_in_vlan(options.cluster.nodes[1].nics[0], {1, 0}, right);
  options.configure = [=](Setup& setup, int index) {
    setup.gid_index = (index == 0 ? left : right) != 0 ? kVlanAddress : kVlanAddress - 2;
    setup.until = until;
  };
  return options;
}

/// ibv_modify_qp to RTR from GID `own` to the peer's GID `theirs`, by their places in the tables.
int connect_by(const Side& side, int own, int theirs) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = side.peer().qp->qp_num;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  const auto& gids = sim::World::get().node_at(1 - side.index).nics[0].gids;
  const models::RawGid& gid = gids[static_cast<std::size_t>(theirs)].gid;
  std::copy(gid.begin(), gid.end(), attr.ah_attr.grh.dgid.raw);
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(own);
  return ibv_modify_qp(side.qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

}  // namespace

TEST_CASE("GID entries name the interface that they belong to: the netdev's, then the VLAN interface's") {
  run_pair(in_vlans(ring_cluster(2), 100, 100, IBV_QPS_INIT), [](Side& side) {
    ibv_gid_entry table[8]{};
    CHECK(ibv_query_gid_table(side.context, table, 8, 0) == 6);
    // 1: lo, 2: the NIC, 3: the management port.
    for (int index = 0; index < 6; ++index) CHECK(table[index].ndev_ifindex == (index < 2 ? 2U : 4U));
    CHECK(table[1].gid.global.interface_id == table[kVlanLinkLocal].gid.global.interface_id);
    CHECK(table[kVlanAddress].gid.raw[12] == 192);
  });
}

TEST_CASE("each packet of a VLAN is four bytes longer on the wire") {
  run_pair(in_vlans(ring_cluster(2), 100, 100, IBV_QPS_RTS), [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 3 * 4096) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    const std::uint64_t wire_bytes = models::wire_bytes(3 * 4096, 4096, models::kRethBytes) + 3 * 4;
    CHECK(now() - start == wire_time_ps(wire_bytes, kRate) + 2 * kPicosecondsPerMicrosecond);
  });
}

TEST_CASE("only interfaces of the same VLAN answer, on a cable as on a switch") {
  for (const auto& cluster : {ring_cluster(2), switch_cluster(2)}) {
    run_pair(in_vlans(cluster, 100, 200, IBV_QPS_INIT), [](Side& side) {
      if (side.index != 0) return;
      CHECK(connect_by(side, kVlanAddress, kVlanAddress) == ETIMEDOUT);
      CHECK(connect_by(side, kVlanLinkLocal, kVlanLinkLocal) == ETIMEDOUT);
      CHECK(side.state() == IBV_QPS_INIT);
      CHECK(connect_by(side, 1, 1) == 0);  // the netdevs below, which have no tag, do reach one another
    });
    run_pair(in_vlans(cluster, 100, 100, IBV_QPS_INIT), [](Side& side) {
      if (side.index != 0) return;
      CHECK(connect_by(side, kVlanLinkLocal, kVlanLinkLocal) == 0);
    });
  }
}

TEST_CASE("a VLAN interface and a netdev without one do not reach one another, though they share a subnet") {
  run_pair(in_vlans(ring_cluster(2), 100, 0, IBV_QPS_INIT), [](Side& side) {
    if (side.index != 0) return;
    CHECK(connect_by(side, kVlanAddress, kVlanAddress - 2) == ETIMEDOUT);
    CHECK(connect_by(side, 1, 1) == 0);
  });
}

}  // namespace vlan_test
