// Long messages over all cables between two nodes into GPU memory: each adapter's bytes are on their way to the GPU
// until a read through that same adapter has pushed them (sim/verbs/posted_writes.h).
#include <doctest/doctest.h>

#include "tests/net/gpu_buffer.h"
#include "tests/net/striped_streams.h"
#include "tests/support/walk.h"

namespace gpu_rails_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr int kMessage = static_cast<int>(kMiB);
constexpr const char* kLaid = "long messages are striped over";

models::Cluster gpu_striped(int cables) { return with_dma_buf(striped(cables)); }
models::Cluster impatient(const models::Cluster& cluster) {
  return with(cluster, "NCCL_IB_TIMEOUT", "10");  // 4.2 ms, seven times
}

/// Nothing lands of its own: what the GPU sees, a read has pushed.
void let_nothing_land() { sim::set_posted_write_delay(3600 * kPicosecondsPerSecond); }

/// Two connected ranks; rank 0 has filled `out`, rank 1 receives into `in`. A connection of rank 0 to rank 1 alone.
struct GpuPair {
  MeshRank& rank;
  Comms comms;
  GpuBuffer buffer;

  explicit GpuPair(MeshRank& self)
      : rank(self), comms(self.connect_both(1 - self.rank(), 0)), buffer(self, comm(), kMiB) {
    rank.meet("connected", 2);
  }
  bool sends() const { return rank.rank() == 0; }
  void* comm() const { return sends() ? comms.send : comms.receive; }
  /// One message, acknowledged; the receiver has not flushed it.
  void move(std::uint32_t seed, int size = kMessage) {
    const auto bytes = static_cast<std::size_t>(size);
    if (sends()) {
      buffer.fill(seed);
      CHECK(rank.finish(test::send(rank, comms.send, buffer, bytes)) == size);
    } else {
      buffer.clear();
      CHECK(rank.finish(test::receive(rank, comms.receive, buffer, kMiB)) == size);
    }
  }
  void flush() { test::flush(rank, comms.receive, buffer, kMessage); }
};

/// As run_mesh(): both ranks of a pair in `body`, which ends with both of them there.
WorldResult run_gpu_pair(const models::Cluster& cluster, const std::function<void(GpuPair&)>& body) {
  return run_mesh(cluster, [&](MeshRank& rank) {
    Comms comms;
    {
      GpuPair pair(rank);
      comms = pair.comms;
      body(pair);
      rank.meet("done", 2);
    }
    rank.close(comms);
    rank.meet("closed", 2);
  });
}

