// Random rings, control buffers, logs and queues: plugin/ring and a reader that was written from the specification
// alone (ring_reader_reference.h) see the same in every field.
#include <doctest/doctest.h>

#include "plugin/base/prng.h"
#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/abi/packed.h"
#include "plugin/ring/telemetry/sketch_telemetry.h"
#include "tests/ring/ring_reader_reference.h"
#include "tests/ring/rings.h"
#include "tests/support/walk.h"

namespace second_reader_test {

using namespace meshbed;
using namespace meshbed::test;
using ring::Mode;
using ring::Word;

namespace {

constexpr int kRings = 3'000, kRingsOfWalk = 100'000;

/// Any word: small ones, of which statuses, opcodes and classes are made, as often as others.
Word any_word(Prng& prng) {
  const std::uint64_t word = prng.next();
  switch (prng.below(4)) {
    case 0:
      return static_cast<Word>(word % 3);
    case 1:
      return static_cast<Word>(word % 12);
    case 2:
      return static_cast<Word>(word % 200);
    default:
      return static_cast<Word>(word);
  }
}

Buffer any_words(Prng& prng, std::size_t words) {
  Buffer buffer(words * ring::kWordBytes);
  for (std::size_t word = 0; word < words; ++word) set_word(buffer, word, any_word(prng));
  return buffer;
}

void compare_slots(const Buffer& bytes, const ring::Layout& layout, const std::vector<reference::SlotWords>& slots,
                   const std::vector<ring::SlotSnapshot>& snapshots) {
  REQUIRE(snapshots.size() == slots.size());
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const reference::SlotWords& wanted = slots[index];
    const ring::SlotSnapshot& snapshot = snapshots[index];
    const ring::Slot slot = *ring::decode_slot(bytes, layout, index);
    REQUIRE(slot.status == wanted.status);
    REQUIRE(slot.opcode == wanted.opcode);
    REQUIRE(slot.tenant == wanted.tenant);
    REQUIRE(slot.priority == wanted.priority.value_or(0));
    REQUIRE(layout.args_per_slot == wanted.args.size());
    for (std::size_t arg = 0; arg < slot.args.size(); ++arg) {
      REQUIRE(slot.args[arg] == (arg < wanted.args.size() ? wanted.args[arg] : 0));
    }
    REQUIRE(snapshot.index == index);
    REQUIRE(snapshot.status == wanted.status);
    REQUIRE(snapshot.opcode == wanted.opcode);
    REQUIRE(snapshot.tenant == wanted.tenant);
    REQUIRE(snapshot.priority == wanted.priority.value_or(0));
    for (std::size_t arg = 0; arg < snapshot.args.size(); ++arg) REQUIRE(snapshot.args[arg] == wanted.args[arg]);
  }
}

void compare_control(const ring::ControlSnapshot& control, const reference::ControlWords& wanted) {
  REQUIRE(control.shutdown == wanted.shutdown);
  REQUIRE(control.done_count == wanted.done_count);
  REQUIRE(control.tenant_base == wanted.tenant_base);
  REQUIRE(control.epoch == wanted.epoch);
  REQUIRE(control.starvation_counter == wanted.starvation);
  REQUIRE(std::map<Word, Word>(control.metrics.begin(), control.metrics.end()) == wanted.metrics);
  REQUIRE(std::vector<Word>(control.tenant_fairness.begin(), control.tenant_fairness.end()) == wanted.tenant_fairness);
  REQUIRE(std::vector<Word>(control.priority_fairness.begin(), control.priority_fairness.end()) ==
          wanted.priority_fairness);
  REQUIRE(std::vector<Word>(control.priority_offsets.begin(), control.priority_offsets.end()) ==
          wanted.priority_offsets);
}

void compare_counts(const ring::RingTelemetry& telemetry, reference::Counts wanted) {
  REQUIRE(telemetry.occupancy.total() == wanted.total);
  REQUIRE(telemetry.occupancy.queue_depth() == wanted.queued);
  for (Word status = 0; status <= ring::status::kCount; ++status) {
    REQUIRE(telemetry.occupancy.tally[status] == wanted.statuses[status]);
  }
  REQUIRE(telemetry.masked == wanted.masked);
  const ring::RuntimeCounters counters = ring::counters_of(telemetry);
  REQUIRE(counters.gpu_idle_slots == wanted.statuses[0]);
  REQUIRE(counters.gpu_idle_ppm == wanted.idle_ppm);
  REQUIRE(counters.frontier_density_bps == wanted.density_bps);
  REQUIRE(counters.occupancy_proxy_bps == wanted.occupancy_bps);
  REQUIRE(counters.drained_slots == telemetry.control.done_count);
  REQUIRE(counters.unreclaimed_done == wanted.statuses[3]);
  REQUIRE(counters.tenant_fairness == wanted.tenant_total);
  REQUIRE(counters.tenant_fairness_skew == wanted.tenant_skew);
  REQUIRE(counters.priority_fairness == wanted.priority_total);
}

void compare_windows(const ring::RingTelemetry& telemetry, const std::vector<reference::SlotWords>& slots,
                     const std::vector<Word>& opcodes) {
  auto wanted = reference::read_windows(slots, opcodes);
  const auto windows = ring::windows_of(telemetry.slots, opcodes, Mode::kStrict);
  REQUIRE(windows.size() == wanted.size());
  auto at = wanted.begin();
  for (const ring::WindowTelemetry& window : windows) {
    REQUIRE(std::pair(window.ticket, window.opcode) == at->first);
    reference::Window& one = (at++)->second;
    REQUIRE(window.tenant == one.tenant);
    REQUIRE(window.required == one.required);
    REQUIRE(window.lookahead == one.lookahead);
    const std::uint64_t found[] = {window.published, window.claimed, window.done, window.wait_io,
                                   window.yield,     window.requeue, window.fault};
    for (Word status = 1; status <= 7; ++status) REQUIRE(found[status - 1] == one.statuses[status]);
    REQUIRE(window.is_active() ==
            (window.published + window.claimed + window.wait_io + window.yield + window.requeue > 0));
  }
}

void compare_packed(const Buffer& bytes, const ring::Layout& layout, const std::vector<reference::SlotWords>& slots) {
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const auto packed = ring::decode_packed(*ring::decode_slot(bytes, layout, index), layout);
    const auto wanted = reference::read_packed(slots[index]);
    REQUIRE(packed.has_value() == wanted.has_value());
    if (!packed) continue;
    REQUIRE(packed->argument_words == wanted->argument_words);
    REQUIRE(packed->beyond_kernel == wanted->beyond_kernel);
    REQUIRE(packed->misaligned == wanted->misaligned);
    REQUIRE(packed->skips == wanted->skips);
    REQUIRE(packed->ops.size() == wanted->ops.size());
    for (std::size_t op = 0; op < packed->ops.size(); ++op) {
      REQUIRE(packed->ops[op].opcode == wanted->ops[op].opcode);
      REQUIRE(packed->ops[op].argument_offset == wanted->ops[op].offset);
      REQUIRE(packed->ops[op].runs == wanted->ops[op].runs);
      REQUIRE(std::vector<Word>(packed->ops[op].args.begin(), packed->ops[op].args.end()) == wanted->ops[op].args);
    }
  }
}

