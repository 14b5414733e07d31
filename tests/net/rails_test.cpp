// Long messages over all cables between two nodes: the real plugin on both ends.
#include <doctest/doctest.h>

#include "plugin/base/units.h"
#include "tests/net/striped_streams.h"
#include "tests/support/walk.h"

namespace rails_test {
using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr const char* kLaid = "long messages are striped over";

/// What 64 MiB take on one connection, in ns, once everything is set up.
double time_of_64_mib(const models::Cluster& cluster) {
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    std::vector<Buffer> buffers;
    void* comm = rank.rank() == 0 ? comms.send : comms.receive;
    for (int slot = 0; slot < 8; ++slot) buffers.push_back(rank.buffer(comm, kMiB, 1));
    move(rank, comm, buffers, 64);
    rank.meet("warm", 2);
    const Picoseconds begun = sim::World::get().now();
    move(rank, comm, buffers, 64);
    if (rank.rank() == 1) report(std::to_string((sim::World::get().now() - begun) / 1000));
    for (const Buffer& buffer : buffers) rank.release(comm, buffer);
    rank.meet("moved", 2);
    rank.close(comms);
    rank.meet("closed", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
  REQUIRE_FALSE(result.value.empty());
  return std::stod(result.value);
}

/// From now on whatever both nodes send by NIC 1 comes 200 us later than it would.
void delay_rail() {
  const auto delay = [](void*, std::uint64_t) {
    for (const int node : {0, 1}) {
      sim::shape_port(sim::World::get(), {node, 1}, {.delay_ps = 200 * kPicosecondsPerMicrosecond});
    }
  };
  sim::World::get().after(0, 0, delay, nullptr, 0);
}

/// From now on nothing that is RDMA gets over the cable of both nodes' NIC, or (0) everything does; TCP always does.
void lose_all_on(int nic, double loss = 1.0) {
  const auto lose = [](void* all, std::uint64_t of) {
    for (const int node : {0, 1}) {
      sim::shape_port(sim::World::get(), {node, static_cast<int>(of)}, {.loss = all != nullptr ? 1.0 : 0.0});
    }
  };
  static char all;
  sim::World::get().after(0, 0, lose, loss > 0 ? &all : nullptr, static_cast<std::uint64_t>(nic));
}

/// A stream that is right, and how often each end laid a rail.
void stream_with_rails(const models::Cluster& cluster, std::size_t rails) {
  const auto result = run_stream(cluster, {}, [rails](MeshRank& rank) {
    if (rank.rank() == 0) CHECK(count(rank.infos(), kLaid) == rails);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace

TEST_CASE("one connection carries 64 MiB over two cables in half the time, over three in a third") {
  const double one = time_of_64_mib(pair_cluster(1));
  const double two = time_of_64_mib(with(pair_cluster(2), kStripes, "131072"));
  const double three = time_of_64_mib(with(pair_cluster(3), kStripes, "131072"));
  CAPTURE(one);
  CAPTURE(two);
  CAPTURE(three);
  CHECK(two < 0.52 * one);
  CHECK(three < 0.36 * one);
  CHECK(time_of_64_mib(pair_cluster(2)) == two);  // the default
  CHECK(time_of_64_mib(with(pair_cluster(2), kStripes, "0")) > 0.99 * one);
}

TEST_CASE("D26: two connections, one on each device, share both cables evenly") {
  static constexpr int kMessages = 64;
  const auto both = run_mesh(with(pair_cluster(2), kStripes, "131072"), [](MeshRank& rank) {
    const Comms first = rank.connect_both(1 - rank.rank(), 0, "first");
    const Comms second = rank.connect_both(1 - rank.rank(), 1, "second");
    std::vector<Buffer> one, other;
    const auto comm_of = [&](const Comms& comms) { return rank.rank() == 0 ? comms.send : comms.receive; };
    for (int slot = 0; slot < 4; ++slot) {
      one.push_back(rank.buffer(comm_of(first), kMiB, 1));
      other.push_back(rank.buffer(comm_of(second), kMiB, 1));
    }
    move(rank, comm_of(first), one, 8);
    move(rank, comm_of(second), other, 8);
    rank.meet("warm", 2);
    const Picoseconds begun = sim::World::get().now();
    for (int round = 0; round < kMessages / 4; ++round) {
      std::vector<void*> requests;
      for (int slot = 0; slot < 4; ++slot) {
        for (const auto& [comms, buffers] : {std::pair(&first, &one), std::pair(&second, &other)}) {
          Buffer& buffer = (*buffers)[static_cast<std::size_t>(slot)];
          requests.push_back(rank.rank() == 0 ? rank.send(comm_of(*comms), buffer, kMiB)
                                              : rank.receive(comm_of(*comms), buffer));
        }
      }
      for (void* request : requests) CHECK(rank.finish(request) == static_cast<int>(kMiB));
    }
    // 128 MiB over two cables of 12.5 GB/s, and the gaps between the rounds.
    const auto took_us = static_cast<double>(sim::World::get().now() - begun) / 1e6;
    CAPTURE(took_us);
    CHECK(took_us < 1.05 * 128 * static_cast<double>(kMiB) / 25'000.0);
    for (const Buffer& buffer : one) rank.release(comm_of(first), buffer);
    for (const Buffer& buffer : other) rank.release(comm_of(second), buffer);
    rank.meet("moved", 2);
    rank.close(first);
    rank.close(second);
    rank.meet("closed", 2);
  });
  CHECK(both.outcome == OutcomeKind::kFinished);
}

TEST_CASE("stripes of every length: a stream is right over two and over six more rails, cut from 128 bytes on") {
  stream_with_rails(with(pair_cluster(2), kStripes, "128"), 1);
  stream_with_rails(with(pair_cluster(7), kStripes, "128"), 6);
  stream_with_rails(with(pair_cluster(8), kStripes, "1"), 6);  // there is no seventh
}

TEST_CASE("long stream: several queue pairs on each cable: as many rails, and no more than six") {
  stream_with_rails(with(striped(1), "NCCL_IB_QPS_PER_CONNECTION", "3"), 2);
  stream_with_rails(with(striped(2), "NCCL_IB_QPS_PER_CONNECTION", "2"), 3);
  stream_with_rails(with(striped(3), "NCCL_IB_QPS_PER_CONNECTION", "4"), 6);
}

TEST_CASE("long stream: no rails where they would only be waited for, or are not wanted") {
  stream_with_rails(with(pair_cluster(2), kStripes, "0"), 0);
  stream_with_rails(with(striped(2), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "0"), 0);
  stream_with_rails(striped(1), 0);
}

TEST_CASE("D27: the 10 GbE port of a node carries nothing, unless the user asks for it") {
  const auto slow_second = [] {
    models::Cluster cluster = pair_cluster(2);
    for (models::Node& node : cluster.nodes) node.nics[1].rate_bps = 10'000'000'000;
    return cluster;
  };
  const auto devices_of = [](const models::Cluster& cluster, int wanted) {
    const auto result = run_mesh(cluster, [wanted](MeshRank& rank) {
      int devices = 0;
      CHECK(rank.net().devices(&devices) == 0);
      CHECK(devices == wanted);
      CHECK(count(rank.infos(), "is taken for the management network's") == (wanted == 1 ? 1 : 0));
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  };
  devices_of(slow_second(), 1);
  devices_of(with(slow_second(), "NCCL_MESH_USE_MANAGEMENT", "1"), 2);
  devices_of(with(slow_second(), "NCCL_IB_HCA", "rocep1s0f0,rocep1s0f1"), 2);
  // Taken in, it is still no rail for a cable of ten times its rate.
  stream_with_rails(with(with(slow_second(), "NCCL_MESH_USE_MANAGEMENT", "1"), kStripes, "4096"), 0);
}

TEST_CASE("a group of eight parts, striped and sent one after the other: each part is where it belongs") {
  CHECK(run_half_a_group(striped_pair(), {}, 0, 50).outcome == OutcomeKind::kFinished);
}

TEST_CASE("a group loses the QP link's cable, or a rail's, between its parts: what was striped before counts") {
  for (const int nic : {0, 1}) {
    CHECK(run_half_a_group(striped_pair(), {{4, false}}, nic, 50).outcome == OutcomeKind::kFinished);
  }
  CHECK(run_half_a_group(striped_pair(), {{2, false}, {4, true}}, 0, 50).outcome == OutcomeKind::kFinished);
}

TEST_CASE("the cable of a rail goes under traffic: the stream goes on without it, and over it again when it is back") {
  const auto result =
      run_stream(striped_pair(),
                 {.before =
                      [](int message) {
                        if (message == 100) set_cable(1, false);
                        if (message == 250) set_cable(1, true);
                      }},
                 [](MeshRank& rank) {
                   if (rank.rank() != 0) return;
                   CHECK(rank.warnings().find("over which it is striped too, is down") != std::string::npos);
                   CHECK(count(rank.warnings(), "taken up again after") == 1);
                   CHECK(count(rank.infos(), kLaid) == 2);
                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("stripes that come long after the first way's: a message is there when all of them are") {
  const auto result = run_stream(striped_pair(), {.before = [](int message) {
                                   if (message == 20) delay_rail();
                                 }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("moments: a slow rail's cable goes: messages behind a striped one, long since there, are not lost with it") {
  for (const int later : walk_moments(16)) {
    CAPTURE(later);
    const auto cut = [] { set_cable(1, false, 100 * kPicosecondsPerMicrosecond); };
    const auto result = run_stream(striped_pair(), {.messages = 60, .before = [later, cut](int message) {
                                                      if (message == 20) delay_rail();
                                                      if (message == 24 + later) cut();
                                                    }});
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("moments: a rail's cable goes and comes at 40 moments of a striped stream, each message once") {
  for (const int moment : walk_moments(40)) {
    const auto result = run_stream(with(with(pair_cluster(2), "NCCL_IB_TIMEOUT", "8"), kStripes, "128"),
                                   {.messages = 24, .before = [moment](int message) {
                                      if (message != 4) return;
                                      set_cable(1, false, moment * 10 * kPicosecondsPerMicrosecond);
                                      set_cable(1, true, (moment % 7 + 1) * 5 * kMs);
                                    }});
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("the first message already goes over both cables, with either end late") {
  for (const int late_rank : {0, 1}) {
    CAPTURE(late_rank);
    const auto result = run_mesh(striped_pair(), [late_rank](MeshRank& rank) {
      if (rank.rank() == late_rank) sim::World::get().sleep(5 * kMs);
      const Comms comms = rank.connect_both(1 - rank.rank(), 0);
      // Nothing was polled between connect() and now.
      CHECK(count(rank.infos(), kLaid) == 1);
      std::vector<Buffer> buffers;
      void* comm = rank.rank() == 0 ? comms.send : comms.receive;
      buffers.push_back(rank.buffer(comm, 64 * kMiB, 1));
      rank.meet("connected", 2);
      const Picoseconds begun = sim::World::get().now();
      void* request = rank.rank() == 0 ? rank.send(comm, buffers[0], 64 * kMiB) : rank.receive(comm, buffers[0]);
      CHECK(rank.finish(request) == static_cast<int>(64 * kMiB));
      // One cable carries 12.5 GB/s.
      const auto took_us = static_cast<double>(sim::World::get().now() - begun) / 1e6;
      CAPTURE(took_us);
      CHECK(took_us < 0.55 * 64 * static_cast<double>(kMiB) / 12'500.0);
      rank.release(comm, buffers[0]);
      rank.close(comms);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a cable over which TCP gets and RDMA does not is no rail, and costs each process one warning") {
  const auto result = run_mesh(with(striped_pair(), "NCCL_IB_TIMEOUT", "5"), [](MeshRank& rank) {
    if (rank.rank() == 0) lose_all_on(1);
    sim::World::get().sleep(kPicosecondsPerMicrosecond);
    const Comms first = rank.connect_both(1 - rank.rank(), 0, "first");
    const Comms second = rank.connect_both(1 - rank.rank(), 0, "second");
    CHECK(sim::World::get().now() < 100 * kMs);
    const Stream stream{.messages = 1200};
    rank.rank() == 0 ? stream.send(rank, second) : stream.receive(rank, second);
    rank.meet("streamed", 2);
    CHECK(count(rank.infos(), kLaid) == 0);
    CHECK(count(rank.infos(), "but RDMA does not") >= 1);
    CHECK(count(rank.warnings(), "\n") == 1);
    CHECK(count(rank.warnings(), "long messages are not striped over rocep1s0f1 192.168.101.") == 1);
    CHECK(count(rank.warnings(), "but RDMA does not") == 1);
    rank.close(first);
    rank.close(second);
    rank.meet("closed", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a rail that came to nothing after it was joined is not destroyed by who connects, but later") {
  const auto result = run_mesh(with(striped_pair(), "NCCL_IB_TIMEOUT", "5"), [](MeshRank& rank) {
    if (rank.rank() == 0) lose_all_on(1);
    sim::World::get().sleep(kPicosecondsPerMicrosecond);
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    const auto objects = [] { return sim::verbs_counters().live_objects; };
    const std::uint64_t before = objects();
    sim::World::get().sleep(11 * kPicosecondsPerSecond);  // longer than its packets can wait
    rank.meet("later", 2);
    if (rank.rank() == 0) {
      CHECK(rank.net().closeListen(rank.listen(0, "next")) == 0);
      CHECK(objects() == before - 2);  // its queue pair, and its completion queue
    }
    rank.meet("counted", 2);
    rank.close(comms);
    rank.meet("closed", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a cable that does not answer holds up the first connection for two seconds, and joins when it does") {
  const auto connect_with_silent_cable = [](const models::Cluster& cluster, Picoseconds patience) {
    const auto result = run_mesh(cluster, [patience](MeshRank& rank) {
      const auto now = [] { return sim::World::get().now(); };
      if (rank.rank() == 0) lose_all_on(1);
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      const Comms first = rank.connect_both(1 - rank.rank(), 0, "first");
      CHECK(now() >= patience);
      CHECK(now() < patience + 50 * kMs);
      const Picoseconds begun = now();
      const Comms second = rank.connect_both(1 - rank.rank(), 0, "second");
      CHECK(now() - begun < 50 * kMs);  // the process knows
      const std::string why = "it did not reply within " + std::to_string(patience / kMs) + " ms";
      CHECK(count(rank.warnings(), why) == 1);
      CHECK(count(rank.warnings(), "\n") == 1);
      CHECK(count(rank.infos(), kLaid) == 0);
      rank.meet("connected", 2);
      if (rank.rank() == 0) lose_all_on(1, 0);
      const Stream stream;
      for (int round = 0; round < 10; ++round) {
        rank.rank() == 0 ? stream.send(rank, first) : stream.receive(rank, first);
        sim::World::get().sleep(kPicosecondsPerSecond);
      }
      rank.meet("streamed", 2);
      if (rank.rank() == 0) CHECK(count(rank.infos(), kLaid) == 1);
      rank.close(first);
      rank.close(second);
      rank.meet("closed", 2);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  };
  connect_with_silent_cable(striped_pair(), 2 * kPicosecondsPerSecond);
  connect_with_silent_cable(with(striped_pair(), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"), kPicosecondsPerSecond);
  connect_with_silent_cable(with(striped_pair(), "NCCL_MESH_ACCEPT_TIMEOUT_SEC", "1"), kPicosecondsPerSecond / 5);
}

TEST_CASE("moments: a caller that is absent for three seconds while it connects blames no cable, and has all of them") {
  for (int away = 1; away <= 12; ++away) {
    CAPTURE(away);
    const auto result = run_mesh(striped_pair(), [away](MeshRank& rank) {
      void* comm = nullptr;
      if (rank.rank() == 0) {
        HandleBytes handle = rank.look_up("1");
        for (int call = 0; comm == nullptr; ++call) {
          CHECK(rank.net().connect(rank.context, 0, handle.data(), &comm, nullptr) == 0);
          if (call == away) sim::World::get().sleep(3 * kPicosecondsPerSecond);
        }
        CHECK(count(rank.infos(), kLaid) == 1);
      } else {
        void* listener = rank.listen(0, "1");
        while (comm == nullptr) CHECK(rank.net().accept(listener, &comm, nullptr) == 0);
        CHECK(rank.net().closeListen(listener) == 0);
      }
      CHECK(rank.warnings().empty());
      rank.meet("connected", 2);
      CHECK((rank.rank() == 0 ? rank.net().closeSend(comm) : rank.net().closeRecv(comm)) == 0);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("moments: a second cable goes at 20 moments of a connection's making: it is not waited for") {
  for (const int moment : walk_moments(20)) {
    CAPTURE(moment);
    const auto result = run_mesh(striped_pair(), [moment](MeshRank& rank) {
      if (rank.rank() == 0) set_cable(1, false, moment * 10 * kPicosecondsPerMicrosecond);
      const Comms comms = rank.connect_both(1 - rank.rank(), 0);
      CHECK(sim::World::get().now() < 50 * kMs);
      const Stream stream{.messages = 40};
      rank.rank() == 0 ? stream.send(rank, comms) : stream.receive(rank, comms);
      CHECK(rank.warnings().find("long messages are not striped") == std::string::npos);
      rank.meet("streamed", 2);
      rank.close(comms);
      rank.meet("closed", 2);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a peer that does not stripe refuses rails: no warning, no wait, and the stream is right") {
  models::Cluster cluster = striped_pair();
  for (auto& [name, value] : cluster.nodes[1].environment) {
    if (name == kStripes) value = "0";
  }
  const auto result = run_stream(cluster, {}, [](MeshRank& rank) {
    CHECK(rank.warnings().empty());
    CHECK(count(rank.infos(), kLaid) == 0);
    if (rank.rank() == 0) CHECK(count(rank.infos(), "nothing is striped here") >= 1);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a rail that loses everything later is lost once, and left alone for a minute") {
  const auto result = run_stream(with(striped_pair(), "NCCL_IB_TIMEOUT", "8"),
                                 {.before =
                                      [](int message) {
                                        if (message == 100) {
                                          lose_all_on(1);
                                        }
                                      }},
                                 [](MeshRank& rank) {
                                   CHECK(count(rank.warnings(), "taken up again after") == 1);
                                   if (rank.rank() == 0) CHECK(count(rank.infos(), kLaid) == 1);
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("long stream: two rails' cables come back one shortly after the other: both are laid again") {
  for (const int gap_us : {0, 5, 20, 60, 100}) {
    CAPTURE(gap_us);
    const auto result = run_stream(with(pair_cluster(3), kStripes, "4096"),
                                   {.before =
                                        [gap_us](int message) {
                                          for (const int nic : {1, 2}) {
                                            if (message == 100) set_cable(nic, false);
                                            const Picoseconds later = (nic - 1) * gap_us * kPicosecondsPerMicrosecond;
                                            if (message == 200) set_cable(nic, true, later);
                                          }
                                        }},
                                   [](MeshRank& rank) {
                                     if (rank.rank() == 0) CHECK(count(rank.infos(), kLaid) == 4);
                                   });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("moments: a second cable comes up at 20 moments of a connection's making, and becomes its rail") {
  for (const int moment : walk_moments(20)) {
    CAPTURE(moment);
    const auto result = run_mesh(striped_pair(), [moment](MeshRank& rank) {
      if (rank.rank() == 0) {
        set_cable(1, false);
        set_cable(1, true, moment * 10 * kPicosecondsPerMicrosecond);
      }
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      const Comms comms = rank.connect_both(1 - rank.rank(), 0);
      const Stream stream;
      rank.rank() == 0 ? stream.send(rank, comms) : stream.receive(rank, comms);
      rank.meet("streamed", 2);
      if (rank.rank() == 0) CHECK(count(rank.infos(), kLaid) == 1);
      rank.close(comms);
      rank.meet("closed", 2);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("queue pairs are dealt out by rounds: every cable has one before any has two") {
  const auto result = run_stream(with(striped(3), "NCCL_IB_QPS_PER_CONNECTION", "128"), {}, [](MeshRank& rank) {
    if (rank.rank() != 0) return;
    CHECK(count(rank.infos(), kLaid) == 6);
    const auto laid_over = [&](const std::string& nic) { return count(rank.infos(), kLaid + (" " + nic)); };
    CHECK(laid_over("rocep1s0f0") == 2);
    CHECK(laid_over("rocep1s0f1") == 2);  // and two over the third
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("rails are laid, and connections taken up again, where handshakes have no time limit") {
  const auto cluster = with(with(striped_pair(), "NCCL_MESH_ACCEPT_TIMEOUT_SEC", "0"), "NCCL_IB_TIMEOUT", "8");
  const auto result = run_stream(cluster,
                                 {.before =
                                      [](int message) {
                                        if (message == 100) set_cable(0, false);
                                        if (message == 200) set_cable(0, true);
                                      }},
                                 [](MeshRank& rank) {
                                   if (rank.rank() == 0) CHECK(count(rank.warnings(), "taken up again after") >= 1);
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "the first cable loses all RoCE packets and keeps its link: the stream goes on over the other one, and stays") {
  const auto result = run_stream(with(with(pair_cluster(2), kStripes, "0"), "NCCL_IB_TIMEOUT", "8"),
                                 {.before =
                                      [](int message) {
                                        if (message == 100) lose_all_on(0);
                                      }},
                                 [](MeshRank& rank) {
                                   CHECK(count(rank.warnings(), "taken up again after") == 1);
                                   CHECK(rank.warnings().find("rocep1s0f1 192.168.101.") != std::string::npos);
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the only cable loses all RoCE packets and keeps its link: that ends, though TCP stands again and again") {
  const auto cluster = with(with(pair_cluster(1), "NCCL_IB_TIMEOUT", "8"), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "2");
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer buffer = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 100, 1);
    void* request = rank.rank() == 1 ? rank.receive(comms.receive, buffer) : nullptr;
    rank.meet("posted", 2);
    if (rank.rank() == 0) {
      sim::World::get().sleep(kMs);
      lose_all_on(0);
      sim::World::get().sleep(kMs);
      request = rank.send(comms.send, buffer, 100);
      CHECK(rank.finish(request) == -1);
      CHECK(sim::World::get().now() < 20 * kPicosecondsPerSecond);
    }
    rank.meet("ended", 2);
    rank.release(rank.rank() == 0 ? comms.send : comms.receive, buffer);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace rails_test
