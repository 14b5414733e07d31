// What NCCL says of its traffic (setNetAttr) decides whether long messages leave their connection's own cable.
#include <doctest/doctest.h>

#include "plugin/net/process/traffic_hint.h"
#include "tests/net/striped_streams.h"

namespace hint_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

struct Said {
  int peers = -1, flows = -1;  // at most
  std::uint32_t proto = static_cast<std::uint32_t>(-1);
};

void say(MeshRank& rank, const Said& said) {
  nccl::NetAttr attributes{};
  attributes.sendCommAttr = {
      .maxConcurrentPeers = said.peers, .minConcurrentPeers = -1, .maxFlowsPerPeer = said.flows, .minFlowsPerPeer = -1};
  attributes.recvCommAttr = attributes.sendCommAttr;
  attributes.op = attributes.algo = static_cast<std::uint32_t>(-1);
  attributes.proto = said.proto;
  CHECK(rank.net().setNetAttr(rank.context, &attributes) == nccl::kNcclSuccess);
}

/// How many cables a connection on the first of two uses after NCCL said so; `both`: another connection begins on the
/// second. 1 MiB messages, by the time that 64 of them take.
int cables_used(const Said& said, bool both) {
  const auto result = run_mesh(pair_cluster(2), [=](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0, "first");
    const Comms other = both ? rank.connect_both(1 - rank.rank(), 1, "second") : Comms();
    say(rank, said);
    std::vector<Buffer> buffers;
    void* comm = rank.rank() == 0 ? comms.send : comms.receive;
    for (int slot = 0; slot < 8; ++slot) buffers.push_back(rank.buffer(comm, kMiB, 1));
    rank.meet("ready", 2);
    const Picoseconds begun = sim::World::get().now();
    move(rank, comm, buffers, 64);
    // One cable carries 12.5 GB/s.
    const auto took_us = static_cast<double>(sim::World::get().now() - begun) / 1e6;
    if (rank.rank() == 1) report(took_us < 0.55 * 64 * static_cast<double>(kMiB) / 12'500.0 ? "2" : "1");
    for (const Buffer& buffer : buffers) rank.release(comm, buffer);
    rank.meet("moved", 2);
    rank.close(comms);
    if (both) rank.close(other);
    rank.meet("closed", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
  return result.value.empty() ? 0 : std::stoi(result.value);
}

}  // namespace

TEST_CASE("hints: without one, and with few flows, a connection uses both cables") {
  CHECK(cables_used({}, true) == 2);
  CHECK(cables_used({.peers = 1, .flows = 2, .proto = 4}, true) == 2);
  CHECK(cables_used({.proto = 1 | 4}, true) == 2);
}

TEST_CASE("hints: LL alone keeps messages on the connection's own cable") {
  CHECK(cables_used({.proto = 1}, false) == 1);
}

TEST_CASE("hints: more flows or peers than cables keep to their own, where each cable has a connection of its own") {
  CHECK(cables_used({.flows = 3}, true) == 1);
  CHECK(cables_used({.peers = 3}, true) == 1);
  // NCCL has put all of them on one port: the other one would be idle.
  CHECK(cables_used({.flows = 3}, false) == 2);
}

TEST_CASE("hints: how many is many, and what was not said is nothing") {
  net::TrafficHint hint;
  CHECK_FALSE(hint.only_ll());
  CHECK_FALSE(hint.is_many(1));
  net::CommunicatorState said;
  said.send.flows_max = 3;
  hint.note(said);
  CHECK(hint.is_many(2));
  CHECK_FALSE(hint.is_many(3));
  said.proto = 1;
  said.send.flows_max = net::kUnknown;
  hint.note(said);
  CHECK(hint.only_ll());
  CHECK_FALSE(hint.is_many(2));
}

}  // namespace hint_test
