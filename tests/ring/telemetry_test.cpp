// Telemetry and its goldens: vyre, commit ca35047.
#include "plugin/ring/telemetry/telemetry.h"

#include <doctest/doctest.h>

#include <limits>

#include "plugin/ring/telemetry/sketch_telemetry.h"
#include "plugin/ring/telemetry/window.h"
#include "tests/ring/rings.h"

namespace telemetry_test {

using namespace meshbed::ring;
using namespace meshbed::test;

namespace {

void put_slot(Buffer& ring, Word slot, Word status, Word tenant, Word op) {
  set_word(ring, std::uint64_t{slot} * kSlotWords + slot_word::kStatus, status);
  set_word(ring, std::uint64_t{slot} * kSlotWords + slot_word::kTenant, tenant);
  set_word(ring, std::uint64_t{slot} * kSlotWords + slot_word::kOpcode, op);
}

}  // namespace

TEST_CASE("four slots, three tenants' claims: each counter as upstream has it") {
  Buffer control = control_of(7);
  set_word(control, 64, 3);
  set_word(control, 65, 9);
  set_word(control, 136, 2);
  set_word(control, 137, 3);
  const Buffer ring = ring_of({status::kRequeue, status::kDone, status::kPublished, status::kEmpty});
  const RingTelemetry telemetry = telemetry_of(control, ring);
  CHECK(telemetry.occupancy.total() == 4);
  CHECK(telemetry.occupancy.queue_depth() == 2);
  CHECK(counters_of(telemetry) == RuntimeCounters{.gpu_idle_slots = 1,
                                                  .gpu_idle_ppm = 250'000,
                                                  .frontier_density_bps = 5'000,
                                                  .occupancy_proxy_bps = 7'500,
                                                  .drained_slots = 7,
                                                  .unreclaimed_done = 1,
                                                  .tenant_fairness = 12,
                                                  .tenant_fairness_skew = 6,
                                                  .priority_fairness = 5});
  CHECK(priority_accounting(telemetry) == PriorityAccounting{.requeue_count = 1});
}

TEST_CASE("a ring of no slot is legal, and all its counters are 0") {
  CHECK(counters_of(telemetry_of(control_of(), {})) == RuntimeCounters{});
}

TEST_CASE("each status counts in its own tally; unknown ones are queued, and not active") {
  const Buffer ring = ring_of({0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0xffff'ffff});
  const Occupancy slots = *occupancy_of(ring);
  CHECK(slots.tally == std::array<std::uint64_t, 9>{1, 2, 1, 1, 1, 1, 1, 1, 2});
  CHECK(slots.total() == 11);
  CHECK(slots.queue_depth() == 9);
  CHECK(slots.active() == 6);
  for (const Abi abi : {Abi::k2026_04, Abi::k2026_05}) {
    std::vector<SlotSnapshot> decoded(3);  // is used again
    CHECK(*decode_ring(ring, layout_of(abi), decoded) == slots);
    REQUIRE(decoded.size() == 11);
    CHECK(decoded[10].index == 10);
  }
}

TEST_CASE("a snapshot keeps index, status, tenant, opcode and three arguments, by either layout") {
  Buffer ring(2 * kSlotBytes);
  for (Word word = 0; word < 16; ++word) set_word(ring, 16 + word, 100 + word);
  std::vector<SlotSnapshot> slots;
  REQUIRE(decode_ring(ring, kLayout2026_05, slots));
  CHECK(
      slots[1] ==
      SlotSnapshot{.status = 100, .opcode = 101, .tenant = 102, .priority = 103, .args = {104, 105, 106}, .index = 1});
  REQUIRE(decode_ring(ring, kLayout2026_04, slots));
  CHECK(slots[1] ==
        SlotSnapshot{.status = 100, .opcode = 101, .tenant = 102, .priority = 0, .args = {103, 104, 105}, .index = 1});
}

TEST_CASE("what cannot be decoded is refused, and nothing else: every control and ring size up to 700 bytes") {
  for (std::size_t size = 0; size <= 700; ++size) {
    CHECK(decode_telemetry(Buffer(size), {}, kLayout2026_05, Mode::kStrict).has_value() ==
          (size >= 640 && size % 4 == 0));
    CHECK(decode_telemetry(control_of(), Buffer(size), kLayout2026_05, Mode::kStrict).has_value() == (size % 64 == 0));
  }
}

TEST_CASE("a window of opcode 0xF101: two required, one lookahead, active until all are done") {
  Buffer ring = *encode_empty_ring(4);
  const RouteWindow window{.ticket = 7, .opcode = 0xf101, .tenant = 3, .required = {{}, {}}, .lookahead = {{}}};
  REQUIRE(publish_all(ring, kLayout2026_05, Mode::kSafe, *window_slots(window, 0, kLayout2026_05)));
  const auto look = [&] {
    return windows_of(telemetry_of(control_of(), ring).slots, {0xf101, 9, 0xf101}, Mode::kStrict);
  };
  REQUIRE(look().size() == 1);
  WindowTelemetry wanted{.ticket = 7, .opcode = 0xf101, .tenant = 3, .required = 2, .lookahead = 1, .published = 3};
  CHECK(look().front() == wanted);
  CHECK(look().front().is_active());
  CHECK_FALSE(look().front().is_hot());
  for (Word slot = 0; slot < 3; ++slot) set_word(ring, slot * kSlotWords, status::kDone);
  CHECK(look().front().done == 3);
  CHECK_FALSE(look().front().is_active());
}

TEST_CASE(
    "windows: sorted by ticket and opcode, the first slot's tenant, other classes uncounted, EMPTY slots by mode") {
  Buffer ring = *encode_empty_ring(5);
  const auto put = [&](Word slot, Word op, Word tenant, Word ticket, Word kind) {
    REQUIRE(publish(ring, kLayout2026_05, Mode::kSafe,
                    {.slot = slot, .tenant = tenant, .opcode = op, .args = {ticket, kind}}));
  };
  put(0, 20, 1, 5, 0);
  put(1, 10, 2, 5, 1);
  put(2, 20, 4, 5, 2);
  put(3, 20, 4, 4, 0);
  const auto slots = telemetry_of(control_of(), ring).slots;
  const auto windows = windows_of(slots, {20, 10}, Mode::kStrict);
  REQUIRE(windows.size() == 3);
  CHECK(windows[0].ticket == 4);
  CHECK(windows[1].opcode == 10);
  CHECK(windows[2] ==
        WindowTelemetry{.ticket = 5, .opcode = 20, .tenant = 1, .required = 1, .lookahead = 0, .published = 2});
  CHECK(windows_of(slots, {0}, Mode::kStrict).front().required == 1);  // the zeroed slot
  CHECK(windows_of(slots, {0}, Mode::kSafe).empty());
}

TEST_CASE("the watchdog: 7 to 7 with one published is a stall, 7 to 9 is none") {
  const Buffer ring = ring_of({status::kPublished});
  for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
    const auto before = telemetry_of(control_of(7), ring, mode);
    const auto stuck = health_since(before, telemetry_of(control_of(7), ring, mode), mode);
    REQUIRE(stuck);
    CHECK(stuck->suspected_stall);
    CHECK(stuck->queue_depth == 1);
    CHECK(stuck->verdict == WatchdogVerdict::kSuspectedStall);
    const auto moving = health_since(before, telemetry_of(control_of(9), ring, mode), mode);
    REQUIRE(moving);
    CHECK(moving->done_delta == 2);
    CHECK_FALSE(moving->suspected_stall);
    const auto idle = health_since(before, telemetry_of(control_of(7), ring_of({0, 3}), mode), mode);
    CHECK(idle->verdict == WatchdogVerdict::kIdle);
  }
}

TEST_CASE(
    "the watchdog in strict mode: a wrap is an error, a fault hides a stall, a masked tenant is one; safe fixes all") {
  const auto health = [](Word before, Word now, const Buffer& ring, Mode mode) {
    return health_since(telemetry_of(control_of(before), ring, mode), telemetry_of(control_of(now), ring, mode), mode);
  };
  const Buffer waiting = ring_of({status::kPublished});
  const auto wrapped = health(0xffff'ffff, 1, waiting, Mode::kStrict);
  REQUIRE_FALSE(wrapped);
  CHECK(wrapped.error().text.find("went back from 4294967295 to 1") != std::string::npos);
  CHECK(health(0xffff'ffff, 1, waiting, Mode::kSafe)->done_delta == 2);

  const Buffer faulted = ring_of({status::kPublished, status::kFault});
  CHECK_FALSE(health(7, 7, faulted, Mode::kStrict)->suspected_stall);
  CHECK(health(7, 7, faulted, Mode::kStrict)->verdict == WatchdogVerdict::kFaulted);
  CHECK(health(7, 7, faulted, Mode::kSafe)->suspected_stall);
  CHECK(health(7, 7, ring_of({status::kFault}), Mode::kSafe)->verdict == WatchdogVerdict::kFaulted);

  Buffer masked = ring_of({status::kPublished});
  put_slot(masked, 0, status::kPublished, 5, opcode::kNop);
  CHECK(health(7, 7, masked, Mode::kStrict)->suspected_stall);
  CHECK_FALSE(health(7, 7, masked, Mode::kSafe)->suspected_stall);
  CHECK(health(7, 7, masked, Mode::kSafe)->verdict == WatchdogVerdict::kTenantMasked);
}

TEST_CASE("a launch from telemetry: eight metrics of 1 and a requeued slot promote, age and compile") {
  Buffer control = control_of();
  for (Word op = 0; op < 8; ++op) set_word(control, 96 + op, 1);
  const auto launch = recommend_launch(telemetry_of(control, ring_of({status::kRequeue})), {},
                                       LaunchRequest::direct(4096, 64, 256), Mode::kStrict);
  REQUIRE(launch);
  CHECK(launch->mode == LaunchMode::kJit);
  CHECK(launch->promote_hot_opcodes);
  CHECK(launch->age_priority_work);
}

TEST_CASE("a launch from telemetry: four of eight slots published are a dense frontier") {
  const auto telemetry = telemetry_of(control_of(), ring_of({1, 1, 1, 1, 0, 0, 0, 0}));
  const auto launch = recommend_launch(telemetry, {}, LaunchRequest::direct(8, 64, 256), Mode::kStrict);
  REQUIRE(launch);
  CHECK(launch->frontier_density_bps == 5000);
  CHECK(launch->topology == Topology::kDenseFrontier);
}

TEST_CASE(
    "a launch from telemetry: what the caller left open is filled in, hot counts are overwritten in strict mode") {
  const auto telemetry = telemetry_of(control_of(), ring_of({1, 6, 0, 3}));
  std::vector<WindowTelemetry> windows(2);
  windows[0].required = 3;
  windows[0].lookahead = 1;
  windows[1].required = 3;
  LaunchRequest request = LaunchRequest::direct(4, 1, 1);
  request.hot_opcode_count = 30;
  request.hot_window_count = 40;
  request.graph_node_count = 99;
  request.requeue_count = 5;
  const LaunchRequest strict = launch_request(telemetry, windows, request, Mode::kStrict);
  CHECK(strict.graph_node_count == 99);
  CHECK(strict.graph_edge_count == 2);
  CHECK(strict.frontier_density_bps == 5000);
  CHECK(strict.hot_opcode_count == 0);
  CHECK(strict.hot_window_count == 1);
  CHECK(strict.requeue_count == 6);
  const LaunchRequest safe = launch_request(telemetry, windows, request, Mode::kSafe);
  CHECK(safe.hot_opcode_count == 30);
  CHECK(safe.hot_window_count == 40);
}

TEST_CASE("priority accounting counts, keeps the greatest age, and is full at 2^64 - 1") {
  PriorityAccounting accounting;
  CHECK(accounting.record_requeue(5, Mode::kStrict));
  CHECK(accounting.record_requeue(3, Mode::kStrict));
  CHECK(accounting.record_aged_promotion(9, Mode::kStrict));
  CHECK(accounting == PriorityAccounting{.requeue_count = 2, .aged_promotions = 1, .max_priority_age = 9});
  accounting.requeue_count = accounting.aged_promotions = std::numeric_limits<std::uint64_t>::max();
  CHECK_FALSE(accounting.record_requeue(1, Mode::kStrict));
  CHECK_FALSE(accounting.record_aged_promotion(1, Mode::kStrict));
  CHECK(accounting.record_requeue(1, Mode::kSafe));
  CHECK(accounting.record_aged_promotion(1, Mode::kSafe));
  CHECK(accounting.requeue_count == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("five sketches of six slots: three active, each key where it belongs") {
  Buffer ring = *encode_empty_ring(6), control = control_of();
  put_slot(ring, 0, status::kPublished, 1, opcode::kAtomicAdd);
  put_slot(ring, 1, status::kClaimed, 1, opcode::kAtomicAdd);
  put_slot(ring, 2, status::kPublished, 2, opcode::kStoreU32);
  put_slot(ring, 3, status::kDone, 2, opcode::kDfaStep);
  set_word(control, 96 + opcode::kAtomicAdd, 11);
  auto sketch = sketch_of(telemetry_of(control, ring), {.depth = 4, .width = 128});
  REQUIRE(sketch);
  CHECK(sketch->total_slots == 6);
  CHECK(sketch->active_slots == 3);
  CHECK(sketch->ring_opcode.estimate(opcode::kAtomicAdd) == 2);
  CHECK(sketch->ring_opcode.estimate(opcode::kNop) == 2);  // the EMPTY ones
  CHECK(sketch->active_opcode.estimate(opcode::kDfaStep) == 0);
  CHECK(sketch->active_opcode.estimate(opcode::kStoreU32) == 1);
  CHECK(sketch->tenant.estimate(2) == 2);
  CHECK(sketch->status.estimate(status::kEmpty) == 2);
  CHECK(sketch->dispatch_metrics.estimate(opcode::kAtomicAdd) == 11);
  REQUIRE(sketch->merge(*sketch_of(telemetry_of(control, ring), {.depth = 4, .width = 128})));
  CHECK(sketch->total_slots == 12);
  CHECK(sketch->tenant.estimate(2) == 4);
  CHECK_FALSE(sketch->merge(*sketch_of(telemetry_of(control, ring), {.depth = 3, .width = 128})));
  CHECK_FALSE(sketch_of(telemetry_of(control, ring), {.depth = 0, .width = 128}));
}

}  // namespace telemetry_test
