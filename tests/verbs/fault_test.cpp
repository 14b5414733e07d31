// Faults of the simulated world (sim/fault/inject.h) as a verbs program sees them. What netem does to a port:
// tc-netem(8). Lost packets: InfiniBand Architecture, volume 1, 9.7.5 (NAK sequence error) and 9.7.6.1.3 (transport
// timer).
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "sim/fault/inject.h"
#include "tests/verbs/pair.h"

namespace fault_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::World;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;
constexpr Picoseconds kLatency = kPicosecondsPerMicrosecond;  // of ring_cluster's cables
constexpr std::uint32_t kMessage = 1U << 20U;                 // 256 packets of 4096 bytes
constexpr models::PortRef kPorts[] = {{0, 0}, {1, 0}};

constexpr Picoseconds write_time(std::uint64_t bytes, std::uint64_t rate_bps = kRate) {
  return wire_time_ps(bytes + (bytes + 4095) / 4096 * 82 + 16, rate_bps);
}

/// Faults are carried out by events; the caller goes on a picosecond later.
void inject(const std::function<void(World&)>& what) {
  const auto call = [](void* function, std::uint64_t) {
    (*static_cast<const std::function<void(World&)>*>(function))(World::get());
  };
  World::get().never_hold(call);
  World::get().after(0, 0, call, const_cast<std::function<void(World&)>*>(&what), 0);
  meshbed::test::sleep(Picoseconds{1});
}

void shape_cable(const sim::Shape& shape) {
  inject([&](World& world) {
    for (const models::PortRef port : kPorts) sim::shape_port(world, port, shape);
  });
}

void fill(Side& side) { std::iota(side.memory.begin(), side.memory.end(), static_cast<char>(1)); }

bool same_bytes(const Side& side) { return std::memcmp(side.memory.data(), side.peer().memory.data(), kMessage) == 0; }

PairOptions with_fabric(sim::FabricKind fabric) { return {.fabric = fabric}; }

}  // namespace

TEST_CASE("a port that loses packets: every byte comes through, executed once, after sending again") {
  for (const double loss : {0.001, 0.01, 0.1, 0.2}) {
    CAPTURE(loss);
    run_pair([loss](Side& side) {
      if (side.index != 0) return;
      fill(side);
      shape_cable({.loss = loss});
      const Picoseconds start = now();
      for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.post_write(id, 0, kMessage) == 0);
      for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.wait().status == IBV_WC_SUCCESS);
      CHECK(same_bytes(side));
      CHECK(sim::verbs_counters().delivered == 4);
      if (loss >= 0.01) CHECK(sim::verbs_counters().retransmissions > 0);
      CHECK(now() - start > 4 * write_time(kMessage));
    });
  }
}

TEST_CASE("the seed decides which packets are lost, and nothing else does") {
  const auto duration = [](std::uint64_t seed) {
    PairOptions options;
    options.seed = seed;
    return run_pair(options,
                    [](Side& side) {
                      if (side.index != 0) return;
                      shape_cable({.loss = 0.05});
                      CHECK(side.post_write(1, 0, kMessage) == 0);
                      CHECK(side.wait().status == IBV_WC_SUCCESS);
                      report(std::to_string(now()));
                    })
        .value;
  };
  CHECK(duration(1) == duration(1));
  CHECK(duration(1) != duration(2));
}

TEST_CASE("all is lost: RETRY_EXC_ERR after exactly retry_cnt + 1 tries") {
  run_pair({.configure =
                [](Setup& setup, int) {
                  setup.timeout = 10;
                  setup.retry_cnt = 2;
                }},
           [](Side& side) {
             if (side.index != 0) return;
             shape_cable({.loss = 1});
             const Picoseconds start = now();
             CHECK(side.post_write(1, 0, 64) == 0);
             CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
             CHECK(now() - start == 3 * (write_time(64) + (Picoseconds{4'096'000} << 10)));
             CHECK(sim::verbs_counters().delivered == 0);
           });
}

