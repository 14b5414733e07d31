// Subnet truth: where a queue pair can be connected to. Linux resolves the destination's Ethernet address when a RoCE
// queue pair becomes ready to receive (ib_resolve_eth_dmac); ibv_modify_qp(3) gives its errno.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "sim/engine/network.h"
#include "tests/verbs/pair.h"

namespace route_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

PairOptions unconnected() {
  return {.configure = [](Setup& setup, int) { setup.until = IBV_QPS_INIT; }};
}

/// As unconnected(), on `cluster` and from the third GID of each port.
PairOptions unconnected_from_third_gid(models::Cluster cluster) {
  PairOptions options;
  options.cluster = std::move(cluster);
  options.configure = [](Setup& setup, int) {
    setup.until = IBV_QPS_INIT;
    setup.gid_index = 2;
  };
  return options;
}

union ibv_gid gid_from(const std::string& address) {
  union ibv_gid gid {};
  const auto raw = models::gid_of(*models::parse_ip(address));
  std::copy(raw.begin(), raw.end(), gid.raw);
  return gid;
}

/// ibv_modify_qp to RTR towards `address`; `took` is the time that it lasted.
int connect_to(Side& side, const std::string& address, Picoseconds& took) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = side.peer().qp->qp_num;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid_from(address);
  attr.ah_attr.grh.sgid_index = side.setup.gid_index;
  const Picoseconds before = now();
  const int error = ibv_modify_qp(side.qp, &attr,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  took = now() - before;
  return error;
}

void pull_cable() {
  sim::World::get().network().set_port_up({1, 0}, false);
  sim::port_changed({1, 0});
}

}  // namespace

// Linux rdma_addr_find_l2_eth_by_grh: rdma_resolve_ip with 1000 ms; measured on soft-RoCE: 1.03 s.
TEST_CASE("an address of the cable's subnet that no node has: ETIMEDOUT after one second") {
  run_pair(unconnected(), [](Side& side) {
    Picoseconds took = 0;
    CHECK(connect_to(side, "192.168.100.77", took) == ETIMEDOUT);
    CHECK(took == kPicosecondsPerSecond);
    CHECK(side.state() == IBV_QPS_INIT);  // "none of the attributes will be modified"
    CHECK(connect_to(side, side.index == 0 ? "192.168.100.2" : "192.168.100.1", took) == 0);
    CHECK(took == 0);
  });
}

// The kernel's IPv4 takes it to be on the link: what owners of a mesh see as "error 110".
TEST_CASE("an IPv4 address in no subnet of the interface: ETIMEDOUT, even where another cable leads there") {
  PairOptions options = unconnected();
  options.cluster = ring_cluster(3);
  run_pair(options, [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    // Device 0 of node 0 is the cable to node 1, 192.168.100.0/24; 192.168.102.1 is node 2, on device 1's cable.
    CHECK(connect_to(side, "192.168.102.1", took) == ETIMEDOUT);
    CHECK(took == kPicosecondsPerSecond);
    CHECK(connect_to(side, "10.0.0.2", took) == ETIMEDOUT);  // the management network is no way either
    CHECK(side.state() == IBV_QPS_INIT);
  });
}

// IPv6 needs a route through the interface.
TEST_CASE("an IPv6 address in no subnet of the interface: ENETUNREACH at once; one without an owner: ETIMEDOUT") {
  auto cluster = ring_cluster(2);
  for (std::size_t node = 0; node < 2; ++node) {
    auto& nic = cluster.nodes[node].nics[0];
    const auto prefix = models::read_prefix("fd00:1::" + std::to_string(node + 1) + "/64");
    REQUIRE(prefix);
    nic.addresses.push_back(*prefix);
    nic.gids.push_back({.index = 2, .gid = models::gid_of(prefix->address)});
  }
  run_pair(unconnected_from_third_gid(cluster), [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(connect_to(side, "fd00:2::2", took) == ENETUNREACH);
    CHECK(took == 0);
    CHECK(connect_to(side, "fd00:1::77", took) == ETIMEDOUT);
    CHECK(took == kPicosecondsPerSecond);
    CHECK(connect_to(side, "fd00:1::2", took) == 0);
  });
}

