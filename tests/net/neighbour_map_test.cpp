// Chains of cables over other nodes. Subnets of the ancestor's fixtures: ring A{100,103} B{100,101} C{101,102}
// D{102,103}, line A{100} B{100,101} C{101,102} D{102} (its 1.10).
#include "plugin/net/wire/neighbour_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "plugin/base/units.h"
#include "tests/net/addresses.h"

namespace neighbour_map_test {

using namespace meshbed;
using namespace meshbed::net;
using test::as_peer;
using test::nic;

namespace {

/// A node by its subnets: node n has 192.168.SUBNET.n/24.
struct Place {
  std::uint64_t node = 0;
  std::vector<int> subnets;
};

std::vector<Nic> nics_of(const Place& place) {
  std::vector<Nic> nics;
  for (const int subnet : place.subnets) {
    nics.push_back(nic("r" + std::to_string(nics.size()),
                       {"192.168." + std::to_string(subnet) + "." + std::to_string(place.node) + "/24"}));
  }
  return nics;
}

constexpr std::uint16_t port_of(std::uint64_t node) { return static_cast<std::uint16_t>(5000 + node); }

RelayDoor door(std::uint32_t process, std::uint16_t port, std::vector<PeerAddress> addresses,
               std::vector<PortTraffic> traffic = {}, std::int64_t heard_ns = 0) {
  return {.process = process,
          .port = port,
          .traffic = std::move(traffic),
          .heard_ns = heard_ns,
          .addresses = std::move(addresses)};
}

/// The nodes of the chain from `from` to `to`; empty: none. All nodes except `from` have replied.
std::vector<std::uint64_t> chain_of(const std::vector<Place>& places, std::size_t from, std::size_t to, int dev = 0,
                                    int hop_limit = 4) {
  NeighbourMap map;
  for (std::size_t at = 0; at < places.size(); ++at) {
    if (at != from) map.add(places[at].node, door(1, port_of(places[at].node), as_peer(nics_of(places[at]))));
  }
  const std::vector<Nic> own = nics_of(places[from]);
  const auto hops = map.chain({.nics = &own,
                               .node = places[from].node,
                               .target = places[to].node,
                               .target_addresses = as_peer(nics_of(places[to])),
                               .hop_limit = hop_limit,
                               .dev = dev});
  std::vector<std::uint64_t> nodes;
  for (const Hop& hop : hops.value_or(std::vector<Hop>{})) {
    CHECK(hop.port == port_of(hop.node));
    nodes.push_back(hop.node);
  }
  return nodes;
}

using Nodes = std::vector<std::uint64_t>;

const std::vector<Place> kRing{{1, {100, 103}}, {2, {100, 101}}, {3, {101, 102}}, {4, {102, 103}}};
const std::vector<Place> kLine{{1, {100}}, {2, {100, 101}}, {3, {101, 102}}, {4, {102}}};

}  // namespace

TEST_CASE("a ring's diagonal: the two ends of a pair, and the devices of one end, go different ways round") {
  CHECK(chain_of(kRing, 0, 2, 0) == Nodes{2});
  CHECK(chain_of(kRing, 0, 2, 1) == Nodes{4});
  CHECK(chain_of(kRing, 2, 0, 0) == Nodes{4});
  CHECK(chain_of(kRing, 2, 0, 1) == Nodes{2});
  CHECK(chain_of(kRing, 1, 3, 0) == Nodes{1});
  CHECK(chain_of(kRing, 3, 1, 0) == Nodes{3});
}

TEST_CASE("a ring of four, however its nodes are numbered: each direction of each cable carries one of the diagonals") {
  std::vector<std::uint64_t> numbers{1, 2, 3, 4};
  do {
    std::vector<Place> ring = kRing;
    for (std::size_t at = 0; at < ring.size(); ++at) ring[at].node = numbers[at];
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> used;
    for (std::size_t from = 0; from < 4; ++from) {
      const Nodes relays = chain_of(ring, from, (from + 2) % 4);
      REQUIRE(relays.size() == 1);
      ++used[{ring[from].node, relays[0]}];
      ++used[{relays[0], ring[(from + 2) % 4].node}];
    }
    CHECK(used.size() == 8);
  } while (std::next_permutation(numbers.begin(), numbers.end()));
}

TEST_CASE("a line: every node between, in order, seen from both ends") {
  CHECK(chain_of(kLine, 0, 2) == Nodes{2});
  CHECK(chain_of(kLine, 0, 3) == Nodes{2, 3});
  CHECK(chain_of(kLine, 3, 0) == Nodes{3, 2});
}

TEST_CASE("D22: the hop limit counts cables, not nodes") {
  CHECK(chain_of(kLine, 0, 3, 0, 3) == Nodes{2, 3});  // three cables
  CHECK(chain_of(kLine, 0, 3, 0, 2).empty());
  std::vector<Place> longer{{1, {100}}, {2, {100, 101}}, {3, {101, 102}}, {4, {102, 103}}, {5, {103}}};
  CHECK(chain_of(longer, 0, 4, 0, 4) == Nodes{2, 3, 4});
  CHECK(chain_of(longer, 0, 4, 0, 3).empty());
}

TEST_CASE("a star: the hub; two disjoint rings: none") {
  const std::vector<Place> star{{1, {100}}, {2, {101}}, {3, {102}}, {9, {100, 101, 102}}};
  CHECK(chain_of(star, 0, 1) == Nodes{9});
  CHECK(chain_of(star, 2, 1) == Nodes{9});
  const std::vector<Place> apart{{1, {100, 102}}, {2, {100, 101}}, {3, {101, 102}},
                                 {4, {103, 105}}, {5, {103, 104}}, {6, {104, 105}}};
  CHECK(chain_of(apart, 0, 4, 0, 8).empty());
}

TEST_CASE("the shortest chain wins over the NIC that was asked for") {
  // 1 - 2 - 5 by subnet 100, and 1 - 3 - 4 - 5 by subnet 110.
  const std::vector<Place> places{{1, {110, 100}}, {2, {100, 101}}, {3, {110, 111}}, {4, {111, 112}}, {5, {101, 112}}};
  CHECK(chain_of(places, 0, 4, 0) == Nodes{2});
}

TEST_CASE("equal chains are spread by the device that was asked for, the same way every time") {
  // All relays stand behind NIC 0, a switch.
  const std::vector<Place> places{{1, {100}}, {2, {100, 101}}, {3, {100, 101}}, {4, {100, 101}}, {5, {101}}};
  CHECK(chain_of(places, 0, 4, 0) == Nodes{2});
  CHECK(chain_of(places, 0, 4, 1) == Nodes{3});
  CHECK(chain_of(places, 0, 4, 2) == Nodes{4});
  CHECK(chain_of(places, 0, 4, 3) == Nodes{2});
}

TEST_CASE("a port that is down relays nothing") {
  NeighbourMap map;
  map.add(2, door(1, 5002, as_peer(nics_of(kRing[1]))));
  map.add(4, door(1, 5004, as_peer(nics_of(kRing[3]))));
  std::vector<Nic> own = nics_of(kRing[0]);
  own[0].link_up = false;
  const auto hops = map.chain(
      {.nics = &own, .node = 1, .target = 3, .target_addresses = as_peer(nics_of(kRing[2])), .hop_limit = 4, .dev = 0});
  REQUIRE(hops);
  CHECK(hops->front().node == 4);
}

TEST_CASE("several processes of a relay take turns; who answers again replaces what it said") {
  NeighbourMap map;
  const auto addresses = as_peer(nics_of(kRing[1]));
  map.add(2, door(7, 5007, {}));
  map.add(2, door(3, 5003, addresses));
  map.add(2, door(7, 5008, addresses));
  REQUIRE(map.nodes().size() == 1);
  CHECK(map.nodes()[0].doors == std::vector<RelayDoor>{door(3, 5003, addresses), door(7, 5008, addresses)});
  const std::vector<Nic> own = nics_of(kRing[0]);
  std::vector<std::uint16_t> ports;
  for (const int dev : {0, 1}) {
    const auto hops = map.chain({.nics = &own,
                                 .node = 1,
                                 .target = 3,
                                 .target_addresses = as_peer(nics_of(kRing[2])),
                                 .hop_limit = 4,
                                 .dev = dev});
    REQUIRE(hops);
    ports.push_back(hops->front().port);
  }
  CHECK(ports == std::vector<std::uint16_t>{5003, 5008});
}

TEST_CASE("processes of a relay that use other NICs relay between other cables, in any order of answers") {
  const auto through = as_peer(nics_of({2, {100, 101}})), aside = as_peer(nics_of({2, {100, 105}}));
  const std::vector<Nic> own = nics_of(kLine[0]);
  const ChainRequest request{
      .nics = &own, .node = 1, .target = 3, .target_addresses = as_peer(nics_of(kLine[2])), .hop_limit = 4};
  for (const bool aside_last : {false, true}) {
    NeighbourMap map;
    if (!aside_last) map.add(2, door(3, 5003, aside));
    map.add(2, door(7, 5007, through));
    if (aside_last) map.add(2, door(3, 5003, aside));
    for (const int dev : {0, 1}) {
      ChainRequest by_device = request;
      by_device.dev = dev;
      const auto hops = map.chain(by_device);
      REQUIRE(hops);
      CHECK(hops->front().port == 5007);
    }
  }
  NeighbourMap apart;  // each has one of the cables: none of them has both
  apart.add(2, door(3, 5003, as_peer(nics_of({2, {100}}))));
  apart.add(2, door(7, 5007, as_peer(nics_of({2, {101}}))));
  CHECK_FALSE(apart.chain(request));
}

namespace {

/// The ring's diagonal from node 1 to node 3, with what is in flight over the cables.
struct Loads {
  std::uint64_t to_2 = 0, to_4 = 0;  // ours
  std::uint64_t from_2_to_3 = 0, from_4_to_3 = 0;
};

struct Diagonal {
  explicit Diagonal(const Loads& loads) {
    map.add(2, door(1, 5002, as_peer(nics_of(kRing[1])), {{address(101, 2), loads.from_2_to_3}}));
    map.add(4, door(1, 5004, as_peer(nics_of(kRing[3])),
                    {{address(102, 4), loads.from_4_to_3}, {address(103, 4), 99 * kMiB}}));
    request = {.nics = &own, .node = 1, .target = 3, .target_addresses = as_peer(nics_of(kRing[2])), .hop_limit = 4};
    request.in_flight_bytes = {loads.to_2, loads.to_4};
    request.threshold_bytes = kMiB;
  }
  static IpAddress address(int subnet, int node) {
    return test::prefix("192.168." + std::to_string(subnet) + "." + std::to_string(node) + "/24").address;
  }
  std::uint64_t first() const { return map.chain(request)->front().node; }

