// What happens to a connection through relays when one of their machines dies, and to a connect() whose cables lead
// nowhere.
#include <doctest/doctest.h>

#include "plugin/net/wire/handle.h"
#include "tests/net/failover_streams.h"

namespace relay_trouble_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr Picoseconds kSecond = kPicosecondsPerSecond;

void kill(void*, std::uint64_t node) { sim::kill_node(sim::World::get(), static_cast<int>(node)); }

void go_on(void*, std::uint64_t node) { sim::continue_node(sim::World::get(), static_cast<int>(node)); }

void stand_still(void*, std::uint64_t node) { sim::stop_node(sim::World::get(), static_cast<int>(node)); }

/// One message each way, at the same time.
void exchange_one(MeshRank& rank, const Comms& comms, std::size_t size) {
  Buffer out = rank.buffer(comms.send, size, 3);
  Buffer in = rank.buffer(comms.receive, size, 99);
  void* receive = rank.receive(comms.receive, in);
  void* send = rank.send(comms.send, out, size);
  CHECK(rank.finish(send) == static_cast<int>(size));
  CHECK(rank.finish(receive) == static_cast<int>(size));
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < size; ++at) wrong += in.bytes[at] != MeshRank::pattern(at, 3) ? 1 : 0;
  CHECK(wrong == 0);
  rank.release(comms.send, out);
  rank.release(comms.receive, in);
}

