// Cables that go while messages are under way, and come back: the real plugin on both ends. Nothing is lost, nothing
// arrives twice, and what cannot be brought back says so.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>

#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/fault/inject.h"
#include "tests/net/mesh_ranks.h"

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr Picoseconds kMs = kPicosecondsPerMillisecond;

/// Two nodes on `cables` cables; NIC i of one leads to NIC i of the other.
models::Cluster pair_cluster(int cables) {
  return ring_cluster(2, 100'000'000'000, kPicosecondsPerMicrosecond, cables);
}

struct CableStep {
  int nic = 0;
  bool up = false;
};

void take_step(void* step, std::uint64_t) {
  const auto* taken = static_cast<const CableStep*>(step);
  for (const int node : {0, 1}) sim::set_link(sim::World::get(), {node, taken->nic}, taken->up);
}

/// The cable between both nodes' NIC `nic` goes or comes back, so long from now. Kept until the process ends.
void set_cable(int nic, bool up, Picoseconds after = 0) {
  static std::deque<CableStep> steps;
  steps.push_back({nic, up});
  sim::World::get().after(after, 0, &take_step, &steps.back(), 0);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Messages of many sizes from rank 0 to rank 1, up to 8 under way at a time; the receiver checks each of them.
struct Stream {
  int messages = 400;
  std::function<void(int message)> before{};  // at the sender, before this one is posted

  static std::size_t size_of(int message) {
    static constexpr std::size_t kSizes[] = {0, 1, 4096, 65536, 300'001, 17, 1U << 20U, 128};
    return kSizes[static_cast<std::size_t>(message) % 8];
  }
  static constexpr std::size_t kRoom = (1U << 20U) + 64;
  static constexpr int kAtOnce = 8;

  void send(MeshRank& rank, const Comms& comms) const {
    std::deque<std::pair<void*, int>> under_way;
    std::vector<Buffer> buffers;
    for (int slot = 0; slot < kAtOnce; ++slot) buffers.push_back(rank.buffer(comms.send, kRoom, 0));
    for (int message = 0; message < messages || !under_way.empty();) {
      if (message < messages && under_way.size() < kAtOnce) {
        if (before) before(message);
        Buffer& buffer = buffers[static_cast<std::size_t>(message % kAtOnce)];
        MeshRank::fill(buffer.bytes, static_cast<std::uint32_t>(message));
        under_way.emplace_back(rank.send(comms.send, buffer, size_of(message)), message);
        ++message;
        continue;
      }
      const auto [request, number] = under_way.front();
      under_way.pop_front();
      CHECK(rank.finish(request) == static_cast<int>(size_of(number)));
    }
    for (const Buffer& buffer : buffers) rank.release(comms.send, buffer);
  }

  void receive(MeshRank& rank, const Comms& comms) const {
    std::deque<std::pair<void*, int>> under_way;
    std::vector<Buffer> buffers;
    for (int slot = 0; slot < kAtOnce; ++slot) buffers.push_back(rank.buffer(comms.receive, kRoom, 0));
    for (int message = 0; message < messages || !under_way.empty();) {
      if (message < messages && under_way.size() < kAtOnce) {
        Buffer& buffer = buffers[static_cast<std::size_t>(message % kAtOnce)];
        std::fill(buffer.bytes.begin(), buffer.bytes.end(), 0xcc);
        under_way.emplace_back(rank.receive(comms.receive, buffer), message);
        ++message;
        continue;
      }
      const auto [request, number] = under_way.front();
      under_way.pop_front();
      const std::size_t size = size_of(number);
      CHECK(rank.finish(request) == static_cast<int>(size));
      const Buffer& buffer = buffers[static_cast<std::size_t>(number % kAtOnce)];
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < buffer.bytes.size(); ++at) {
        const std::uint8_t wanted = at < size ? MeshRank::pattern(at, static_cast<std::uint32_t>(number)) : 0xcc;
        wrong += buffer.bytes[at] != wanted ? 1 : 0;
      }
      CHECK(wrong == 0);
    }
    for (const Buffer& buffer : buffers) rank.release(comms.receive, buffer);
  }
};

/// Rank 0 streams to rank 1; others are there and do nothing.
WorldResult run_stream(const models::Cluster& cluster, const Stream& stream,
                       const std::function<void(MeshRank&)>& after = {}) {
  const int ranks = static_cast<int>(cluster.nodes.size());
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() > 1) {
      rank.meet("closed", ranks);
      return;
    }
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.rank() == 0 ? stream.send(rank, comms) : stream.receive(rank, comms);
    rank.meet("streamed", 2);
    if (after) after(rank);
    rank.close(comms);
    rank.meet("closed", ranks);
  });
}

