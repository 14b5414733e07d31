// When receives are announced: those that no sender waits for together, those that one waits for at once, and what is
// held back goes out whatever the owner of the connection does.
#include <cerrno>

#include "plugin/base/units.h"
#include "tests/net/drivers.h"
#include "tests/net/striped_streams.h"
#include "tests/support/walk.h"

namespace announce_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr std::size_t kLong = 64 * kKiB;
constexpr std::size_t kAhead = 8;  // NCCL_STEPS

/// Work requests that rank 1, which receives, has posted to send: its clear-to-sends.
int& writes() {
  static int count = 0;
  return count;
}

void count_writes() {
  drivers().post_send = [](auto qp, const auto* work) {
    if (sim::World::current_process()->rank == 1) ++writes();
    return sim::verbs::backend_table().post_send(qp, work);
  };
}

Picoseconds now() { return sim::World::get().now(); }

/// A connection from rank 0 to rank 1, with some buffers at each end.
struct RegisteredBy {
  MeshRank& rank;
  std::string name;
  Comms comms;
  void* comm;
  std::vector<Buffer> buffers;
  int carried = 0;

  RegisteredBy(MeshRank& of, const std::string& called, std::size_t largest_bytes = kLong, std::size_t count = kAhead)
      : rank(of),
        name(called),
        comms(of.connect_both(1 - of.rank(), 0, name)),
        comm(sends() ? comms.send : comms.receive) {
    for (std::size_t slot = 0; slot < count; ++slot) buffers.push_back(rank.buffer(comm, largest_bytes, 0));
  }
  bool sends() const { return rank.rank() == 0; }
  void close() {
    for (const Buffer& buffer : buffers) rank.release(comm, buffer);
    rank.meet("carried by " + name, 2);
    rank.close(comms);
  }

  void* post(int message, std::size_t size_bytes) {
    Buffer& buffer = buffers[static_cast<std::size_t>(message) % buffers.size()];
    if (!sends()) {
      std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::uint8_t{0xcc});
      return rank.receive(comm, buffer);
    }
    MeshRank::fill(std::span(buffer.bytes).first(size_bytes), static_cast<std::uint32_t>(message));
    return rank.send(comm, buffer, size_bytes);
  }
  void finish(void* request, int message, std::size_t size_bytes) {
    CHECK(rank.finish(request) == static_cast<int>(size_bytes));
    if (sends()) return;
    const Buffer& buffer = buffers[static_cast<std::size_t>(message) % buffers.size()];
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < size_bytes; ++at) {
      wrong += buffer.bytes[at] != MeshRank::pattern(at, static_cast<std::uint32_t>(message)) ? 1 : 0;
    }
    CHECK(wrong == 0);
  }
  /// So many messages, with `ahead` under way; `before` each is posted.
  void stream(int messages, std::size_t size_bytes, std::size_t ahead = kAhead,
              const std::function<void(int message)>& before = {}) {
    std::deque<void*> under_way;
    const int first = carried;
    for (int posted = 0; carried < first + messages;) {
      if (posted < messages && under_way.size() < ahead) {
        if (before) before(posted);
        under_way.push_back(post(first + posted++, size_bytes));
        continue;
      }
      finish(under_way.front(), carried++, size_bytes);
      under_way.pop_front();
    }
  }
};

struct Cost {
  int writes = 0;
  Picoseconds took_ps = 0;
};

/// What so many messages cost on a connection that has carried as many of them before.
Cost cost_of(MeshRank& rank, RegisteredBy& way, int messages, std::size_t size_bytes, std::size_t ahead) {
  way.stream(messages, size_bytes, ahead);
  rank.meet("warm" + std::to_string(way.carried), 2);
  const Cost before{.writes = writes(), .took_ps = now()};
  way.stream(messages, size_bytes, ahead);
  const Cost cost{.writes = writes() - before.writes, .took_ps = now() - before.took_ps};
  rank.meet("cost" + std::to_string(way.carried), 2);
  return cost;
}