/// Ranks 0 and 3 of a ring of six exchange messages; trouble(world, relay) begins at rank 0 for each of the four relays
/// in turn, and after `pause_ps` they exchange `size` bytes once more, over the other way round if need be.
void exchange_in_trouble(void (*trouble)(sim::World&, std::uint64_t), Picoseconds pause_ps, std::size_t size) {
  constexpr int kNodes = 6;
  for (const int victim : {1, 2, 4, 5}) {
    CAPTURE(victim);
    const auto result = run_mesh(ring_cluster(kNodes), [=](MeshRank& rank) {
      sim::World& world = sim::World::get();
      if (rank.rank() == victim) {
        world.sleep(1000 * kSecond);
        return;  // never comes here
      }
      if (rank.rank() == 0 || rank.rank() == 3) {
        const Comms comms = rank.connect_both(3 - rank.rank(), 0);
        exchange_one(rank, comms, 200'000);
        rank.meet("exchanged", 2);
        const Picoseconds begun = world.now();
        if (rank.rank() == 0) trouble(world, static_cast<std::uint64_t>(victim));
        if (pause_ps > 0) world.sleep(pause_ps);
        exchange_one(rank, comms, size);
        // 3 s of silence, 7.5 s of a queue pair's retries, and the search for another chain.
        CHECK(world.now() - begun < 20 * kSecond);
        rank.meet("again", 2);
        rank.close(comms);
      }
      rank.meet("end", kNodes - 1);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

}  // namespace

TEST_CASE(
    "a relay's machine dies while nothing is under way: its neighbours miss it, and the other way round is taken") {
  exchange_in_trouble([](sim::World& world, std::uint64_t victim) { world.after(0, 0, &kill, nullptr, victim); },
                      10 * kMs, 200'000);
}

TEST_CASE("a relay stands still amid a message, and dies: the other way round is taken") {
  exchange_in_trouble(
      [](sim::World& world, std::uint64_t victim) {
        world.after(kMs / 10, 0, &stand_still, nullptr, victim);
        world.after(5 * kMs, 0, &kill, nullptr, victim);
      },
      0, 16 << 20);
}

TEST_CASE("a relay is where the map says no more, and stands still: another chain is looked for in time") {
  const models::Cluster line = line_cluster(4);
  const auto result = run_mesh(line, [&line](MeshRank& rank) {
    if (rank.rank() == 0 || rank.rank() == 3) {
      sim::World& world = sim::World::get();
      rank.close(rank.connect_both(3 - rank.rank(), 0));
      if (rank.rank() == 0) {
        change_address(line, {2, 0});
        world.after(0, 0, &stand_still, nullptr, 2);
        world.after(80 * kMs, 0, &go_on, nullptr, 2);
      }
      rank.meet("moved", 2);
      const Comms comms = rank.connect_both(3 - rank.rank(), 0, "again");
      CHECK(world.now() < 8 * kSecond);  // NCCL_MESH_CONNECT_TIMEOUT_SEC is 10
      exchange_one(rank, comms, 200'000);
      rank.meet("exchanged", 2);
      rank.close(comms);
    }
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "a relay's question is under way when the receiver closes: no warning, and the sender, who is idle, is spared") {
  const models::Cluster line = line_cluster(3);
  const auto result = run_mesh(line, [&line](MeshRank& rank) {
    sim::World& world = sim::World::get();
    if (rank.rank() == 0) {
      HandleBytes handle = rank.look_up("door");
      void* send = nullptr;
      while (send == nullptr) CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
      Buffer out = rank.buffer(send, 100, 3);
      CHECK(rank.finish(rank.send(send, out, 100)) == 100);
      rank.meet("carried", 2);
      // From now on nothing comes from the relay to the receiver: no answer, and no question after 3 s of silence.
      const models::PortRef port = line.cables[1].a.node == 1 ? line.cables[1].a : line.cables[1].b;
      const auto lose = [](void*, std::uint64_t nic) {
        sim::shape_port(sim::World::get(), {1, static_cast<int>(nic)}, {.loss = 1.0});
      };
      world.after(0, 0, lose, nullptr, static_cast<std::uint64_t>(port.nic));
      world.sleep(14 * kSecond);  // the question's retries end after 7.5 s, and ten seconds after closing all does
      rank.release(send, out);
      CHECK(rank.net().closeSend(send) == 0);
      CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
    } else if (rank.rank() == 2) {
      void* listener = rank.listen(0, "door");
      void* receive = nullptr;
      while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
      Buffer in = rank.buffer(receive, 100, 1);
      CHECK(rank.finish(rank.receive(receive, in)) == 100);
      rank.meet("carried", 2);
      world.sleep(5 * kSecond);
      rank.release(receive, in);
      CHECK(rank.net().closeRecv(receive) == 0);
      CHECK(rank.net().closeListen(listener) == 0);
    }
    rank.meet("end", 3);
    if (rank.rank() != 1) return;
    CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
    CHECK(rank.infos().find("transport retry counter exceeded") != std::string::npos);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

constexpr const char* kChainBegun = "no subnet shared with the peer: through 1 relay: ";

/// Polls the listener of rank 2 in a line of three until all other ranks have finished.
void keep_the_door(MeshRank& rank, const bool& over) {
  void* listener = rank.listen(0, "door");
  void* receive = nullptr;
  while (!over) {
    CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
    sim::World::get().sleep(kMs / 10);
  }
  CHECK(receive == nullptr);
  CHECK(rank.net().closeListen(listener) == 0);
}

/// The listener's, but for its cookie: a client with it is refused at once, as if it were of an earlier process.
HandleBytes stale(const HandleBytes& handle) {
  std::array<std::uint8_t, net::kHandleBytes> bytes{};
  std::copy(handle.begin(), handle.end(), bytes.begin());
  net::Handle changed = *net::decode_handle(bytes);
  ++changed.cookie;
  net::encode_handle(changed, bytes);
  HandleBytes result{};
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}

TEST_CASE("a chain that is refused at once is not tried again at once, until a port of ours changes") {
  const models::Cluster line = line_cluster(3);
  bool over = false;
  const auto result = run_mesh(line, [&](MeshRank& rank) {
    if (rank.rank() == 2) keep_the_door(rank, over);
    if (rank.rank() == 0) {
      sim::World& world = sim::World::get();
      const HandleBytes handle = stale(rank.look_up("door"));
      const Picoseconds begun = world.now();
      void* send = nullptr;
      const auto chains_by = [&](Picoseconds when) {
        while (world.now() - begun < when) {
          REQUIRE(rank.net().connect(rank.context, 0, const_cast<char*>(handle.data()), &send, nullptr) == 0);
        }
        return count(rank.infos(), kChainBegun);
      };
      const std::size_t first = chains_by(600 * kMs);
      CHECK(first >= 8);  // 1 ms, 2 ms, ... 256 ms apart
      const std::size_t later = chains_by(4500 * kMs);
      CHECK(later > first + 2);
      CHECK(later < first + 6);  // a second apart
      change_address(line, {0, 1});
      CHECK(chains_by(4800 * kMs) > later + 4);
      over = true;
    }
    rank.meet("end", 3);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a chain that is refused until the time is up: the error says why") {
  bool over = false;
  const auto result = run_mesh(with(line_cluster(3), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"), [&](MeshRank& rank) {
    if (rank.rank() == 2) keep_the_door(rank, over);
    if (rank.rank() == 0) {
      const HandleBytes handle = stale(rank.look_up("door"));
      void* send = nullptr;
      int outcome = 0;
      while (outcome == 0 && send == nullptr) {
        outcome = rank.net().connect(rank.context, 0, const_cast<char*>(handle.data()), &send, nullptr);
      }
      CHECK(outcome == nccl::kNcclRemoteError);
      INFO(rank.warnings());
      CHECK(count(rank.warnings(), "; the last chain that was tried within 1 s: ") == 1);
      CHECK(count(rank.warnings(), "the peer refuses: ") == 1);  // the relay
      CHECK(rank.warnings().find("no chain of") == std::string::npos);
      over = true;
    }
    rank.meet("end", 3);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two cables that are crossed: connect gives up when the time is over, and not once for each of them") {
  models::Cluster cluster = pair_cluster(2);
  std::swap(cluster.cables[0].b, cluster.cables[1].b);
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    if (rank.rank() == 0) {
      HandleBytes handle = rank.look_up("1");
      void* send = nullptr;
      int outcome = 0;
      while (outcome == 0 && send == nullptr) {
        outcome = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      }
      CHECK(outcome == nccl::kNcclRemoteError);
      CHECK(sim::World::get().now() < 12 * kSecond);  // NCCL_MESH_CONNECT_TIMEOUT_SEC is 10
      CHECK(count(rank.warnings(), "another cable leads to the peer, and is tried") == 1);
    }
    rank.meet("end", 2);
    CHECK(rank.net().closeListen(listener) == 0);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

// On a ring of four the lower end of a diagonal goes round by its lower neighbour, the upper end by its upper one: each
// cable carries one of them.
TEST_CASE("a neighbour that answers late is waited for: the way round is not chosen among those who were quick") {
  run_mesh(
      ring_cluster(4),
      [](MeshRank& rank) {
        if (rank.rank() == 3) sim::World::get().sleep(100 * kPicosecondsPerMillisecond);
        rank.start();
        if (rank.rank() % 2 == 0) {
          const Comms comms = rank.connect_both(2 - rank.rank(), 0);
          const std::string expected =
              rank.rank() == 0 ? "through 1 relay: 192.168.100.2" : "through 1 relay: 192.168.102.2";
          CHECK_MESSAGE(rank.infos().find(expected) != std::string::npos, rank.infos());
          rank.close(comms);
        }
        rank.meet("end", 4);
        rank.stop();
      },
      true);
}

/// Ranks 0 and 2 of this ring of four connect twice, while rank 3 is not there; the first time takes so long.
void connect_beside_silence(const models::Cluster& ring, Picoseconds least, Picoseconds most) {
  run_mesh(
      ring,
      [&](MeshRank& rank) {
        if (rank.rank() == 3) return;
        rank.start();
        for (const bool first : {true, false}) {
          if (rank.rank() == 1) break;
          const Picoseconds before = sim::World::get().now();
          rank.close(rank.connect_both(2 - rank.rank(), 0, first ? "first" : "second"));
          const Picoseconds took = sim::World::get().now() - before;
          CHECK(took > (first ? least : 0));
          CHECK(took < (first ? most : 300 * kMs));
        }
        rank.meet("end", 3);
        rank.stop();
      },
      true);
}

TEST_CASE("a neighbour that never answers costs two seconds, once") {
  connect_beside_silence(ring_cluster(4), 2000 * kMs, 2300 * kMs);
}

TEST_CASE("where a connect has a second, a neighbour that never answers costs a quarter of it") {
  connect_beside_silence(with(ring_cluster(4), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"), 250 * kMs, 450 * kMs);
}

TEST_CASE("a port whose subnet has room for no other node is not waited for") {
  models::Cluster ring = ring_cluster(4);
  for (const int node : {0, 2}) {
    for (models::Nic& nic : ring.nodes[static_cast<std::size_t>(node)].nics) {
      const bool to_node3 = std::any_of(ring.nodes[3].nics.begin(), ring.nodes[3].nics.end(), [&](const auto& other) {
        return models::same_subnet(nic.addresses.front(), other.addresses.front());
      });
      if (to_node3) nic.addresses.front().length_bits = 32;
    }
  }
  connect_beside_silence(ring, 0, 300 * kMs);
}

}  // namespace relay_trouble_test
