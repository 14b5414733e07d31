// Peers behind a router: which NIC is taken when, by the pure rules and by the plugin.
#include <doctest/doctest.h>

#include <algorithm>

#include "plugin/net/connect/routing.h"
#include "sim/engine/world.h"
#include "tests/net/addresses.h"
#include "tests/net/mesh_ranks.h"

namespace routed_test {

using namespace meshbed;
using namespace meshbed::net;
using sim::OutcomeKind;
using test::as_peer;
using test::Buffer;
using test::Comms;
using test::MeshRank;
using test::prefix;
using test::routed_cluster;
using test::run_mesh;
using test::with;
using Node = std::vector<net::Nic>;

namespace {

/// What `from` has a route to: "net_a0" by way of 192.168.100.254 to 192.168.101.0/24, and so on.
net::GatewayRoute by(const std::string& netdev, const std::string& destination) {
  return {.netdev = netdev, .destination = prefix(destination), .gateway = prefix("192.168.100.254/24").address};
}

Result<Route> route(const Node& from, const Node& to, const std::vector<net::GatewayRoute>& table, int dev = 0,
                    int peer_dev = 0, bool all = false) {
  const auto peer = as_peer(to);
  return choose_route({.nics = &from,
                       .peer = peer,
                       .dev = dev,
                       .peer_dev = peer_dev,
                       .routed = RoutedPairs{.all = all, .table = table}});
}

/// Sends one message each way and checks it.
void ping(MeshRank& rank, const Comms& comms) {
  const Buffer out = rank.buffer(comms.send, 200'000, 8);
  Buffer in = rank.buffer(comms.receive, 200'000, 8);
  const std::vector<std::uint8_t> expected = in.bytes;
  std::fill(in.bytes.begin(), in.bytes.end(), std::uint8_t{0});
  void* receive = rank.receive(comms.receive, in);
  void* send = rank.send(comms.send, out, 200'000);
  CHECK(rank.finish(receive) == 200'000);
  CHECK(rank.finish(send) == 200'000);
  CHECK(in.bytes == expected);
  rank.release(comms.send, out);
  rank.release(comms.receive, in);
}

/// What a rank says when it cannot reach its peer on the other switch.
void refused(const models::Cluster& cluster, const std::string& why) {
  run_mesh(cluster, [&](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    if (rank.rank() == 0) {
      test::HandleBytes handle = rank.look_up("1");
      void* send = nullptr;
      int result = nccl::kNcclSuccess;
      while (send == nullptr && result == nccl::kNcclSuccess) {
        result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      }
      CHECK(send == nullptr);
      CHECK_MESSAGE(rank.warnings().find(why) != std::string::npos, rank.warnings());
      rank.forget_warnings();
    }
    rank.meet("done", 2);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

models::Cluster no_relays(models::Cluster cluster) { return with(std::move(cluster), "NCCL_MESH_ENABLE_RELAY", "0"); }

}  // namespace

TEST_CASE(
    "a pair in two subnets is taken where the NIC's interface has a route by a gateway, and no shared one is there") {
  const Node a{test::nic("a0", {"192.168.100.1/24"})}, b{test::nic("b0", {"192.168.101.2/24"})};
  CHECK_FALSE(route(a, b, {}));
  const auto chosen = route(a, b, {by("net_a0", "192.168.101.0/24")});
  REQUIRE(chosen);
  CHECK(chosen->routed);
  CHECK(chosen->nic == 0);
  CHECK(to_text(chosen->remote.prefix.address) == "192.168.101.2");
  CHECK(chosen->gid.type == verbs::GidType::kRoceV2);
  CHECK_FALSE(route(a, b, {by("net_a1", "192.168.101.0/24")}));  // another interface's
  CHECK_FALSE(route(a, b, {by("net_a0", "192.168.102.0/24")}));
  CHECK(route(a, b, {by("net_a0", "0.0.0.0/0")}));
  CHECK(route(a, b, {}, 0, 0, true));  // NCCL_MESH_ALLOW_ROUTED=1
}

TEST_CASE("a shared subnet wins over a router, whatever device is asked for") {
  const Node a{test::nic("a0", {"192.168.100.1/24"}), test::nic("a1", {"10.1.0.1/24"})};
  const Node b{test::nic("b0", {"192.168.101.2/24"}), test::nic("b1", {"10.1.0.2/24"})};
  const auto chosen = route(a, b, {by("net_a0", "0.0.0.0/0")}, 0, 0, true);
  REQUIRE(chosen);
  CHECK_FALSE(chosen->routed);
  CHECK(chosen->nic == 1);
}

TEST_CASE("among routed pairs: the device asked for, the longer route, the peer's device") {
  const Node a{test::nic("a0", {"192.168.100.1/24"}), test::nic("a1", {"192.168.110.1/24"})};
  const Node b{test::nic("b0", {"192.168.101.2/24"}), test::nic("b1", {"192.168.111.2/24"})};
  const std::vector<net::GatewayRoute> table{by("net_a0", "192.168.0.0/16"), by("net_a1", "192.168.0.0/16"),
                                             by("net_a1", "192.168.111.0/24")};
  CHECK(route(a, b, table, 0, 1)->nic == 0);
  CHECK(to_text(route(a, b, table, 0, 1)->remote.prefix.address) == "192.168.111.2");
  CHECK(to_text(route(a, b, table, 0, 0)->remote.prefix.address) == "192.168.101.2");
  CHECK(route(a, b, table, 1, 0)->nic == 1);
  CHECK(to_text(route(a, b, table, 1, 0)->remote.prefix.address) == "192.168.111.2");  // by its longer prefix
}

TEST_CASE("no router is asked with a RoCE v1 GID, for an address on an own cable, or over a port that is down") {
  Node a{test::nic("a0", {"192.168.100.1/24"})};
  const Node b{test::nic("b0", {"192.168.101.2/24"})};
  const std::vector<net::GatewayRoute> table{by("net_a0", "0.0.0.0/0"), by("net_a1", "0.0.0.0/0")};
  a[0].link_up = false;
  CHECK_FALSE(route(a, b, table));
  a[0].link_up = true;
  a[0].gids.pop_back();
  const auto v1 = route(a, b, table);
  REQUIRE_FALSE(v1);
  CHECK(v1.error().text.find("192.168.100.1 on a0 of RoCE v2, which a router needs,") != std::string::npos);
  // The cable to it is down, and the kernel goes there all the same.
  Node near{test::nic("a0", {"192.168.100.1/24"}), test::nic("a1", {"192.168.101.1/24"})};
  near[1].link_up = false;
  CHECK_FALSE(route(near, b, table));
}

TEST_CASE("nothing says that a router joins them: the error names the variable that would") {
  const Node a{test::nic("a0", {"192.168.100.1/24"})}, b{test::nic("b0", {"192.168.101.2/24"})};
  const auto none = route(a, b, {});
  REQUIRE_FALSE(none);
  CHECK(none.error().text.find("no shared subnet: a cable or a relay is needed (or NCCL_MESH_ALLOW_ROUTED=1 on both "
                               "nodes, where a router joins them and no route in the main table shows it)") !=
        std::string::npos);
}

TEST_CASE("four nodes on two switches with a router between: all connect, relays are not needed, there is no warning") {
  const auto result = run_mesh(no_relays(routed_cluster(4)), [](MeshRank& rank) {
    for (int distance = 1; distance < 4; ++distance) {
      // Pairs meet in an order that all agree on.
      const int peer = rank.rank() ^ distance;
      const Comms comms = rank.connect_both(peer, 0, "/" + std::to_string(distance));
      ping(rank, comms);
      rank.close(comms);
    }
    CHECK(rank.warnings().empty());
    CHECK(rank.infos().find("no subnet shared with the peer: through a router, by device 0 (rocep1s0f0)") !=
          std::string::npos);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("routes that a rule keeps in a table of their own: refused, and taken with NCCL_MESH_ALLOW_ROUTED=1") {
  models::Cluster cluster = no_relays(routed_cluster(2));
  for (models::Node& node : cluster.nodes) node.nics[0].policy_routed = true;
  refused(cluster, "or NCCL_MESH_ALLOW_ROUTED=1 on both nodes");
  const auto result = run_mesh(with(cluster, "NCCL_MESH_ALLOW_ROUTED", "1"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    ping(rank, comms);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a default route that leads nowhere: a router is looked for in vain, and relays are found") {
  models::Cluster cluster = test::ring_cluster(4);
  for (models::Node& node : cluster.nodes) {
    for (models::Nic& nic : node.nics) {
      models::IpAddress gateway = nic.addresses[0].address;
      gateway.bytes[3] = 254;
      nic.routes = {{.destination = *models::read_prefix("0.0.0.0/0"), .gateway = gateway}};
    }
  }
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both((rank.rank() + 2) % 4, 0);
    ping(rank, comms);
    rank.close(comms);
    CHECK(rank.infos().find("is not its subnet: does a router join them") != std::string::npos);
    CHECK(rank.infos().find("no router leads to the peer: looking for relays") != std::string::npos);
    CHECK(rank.infos().find("no subnet shared with the peer: through 1 relay") != std::string::npos);
    rank.forget_warnings();
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("NCCL_MESH_ALLOW_ROUTED=0 leaves a routed peer to relays, which there are none of") {
  refused(with(no_relays(routed_cluster(2)), "NCCL_MESH_ALLOW_ROUTED", "0"),
          "no shared subnet: a cable or a relay is needed (relays are off: NCCL_MESH_ENABLE_RELAY=0)");
}

TEST_CASE("a peer that does not take routed callers refuses them, and says what it needs") {
  models::Cluster cluster = no_relays(routed_cluster(2));
  cluster.nodes[1].environment.emplace_back("NCCL_MESH_ALLOW_ROUTED", "0");
  bool told = false;
  run_mesh(cluster, [&](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    test::HandleBytes handle = rank.look_up("1");
    void *send = nullptr, *receive = nullptr;
    if (rank.rank() == 0) {
      int result = nccl::kNcclSuccess;
      while (send == nullptr && result == nccl::kNcclSuccess) {
        result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      }
      told = true;
      CHECK(send == nullptr);
      CHECK_MESSAGE(rank.warnings().find("if a router joins them, enp1s0f0np0 needs a route back by way of it, or this "
                                         "node NCCL_MESH_ALLOW_ROUTED=1") != std::string::npos,
                    rank.warnings());
    }
    // The refused end reads the answer while the other one still serves.
    MeshRank::wait_until([&] {
      if (rank.rank() == 1) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
      return told;
    });
    CHECK(receive == nullptr);
    if (rank.rank() == 1) {
      CHECK(rank.warnings().find("is refused: it is in 192.168.100.0/24") != std::string::npos);
    }
    rank.forget_warnings();
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

}  // namespace routed_test