/// Eight parts of a group from rank 0 to rank 1; between the fourth and the fifth, when four are acknowledged, the
/// cable of both nodes' first NIC goes.
WorldResult run_half_a_group(const models::Cluster& cluster) {
  static constexpr std::size_t kParts = 8;
  const int ranks = static_cast<int>(cluster.nodes.size());
  const auto size_of = [](std::size_t part) { return part == 2 ? std::size_t{0} : 100'000 + part; };
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() > 1) {
      rank.meet("end", ranks);
      return;
    }
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      std::vector<Buffer> out;
      std::vector<void*> requests;
      for (std::size_t part = 0; part < kParts; ++part) {
        out.push_back(rank.buffer(comms.send, 200'000, static_cast<std::uint32_t>(part)));
        if (part == 4) {
          for (std::size_t sent = 0; sent < 4; ++sent) {
            CHECK(rank.finish(requests[sent]) == static_cast<int>(size_of(sent)));
          }
          set_cable(0, false);
        }
        requests.push_back(rank.send(comms.send, out.back(), size_of(part), static_cast<int>(part)));
      }
      for (std::size_t part = 4; part < kParts; ++part) {
        CHECK(rank.finish(requests[part]) == static_cast<int>(size_of(part)));
      }
      for (const Buffer& buffer : out) rank.release(comms.send, buffer);
    } else {
      std::array<Buffer, kParts> in;
      void *data[kParts], *memories[kParts];
      std::size_t sizes[kParts];
      int tags[kParts], received[kParts];
      for (std::size_t part = 0; part < kParts; ++part) {
        in[part] = rank.buffer(comms.receive, 200'000, 77);
        data[part] = in[part].bytes.data();
        memories[part] = in[part].memory;
        sizes[part] = in[part].bytes.size();
        tags[part] = static_cast<int>(part);
      }
      void* request = nullptr;
      while (request == nullptr) {
        CHECK(rank.net().irecv(comms.receive, kParts, data, sizes, tags, memories, nullptr, &request) == 0);
      }
      CHECK(rank.finish(request, received) == static_cast<int>(size_of(0)));
      for (std::size_t part = 0; part < kParts; ++part) {
        CHECK(received[part] == static_cast<int>(size_of(part)));
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < size_of(part); ++at) {
          wrong += in[part].bytes[at] != MeshRank::pattern(at, static_cast<std::uint32_t>(part)) ? 1 : 0;
        }
        CHECK(wrong == 0);
        rank.release(comms.receive, in[part]);
      }
    }
    CHECK(count(rank.warnings(), "taken up again after") == 1);
    rank.close(comms);
    rank.meet("end", ranks);
  });
}

}  // namespace