/// The time that 32 messages take into GPU memory, each flushed, in us.
double time_of_32_mib(const models::Cluster& cluster) {
  const auto result = run_gpu_pair(cluster, [](GpuPair& pair) {
    const Picoseconds begun = sim::World::get().now();
    for (std::uint32_t message = 0; message < 32; ++message) {
      pair.move(1);
      if (!pair.sends()) pair.flush();
    }
    if (!pair.sends()) report(std::to_string(static_cast<double>(sim::World::get().now() - begun) / 1e6));
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
  REQUIRE_FALSE(result.value.empty());
  return std::stod(result.value);
}

}  // namespace

TEST_CASE("GPU memory is striped: two cables take half the time, three a third") {
  const double one = time_of_32_mib(gpu_striped(1));
  const double two = time_of_32_mib(gpu_striped(2));
  const double three = time_of_32_mib(gpu_striped(3));
  CAPTURE(one);
  CAPTURE(two);
  CAPTURE(three);
  CHECK(two < 0.55 * one);
  CHECK(three < 0.40 * one);
}

TEST_CASE("the GPU sees every stripe after the flush, and none before it") {
  for (const int cables : {2, 3}) {
    for (const char* pairs : {"1", "2"}) {
      const auto cluster = with(gpu_striped(cables), "NCCL_IB_QPS_PER_CONNECTION", pairs);
      const auto result = run_gpu_pair(cluster, [](GpuPair& pair) {
        let_nothing_land();
        for (std::uint32_t message = 0; message < 4; ++message) {
          pair.move(message);
          if (pair.sends()) continue;
          CHECK(pair.buffer.wrong(kMiB, message) > kMiB * 9 / 10);
          pair.flush();
          CHECK(pair.buffer.wrong(kMiB, message) == 0);
        }
        CHECK(pair.rank.warnings().empty());
      });
      CHECK(result.outcome == OutcomeKind::kFinished);
    }
  }
}

TEST_CASE("long stream: messages of every length into GPU memory, each right after its flush") {
  for (const int cables : {2, 3}) {
    const auto result = run_gpu_pair(gpu_striped(cables), [](GpuPair& pair) {
      for (int message = 0; message < 120; ++message) {
        const auto size = static_cast<int>(Stream::size_of(message));
        const auto seed = static_cast<std::uint32_t>(message);
        pair.move(seed, size);
        if (pair.sends()) continue;
        flush(pair.rank, pair.comms.receive, pair.buffer, size);
        CHECK(pair.buffer.wrong(static_cast<std::size_t>(size), seed) == 0);
      }
      CHECK(pair.rank.warnings().empty());
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a flush reads through the QP link's device, and through the others only after they brought stripes") {
  const auto result = run_gpu_pair(gpu_striped(3), [](GpuPair& pair) {
    const auto reads_of_flush = [&] {
      const std::uint64_t before = sim::verbs_counters().messages;
      pair.flush();
      return sim::verbs_counters().messages - before;
    };
    const auto step = [&](const std::string& name, int size, std::uint64_t reads) {
      if (size > 0) pair.move(1, size);
      pair.rank.meet(name + " moved", 2);
      sim::World::get().sleep(kMs);  // the notice for the other end has arrived
      if (!pair.sends()) CHECK(reads_of_flush() == reads);
      pair.rank.meet(name + " flushed", 2);
    };
    step("striped", kMessage, 3);
    step("again", 0, 1);
    step("short", 100, 1);
    step("striped again", kMessage, 3);
    if (!pair.sends()) return;
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two flushes of one message at a time: both wait for all of it") {
  const auto result = run_gpu_pair(gpu_striped(3), [](GpuPair& pair) {
    let_nothing_land();
    pair.move(3);
    if (pair.sends()) return;
    void* first = begin_flush(pair.rank, pair.comms.receive, pair.buffer, kMessage);
    void* second = begin_flush(pair.rank, pair.comms.receive, pair.buffer, kMessage);
    CHECK(pair.rank.finish(second) == 0);
    CHECK(pair.buffer.wrong(kMiB, 3) == 0);
    CHECK(pair.rank.finish(first) == 0);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("one flush of a group shows all its striped parts") {
  const auto result = run_gpu_pair(gpu_striped(3), [](GpuPair& pair) {
    constexpr int kParts = 4;
    constexpr std::size_t kPart = kMiB / kParts;
    let_nothing_land();
    MeshRank& rank = pair.rank;
    if (pair.sends()) {
      pair.buffer.fill(9);
      std::vector<void*> requests;
      for (int part = 0; part < kParts; ++part) {
        // The last one is too short to be striped.
        requests.push_back(send(rank, pair.comms.send, pair.buffer, part == kParts - 1 ? 100 : kPart, part));
      }
      for (void* request : requests) CHECK(rank.finish(request) >= 0);
      return;
    }
    pair.buffer.clear();
    void *data[kParts], *memories[kParts];
    std::size_t sizes[kParts];
    int tags[kParts], received[8]{};
    for (int part = 0; part < kParts; ++part) {
      data[part] = static_cast<char*>(pair.buffer.data()) + part * static_cast<int>(kPart);
      memories[part] = pair.buffer.memory;
      sizes[part] = kPart;
      tags[part] = part;
    }
    void* request = nullptr;
    while (request == nullptr) {
      CHECK(rank.net().irecv(pair.comms.receive, kParts, data, sizes, tags, memories, nullptr, &request) == 0);
    }
    CHECK(rank.finish(request, received) == static_cast<int>(kPart));
    for (std::size_t part = 0; part < kParts; ++part) CHECK(pair.buffer.wrong(kPart, 9, part * kPart) > 0);
    request = nullptr;
    CHECK(rank.net().iflush(pair.comms.receive, kParts, data, received, memories, &request) == 0);
    CHECK(rank.finish(request) == 0);
    for (std::size_t part = 0; part < kParts; ++part) {
      CHECK(pair.buffer.wrong(part == kParts - 1 ? 100 : kPart, 9, part * kPart) == 0);
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the queue pairs for flushes come with the first GPU memory, one for each device, and go again") {
  run_mesh(with(gpu_striped(2), "NCCL_IB_QPS_PER_CONNECTION", "2"), [](MeshRank& rank) {
    rank.meet("started", 2);
    const std::uint64_t before_connections = sim::verbs_counters().live_objects;
    rank.meet("counted first", 2);
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    if (rank.rank() == 1) {
      const std::uint64_t before = sim::verbs_counters().live_objects;
      {
        const GpuBuffer memory(rank, comms.receive, 4096);
        CHECK(sim::verbs_counters().live_objects == before + 1 + 2 * 3);
      }
      CHECK(sim::verbs_counters().live_objects == before + 2 * 3);
    }
    rank.meet("counted", 2);
    rank.close(comms);
    rank.meet("closed", 2);
    if (rank.rank() == 1) CHECK(sim::verbs_counters().live_objects == before_connections);
  });
}

TEST_CASE("GPU memory that was registered with another connection is striped into and flushed") {
  run_mesh(gpu_striped(2), [](MeshRank& rank) {
    const Comms first = rank.connect_both(1 - rank.rank(), 0, "/first");
    const Comms second = rank.connect_both(1 - rank.rank(), 0, "/second");
    let_nothing_land();
    if (rank.rank() == 0) {
      GpuBuffer out(rank, first.send, kMiB);
      out.fill(4);
      CHECK(rank.finish(send(rank, second.send, out, kMiB)) == kMessage);
    } else {
      const GpuBuffer in(rank, first.receive, kMiB);
      CHECK(rank.finish(receive(rank, second.receive, in, kMiB)) == kMessage);
      flush(rank, second.receive, in, kMessage);
      CHECK(in.wrong(kMiB, 4) == 0);
    }
    rank.meet("done", 2);
    rank.close(first);
    rank.close(second);
  });
}

TEST_CASE("a rail's cable goes under GPU traffic and comes back: each message is right after its flush, and striped") {
  const auto result = run_gpu_pair(impatient(gpu_striped(3)), [](GpuPair& pair) {
    for (std::uint32_t message = 0; message < 90; ++message) {
      if (pair.sends() && message == 30) set_cable(1, false);
      if (pair.sends() && message == 60) set_cable(1, true);
      pair.move(message);
      if (pair.sends()) continue;
      pair.flush();
      CHECK(pair.buffer.wrong(kMiB, message) == 0);
    }
    CHECK(count(pair.rank.warnings(), "taken up again after") == 1);
    if (pair.sends()) CHECK(count(pair.rank.infos(), kLaid) == 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

/// A striped message; then both ends find out, by one into host memory, that the cable of NIC `nic` is gone; then the
/// receiver is in `body`, with its flush still to be done.
WorldResult lose_between(const models::Cluster& cluster, int nic, Picoseconds delay,
                         const std::function<void(GpuPair&)>& body) {
  return run_gpu_pair(with(cluster, "NCCL_IB_TIMEOUT", "5"), [&, nic, delay](GpuPair& pair) {
    sim::set_posted_write_delay(delay);
    MeshRank& rank = pair.rank;
    Buffer other = rank.buffer(pair.comm(), kMiB, 1);
    pair.move(5);
    rank.meet("striped", 2);
    if (pair.sends()) set_cable(nic, false);
    void* request = pair.sends() ? rank.send(pair.comm(), other, kMiB) : rank.receive(pair.comm(), other);
    CHECK(rank.finish(request) == kMessage);
    CHECK(count(rank.warnings(), "taken up again after") == 1);
    rank.release(pair.comm(), other);
    if (!pair.sends()) {
      CHECK(pair.buffer.wrong(kMiB, 5) > kMiB / 2);
      body(pair);
    }
    rank.meet("flushed", 2);
    // And it goes on.
    pair.move(6);
    if (pair.sends()) return;
    pair.flush();
    CHECK(pair.buffer.wrong(kMiB, 6) == 0);
  });
}

}  // namespace

TEST_CASE(
    "the QP link's cable, or a rail's, goes between stripes and their flush: it waits until what came there landed") {
  for (const int nic : {0, 1}) {
    CAPTURE(nic);
    const auto result = lose_between(gpu_striped(2), nic, 40 * kMs, [](GpuPair& pair) {
      pair.flush();
      CHECK(pair.buffer.wrong(kMiB, 5) == 0);
      CHECK(sim::World::get().now() < 1000 * kMs);
      // Nothing is on its way any more.
      const Picoseconds begun = sim::World::get().now();
      pair.flush();
      CHECK(sim::World::get().now() < begun + kMs);
      sim::set_posted_write_delay(50 * kPicosecondsPerMicrosecond);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a QP link that was replaced: a flush still reads through each device of it whose port is up") {
  const auto result = lose_between(gpu_striped(3), 2, 3600 * kPicosecondsPerSecond, [](GpuPair& pair) {
    pair.flush();
    // What came over the cable that is gone, a third, does not land in this world; all else was read behind.
    CHECK(pair.buffer.wrong(kMiB, 5) > kMiB / 4);
    CHECK(pair.buffer.wrong(kMiB, 5) < kMiB * 2 / 5);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a short interruption of a rail: the flush waits for it") {
  const auto result = run_gpu_pair(gpu_striped(2), [](GpuPair& pair) {
    let_nothing_land();
    pair.move(5);
    pair.rank.meet("striped", 2);
    if (pair.sends()) return;
    set_cable(1, false);
    set_cable(1, true, 100 * kMs);
    pair.flush();
    CHECK(sim::World::get().now() >= 100 * kMs);
    CHECK(pair.buffer.wrong(kMiB, 5) == 0);
    CHECK(pair.rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "a rail's port is down for longer than the retries: the flush ends, the QP link goes on, stripes come again") {
  const auto result = run_gpu_pair(impatient(gpu_striped(2)), [](GpuPair& pair) {
    MeshRank& rank = pair.rank;
    pair.move(5);
    rank.meet("striped", 2);
    if (!pair.sends()) {
      set_cable(1, false);
      set_cable(1, true, 200 * kMs);
      const Picoseconds begun = sim::World::get().now();
      pair.flush();
      CHECK(pair.buffer.wrong(kMiB, 5) == 0);
      CHECK(sim::World::get().now() - begun > 50 * kMs);
      CHECK(sim::World::get().now() - begun < 150 * kMs);
      CHECK(rank.warnings().find("a flush of GPU memory failed: transport retry counter exceeded: the port of "
                                 "rocep1s0f1 is down: look at its cable; GPU memory is not striped over rocep1s0f1 "
                                 "until its port is up") != std::string::npos);
      CHECK(count(rank.warnings(), "\n") == 1);
      sim::World::get().sleep(300 * kMs);
    }
    rank.meet("flushed", 2);
    let_nothing_land();
    for (std::uint32_t message = 0; message < 40; ++message) {
      const std::string name = std::to_string(message);
      pair.move(message);
      rank.meet("moved" + name, 2);
      if (!pair.sends()) {
        const std::uint64_t before = sim::verbs_counters().messages;
        pair.flush();
        CHECK(pair.buffer.wrong(kMiB, message) == 0);
        if (message == 39) CHECK(sim::verbs_counters().messages - before == 2);
      }
      rank.meet("flushed" + name, 2);
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a device through which no flush gets, four times: GPU memory leaves it alone, and nothing fails") {
  const auto result = run_gpu_pair(impatient(gpu_striped(2)), [](GpuPair& pair) {
    MeshRank& rank = pair.rank;
    for (int round = 0; round < 4; ++round) {
      const std::string name = std::to_string(round);
      pair.move(5);
      rank.meet("striped" + name, 2);
      if (!pair.sends()) {
        set_cable(1, false);
        set_cable(1, true, 200 * kMs);
        pair.flush();
        CHECK(pair.buffer.wrong(kMiB, 5) == 0);
        sim::World::get().sleep(300 * kMs);
      }
      rank.meet("flushed" + name, 2);
    }
    if (!pair.sends()) {
      CHECK(count(rank.warnings(), "until its port is up") == 3);
      CHECK(count(rank.warnings(), "GPU memory is not striped over rocep1s0f1 any more") == 1);
    }
    // Nothing comes over the second cable now, which may go.
    pair.move(6);
    rank.meet("not striped", 2);
    if (pair.sends()) return;
    set_cable(1, false);
    const Picoseconds begun = sim::World::get().now();
    pair.flush();
    CHECK(sim::World::get().now() < begun + kMs);
    CHECK(pair.buffer.wrong(kMiB, 6) == 0);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

/// Messages of many lengths, four under way at a time; each is flushed when it is there, while others come, and looked
/// at right after that.
void stream(GpuPair& pair, int messages, const std::function<void(int message)>& before) {
  MeshRank& rank = pair.rank;
  const auto size_of = [](int message) { return static_cast<int>(Stream::size_of(message)); };
  std::vector<std::unique_ptr<GpuBuffer>> slots;
  for (int slot = 0; slot < 4; ++slot) slots.push_back(std::make_unique<GpuBuffer>(rank, pair.comm(), kMiB));
  std::deque<std::pair<void*, int>> under_way;
  for (int message = 0; message < messages || !under_way.empty();) {
    if (message < messages && under_way.size() < slots.size()) {
      GpuBuffer& buffer = *slots[static_cast<std::size_t>(message) % slots.size()];
      if (pair.sends()) {
        before(message);
        buffer.fill(static_cast<std::uint32_t>(message));
      } else {
        buffer.clear();
      }
      under_way.emplace_back(pair.sends() ? send(rank, pair.comm(), buffer, Stream::size_of(message))
                                          : receive(rank, pair.comm(), buffer, kMiB),
                             message);
      ++message;
      continue;
    }
    const auto [request, number] = under_way.front();
    under_way.pop_front();
    CHECK(rank.finish(request) == size_of(number));
    if (pair.sends()) continue;
    const GpuBuffer& buffer = *slots[static_cast<std::size_t>(number) % slots.size()];
    flush(rank, pair.comm(), buffer, size_of(number));
    CHECK(buffer.wrong(Stream::size_of(number), static_cast<std::uint32_t>(number)) == 0);
  }
  rank.meet("streamed", 2);
}

}  // namespace

TEST_CASE(
    "moments: a cable goes and comes at 30 moments of a stream into GPU memory: each message is right when flushed") {
  for (const int moment : walk_moments(30)) {
    CAPTURE(moment);
    const int nic = moment % 3;
    const auto result = run_gpu_pair(with(gpu_striped(3), "NCCL_IB_TIMEOUT", "8"), [moment, nic](GpuPair& pair) {
      sim::set_posted_write_delay(2 * kMs);
      stream(pair, 40, [moment, nic](int message) {
        if (message != 6) return;
        set_cable(nic, false, moment * 12 * kPicosecondsPerMicrosecond);
        set_cable(nic, true, (moment % 7 + 1) * 5 * kMs);
      });
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("moments: a port of the receiver is down at 30 moments of its flushes, whatever the sender sees") {
  for (const int moment : walk_moments(30)) {
    CAPTURE(moment);
    const auto result = run_gpu_pair(with(gpu_striped(2), "NCCL_IB_TIMEOUT", "5"), [moment](GpuPair& pair) {
      sim::set_posted_write_delay(2 * kMs);
      stream(pair, 48, [moment](int message) {
        if (message % 12 != 6) return;
        set_cable(1, false, moment * 20 * kPicosecondsPerMicrosecond);
        set_cable(1, true, moment * 20 * kPicosecondsPerMicrosecond + (moment % 5 + 1) * kMs);
      });
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

}  // namespace gpu_rails_test