void compare_sketch(const ring::RingTelemetry& telemetry, const std::vector<reference::SlotWords>& slots,
                    const reference::ControlWords& control, Prng& prng) {
  const ring::CountMinSketch::Shape shape{.depth = static_cast<std::uint32_t>(1 + prng.below(5)),
                                          .width = static_cast<std::uint32_t>(1 + prng.below(200))};
  reference::Sketch ring_opcode(shape.depth, shape.width), active_opcode = ring_opcode, tenant = ring_opcode,
                                                           status = ring_opcode, dispatch = ring_opcode;
  std::uint64_t active = 0;
  for (const reference::SlotWords& slot : slots) {
    const bool is_active = slot.status >= 1 && slot.status <= 6 && slot.status != 3;
    ring_opcode.add(slot.opcode);
    if (is_active) active_opcode.add(slot.opcode);
    tenant.add(slot.tenant);
    status.add(slot.status);
    active += is_active ? 1 : 0;
  }
  for (const auto& [op, count] : control.metrics) dispatch.add(op, count);
  const auto sketch = ring::sketch_of(telemetry, shape);
  REQUIRE(sketch);
  REQUIRE(sketch->ring_opcode.counters() == ring_opcode.counters);
  REQUIRE(sketch->active_opcode.counters() == active_opcode.counters);
  REQUIRE(sketch->tenant.counters() == tenant.counters);
  REQUIRE(sketch->status.counters() == status.counters);
  REQUIRE(sketch->dispatch_metrics.counters() == dispatch.counters);
  REQUIRE(sketch->total_slots == slots.size());
  REQUIRE(sketch->active_slots == active);
}