TEST_CASE(
    "one of two cables goes under traffic: every message arrives once, over the other one, within a millisecond") {
  const auto result = run_stream(pair_cluster(2),
                                 {.before =
                                      [](int message) {
                                        if (message == 100) set_cable(0, false);
                                      }},
                                 [](MeshRank& rank) {
                                   if (rank.rank() == 0) {
                                     CHECK(rank.warnings().find("the port of rocep1s0f0 is down") != std::string::npos);
                                     CHECK(rank.warnings().find("rocep1s0f1 192.168.101.1 QP") != std::string::npos);
                                   }
                                   CHECK(count(rank.warnings(), "taken up again after 0 ms") == 1);
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the only cable is out for longer than the retries: both directions go on when it is back") {
  const auto result = run_stream(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"),  // 4.2 ms, seven times
                                 {.before =
                                      [](int message) {
                                        if (message != 50 && message != 200) return;
                                        set_cable(0, false);
                                        set_cable(0, true, 100 * kMs);
                                      }},
                                 [](MeshRank& rank) {
                                   CHECK(rank.warnings().find("transport retry counter exceeded") != std::string::npos);
                                   CHECK(count(rank.warnings(), "taken up again after") == 2);
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("an interruption that the adapter's retries outlast is none: nothing is said, nothing is sent again by us") {
  const auto result = run_stream(pair_cluster(1),
                                 {.before =
                                      [](int message) {
                                        if (message != 50) return;
                                        set_cable(0, false);
                                        set_cable(0, true, 1500 * kMs);
                                      }},
                                 [](MeshRank& rank) { CHECK(rank.warnings().empty()); });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("cables that go and come at every moment of a stream: 40 moments, each message once") {
  for (int moment = 0; moment < 40; ++moment) {
    const auto result = run_stream(with(pair_cluster(2), "NCCL_IB_TIMEOUT", "8"),
                                   {.messages = 24, .before = [moment](int message) {
                                      if (message != 4) return;
                                      // From 0 to 400 us after this message.
                                      const Picoseconds at = moment * Picoseconds{9'803'017};
                                      set_cable(0, false, at);
                                      set_cable(1, false, at + 37 * kMs / 100);
                                      set_cable(0, true, at + 60 * kMs);
                                      set_cable(1, true, at + 41 * kMs);
                                    }});
    CAPTURE(moment);
    REQUIRE(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("long stream: when the first cable is back the connection goes home, and says over which NIC it ends") {
  const auto result = run_stream(pair_cluster(2),
                                 {.messages = 1200,
                                  .before =
                                      [](int message) {
                                        if (message == 100) set_cable(0, false);
                                        if (message == 200) set_cable(0, true);
                                      }},
                                 [](MeshRank& rank) {
                                   if (rank.rank() == 0)
                                     CHECK(rank.infos().find("going back to the first cable") != std::string::npos);
                                   CHECK(count(rank.warnings(), "taken up again after") == 2);
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a cable goes while a group of eight is half sent: what was acknowledged is not sent again, over any way") {
  CHECK(run_half_a_group(pair_cluster(2)).outcome == OutcomeKind::kFinished);
  CHECK(run_half_a_group(ring_cluster(3)).outcome == OutcomeKind::kFinished);  // on through a relay
  CHECK(run_half_a_group(ring_cluster(4)).outcome == OutcomeKind::kFinished);  // through two
}

TEST_CASE(
    "long stream: a ring loses a cable: the connection goes on the other way round, and comes home when the cable is "
    "back") {
  for (const int nodes : {3, 5}) {
    const auto result =
        run_stream(ring_cluster(nodes),
                   {.messages = 2400,
                    .before =
                        [](int message) {
                          if (message == 100) set_cable(0, false);
                          if (message != 1200) return;
                          // The way round is slow now: relays hold a lot when the cable is back, and all of it arrives.
                          sim::shape_port(sim::World::get(), {2, 0}, {.rate_bps = 1'000'000'000});
                          set_cable(0, true, kMs);
                        }},
                   [nodes](MeshRank& rank) {
                     CHECK(count(rank.warnings(), "taken up again after") == 2);
                     if (rank.rank() != 0) return;
                     CHECK(rank.warnings().find("is down, and other nodes lead to the peer") != std::string::npos);
                     CHECK(rank.infos().find("through " + std::to_string(nodes - 2) + " relays") != std::string::npos);
                     CHECK(rank.infos().find("going back to the first cable") != std::string::npos);
                   });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a cable that goes and comes back: on through a relay or over the other one, and home") {
  for (const models::Cluster& cluster : {ring_cluster(3), pair_cluster(2)}) {
    const auto result = run_stream(cluster,
                                   {.messages = 60,
                                    .before =
                                        [](int message) {
                                          if (message == 10) set_cable(0, false);
                                          if (message == 30) sim::World::get().sleep(30 * kMs);
                                          if (message == 31) set_cable(0, true);
                                          if (message == 50) sim::World::get().sleep(30 * kMs);
                                        }},
                                   [](MeshRank& rank) { CHECK(count(rank.warnings(), "taken up again after") == 2); });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a ring's cable that goes and comes at any moment of a stream: 14 moments, each message once") {
  for (int moment = 0; moment < 14; ++moment) {
    const auto result = run_stream(ring_cluster(3), {.messages = 500, .before = [moment](int message) {
                                                       if (message != 4) return;
                                                       const Picoseconds at = moment * Picoseconds{46'803'017};
                                                       set_cable(0, false, at);
                                                       set_cable(0, true, 3 * at + 12 * kMs);
                                                     }});
    CAPTURE(moment);
    REQUIRE(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE(
    "the message arrived and its acknowledgement did not: nobody looks at the receiver, and it is not sent twice") {
  const auto result = run_mesh(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    constexpr std::size_t kBytes = 1U << 20U;
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, kBytes, 3);
      rank.meet("posted", 2);
      void* send = rank.send(comms.send, out, kBytes);
      // 1 MiB needs 84 us at 100 Gb/s and 1 us to arrive; its acknowledgement is on the cable when that goes.
      set_cable(0, false, 87 * kMs / 1000);
      set_cable(0, true, 90 * kMs);
      CHECK(rank.finish(send) == kBytes);
      CHECK(count(rank.warnings(), "taken up again after") == 1);
      rank.release(comms.send, out);
    } else {
      Buffer in = rank.buffer(comms.receive, kBytes, 1);
      void* receive = rank.receive(comms.receive, in);
      rank.meet("posted", 2);
      CHECK(rank.finish(receive) == kBytes);
      CHECK(in.bytes[kBytes - 1] == MeshRank::pattern(kBytes - 1, 3));
      std::fill(in.bytes.begin(), in.bytes.end(), 0xcc);  // it is ours again
      rank.meet("sent", 2);                               // no call of the library from here on
      CHECK(std::count(in.bytes.begin(), in.bytes.end(), 0xcc) == kBytes);
      rank.release(comms.receive, in);
    }
    if (rank.rank() == 0) rank.meet("sent", 2);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the receiver's clear-to-sends are lost with the cable while the sender only waits: it finds out by itself") {
  const auto result = run_mesh(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "14"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, 100, 3);
      set_cable(0, false);
      set_cable(0, true, 2000 * kMs);
      rank.meet("pulled", 2);
      CHECK(rank.finish(rank.send(comms.send, out, 100)) == 100);
      rank.release(comms.send, out);
    } else {
      rank.meet("pulled", 2);
      Buffer in = rank.buffer(comms.receive, 100, 1);
      CHECK(rank.finish(rank.receive(comms.receive, in)) == 100);
      CHECK(in.bytes[99] == MeshRank::pattern(99, 3));
      CHECK(rank.warnings().find("transport retry counter exceeded") != std::string::npos);
      rank.release(comms.receive, in);
    }
    rank.meet("end", 2);
    rank.close(comms);
    CHECK(sim::World::get().now() < 30'000 * kMs);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a cable that stays out: an error after the time that was given, with what stood in the way, at both ends") {
  const auto cluster = with(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "3");
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer buffer = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 100, 3);
    // The receiver's second clear-to-send is lost with the cable, and so is the sender's message for the first.
    std::vector<void*> requests;
    if (rank.rank() == 1) requests.push_back(rank.receive(comms.receive, buffer));
    rank.meet("announced", 2);
    sim::World::get().sleep(kMs);
    if (rank.rank() == 0) set_cable(0, false);
    rank.meet("pulled", 2);
    sim::World::get().sleep(kMs);
    requests.push_back(rank.rank() == 0 ? rank.send(comms.send, buffer, 100) : rank.receive(comms.receive, buffer));
    for (void* request : requests) CHECK(rank.finish(request) == -1);
    CHECK(rank.warnings().find("nor could it be taken up again within 3 s (NCCL_MESH_FAILOVER_TIMEOUT_SEC)") !=
          std::string::npos);
    if (rank.rank() == 0) CHECK(rank.warnings().find("has its link down: look at the cable") != std::string::npos);
    CHECK(sim::World::get().now() > 3'000 * kMs);
    CHECK(sim::World::get().now() < 3'200 * kMs);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a peer that closed its connection meanwhile is no reason to wait: the sender is told at once") {
  const auto result = run_mesh(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, 100, 3);
      rank.meet("closed", 2);
      void* send = rank.send(comms.send, out, 100);
      CHECK(rank.finish(send) == -1);
      CHECK(rank.warnings().find("the peer's connection is gone: it is closed") != std::string::npos);
      CHECK(sim::World::get().now() < 200 * kMs);
      rank.meet("over", 2);
    } else {
      Buffer in = rank.buffer(comms.receive, 100, 1);
      CHECK(rank.receive(comms.receive, in) != nullptr);
      sim::World::get().sleep(kMs);
      CHECK(rank.net().closeRecv(comms.receive) == 0);
      rank.meet("closed", 2);
      rank.meet("over", 2);
      CHECK(rank.net().closeSend(comms.send) == 0);
      return;
    }
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("closing a connection that waits to be taken up again returns at once, at both ends") {
  const auto result = run_mesh(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer in = rank.buffer(comms.receive, 1000, 1);
    rank.meet("connected", 2);
    if (rank.rank() == 0) set_cable(0, false);
    rank.meet("pulled", 2);
    void* receive = rank.receive(comms.receive, in);
    int done = 0;
    while (rank.warnings().empty()) CHECK(rank.net().test(receive, &done, nullptr) == 0);
    CHECK(done == 0);
    const Picoseconds before = sim::World::get().now();
    rank.release(comms.receive, in);
    rank.close(comms);
    CHECK(sim::World::get().now() - before < kMs);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("NCCL_MESH_FAILOVER_TIMEOUT_SEC=0: a connection ends with its cable, though there is another one") {
  const auto result = run_mesh(
      with(with(pair_cluster(2), "NCCL_IB_TIMEOUT", "10"), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "0"), [](MeshRank& rank) {
        const Comms comms = rank.connect_both(1 - rank.rank(), 0);
        rank.meet("connected", 2);
        if (rank.rank() == 0) set_cable(0, false);
        rank.meet("pulled", 2);
        Buffer in = rank.buffer(comms.receive, 1000, 1);
        CHECK(rank.finish(rank.receive(comms.receive, in)) == -1);
        CHECK(rank.warnings().find("transport retry counter exceeded") != std::string::npos);
        CHECK(rank.warnings().find("taken up") == std::string::npos);
        rank.close(comms);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}
