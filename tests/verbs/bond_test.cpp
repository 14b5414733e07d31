// Bonds as a verbs program sees them: models/lan/bond.h says what is relied on.
#include "models/lan/bond.h"

#include <doctest/doctest.h>

#include "sim/engine/network.h"
#include "sim/fault/inject.h"
#include "tests/support/bonded.h"
#include "tests/verbs/pair.h"

namespace bond_test {

using namespace meshbed;
using namespace meshbed::test;
using models::BondMode;
using sim::World;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;
constexpr std::uint32_t kMessage = 1U << 20U;
constexpr Picoseconds kTimeout = Picoseconds{4'096'000} << 14U;  // of Setup

PairOptions pair(BondMode mode, bool lag) {
  return {.cluster = bonded(ring_cluster(2, kRate, kPicosecondsPerMicrosecond, 2), mode, lag)};
}

/// As a fault does it: both ends of the cable lose their carrier. The caller goes on a picosecond later.
void cut(int nic) {
  const auto call = [](void*, std::uint64_t function) {
    for (const int node : {0, 1}) sim::set_link(World::get(), {node, static_cast<int>(function)}, false);
  };
  World::get().after(0, 0, call, nullptr, static_cast<std::uint64_t>(nic));
  meshbed::test::sleep(Picoseconds{1});
}

std::uint64_t bytes_over(const std::string& link) {
  for (const sim::Link& each : World::get().network().links()) {
    if (each.name == link) return each.bytes_out;
  }
  FAIL_CHECK("no link " << link);
  return 0;
}

ibv_port_state port_state(const Side& side) {
  ibv_port_attr attr{};
  CHECK(ibv_query_port(side.context, 1, &attr) == 0);
  return attr.state;
}

}  // namespace

TEST_CASE("a RoCE LAG is one device, and its first function's cable carries an active-backup bond") {
  run_pair(pair(BondMode::kActiveBackup, true), [](Side& side) {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    CHECK(count == 1);
    CHECK(std::string(ibv_get_device_name(devices[0])) == "mlx5_bond_0");
    ibv_free_device_list(devices);
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, kMessage) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(bytes_over("node0/rocep1s0f0>node1/rocep1s0f0") > kMessage);
    CHECK(bytes_over("node0/rocep1s0f1>node1/rocep1s0f1") == 0);
  });
}

TEST_CASE(
    "the active cable is cut: the port stays up, and the queue pair goes on over the other after bonding looked") {
  for (const BondMode mode : {BondMode::kActiveBackup, BondMode::k8023ad}) {
    run_pair(pair(mode, true), [](Side& side) {
      if (side.index != 0) return;
      CHECK(side.post_write(1, 0, kMessage) == 0);
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      const bool by_first = bytes_over("node0/rocep1s0f0>node1/rocep1s0f0") > kMessage;
      const std::string other = by_first ? "node0/rocep1s0f1>node1/rocep1s0f1" : "node0/rocep1s0f0>node1/rocep1s0f0";
      CHECK(bytes_over(other) == 0);
      cut(by_first ? 0 : 1);
      CHECK(port_state(side) == IBV_PORT_ACTIVE);
      const Picoseconds start = now();
      CHECK(side.post_write(2, 0, kMessage) == 0);
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      // Tries at once and after one timeout go nowhere; the one after the second comes later than bonding's look.
      CHECK(now() - start > models::kBondLookPs);
      CHECK(now() - start > 2 * kTimeout);
      CHECK(now() - start < 3 * kTimeout);
      CHECK(bytes_over(other) > kMessage);
      CHECK(port_state(side) == IBV_PORT_ACTIVE);
    });
  }
}

TEST_CASE("two cards: the active one's connections die with its cable, and the other one gets the bond's GIDs") {
  run_pair(pair(BondMode::kActiveBackup, false), [](Side& side) {
    if (side.index != 0) return;
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    CHECK(count == 2);
    const models::Node& node = World::get().node_at(0);
    const std::vector<models::IpPrefix> addresses = node.nics[0].addresses;
    CHECK(node.nics[1].gids.empty());
    cut(0);
    CHECK(port_state(side) == IBV_PORT_DOWN);
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(node.nics[0].addresses.empty());
    CHECK(node.nics[0].gids.empty());
    CHECK(node.nics[1].addresses == addresses);
    CHECK_FALSE(node.nics[1].gids.empty());
  });
}

TEST_CASE("a new address goes to the function that has the old one by now") {
  run_pair(pair(BondMode::kActiveBackup, false), [](Side& side) {
    if (side.index != 0) return;
    cut(0);
    meshbed::test::sleep(2 * models::kBondLookPs);
    const models::Node& node = World::get().node_at(0);
    CHECK(node.nics[1].addresses.size() == 1);
    if (node.nics[1].addresses.empty()) return;
    const auto call = [](void*, std::uint64_t) {
      const models::IpPrefix old = World::get().node_at(0).nics[1].addresses[0];
      models::IpPrefix fresh = old;
      fresh.address.bytes[3] = 77;
      sim::change_address(World::get(), {0, 0}, old, fresh);
    };
    World::get().after(0, 0, call, nullptr, 0);
    meshbed::test::sleep(Picoseconds{1});
    CHECK(node.nics[0].addresses.empty());
    CHECK(node.nics[0].gids.empty());
    CHECK(node.nics[1].addresses.back().address.bytes[3] == 77);
  });
}

}  // namespace bond_test
