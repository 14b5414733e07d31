// Times to the picosecond, from the equations of models/link.h, and that they repeat.
#include <doctest/doctest.h>

#include <cmath>

#include "models/link.h"
#include "tests/verbs/pair.h"

namespace time_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;
constexpr Picoseconds kLatency = kPicosecondsPerMicrosecond;
constexpr std::uint64_t kBytes = 64 * kMiB;

Picoseconds write_wire_ps(std::uint64_t bytes) {
  return wire_time_ps(models::wire_bytes(bytes, 4096, models::kRethBytes), kRate);
}

PairOptions large(std::size_t memory_bytes = kBytes) {
  return {.configure = [memory_bytes](Setup& setup, int) { setup.memory_bytes = memory_bytes; }};
}

/// All that a run reports about its messages.
class Log final : public sim::MessageSink {
 public:
  void message(const sim::MessageRecord& record) override { records.push_back(record); }
  std::vector<sim::MessageRecord> records;
};

}  // namespace

// models/link.h: wire bytes of a message, then its acknowledgement (InfiniBand Architecture, volume 1, 9.7).
TEST_CASE("a 64 MiB write takes its wire bytes over the rate, plus one latency there and one back") {
  run_pair(large(), [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, static_cast<std::uint32_t>(kBytes)) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(now() - start == write_wire_ps(kBytes) + 2 * kLatency);
    CHECK(side.peer().memory.back() == 'A');
    CHECK(sim::verbs_counters().copied_bytes == kBytes);
  });
}

// models/link.h: wire bytes of the request and of its response (InfiniBand Architecture, volume 1, 9.4.4: RDMA READ).
TEST_CASE("a 64 MiB read takes its request, its response's wire bytes over the rate, and two latencies") {
  run_pair(large(), [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_read(1, 0, static_cast<std::uint32_t>(kBytes)) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    const Picoseconds request = wire_time_ps(models::wire_bytes(0, 4096, models::kRethBytes), kRate);
    const Picoseconds response = wire_time_ps(models::wire_bytes(kBytes, 4096, 2 * models::kAethBytes), kRate);
    CHECK(now() - start == request + response + 2 * kLatency);
  });
}

// models/cluster.h: Switch::latency_ps, "forwarding delay", and the propagation of two cables.
TEST_CASE("through a switch the latency is both cables and the switch") {
  auto cluster = switch_cluster(2);
  cluster.switches[0].latency_ps = 300 * kPicosecondsPerNanosecond;
  PairOptions options = large(1 << 20);
  options.cluster = cluster;
  run_pair(options, [](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 4096) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(now() - start == write_wire_ps(4096) + 2 * (2 * kLatency + 300 * kPicosecondsPerNanosecond));
  });
}

// InfiniBand Architecture, volume 1, 9.5: requests are sent in the order in which they were posted.
TEST_CASE("work requests of one queue pair follow one another on the wire without a gap") {
  for (const sim::FabricKind fabric : {sim::FabricKind::kChunk, sim::FabricKind::kFluid}) {
    PairOptions options = large(1 << 20);
    options.fabric = fabric;
    run_pair(options, [](Side& side) {
      if (side.index != 0) return;
      const Picoseconds start = now();
      for (std::uint64_t id = 0; id < 50; ++id) CHECK(side.post_write(id, 0, 4096) == 0);
      for (std::uint64_t id = 0; id < 50; ++id) {
        CHECK(side.wait().wr_id == id);
        const Picoseconds expected = static_cast<Picoseconds>(id + 1) * write_wire_ps(4096) + 2 * kLatency;
        CHECK(std::abs(now() - start - expected) <= 50);  // the fluid solver's rounding; 0 for the chunk fabric
      }
    });
  }
}

// sim/engine/fabric.h: fluid shares a cable max-min, chunk serves the waiting flows in turn.
TEST_CASE("two queue pairs on one cable share it: both take twice as long") {
  for (const sim::FabricKind fabric : {sim::FabricKind::kChunk, sim::FabricKind::kFluid}) {
    PairOptions options = large(1 << 20);
    options.fabric = fabric;
    run_pair(options, [](Side& side) {
      // A second connection between the same two ranks.
      static Pair other;  // shared by the two threads of this child process
      Side& mine = other.sides[side.index];
      mine.index = side.index;
      mine.pair = &other;
      mine.setup = side.setup;
      mine.open();
      side.barrier();
      mine.connect();
      side.barrier();
      if (side.index != 0) return;
      const Picoseconds start = now();
      CHECK(side.post_write(1, 0, 1 << 20) == 0);
      CHECK(mine.post_write(2, 0, 1 << 20) == 0);
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      const Picoseconds first = now() - start;
      CHECK(mine.wait().status == IBV_WC_SUCCESS);
      const Picoseconds both = 2 * write_wire_ps(1 << 20) + 2 * kLatency;
      CHECK(std::abs(now() - start - both) <= 10);
      CHECK(both - first <= wire_time_ps(16 * kKiB, kRate));  // one chunk apart
    });
  }
}