TEST_CASE("reads, atomics and sends that wait for a receiver get through a lossy cable too, atomics once") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      fill(side);
      side.barrier();
      sleep(5 * kPicosecondsPerMillisecond);  // the sender meets a receiver that is not ready
      for (std::uint64_t id = 1; id <= 8; ++id) CHECK(side.post_recv(id, 512 * id, 512) == 0);
      for (std::uint64_t id = 1; id <= 8; ++id) {
        const ibv_wc wc = side.wait();
        CHECK(wc.status == IBV_WC_SUCCESS);
        CHECK(wc.wr_id == id);
      }
      return;
    }
    side.barrier();
    shape_cable({.loss = 0.05});
    for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.post_read(id, 0, kMessage) == 0);
    for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(same_bytes(side));
    std::uint64_t value = 0;
    std::memcpy(&value, side.peer().memory.data(), sizeof value);
    ibv_sge sge = side.sge(4096, 8);
    for (std::uint64_t id = 1; id <= 64; ++id) {
      ibv_send_wr wr = side.write_wr(id, &sge);
      wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(side.peer().memory.data());
      wr.wr.atomic.rkey = side.peer().mr->rkey;
      wr.wr.atomic.compare_add = 1;
      CHECK(side.post(wr) == 0);
      CHECK(side.wait().status == IBV_WC_SUCCESS);
    }
    std::uint64_t after = 0;
    std::memcpy(&after, side.peer().memory.data(), sizeof after);
    CHECK(after == value + 64);
    for (std::uint64_t id = 1; id <= 8; ++id) CHECK(side.post_send(id, 512 * id, 512) == 0);
    for (std::uint64_t id = 1; id <= 8; ++id) CHECK(side.wait().status == IBV_WC_SUCCESS);
  });
}

TEST_CASE("a delay counts once on the way there and once on the way back, and lets work requests pipeline") {
  static constexpr Picoseconds kDelay = kPicosecondsPerMillisecond;
  run_pair([](Side& side) {
    if (side.index != 0) return;
    shape_cable({.delay_ps = kDelay});
    const Picoseconds start = now();
    for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.post_write(id, 0, 4096) == 0);
    for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(now() - start == 3 * write_time(4096) + 2 * (kLatency + kDelay));
    CHECK(sim::verbs_counters().retransmissions == 0);
  });
}

TEST_CASE("a rate holds back what the port sends, not what comes to it; in both fabrics") {
  for (const sim::FabricKind fabric : {sim::FabricKind::kChunk, sim::FabricKind::kFluid}) {
    CAPTURE(static_cast<int>(fabric));
    run_pair(with_fabric(fabric), [fabric](Side& side) {
      CAPTURE(static_cast<int>(fabric));
      if (side.index != 0) return;
      static constexpr std::uint64_t kSlow = kRate / 10;
      inject([](World& world) { sim::shape_port(world, kPorts[0], {.rate_bps = kSlow}); });
      const auto timed = [&](int posted) {
        CHECK(posted == 0);
        const Picoseconds start = now();
        CHECK(side.wait().status == IBV_WC_SUCCESS);
        return now() - start;
      };
      const Picoseconds slow = write_time(kMessage, kSlow) + 2 * kLatency;
      CHECK(std::abs(timed(side.post_write(1, 0, kMessage)) - slow) <= 2);
      CHECK(timed(side.post_read(2, 0, kMessage)) < slow / 5);
      // In the middle of a message: what is left of it goes at the new rate, from the next chunk on.
      CHECK(side.post_write(3, 0, kMessage) == 0);
      const Picoseconds start = now();
      sleep(slow / 2);
      inject([](World& world) { sim::shape_port(world, kPorts[0], {.rate_bps = kSlow / 2}); });
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      CHECK(std::abs(now() - start - slow * 3 / 2) <= wire_time_ps(16 * 1024, kSlow));
      inject([](World& world) { sim::shape_port(world, kPorts[0], {}); });
      CHECK(std::abs(timed(side.post_write(4, 0, kMessage)) - write_time(kMessage) - 2 * kLatency) <= 2);
      if (fabric == sim::FabricKind::kFluid) return;
      inject([](World& world) { sim::shape_port(world, kPorts[0], {.rate_bps = kSlow}); });
      CHECK(side.post_write(5, 0, kMessage) == 0);
      const Picoseconds again = now();
      sleep(slow / 2);
      inject([](World& world) { sim::shape_port(world, kPorts[0], {}); });
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      const Picoseconds expected = (slow + write_time(kMessage)) / 2 + kLatency;
      CHECK(std::abs(now() - again - expected) <= wire_time_ps(16 * 1024, kSlow));
    });
  }
}

TEST_CASE("packets that go ahead of others are sent again, and every byte is right") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    fill(side);
    shape_cable({.reorder = 0.02, .delay_ps = 10 * kPicosecondsPerMicrosecond});
    for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.post_write(id, 0, kMessage) == 0);
    for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(same_bytes(side));
    CHECK(sim::verbs_counters().retransmissions > 0);
    CHECK(sim::verbs_counters().delivered == 4);
  });
}

