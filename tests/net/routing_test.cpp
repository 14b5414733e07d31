// Which NIC reaches which address: truth tables of the topologies that people cable.
#include "plugin/net/connect/routing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/net/addresses.h"

namespace routing_test {

using namespace meshbed;
using namespace meshbed::net;
using test::as_peer;
using test::nic;

namespace {

using Node = std::vector<Nic>;

std::string cable(int number, int end) {
  return "192.168." + std::to_string(number) + "." + std::to_string(end) + "/24";
}

/// Three nodes, a cable per pair: 100 between A and B, 101 between B and C, 102 between A and C.
std::array<Node, 3> triangle() {
  return {Node{nic("a0", {cable(100, 1)}), nic("a1", {cable(102, 1)})},
          Node{nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 1)})},
          Node{nic("c0", {cable(101, 2)}), nic("c1", {cable(102, 2)})}};
}

/// A{100,103} B{100,101} C{101,102} D{102,103}.
std::array<Node, 4> ring4() {
  return {Node{nic("a0", {cable(100, 1)}), nic("a1", {cable(103, 1)})},
          Node{nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 1)})},
          Node{nic("c0", {cable(101, 2)}), nic("c1", {cable(102, 1)})},
          Node{nic("d0", {cable(102, 2)}), nic("d1", {cable(103, 2)})}};
}

Result<Route> route(const Node& from, const Node& to, int dev = 0, int peer_dev = 0) {
  const auto peer = as_peer(to);
  return choose_route({.nics = &from, .peer = peer, .dev = dev, .peer_dev = peer_dev});
}

}  // namespace

TEST_CASE("triangle: whatever device is asked for on either side, the cable that exists is taken") {
  auto nodes = triangle();
  for (int reversed = 0; reversed < 8; ++reversed) {
    auto shuffled = nodes;
    for (std::size_t node = 0; node < 3; ++node) {
      if ((reversed >> node & 1) != 0) std::reverse(shuffled[node].begin(), shuffled[node].end());
    }
    for (std::size_t from = 0; from < 3; ++from) {
      for (std::size_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        for (int dev = 0; dev < 2; ++dev) {
          for (int peer_dev = 0; peer_dev < 2; ++peer_dev) {
            const auto chosen = route(shuffled[from], shuffled[to], dev, peer_dev);
            REQUIRE(chosen);
            CHECK(subnet_text(chosen->local) == subnet_text(chosen->remote.prefix));
            CHECK(chosen->shared_bits == 24);
            CHECK(chosen->overridden == (chosen->nic != dev));
          }
        }
      }
    }
  }
}

TEST_CASE("ring of four: neighbours connect, the diagonal is refused with both sides' subnets and the missing path") {
  const auto nodes = ring4();
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      const auto chosen = route(nodes[from], nodes[to]);
      const bool adjacent = (from + 1) % 4 == to || (to + 1) % 4 == from;
      CHECK(chosen.has_value() == adjacent);
      if (adjacent) continue;
      CHECK(chosen.error().code == ErrorCode::kUnreachable);
      const std::string& text = chosen.error().text;
      for (const Nic& mine : nodes[from]) {
        CHECK(text.find(subnet_text(mine.addresses[0]) + " on " + mine.device_name) != std::string::npos);
      }
      for (const Nic& theirs : nodes[to]) CHECK(text.find(subnet_text(theirs.addresses[0])) != std::string::npos);
      CHECK(text.find("no shared subnet: a cable or a relay is needed") != std::string::npos);
    }
  }
}

TEST_CASE("D26: two rails: each channel stays on the device that it asks for") {
  const Node left{nic("a0", {cable(100, 1)}), nic("a1", {cable(101, 1)})};
  const Node right{nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 2)})};
  for (int dev = 0; dev < 2; ++dev) {
    const auto chosen = route(left, right, dev, dev);
    REQUIRE(chosen);
    CHECK(chosen->nic == dev);
    CHECK(chosen->remote.nic == dev);
    CHECK_FALSE(chosen->overridden);
  }
}

TEST_CASE("devices without a cable to the peer spread over the cables that there are") {
  // Devices 0 and 1 lead elsewhere, 2 and 3 both lead to the peer.
  const Node from{nic("a0", {cable(10, 1)}), nic("a1", {cable(11, 1)}), nic("a2", {cable(100, 1)}),
                  nic("a3", {cable(101, 1)})};
  const Node to{nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 2)})};
  std::set<int> used;
  for (int dev = 0; dev < 2; ++dev) {
    const auto chosen = route(from, to, dev, 7);
    REQUIRE(chosen);
    CHECK(chosen->overridden);
    used.insert(chosen->nic);
  }
  CHECK(used == std::set<int>{2, 3});
}