// IEEE 802.3, full duplex: a cable's two directions are independent.
TEST_CASE("traffic both ways does not slow down: a cable is full duplex") {
  run_pair(large(1 << 20), [](Side& side) {
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 1 << 20) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(now() - start == write_wire_ps(1 << 20) + 2 * kLatency);
  });
}

// sim/verbs/verbs_host.h: MessageRecord.
TEST_CASE("a message whose receiver closes before the acknowledgement is there is still the receiver's") {
  Log log;
  PairOptions options = large(4096);
  options.sink = &log;
  run_pair(options, [&log](Side& side) {
    if (side.index == 1) {
      sleep(write_wire_ps(4096) + kLatency + kLatency / 2);
      CHECK(ibv_destroy_qp(side.qp) == 0);
      return;
    }
    CHECK(side.post_write(1, 0, 4096) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    REQUIRE(log.records.size() == 1);
    CHECK(log.records[0].destination_rank == 1);
  });
}

// sim/verbs/verbs_host.h: MessageRecord and MessageSink; times from models/link.h.
TEST_CASE("every message is reported once, with its times, its ends and its outcome") {
  Log log;
  PairOptions options = large(1 << 20);
  options.sink = &log;
  options.configure = [](Setup& setup, int) { setup.signal_all = false; };
  run_pair(options, [&log](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 4096) == 0);
    CHECK(side.post_read(2, 0, 100) == 0);
    ibv_sge sge = side.sge(0, 8);
    sge.lkey = 0;
    CHECK(side.post(side.write_wr(3, &sge)) == 0);
    CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
    REQUIRE(log.records.size() == 3);
    const sim::MessageRecord& write = log.records[0];
    CHECK(write.posted_ps == start);
    CHECK(write.started_ps == start);
    CHECK(write.delivered_ps == start + write_wire_ps(4096) + kLatency);
    CHECK(write.completed_ps == write.delivered_ps + kLatency);
    CHECK(write.payload_bytes == 4096);
    CHECK(write.wire_bytes == models::wire_bytes(4096, 4096, models::kRethBytes));
    CHECK(write.source == models::PortRef{0, 0});
    CHECK(write.destination == models::PortRef{1, 0});
    CHECK(write.source_rank == 0);
    CHECK(write.destination_rank == 1);
    CHECK(write.destination_qp == side.peer().qp->qp_num);
    CHECK(write.opcode == IBV_WR_RDMA_WRITE);
    CHECK(write.tries == 1);
    CHECK(write.deliveries == 1);
    CHECK(log.records[1].opcode == IBV_WR_RDMA_READ);
    CHECK(log.records[1].started_ps == start + write_wire_ps(4096));
    CHECK(log.records[2].status == IBV_WC_LOC_PROT_ERR);
    CHECK(log.records[2].started_ps == -1);
    CHECK(log.records[2].sequence == 2);
    CHECK(sim::verbs_counters().messages == 3);
    CHECK(sim::verbs_counters().in_flight == 0);
  });
}

// docs/commands.md: one digest over every message, the same on every machine, compiler and optimisation level.
TEST_CASE("the same program gives the same messages at the same times, run after run") {
  const auto run = [] {
    Log log;
    PairOptions options = large(1 << 20);
    options.sink = &log;
    const auto result = run_pair(options, [&log](Side& side) {
      for (std::uint64_t id = 0; id < 20; ++id) {
        CHECK(side.post_recv(100 + id, 0, 4096) == 0);
        CHECK(side.post_write(id, 0, static_cast<std::uint32_t>(1000 * id)) == 0);
        CHECK(side.post_send(id, 0, 64) == 0);
      }
      for (int count = 0; count < 60; ++count) CHECK(side.wait().status == IBV_WC_SUCCESS);
      side.barrier();
      if (side.index != 0) return;
      std::string text;
      for (const auto& record : log.records) {
        text += std::to_string(record.source_qp) + ":" + std::to_string(record.sequence) + "@" +
                std::to_string(record.completed_ps) + " ";
      }
      report(text);
    });
    return result.value;
  };
  const std::string first = run();
  CHECK(first.size() > 400);
  CHECK(run() == first);
  CHECK(run() == first);
}

}  // namespace time_test