// Soft-RoCE agrees (tests/contract): the interface keeps its routes, and no reply comes.
TEST_CASE("a pulled cable: ETIMEDOUT after one second") {
  run_pair(unconnected(), [](Side& side) {
    if (side.index != 0) return;
    pull_cable();
    Picoseconds took = 0;
    CHECK(connect_to(side, "192.168.100.2", took) == ETIMEDOUT);
    CHECK(took == kPicosecondsPerSecond);
  });
}

// Linux rdma_resolve_ip: neighbours are asked for on the source GID's own interface only (set_addr_netns_by_gid_rcu).
TEST_CASE("a crossed cable: the address exists elsewhere, not at this end: ETIMEDOUT") {
  auto cluster = ring_cluster(3);
  std::swap(cluster.cables[0].b, cluster.cables[1].b);  // node 0's first NIC now ends at node 2
  PairOptions options = unconnected();
  options.cluster = cluster;
  run_pair(options, [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(connect_to(side, "192.168.100.2", took) == ETIMEDOUT);
    CHECK(took == kPicosecondsPerSecond);
  });
}

// Linux rdma_resolve_ip: EINVAL where the two address families differ.
TEST_CASE("source and destination GIDs of two address families: EINVAL") {
  run_pair(unconnected(), [](Side& side) {
    Picoseconds took = 0;
    CHECK(connect_to(side, "fe80::1", took) == EINVAL);
  });
}

// RFC 4291, 2.5.6: link-local addresses hold on one link; Linux addr6_resolve looks on the source GID's interface.
TEST_CASE("link-local GIDs are found at the other end of the cable, and only there") {
  auto cluster = ring_cluster(3);
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < 2; ++nic) {
      const auto address = models::parse_ip("fe80::" + std::to_string(node + 1) + ":" + std::to_string(nic + 1));
      cluster.nodes[node].nics[nic].gids.push_back({.index = 2, .gid = models::gid_of(*address)});
    }
  }
  run_pair(unconnected_from_third_gid(cluster), [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(connect_to(side, "fe80::3:1", took) == ETIMEDOUT);  // node 2, not on this cable
    CHECK(took == kPicosecondsPerSecond);
    CHECK(connect_to(side, "fe80::2:1", took) == 0);  // cable 0 ends at node 1's first NIC
  });
}

// RoCE v1 and v2 are different Ethernet protocols (InfiniBand Architecture, annexes A16 and A17): a port that listens
// for the one does not hear the other, although both GIDs hold the same address.
TEST_CASE("RoCE v1 towards RoCE v2 connects and never delivers: RETRY_EXC_ERR") {
  const auto mixed = [](Setup& setup, int index) {
    setup.gid_index = index == 0 ? 0 : 1;
    setup.timeout = 10;
    setup.retry_cnt = 2;
  };
  run_pair({.configure = mixed}, [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(side.peer().memory[0] == 'B');
  });
}