/// A ring and two of its control buffers, in one of the layouts.
void compare_ring(Prng& prng) {
  const bool older = prng.below(2) == 0;
  const ring::Layout& layout = older ? ring::kLayout2026_04 : ring::kLayout2026_05;
  const Buffer bytes = any_words(prng, prng.below(24) * ring::kSlotWords);
  const std::size_t control_words = layout.control_min_words + prng.below(60);
  const Buffer before = any_words(prng, control_words), control = any_words(prng, control_words);

  const auto slots = reference::read_slots(bytes, older);
  const reference::ControlWords words = reference::read_control(control, older);
  const auto telemetry = ring::decode_telemetry(control, bytes, layout, Mode::kStrict);
  REQUIRE(telemetry);
  compare_slots(bytes, layout, slots, telemetry->slots);
  compare_control(telemetry->control, words);
  const reference::Counts counts = reference::count(slots, control, words);
  compare_counts(*telemetry, counts);
  compare_windows(*telemetry, slots, {any_word(prng), any_word(prng), 0, 1, any_word(prng)});
  compare_packed(bytes, layout, slots);
  compare_sketch(*telemetry, slots, words, prng);

  const auto earlier = ring::decode_telemetry(before, bytes, layout, Mode::kStrict);
  REQUIRE(earlier);
  const auto health = ring::health_since(*earlier, *telemetry, Mode::kStrict);
  const auto wanted = reference::health(reference::read_control(before, older), words, counts);
  REQUIRE(health.has_value() == wanted.has_value());
  if (health) REQUIRE(std::pair(health->done_delta, health->suspected_stall) == *wanted);
}

void compare_log_and_queue(Prng& prng) {
  const std::uint64_t capacity = prng.below(20);
  Buffer log = any_words(prng, 1 + 4 * capacity);
  if (prng.below(2) == 0) set_word(log, 0, static_cast<Word>(4 * prng.below(capacity + 2)));
  const auto decoded = ring::decode_debug_log(log, Mode::kStrict);
  const auto wanted = reference::read_debug_log(log);
  REQUIRE(decoded.has_value() == wanted.has_value());
  if (decoded) {
    REQUIRE(decoded->records.size() == wanted->size());
    for (std::size_t index = 0; index < wanted->size(); ++index) {
      const ring::DebugRecord& record = decoded->records[index];
      REQUIRE(std::vector<Word>{record.format, record.arg1, record.arg2, record.slot_base} == (*wanted)[index]);
    }
  }
  const Buffer queue = any_words(prng, std::size_t{ring::kIoEntries} * ring::kIoEntryWords);
  const auto entries = ring::decode_io_queue(queue);
  REQUIRE(entries);
  std::vector<reference::IoEntry> found;
  for (const ring::IoRequest& one : *entries) {
    found.emplace_back(one.op, one.source, one.destination, one.offset_bytes, one.size_bytes, one.status, one.tag);
  }
  REQUIRE(found == reference::read_io_queue(queue));
}

}  // namespace

TEST_CASE("thousands of random rings: two readers agree on every field, by either layout") {
  const int rings = walks_whole() ? kRingsOfWalk : kRings;
  MESSAGE("walks ", rings, " of ", kRingsOfWalk, " rings");
  Prng prng(20260526);
  for (int index = 0; index < rings; ++index) compare_ring(prng);
}

TEST_CASE("random debug logs and IO queues: two readers agree on every record") {
  Prng prng(20260527);
  for (int index = 0, count = walks_whole() ? kRings : kRings / 10; index < count; ++index) compare_log_and_queue(prng);
}

TEST_CASE("the golden ring of four slots, as the second reader sees it") {
  // The specification's own numbers hold the reference too: [REQUEUE, DONE, PUBLISHED, EMPTY], done count 7.
  Buffer control = control_of(7);
  set_word(control, 64, 3);
  set_word(control, 65, 9);
  set_word(control, 137, 5);
  const Buffer ring = ring_of({6, 3, 1, 0});
  const auto slots = reference::read_slots(ring, false);
  const auto words = reference::read_control(control, false);
  const reference::Counts counts = reference::count(slots, control, words);
  CHECK(counts.total == 4);
  CHECK(counts.queued == 2);
  CHECK(counts.idle_ppm == 250'000);
  CHECK(counts.density_bps == 5'000);
  CHECK(counts.occupancy_bps == 7'500);
  CHECK(counts.tenant_total == 12);
  CHECK(counts.tenant_skew == 6);
  CHECK(counts.priority_total == 5);
  CHECK(words.done_count == 7);
  reference::Sketch sketch(4, 128);
  sketch.add(0);
  for (const std::size_t bucket :
       {std::size_t{47}, std::size_t{128 + 116}, std::size_t{256 + 79}, std::size_t{384 + 108}}) {
    CHECK(sketch.counters[bucket] == 1);
  }
}

}  // namespace second_reader_test
