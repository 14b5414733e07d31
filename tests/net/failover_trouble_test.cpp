// What failover cannot bring back says so; who waits finds out; and closing never waits.
#include <doctest/doctest.h>

#include <cerrno>

#include "tests/net/drivers.h"
#include "tests/net/failover_streams.h"

namespace failover_trouble_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

TEST_CASE("the message arrived and its acknowledgement did not: the receiver is not polled, and it is not sent twice") {
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
    CHECK(rank.warnings().find("; it could not be taken up again within 3 s (NCCL_MESH_FAILOVER_TIMEOUT_SEC)") !=
          std::string::npos);
    if (rank.rank() == 0) CHECK(rank.warnings().find("has its link down: look at the cable") != std::string::npos);
    CHECK(sim::World::get().now() > 3'000 * kMs);
    CHECK(sim::World::get().now() < 3'200 * kMs);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a peer that closed its connection meanwhile is no reason to wait: the sender gets the error at once") {
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

TEST_CASE(
    "the last message arrives, its acknowledgement does not, and the receiver closes: the sender learns it is there") {
  const auto result = run_mesh(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, 100, 3);
      rank.meet("posted", 2);
      void* last = rank.send(comms.send, out, 100);
      CHECK_MESSAGE(rank.finish(last) == 100, rank.warnings());
      CHECK(rank.infos().find("the peer's connection is gone: it is closed") == std::string::npos);
      // Later messages have no receiver.
      void* late = nullptr;
      CHECK(rank.net().isend(comms.send, out.bytes.data(), 100, 0, out.memory, nullptr, &late) != 0);
      CHECK(rank.warnings().find("the peer's connection is gone: it is closed") != std::string::npos);
      rank.release(comms.send, out);
      rank.meet("over", 2);
    } else {
      Buffer in = rank.buffer(comms.receive, 100, 1);
      void* last = rank.receive(comms.receive, in);
      rank.meet("posted", 2);
      CHECK(rank.finish(last) == 100);
      // In the moment in which the message is there its acknowledgement is on the way.
      for (const int node : {0, 1}) sim::set_link(sim::World::get(), {node, 0}, false);
      rank.release(comms.receive, in);
      CHECK(rank.net().closeRecv(comms.receive) == 0);
      set_cable(0, true, 5 * kMs);
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

TEST_CASE("NCCL_MESH_FAILOVER_TIMEOUT_SEC=0: who only waits finds out that the cable has gone, and ends") {
  const auto result = run_mesh(
      with(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "10"), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "0"), [](MeshRank& rank) {
        const Comms comms = rank.connect_both(1 - rank.rank(), 0);
        Buffer buffer = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 100, 1);
        void* request = rank.rank() == 0 ? nullptr : rank.receive(comms.receive, buffer);
        rank.meet("posted", 2);
        if (rank.rank() == 0) set_cable(0, false, 1000 * kMs);
        // What is announced is never sent, and what is to be sent is never announced.
        int outcome = 0;
        while (rank.rank() == 0 && outcome == 0) {
          outcome = rank.net().isend(comms.send, buffer.bytes.data(), 100, 9, buffer.memory, nullptr, &request);
        }
        CHECK((rank.rank() == 0 ? outcome == nccl::kNcclRemoteError : rank.finish(request) == -1));
        CHECK(rank.warnings().find("transport retry counter exceeded") != std::string::npos);
        CHECK(sim::World::get().now() < 10'000 * kMs);
        rank.release(rank.rank() == 0 ? comms.send : comms.receive, buffer);
        rank.close(comms);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

/// The last rank waits for a message whose sender, rank 0, is away for `away`; within that time there is `trouble`, and
/// the one who waits finds out. Then rank 0 does `back`.
struct Absence {
  models::Cluster cluster = pair_cluster(1);
  // The receiver has asked its adapter after 5 s.
  std::function<void()> trouble = [] {
    set_cable(0, false, 1000 * kMs);
    set_cable(0, true, 20'000 * kMs);
  };
  Picoseconds away = 0;
  std::function<void(MeshRank&, const Comms&)> before_leaving = [](MeshRank&, const Comms&) {};
  std::function<void(MeshRank&, const Comms&)> back = [](MeshRank&, const Comms&) {};
  std::function<void(MeshRank&, void* receive)> wait;
};

WorldResult run_absence(const Absence& absence) {
  const int ranks = static_cast<int>(absence.cluster.nodes.size());
  return run_mesh(with(absence.cluster, "NCCL_IB_TIMEOUT", "10"), [=](MeshRank& rank) {
    const int last = ranks - 1;
    if (rank.rank() != 0 && rank.rank() != last) {
      rank.meet("closed", ranks);
      return;
    }
    const Comms comms = rank.connect_both(last - rank.rank(), 0);
    if (rank.rank() == 0) {
      absence.trouble();
      rank.meet("posted", 2);
      absence.before_leaving(rank, comms);
      sim::World::get().sleep(absence.away);
      absence.back(rank, comms);
    } else {
      Buffer in = rank.buffer(comms.receive, 100, 1);
      void* receive = rank.receive(comms.receive, in);
      rank.meet("posted", 2);
      absence.wait(rank, receive);
      rank.release(comms.receive, in);
    }
    rank.meet("done", 2);
    if (rank.rank() == last) rank.close(comms);
    rank.meet("closed", ranks);
  });
}

void send_and_close(MeshRank& rank, const Comms& comms) {
  Buffer out = rank.buffer(comms.send, 100, 3);
  CHECK(rank.finish(rank.send(comms.send, out, 100)) == 100);
  rank.release(comms.send, out);
  rank.close(comms);
}

/// After five minutes.
void get_it_late(MeshRank& rank, void* receive) {
  CHECK(rank.finish(receive) == 100);
  CHECK(count(rank.infos(), "waiting on") >= 5);
  CHECK(count(rank.warnings(), "taken up again after") == 1);
}

/// Between this node and the next one of a ring, from the first to the twentieth second.
void cut_cable_behind(int node) {
  const auto set = [](void*, std::uint64_t what) {
    sim::set_link(sim::World::get(), {static_cast<int>(what / 2), 1}, what % 2 == 1);
  };
  const auto number = static_cast<std::uint64_t>(node);
  sim::World::get().after(1000 * kMs, 0, set, nullptr, 2 * number);
  sim::World::get().after(20'000 * kMs, 0, set, nullptr, 2 * number + 1);
}

}  // namespace

TEST_CASE("a sender is away for five minutes, and the cable was out meanwhile: its receiver asks, and waits on") {
  const auto result = run_absence({.away = 300'000 * kMs, .back = &send_and_close, .wait = &get_it_late});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a sender is away for five minutes, and has another address since: its receiver asks for it everywhere") {
  const auto result = run_absence({.trouble =
                                       [] {
                                         change_address(pair_cluster(1), {0, 0}, 1000 * kMs);
                                       },
                                   .away = 300'000 * kMs,
                                   .back = &send_and_close,
                                   .wait = &get_it_late});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "a sender behind relays is away for five minutes, and the chain broke meanwhile: its receiver asks through it") {
  const auto result = run_absence({.cluster = line_cluster(3),
                                   .trouble = [] { cut_cable_behind(1); },
                                   .away = 300'000 * kMs,
                                   .back = &send_and_close,
                                   .wait = &get_it_late});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a sender leaves for five minutes amid looking for a way: what it did not look for it has not missed") {
  const auto result = run_absence(
      {.away = 5000 * kMs,
       .back =
           [](MeshRank& rank, const Comms& comms) {
             Buffer out = rank.buffer(comms.send, 100, 3);
             void* send = rank.send(comms.send, out, 100);
             int done = 0, size = 0;
             while (rank.warnings().find("for another path, or for this one to come back") == std::string::npos) {
               CHECK(rank.net().test(send, &done, &size) == nccl::kNcclSuccess);
               MeshRank::pause();
             }
             sim::World::get().sleep(300'000 * kMs);
             CHECK(rank.finish(send) == 100);
             rank.release(comms.send, out);
             rank.close(comms);
           },
       .wait = &get_it_late});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a sender closed while the cable was out: its receiver asks, and ends with that answer") {
  const auto result =
      run_absence({.away = 60'000 * kMs,
                   .before_leaving = [](MeshRank& rank, const Comms& comms) { rank.close(comms); },
                   .wait =
                       [](MeshRank& rank, void* receive) {
                         CHECK(rank.finish(receive) == -1);
                         CHECK(rank.warnings().find("was asked whether it is alive: it replied: it is closed") !=
                               std::string::npos);
                         CHECK(sim::World::get().now() < 45 * kPicosecondsPerSecond);
                       }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

/// From now on the driver refuses to register rank 0's memory of a MiB and more.
void refuse_memory_of_sender() {
  drivers().reg_mr = [](auto domain, auto address, auto length, auto iova, auto access, auto* lkey, auto* rkey) {
    if (sim::World::current_process()->rank == 0 && length >= kMiB) return ENOMEM;
    return sim::verbs::backend_table().reg_mr(domain, address, length, iova, access, lkey, rkey);
  };
}

}  // namespace

TEST_CASE(
    "memory that the NIC of the cable that is left does not take: the error names both, the cause and what helps") {
  const auto result = run_mesh(with(pair_cluster(2), "NCCL_MESH_STRIPE_BYTES", "0"), [](MeshRank& rank) {
    const bool sends = rank.rank() == 0;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    void* comm = sends ? comms.send : comms.receive;
    Buffer first = rank.buffer(comm, kMiB, 3), second = rank.buffer(comm, kMiB, 4);
    rank.meet("connected", 2);
    if (sends) set_cable(0, false);
    const auto pass = [&](Buffer& buffer) {
      return sends ? rank.send(comm, buffer, kMiB) : rank.receive(comm, buffer);
    };
    CHECK(rank.finish(pass(first)) == static_cast<int>(kMiB));
    rank.meet("passed", 2);
    rank.forget_warnings();
    void* request = nullptr;
    if (sends) {
      refuse_memory_of_sender();
      int outcome = 0;
      while (outcome == 0 && request == nullptr) {
        outcome = rank.net().isend(comm, second.bytes.data(), kMiB, 0, second.memory, nullptr, &request);
      }
      CHECK(outcome == nccl::kNcclSystemError);
      INFO(rank.warnings());
      CHECK(count(rank.warnings(), ": a send of 1048576 bytes cannot be registered on the device") == 1);
      CHECK(count(rank.warnings(), "the memory of 1048576 bytes at 0x") == 1);
      CHECK(count(rank.warnings(), "cannot be used by rocep1s0f1: cannot register") == 1);
      CHECK(count(rank.warnings(), "Cannot allocate memory; look at the locked-memory limit (ulimit -l)") == 2);
    } else {
      request = rank.receive(comm, second);
    }
    CHECK((request == nullptr) == sends);
    rank.meet("refused", 2);
    rank.release(comm, first);
    rank.release(comm, second);
    rank.close(comms);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "memory that the NIC of the second cable does not take, and the first one is back: the connection goes back") {
  const auto result = run_mesh(with(pair_cluster(2), "NCCL_MESH_STRIPE_BYTES", "0"), [](MeshRank& rank) {
    const bool sends = rank.rank() == 0;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    void* comm = sends ? comms.send : comms.receive;
    Buffer first = rank.buffer(comm, kMiB, 3), second = rank.buffer(comm, kMiB, 4);
    rank.meet("connected", 2);
    if (sends) set_cable(0, false);
    const auto pass = [&](Buffer& buffer) {
      return sends ? rank.send(comm, buffer, kMiB) : rank.receive(comm, buffer);
    };
    CHECK(rank.finish(pass(first)) == static_cast<int>(kMiB));
    void* request = sends ? nullptr : rank.receive(comm, second);
    rank.meet("announced", 2);
    if (sends) {
      refuse_memory_of_sender();
      set_cable(0, true);
      sim::World::get().sleep(kMs);  // the clear-to-send is there, and the port is up, before the next call
      request = rank.send(comm, second, kMiB);
    }
    CHECK(rank.finish(request) == static_cast<int>(kMiB));
    if (sends) CHECK(count(rank.infos(), "it goes back to the way before: the memory of 1048576 bytes at 0x") == 1);
    rank.meet("passed", 2);
    rank.release(comm, first);
    rank.release(comm, second);
    rank.close(comms);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace failover_trouble_test