// InfiniBand Architecture, annex A16: a global route header instead of IP and UDP; bytes: models/link.h.
TEST_CASE("RoCE v1 on both ends delivers, with its larger headers") {
  run_pair({.configure = [](Setup& setup, int) { setup.gid_index = 0; }}, [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 4096) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    const std::uint64_t wire_bytes = 4096 + 94 + 16;  // models/link.h: 94 bytes a packet, RETH
    CHECK(now() - start == wire_time_ps(wire_bytes, 100'000'000'000) + 2 * kPicosecondsPerMicrosecond);
  });
}

TEST_CASE("RoCE v2 over IPv6 has 20 bytes more a packet than over IPv4") {
  auto cluster = ring_cluster(2);
  for (std::size_t node = 0; node < 2; ++node) {
    auto& nic = cluster.nodes[node].nics[0];
    nic.addresses.push_back(*models::read_prefix("fd00:1::" + std::to_string(node + 1) + "/64"));
    nic.gids.push_back({.index = 2, .gid = models::gid_of(nic.addresses.back().address)});
  }
  PairOptions options;
  options.cluster = std::move(cluster);
  options.configure = [](Setup& setup, int) { setup.gid_index = 2; };
  run_pair(options, [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 4096) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    const std::uint64_t wire_bytes = 4096 + 102 + 16;  // 82 bytes a packet over IPv4, and 20; RETH
    CHECK(now() - start == wire_time_ps(wire_bytes, 100'000'000'000) + 2 * kPicosecondsPerMicrosecond);
  });
}

// Linux addr_resolve_neigh: an own address resolves to the own Ethernet address.
TEST_CASE("two queue pairs of one port reach one another within the adapter") {
  auto options = unconnected();
  run_pair(options, [](Side& side) {
    if (side.index != 0) return;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = side.cq;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    Pair loop;
    ibv_qp* qps[2] = {side.qp, ibv_create_qp(side.pd, &init)};
    REQUIRE(qps[1] != nullptr);
    for (int index = 0; index < 2; ++index) {
      Side& end = loop.sides[index];
      end.index = index;
      end.pair = &loop;
      end.setup = side.setup;
      end.context = side.context;
      end.cq = side.cq;
      end.qp = qps[index];
      end.mr = side.mr;
      end.gid = side.gid;
    }
    CHECK(loop.sides[1].to_init() == 0);
    for (Side& end : loop.sides) CHECK(end.to_rtr() == 0);
    for (Side& end : loop.sides) CHECK(end.to_rts() == 0);
    ibv_sge sge = side.sge(0, 64);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = sge.addr + 4096;
    wr.wr.rdma.rkey = side.mr->rkey;
    side.memory[0] = 'L';
    const Picoseconds start = now();
    CHECK(loop.sides[0].post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(side.memory[4096] == 'L');
    CHECK(now() - start == wire_time_ps(64 + 82 + 16, 100'000'000'000));
  });
}

// Linux rdma_resolve_ip: the route's gateway is asked for in the destination's place. ib_resolve_unicast_gid_dmac puts
// the route's hop limit where ibv_modify_qp() was given one (connect_to gives 0).
TEST_CASE("a route by way of a router: the queue pair connects, and a write takes the router's way") {
  PairOptions options = unconnected();
  options.cluster = routed_cluster(2);
  run_pair(options, [](Side& side) {
    Picoseconds took = 0;
    CHECK(connect_to(side, side.index == 0 ? "192.168.101.77" : "192.168.100.77", took) == ETIMEDOUT);
    CHECK(connect_to(side, side.index == 0 ? "192.168.101.2" : "192.168.100.1", took) == 0);
    CHECK(took == 0);
  });
  run_pair({.cluster = routed_cluster(2)}, [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    // Four cables and 500 ns in the router, there and back.
    CHECK(now() - start >= 2 * 4'500'000);
    CHECK(now() - start < 2 * 4'500'000 + kPicosecondsPerMicrosecond);
    CHECK(side.peer().memory[0] == 'A');
  });
}

TEST_CASE("without a route of its own a NIC asks for a foreign address on its cable: ETIMEDOUT") {
  PairOptions options = unconnected();
  options.cluster = routed_cluster(2);
  options.cluster.nodes[0].nics[0].routes.clear();
  run_pair(options, [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(connect_to(side, "192.168.101.2", took) == ETIMEDOUT);
    CHECK(took == kPicosecondsPerSecond);
  });
}

// InfiniBand Architecture, annex A16: RoCE v1 is no IP; annex A17: v2 is.
TEST_CASE("RoCE v1 towards a router connects and never delivers: RETRY_EXC_ERR") {
  const auto v1 = [](Setup& setup, int) {
    setup.gid_index = 0;
    setup.timeout = 10;
    setup.retry_cnt = 2;
  };
  run_pair({.cluster = routed_cluster(2), .configure = v1}, [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(side.peer().memory[0] == 'B');
  });
}

}  // namespace route_test