  std::vector<Nic> own = nics_of(kRing[0]);
  NeighbourMap map;
  ChainRequest request;
};

}  // namespace

TEST_CASE(
    "of two equal chains the less loaded one, wherever its load is, where it differs by more than the threshold") {
  CHECK(Diagonal({}).first() == 2);  // in turn
  CHECK(Diagonal({.to_2 = kMiB}).first() == 2);
  CHECK(Diagonal({.to_2 = kMiB + 1024}).first() == 4);
  CHECK(Diagonal({.from_2_to_3 = 2 * kMiB}).first() == 4);
  CHECK(Diagonal({.to_4 = kMiB, .from_2_to_3 = 2 * kMiB}).first() == 2);
  CHECK(Diagonal({.to_4 = 9 * kMiB, .from_2_to_3 = 2 * kMiB}).first() == 2);
  Diagonal in_turn({.to_2 = 9 * kMiB});
  in_turn.request.threshold_bytes = UINT64_MAX;
  CHECK(in_turn.first() == 2);
  in_turn.request.dev = 1;
  CHECK(in_turn.first() == 4);
}

TEST_CASE("a relay's load is that of all its processes") {
  Diagonal diagonal({.from_2_to_3 = kMiB});
  CHECK(diagonal.first() == 2);
  diagonal.map.add(2, door(7, 5007, as_peer(nics_of(kRing[1])), {{Diagonal::address(101, 2), kMiB}}));
  CHECK(diagonal.first() == 4);
  diagonal.map.add(2, door(7, 5007, as_peer(nics_of(kRing[1]))));
  CHECK(diagonal.first() == 2);
}

TEST_CASE("our own node's other processes load its ports, and are no relays") {
  Diagonal diagonal({.to_2 = kMiB});
  CHECK(diagonal.first() == 2);
  diagonal.map.add(1, door(7, 5007, as_peer(diagonal.own), {{Diagonal::address(100, 1), kMiB}}));
  CHECK(diagonal.first() == 4);
}

TEST_CASE("who answered last too long ago is forgotten, with its loads, and a node with its last process") {
  Diagonal diagonal({});
  const auto addresses = as_peer(nics_of(kRing[1]));
  diagonal.map = {};
  diagonal.map.add(4, door(1, 5004, as_peer(nics_of(kRing[3])), {}, 60));
  diagonal.map.add(2, door(1, 5002, addresses, {}, 50));
  diagonal.map.add(2, door(7, 5007, addresses, {{Diagonal::address(101, 2), 2 * kMiB}}, 40));
  diagonal.map.forget_before(40);
  diagonal.map.forget_loads_before(40);
  CHECK(diagonal.first() == 4);
  NeighbourMap without_load = diagonal.map;
  without_load.forget_loads_before(41);
  CHECK(without_load.nodes()[0].doors.size() == 2);
  CHECK(without_load.chain(diagonal.request)->front().node == 2);
  diagonal.map.forget_before(41);
  REQUIRE(diagonal.map.nodes().size() == 2);
  CHECK(diagonal.map.nodes()[0].doors.size() == 1);
  CHECK(diagonal.first() == 2);
  diagonal.map.forget_before(60);
  REQUIRE(diagonal.map.nodes().size() == 1);
  CHECK(diagonal.first() == 4);
}

}  // namespace neighbour_map_test