TEST_CASE("one switch: the asked device, and the peer's listening device, are honoured") {
  const Node from{nic("a0", {"10.0.0.1/24"}), nic("a1", {"10.0.0.2/24"})};
  const Node to{nic("b0", {"10.0.0.3/24"}), nic("b1", {"10.0.0.4/24"})};
  for (int dev = 0; dev < 2; ++dev) {
    for (int peer_dev = 0; peer_dev < 2; ++peer_dev) {
      const auto chosen = route(from, to, dev, peer_dev);
      REQUIRE(chosen);
      CHECK(chosen->nic == dev);
      CHECK(chosen->remote.nic == peer_dev);
    }
  }
}

TEST_CASE("the longest shared prefix wins where the asked device does not reach the peer") {
  const Node from{nic("elsewhere", {cable(1, 1)}), nic("wide", {"10.1.0.1/16"}), nic("narrow", {"10.2.3.1/24"})};
  const Node to{nic("b0", {"10.1.0.2/16"}), nic("b1", {"10.2.3.2/24"})};
  const auto chosen = route(from, to, 0);
  REQUIRE(chosen);
  CHECK(chosen->nic == 2);
  CHECK(chosen->shared_bits == 24);
}

TEST_CASE("a NIC whose wide prefix is shadowed by another NIC's longer one is not taken, as the kernel would not") {
  const Node from{nic("wide", {"10.0.0.1/8"}), nic("narrow", {"10.1.0.1/16"})};
  const Node to{nic("b0", {"10.1.0.2/8"})};
  // The peer's /8 sees both; our route to 10.1.0.2 goes out through the /16.
  for (int dev = 0; dev < 2; ++dev) {
    const auto chosen = route(from, to, dev);
    REQUIRE(chosen);
    CHECK(chosen->nic == 1);
  }
}

TEST_CASE("D27: a link that is down is never taken, and the refusal says that it is down") {
  Node from{nic("a0", {cable(100, 1)}), nic("a1", {cable(101, 1)})};
  const Node to{nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 2)})};
  from[0].link_up = false;
  const auto other = route(from, to, 0);
  REQUIRE(other);
  CHECK(other->nic == 1);
  CHECK(other->overridden);

  from[1].link_up = false;
  const auto none = route(from, to, 0);
  REQUIRE_FALSE(none);
  CHECK(none.error().text.find("link down") != std::string::npos);
  CHECK(none.error().text.find("look at the cable") != std::string::npos);
}

TEST_CASE("D30: of two GIDs with one address RoCE v2 is taken, or v1 where that is asked for") {
  const Node from{nic("a0", {cable(100, 1)})};
  const auto peer = as_peer({nic("b0", {cable(100, 2)})});
  RouteRequest request{.nics = &from, .peer = peer};
  CHECK(choose_route(request)->gid.type == verbs::GidType::kRoceV2);
  CHECK(choose_route(request)->gid.index == 1);
  request.gids.roce_v2 = false;
  CHECK(choose_route(request)->gid.type == verbs::GidType::kRoceV1);
  request.gids.forced_index = 1;
  CHECK(choose_route(request)->gid.index == 1);
}

TEST_CASE("D30: the second address of a NIC and IPv6 addresses reach peers, too") {
  const Node from{nic("a0", {"10.9.9.1/24", "192.168.7.1/30", "fd00:7::1/64"})};
  const auto second = route(from, {nic("b0", {"192.168.7.2/30"})});
  REQUIRE(second);
  CHECK(to_text(second->local) == "192.168.7.1/30");
  CHECK(second->gid.index == 3);
  const auto sixth = route(from, {nic("b0", {"fd00:7::2/64"})});
  REQUIRE(sixth);
  CHECK(to_text(sixth->local) == "fd00:7::1/64");
  CHECK(sixth->gid.gid == from[0].addresses[2].address.bytes);
}

TEST_CASE("prefixes that disagree are no path, unless each still holds the other") {
  CHECK_FALSE(route({nic("a0", {"10.0.0.1/24"})}, {nic("b0", {"10.0.0.200/26"})}));
  CHECK(route({nic("a0", {"10.0.0.1/24"})}, {nic("b0", {"10.0.0.2/26"})})->shared_bits == 24);
}

TEST_CASE("a wrong prefix length is named as such, with both addresses and what to change, from either end") {
  const Node wide{nic("a0", {"10.0.0.1/24"})}, narrow{nic("b0", {"10.0.0.200/26"})};
  const std::string remedy =
      " overlap but have different prefix lengths: set the same length at both ends, or, where no cable joins them, "
      "subnets that do not overlap";
  const std::string from_wide = route(wide, narrow).error().text, from_narrow = route(narrow, wide).error().text;
  CHECK_MESSAGE(
      from_wide.find("the subnets of 10.0.0.1/24 on a0 and the peer's 10.0.0.200/26" + remedy) != std::string::npos,
      from_wide);
  CHECK_MESSAGE(
      from_narrow.find("the subnets of 10.0.0.200/26 on b0 and the peer's 10.0.0.1/24" + remedy) != std::string::npos,
      from_narrow);
  CHECK(from_wide.find("a cable or a relay is needed") == std::string::npos);
}