void run(const models::Cluster& cluster, const RankBody& body) {
  const WorldResult result = run_mesh(cluster, [&](MeshRank& rank) {
    if (rank.rank() == 1) count_writes();
    body(rank);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

/// Rank 1 posts all that it may and calls nothing of this connection until rank 0 has sent everything; how long that
/// took at rank 0. `then` comes after their part at both.
Picoseconds left_alone(MeshRank& rank, RegisteredBy& way, const std::function<void()>& then = {}) {
  std::vector<void*> requests;
  const Picoseconds begun = now();
  const int first = way.carried;
  if (!way.sends()) {
    for (std::size_t slot = 0; slot < kAhead; ++slot) {
      requests.push_back(way.post(first + static_cast<int>(slot), kLong));
    }
  } else {
    way.stream(kAhead, kLong);
  }
  const Picoseconds took = now() - begun;
  if (then) then();
  rank.meet("sent" + std::to_string(first), 2);
  for (void* request : requests) way.finish(request, way.carried++, kLong);
  return took;
}

}  // namespace

TEST_CASE("announced: in a stream of 64 KiB and more, one clear-to-send for four messages, and no time is lost") {
  run(pair_cluster(1), [](MeshRank& rank) {
    RegisteredBy way(rank, "one", kMiB);
    for (const std::size_t size : {kLong, std::size_t{kMiB}}) {
      const Cost cost = cost_of(rank, way, 128, size, kAhead);
      if (rank.rank() == 0) continue;
      CAPTURE(size);
      CHECK(cost.writes <= 128 / 4 + 4);  // the first ones at once
      CHECK(cost.writes >= 128 / 8);
      // 12.5 GB/s, with headers; the first clear-to-send and the last message's way are not hidden.
      const double wire_us = 128.0 * static_cast<double>(size) / 12'500.0;
      CHECK(static_cast<double>(cost.took_ps) / 1e6 < 1.03 * wire_us + 10);
    }
    way.close();
  });
}

TEST_CASE("announced: with 32 receives posted ahead, one clear-to-send for sixteen messages") {
  run(pair_cluster(1), [](MeshRank& rank) {
    RegisteredBy way(rank, "one", kLong, nccl::kMaxRequests);
    const Cost cost = cost_of(rank, way, 512, kLong, nccl::kMaxRequests);
    if (rank.rank() == 1) CHECK(cost.writes <= 512 / 16 + 8);
    way.close();
  });
}

TEST_CASE("announced: short messages and lone receives at once, whatever came before") {
  run(pair_cluster(1), [](MeshRank& rank) {
    RegisteredBy fresh(rank, "fresh"), used(rank, "used");
    const Cost lone = cost_of(rank, fresh, 50, kLong, 1);
    used.stream(100, kLong);
    const Cost lone_again = cost_of(rank, used, 50, kLong, 1);
    const Cost two = cost_of(rank, used, 50, kLong, 2);
    const Cost shorter = cost_of(rank, used, 200, 4 * kKiB, kAhead);
    if (rank.rank() == 1) {
      CHECK(lone.writes == 50);
      CHECK(lone_again.writes == 50);
      CHECK(lone_again.took_ps == lone.took_ps);
      CHECK(two.writes == 50);
      CHECK(shorter.writes == 200);
    }
    fresh.close();
    used.close();
  });
}

TEST_CASE("announced: what is held back is served within 10 ms though its owner calls nothing more") {
  run(pair_cluster(1), [](MeshRank& rank) {
    RegisteredBy way(rank, "one");
    way.stream(100, kLong);
    for (int round = 0; round < 3; ++round) {
      rank.meet("round" + std::to_string(round), 2);
      const Picoseconds took = left_alone(rank, way);
      // Otherwise nothing was held back, and this says nothing.
      if (rank.rank() == 0) CHECK(took > 3 * kMs);
      if (rank.rank() == 0) CHECK(took < 11 * kMs);
      // The service's thread has gone to sleep meanwhile, and must be woken once more.
      sim::World::get().sleep((round == 1 ? 1000 : 1) * kMs);
    }
    way.close();
  });
}

TEST_CASE("announced: an owner who came back all the time and then does not costs 40 ms once, then 10 again") {
  run(ring_cluster(2, 1'000'000'000, kPicosecondsPerMicrosecond, 1), [](MeshRank& rank) {
    RegisteredBy way(rank, "one");
    way.stream(500, kLong);  // 0.5 ms each
    constexpr Picoseconds kTransfers = 5 * kMs;
    for (int round = 0; round < 2; ++round) {
      rank.meet("round" + std::to_string(round), 2);
      const Picoseconds took = left_alone(rank, way);
      if (rank.rank() != 0) continue;
      CHECK(took > (round == 0 ? 20 : 8) * kMs);
      CHECK(took < (round == 0 ? 40 : 10) * kMs + kTransfers);
    }
    way.close();
  });
}

TEST_CASE("announced: what is held back is served though its owner looks only at another connection, which waits") {
  run(pair_cluster(1), [](MeshRank& rank) {
    RegisteredBy way(rank, "one"), other(rank, "other");
    way.stream(100, kLong);
    rank.meet("warm", 2);
    // Rank 0 sends on the other one when all is sent on this one.
    const Picoseconds took = left_alone(rank, way, [&] { other.stream(1, kLong); });
    if (rank.rank() == 0) CHECK(took > 3 * kMs);
    if (rank.rank() == 0) CHECK(took < 11 * kMs);
    way.close();
    other.close();
  });
}

TEST_CASE("announced: without a service nothing is held back") {
  const WorldResult result = run_mesh(
      pair_cluster(1),
      [](MeshRank& rank) {
        drivers().create_channel = [](auto, auto, auto) { return ENOMEM; };
        if (rank.rank() == 1) count_writes();
        rank.start();
        CHECK(count(rank.warnings(), "no relay and no failover here") == 1);
        RegisteredBy way(rank, "one");
        const Cost cost = cost_of(rank, way, 100, kLong, kAhead);
        if (rank.rank() == 1) CHECK(cost.writes == 100);
        CHECK(left_alone(rank, way) < kMs);
        way.close();
        rank.stop();
      },
      true);
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("announced: long messages over two cables, keys and entries together, too") {
  run(with(pair_cluster(2), kStripes, "65536"), [](MeshRank& rank) {
    RegisteredBy way(rank, "one", kMiB);
    for (const std::size_t size : {kLong, std::size_t{kMiB}}) {
      const Cost cost = cost_of(rank, way, 600, size, kAhead);
      if (rank.rank() == 1) CHECK(cost.writes <= 2 * (600 / 4) + 6);
    }
    if (rank.rank() == 0) CHECK(count(rank.infos(), "long messages are striped over") == 1);
    left_alone(rank, way);
    way.close();
  });
}

TEST_CASE("announced: groups that wrap round the ring's end are held back and come whole") {
  run(pair_cluster(1), [](MeshRank& rank) {
    constexpr std::size_t kParts = 7;  // 256 is no multiple
    constexpr int kGroups = 200;
    RegisteredBy way(rank, "one", kAhead * kParts * kLong);
    const auto part_of = [&](int group, std::size_t part) {
      return way.buffers[0].bytes.data() + ((static_cast<std::size_t>(group) % kAhead) * kParts + part) * kLong;
    };
    std::deque<std::vector<void*>> under_way;
    const int before = writes();
    for (int posted = 0, done = 0; done < kGroups;) {
      if (posted < kGroups && under_way.size() < kAhead) {
        std::vector<void*> requests;
        std::array<void*, kParts> data{}, memories{}, none{};
        std::array<std::size_t, kParts> sizes{};
        std::array<int, kParts> tags{};
        for (std::size_t part = 0; part < kParts; ++part) {
          data[part] = part_of(posted, part);
          memories[part] = way.buffers[0].memory;
          sizes[part] = kLong;
          tags[part] = static_cast<int>(part);
          if (!way.sends()) continue;
          MeshRank::fill({part_of(posted, part), kLong}, static_cast<std::uint32_t>(8 * posted) + tags[part]);
          void* request = nullptr;
          while (request == nullptr) {
            CHECK(rank.net().isend(way.comm, data[part], kLong, tags[part], memories[part], nullptr, &request) == 0);
          }
          requests.push_back(request);
        }
        void* request = nullptr;
        while (!way.sends() && request == nullptr) {
          CHECK(rank.net().irecv(way.comm, kParts, data.data(), sizes.data(), tags.data(), memories.data(), none.data(),
                                 &request) == 0);
        }
        if (request != nullptr) requests.push_back(request);
        under_way.push_back(std::move(requests));
        ++posted;
        continue;
      }
      for (void* request : under_way.front()) CHECK(rank.finish(request) == static_cast<int>(kLong));
      under_way.pop_front();
      for (std::size_t part = 0; part < kParts && !way.sends(); ++part) {
        const std::uint8_t* bytes = part_of(done, part);
        const auto seed = static_cast<std::uint32_t>(8 * done) + static_cast<std::uint32_t>(part);
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < kLong; ++at) wrong += bytes[at] != MeshRank::pattern(at, seed) ? 1 : 0;
        CHECK(wrong == 0);
      }
      ++done;
    }
    if (rank.rank() == 1) CHECK(writes() - before <= kGroups / 2);
    way.close();
  });
}

TEST_CASE("announced: a cable is pulled while receives are held back: all are announced on the next one") {
  run(with(pair_cluster(2), kStripes, "0"), [](MeshRank& rank) {
    RegisteredBy way(rank, "one");
    way.stream(100, kLong);
    rank.meet("warm", 2);
    std::vector<void*> requests;
    if (rank.rank() == 1) {
      for (int slot = 0; slot < static_cast<int>(kAhead); ++slot) requests.push_back(way.post(100 + slot, kLong));
      set_cable(0, false);
    }
    rank.meet("pulled", 2);
    sim::World::get().sleep(kMs);
    if (way.sends()) {
      way.stream(kAhead, kLong);
    } else {
      for (void* request : requests) way.finish(request, way.carried++, kLong);
    }
    CHECK(count(rank.warnings(), "taken up again") == 1);
    // And held back again.
    const Cost cost = cost_of(rank, way, 100, kLong, kAhead);
    if (rank.rank() == 1) CHECK(cost.writes <= 100 / 4 + 4);
    left_alone(rank, way);
    way.close();
  });
}

TEST_CASE("announced: a cable goes at many moments of a stream that holds receives back") {
  for (const int moment : walk_moments(12)) {
    run(with(pair_cluster(2), kStripes, moment % 2 == 0 ? "0" : "65536"), [moment](MeshRank& rank) {
      RegisteredBy way(rank, "one");
      // 5.4 us a message, 2.7 over both cables: another phase of holding back each time.
      way.stream(300, kLong, kAhead, [&](int message) {
        if (rank.rank() == 1 && message == 100) set_cable(0, false, moment * 1'300'000);
        if (rank.rank() == 1 && message == 220) set_cable(0, true, moment * 1'300'000);
      });
      CHECK(count(rank.warnings(), "taken up again") >= 1);
      way.close();
    });
  }
}

}  // namespace announce_test