TEST_CASE("a node that stands still sends no reply; when it goes on, everything does") {
  static constexpr Picoseconds kStop = 20 * kPicosecondsPerMillisecond;
  run_pair({.configure = [](Setup& setup, int) { setup.timeout = 10; }},  // 4.2 ms, 7 retries
           [](Side& side) {
             if (side.index == 1) {
               CHECK(side.post_recv(1, 0, 64) == 0);
               const Picoseconds start = now();
               side.barrier();
               CHECK(side.wait().status == IBV_WC_SUCCESS);
               CHECK(now() - start >= kStop - 10);
               return;
             }
             side.barrier();
             const Picoseconds start = now();
             inject([](World& world) { sim::stop_node(world, 1); });
             CHECK(World::get().stopped(1));
             CHECK(side.post_send(1, 0, 64) == 0);
             CHECK(side.drain_after(kStop - 10).empty());
             inject([](World& world) { sim::continue_node(world, 1); });
             CHECK(side.wait().status == IBV_WC_SUCCESS);
             CHECK(now() - start < kStop + kPicosecondsPerMillisecond);
             CHECK(sim::verbs_counters().retransmissions > 0);
             CHECK(sim::verbs_counters().delivered == 1);
           });
}

TEST_CASE("a node that stands still longer than all retries is lost to its peer") {
  run_pair({.configure =
                [](Setup& setup, int) {
                  setup.timeout = 8;
                  setup.retry_cnt = 1;
                }},
           [](Side& side) {
             if (side.index != 0) return;
             inject([](World& world) { sim::stop_node(world, 1); });
             CHECK(side.post_write(1, 0, 64) == 0);
             CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
             inject([](World& world) { sim::continue_node(world, 1); });
           });
}

TEST_CASE("what a node posted before it stood still goes out when it goes on, after its own timers") {
  static constexpr Picoseconds kStop = 3 * kPicosecondsPerMillisecond;
  run_pair([](Side& side) {
    if (side.index == 0) {
      fill(side);
      CHECK(side.post_write(1, 0, kMessage) == 0);
      CHECK(side.post_write(2, 0, kMessage) == 0);
      const Picoseconds start = now();
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      CHECK(now() - start > kStop);
      CHECK(same_bytes(side));
      return;
    }
    sleep(20 * kPicosecondsPerMicrosecond);  // in the middle of the first
    inject([](World& world) { sim::stop_node(world, 0); });
    sleep(kStop);
    CHECK(sim::verbs_counters().in_flight == 2);
    inject([](World& world) { sim::continue_node(world, 0); });
  });
}

TEST_CASE("a node without power: its peer's port goes down, its requests fail, and the run does not wait for it") {
  const PairOptions options{.configure = [](Setup& setup, int) { setup.timeout = 8; }, .meet_at_end = false};
  const WorldResult result = run_pair(options, [](Side& side) {
    if (side.index == 1) {
      sleep(kPicosecondsPerSecond);  // never wakes
      CHECK_MESSAGE(false, "a killed node went on");
    }
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    inject([](World& world) { sim::kill_node(world, 1); });
    ibv_port_attr port{};
    CHECK(ibv_query_port(side.context, 1, &port) == 0);
    CHECK(port.state == IBV_PORT_DOWN);
    CHECK(side.post_write(2, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    inject([](World& world) { sim::continue_node(world, 1); });  // the dead do not go on
    CHECK(World::get().stopped(1));
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

TEST_CASE("a read whose responder stands still for ever, or has lost its power, runs out of retries") {
  for (const bool killed : {false, true}) {
    for (const sim::FabricKind fabric : {sim::FabricKind::kChunk, sim::FabricKind::kFluid}) {
      CAPTURE(killed);
      const PairOptions options{
          .fabric = fabric, .configure = [](Setup& setup, int) { setup.timeout = 10; }, .meet_at_end = false};
      run_pair(options, [killed](Side& side) {
        if (side.index != 0) return;
        for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.post_read(id, 0, kMessage) == 0);
        sleep(20 * kPicosecondsPerMicrosecond);  // in the middle of the first response
        inject([killed](World& world) { killed ? sim::kill_node(world, 1) : sim::stop_node(world, 1); });
        ibv_wc wc = side.wait();
        if (wc.status == IBV_WC_SUCCESS) wc = side.wait();  // what was on the wire may still have come
        CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
        CHECK(now() < kPicosecondsPerSecond);
      });
    }
  }
}

}  // namespace fault_test
