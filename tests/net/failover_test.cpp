// Cables that go while messages are under way, and come back: the real plugin on both ends. Nothing is lost, nothing
// arrives twice.
#include <doctest/doctest.h>

#include "tests/net/failover_streams.h"
#include "tests/support/walk.h"

namespace failover_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

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
  for (const int moment : walk_moments(40)) {
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
  // Half of it through a relay, and home.
  CHECK(run_half_a_group(ring_cluster(3), {{0, false}, {4, true}}).outcome == OutcomeKind::kFinished);
}

TEST_CASE("through a relay: a group's last part is empty, and is not done before the receiver has the group's sizes") {
  const auto result = run_mesh(ring_cluster(3), [](MeshRank& rank) {
    if (rank.rank() == 2) {
      rank.meet("end", 3);
      return;
    }
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    if (rank.rank() == 0) {
      set_cable(0, false);
      sim::World::get().sleep(kMs);
      Buffer out = rank.buffer(comms.send, 1000, 1);
      CHECK(rank.finish(rank.send(comms.send, out, 1000, 0)) == 1000);
      // From here on nothing gets from the relay to the receiver, until the first cable is back.
      for (const models::PortRef port : {models::PortRef{1, 1}, models::PortRef{2, 0}}) {
        sim::set_link(sim::World::get(), port, false);
      }
      void* last = rank.send(comms.send, out, 0, 1);
      for (int look = 0, done = 0; look < 1000; ++look) {
        CHECK(rank.net().test(last, &done, nullptr) == 0);
        CHECK(done == 0);
      }
      set_cable(0, true);
      CHECK(rank.finish(last) == 0);
      rank.release(comms.send, out);
    } else {
      Buffer in = rank.buffer(comms.receive, 1000, 7);
      void *data[] = {in.bytes.data(), in.bytes.data()}, *memories[] = {in.memory, in.memory};
      std::size_t sizes[] = {1000, 1000};
      int tags[] = {0, 1}, received[2] = {-1, -1};
      void* request = nullptr;
      while (request == nullptr) {
        CHECK(rank.net().irecv(comms.receive, 2, data, sizes, tags, memories, nullptr, &request) == 0);
      }
      CHECK(rank.finish(request, received) == 1000);
      CHECK(received[1] == 0);
      rank.release(comms.receive, in);
    }
    rank.close(comms);
    rank.meet("end", 3);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the cable goes in the moment in which connect() returns: the other one brings the acceptor what it missed") {
  const auto result = run_mesh(pair_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 0) {
      HandleBytes handle = rank.look_up("door");
      void* send = nullptr;
      while (send == nullptr) CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
      for (const int node : {0, 1}) sim::set_link(sim::World::get(), {node, 0}, false);
      Buffer out = rank.buffer(send, 100, 3);
      CHECK(rank.finish(rank.send(send, out, 100)) == 100);
      rank.release(send, out);
      rank.meet("end", 2);
      CHECK(rank.net().closeSend(send) == 0);
    } else {
      void* listener = rank.listen(0, "door");
      void* receive = nullptr;
      while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
      Buffer in = rank.buffer(receive, 100, 1);
      CHECK(rank.finish(rank.receive(receive, in)) == 100);
      CHECK(in.bytes[99] == MeshRank::pattern(99, 3));
      rank.release(receive, in);
      rank.meet("end", 2);
      CHECK(rank.net().closeRecv(receive) == 0);
      CHECK(rank.net().closeListen(listener) == 0);
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

void pull_now(void*, std::uint64_t nic) { sim::set_link(sim::World::get(), {0, static_cast<int>(nic)}, false); }

/// Node 0 loses the cable of this NIC, so long from now.
void pull(int nic, Picoseconds after) {
  sim::World::get().after(after, 0, &pull_now, nullptr, static_cast<std::uint64_t>(nic));
}

/// Rank 0 connects from device 0, looking every `between`, and sends one message; `acceptor` accepts only after `late`.
void connect_meanwhile(MeshRank& rank, Picoseconds late, const std::function<void()>& once_connecting, int ranks,
                       const std::function<void(MeshRank&)>& look = {}, int acceptor = 1, Picoseconds between = 0) {
  if (rank.rank() == 0) {
    HandleBytes handle = rank.look_up("door");
    void* send = nullptr;
    CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
    CHECK(send == nullptr);
    once_connecting();
    while (send == nullptr) {
      const int code = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      REQUIRE_MESSAGE(code == 0, rank.warnings());
      if (between > 0) sim::World::get().sleep(between);
    }
    Buffer out = rank.buffer(send, 5000, 3);
    CHECK(rank.finish(rank.send(send, out, 5000)) == 5000);
    if (look) look(rank);
    rank.release(send, out);
    rank.meet("end", ranks);
    CHECK(rank.net().closeSend(send) == 0);
  } else if (rank.rank() == acceptor) {
    void* listener = rank.listen(0, "door");
    sim::World::get().sleep(late);
    void* receive = nullptr;
    while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
    Buffer in = rank.buffer(receive, 5000, 1);
    CHECK(rank.finish(rank.receive(receive, in)) == 5000);
    CHECK(in.bytes[4999] == MeshRank::pattern(4999, 3));
    rank.release(receive, in);
    rank.meet("end", ranks);
    CHECK(rank.net().closeRecv(receive) == 0);
    CHECK(rank.net().closeListen(listener) == 0);
  } else {
    rank.meet("end", ranks);
  }
}

}  // namespace

TEST_CASE("a cable goes while a handshake over it waits for accept(): another cable takes it over, or a chain") {
  for (const models::Cluster& cluster : {pair_cluster(2), ring_cluster(3)}) {
    const int ranks = static_cast<int>(cluster.nodes.size());
    const auto result = run_mesh(cluster, [ranks](MeshRank& rank) {
      connect_meanwhile(
          rank, 50 * kMs, [] { set_cable(0, false, 10 * kMs); }, ranks,
          [](MeshRank& zero) {
            CHECK(zero.infos().find("is down, or has another GID, while a connection over it is made") !=
                  std::string::npos);
            CHECK(zero.warnings() == "");
            CHECK(sim::World::get().now() < 500 * kMs);  // not the seconds after which TCP gives up
          });
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("the only cable goes while a handshake over it is under way, and is back before it gave up") {
  const auto result = run_mesh(pair_cluster(1), [](MeshRank& rank) {
    connect_meanwhile(
        rank, 50 * kMs,
        [] {
          set_cable(0, false, 10 * kMs);
          set_cable(0, true, 2000 * kMs);
        },
        2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "moments: a cable goes at 60 moments of a handshake through a chain: accept() returns for what connect() made") {
  for (const int moment : walk_moments(60)) {
    CAPTURE(moment);
    const auto result = run_mesh(ring_cluster(4), [moment](MeshRank& rank) {
      connect_meanwhile(
          rank, 0, [moment] { pull(moment % 2, (moment + 1) * 100 * kPicosecondsPerMicrosecond); }, 4,
          [](MeshRank& /*zero*/) {
            CHECK(sim::World::get().now() < 5000 * kMs);  // not the time after which a lost connection ends
          },
          2, 200 * kPicosecondsPerMicrosecond);  // answers lie there for a while before they are read
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("two of three cables are crossed: a handshake goes on over the third, and says which ones do not answer") {
  models::Cluster cluster = pair_cluster(3);
  std::swap(cluster.cables[0].b, cluster.cables[1].b);
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    connect_meanwhile(
        rank, 0, [] {}, 2,
        [](MeshRank& zero) {
          CHECK(count(zero.warnings(), "; another cable leads to the peer, and is tried") == 2);
          CHECK(count(zero.warnings(), "is the cable in these two ports, and is the link up?") == 2);
        });
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "long stream: a ring loses a cable: the connection goes on the other way round, and comes home when the cable is "
    "back") {
  for (const int nodes : {3, 5}) {
    const auto result = run_stream(
        ring_cluster(nodes),
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
          CHECK(rank.warnings().find("is down (look at its cable), and other nodes lead to the peer") !=
                std::string::npos);
          CHECK(rank.infos().find(nodes == 3 ? "through 1 relay: " : "through 3 relays: ") != std::string::npos);
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
  for (const int moment : walk_moments(14)) {
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

}  // namespace failover_test