TEST_CASE("an address without a GID is no path, and the refusal says so") {
  Node from{nic("a0", {cable(100, 1)})};
  from[0].gids.clear();
  const auto chosen = route(from, {nic("b0", {cable(100, 2)})});
  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().text.find("no usable GID for 192.168.100.1") != std::string::npos);
}

TEST_CASE("a GID index that is set and holds no GID is named, not the GIDs") {
  const Node from{nic("a0", {cable(100, 1)})}, to{nic("b0", {cable(100, 2)})};
  const auto peer = as_peer(to);
  const auto chosen = choose_route({.nics = &from, .peer = peer, .gids = {.forced_index = 9}});
  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().text.find("for 192.168.100.1 on a0 at NCCL_IB_GID_INDEX=9: leave it unset") !=
        std::string::npos);
}

TEST_CASE("every shared subnet whose link is down is named") {
  Node from{nic("a0", {cable(100, 1)}), nic("a1", {cable(101, 1)})};
  from[0].link_up = from[1].link_up = false;
  const auto chosen = route(from, {nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 2)})});
  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().text.find("the shared subnet 192.168.100.0/24 on a0 and 192.168.101.0/24 on a1 has its link "
                                 "down") != std::string::npos);
}

TEST_CASE("an interface in the peer's subnet that belongs to no port in use is named") {
  const auto peer = as_peer({nic("b0", {cable(101, 2)})});
  const Node used{nic("a0", {cable(100, 1)})}, both{nic("a0", {cable(100, 1)}), nic("a1", {cable(101, 1)})};
  const std::vector<InterfaceAddress> interfaces{{.netdev = used[0].netdev, .prefix = used[0].addresses[0]},
                                                 {.netdev = both[1].netdev, .prefix = both[1].addresses[0]}};
  const std::string text = left_out_text(interfaces, used, peer);
  CHECK_MESSAGE(text.find("; 192.168.101.0/24 is on " + both[1].netdev + " here, which belongs to no port in use") == 0,
                text);
  CHECK(left_out_text(interfaces, both, peer).empty());
  CHECK(left_out_text(interfaces, used, as_peer({nic("b0", {cable(102, 2)})})).empty());
}

TEST_CASE("a GID index beyond 255 cannot be named in an address vector and is not taken") {
  Node from{nic("a0", {cable(100, 1)})};
  from[0].gids = {{.index = 300, .type = verbs::GidType::kRoceV2, .gid = from[0].gids[0].gid}};
  CHECK_FALSE(route(from, {nic("b0", {cable(100, 2)})}));
}

TEST_CASE("one address on two nodes is refused; on one node it is the way to itself") {
  const Node node{nic("a0", {cable(100, 1)})};
  const auto peer = as_peer(node);
  RouteRequest request{.nics = &node, .peer = peer};
  REQUIRE_FALSE(choose_route(request));
  CHECK(choose_route(request).error().text.find("both nodes have the address 192.168.100.1") != std::string::npos);
  request.same_node = true;
  CHECK(choose_route(request)->nic == 0);
}

TEST_CASE("all routes: the one that would be chosen first, then every other way, once") {
  const Node from{nic("a0", {cable(100, 1)}), nic("a1", {cable(101, 1)}), nic("a2", {cable(102, 1)})};
  const Node to{nic("b0", {cable(100, 2)}), nic("b1", {cable(101, 2)})};
  const auto peer = as_peer(to);
  for (const int dev : {0, 1, 2}) {
    const RouteRequest request{.nics = &from, .peer = peer, .dev = dev};
    const auto routes = all_routes(request);
    REQUIRE(routes);
    REQUIRE(routes->size() == 2);
    CHECK((*routes)[0].nic == choose_route(request)->nic);
    CHECK((*routes)[1].nic == 1 - (*routes)[0].nic);
  }
  const auto none = as_peer({nic("b0", {cable(109, 2)})});
  CHECK_FALSE(all_routes({.nics = &from, .peer = none}));
}

TEST_CASE("empty tables are refused with words, not with silence") {
  const Node none;
  const auto chosen = route(none, none);
  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().text.find("this node has no RDMA address at all") != std::string::npos);
  CHECK(chosen.error().text.find("the peer has no RDMA address at all") != std::string::npos);
}

}  // namespace routing_test
