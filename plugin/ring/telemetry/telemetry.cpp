#include "plugin/ring/telemetry/telemetry.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>

namespace meshbed::ring {
namespace {

constexpr std::uint64_t kPpm = 1'000'000;

std::uint64_t share(std::uint64_t part, std::uint64_t whole, std::uint64_t of) {
  return whole == 0 ? 0 : part * of / whole;
}

/// The layout is a constant of the loop, so that its offsets are those of the instructions.
template <const Layout& layout>
Occupancy decode_slots(Bytes ring, std::span<SlotSnapshot> slots) {
  // Two tallies by turns: a counter that the slot before has just written would be waited for.
  Occupancy even, odd;
  const std::uint8_t* at = ring.data();
  for (std::size_t index = 0; index < slots.size(); ++index, at += kSlotBytes) {
    SlotSnapshot& slot = slots[index];
    slot.index = static_cast<Word>(index);
    slot.status = load_word(at, slot_word::kStatus);
    slot.opcode = load_word(at, slot_word::kOpcode);
    slot.tenant = load_word(at, slot_word::kTenant);
    slot.priority = layout.priority_word == Layout::kNone ? 0 : load_word(at, layout.priority_word);
    for (Word arg = 0; arg < kArgsRead; ++arg) slot.args[arg] = load_word(at, layout.arg0_word + arg);
    ++(index % 2 == 0 ? even : odd).tally[std::min(slot.status, status::kCount)];
  }
  for (std::size_t index = 0; index < even.tally.size(); ++index) even.tally[index] += odd.tally[index];
  return even;
}

}  // namespace

std::uint64_t Occupancy::total() const { return std::accumulate(tally.begin(), tally.end(), std::uint64_t{0}); }
std::uint64_t Occupancy::queue_depth() const { return total() - tally[status::kEmpty] - tally[status::kDone]; }
std::uint64_t Occupancy::active() const { return queue_depth() - tally[status::kFault] - unknown(); }

Result<Occupancy> decode_ring(Bytes ring, const Layout& layout, std::vector<SlotSnapshot>& slots) {
  const Result<Word> count = slot_count(ring.size());
  if (!count) return count.error();
  slots.resize(*count);
  return layout.abi == Abi::k2026_04 ? decode_slots<kLayout2026_04>(ring, slots)
                                     : decode_slots<kLayout2026_05>(ring, slots);
}

Result<Occupancy> occupancy_of(Bytes ring) {
  const Result<Word> count = slot_count(ring.size());
  if (!count) return count.error();
  Occupancy occupancy;
  for (std::uint64_t index = 0; index < *count; ++index) {
    ++occupancy.tally[std::min(load_word(ring.data(), index * kSlotWords), status::kCount)];
  }
  return occupancy;
}

Result<RingTelemetry> decode_telemetry(Bytes control, Bytes ring, const Layout& layout, Mode mode) {
  Result<ControlSnapshot> words = decode_control(control, layout);
  if (!words) return words.error();
  RingTelemetry telemetry;
  telemetry.control = std::move(*words);
  const Result<Occupancy> occupancy = decode_ring(ring, layout, telemetry.slots);
  if (!occupancy) return occupancy.error();
  telemetry.occupancy = *occupancy;
  if (occupancy->of(status::kPublished) == 0) return telemetry;
  const auto word = [&](std::uint64_t index) { return load_word(control.data(), index); };
  for (const SlotSnapshot& slot : telemetry.slots) {
    if (slot.status != status::kPublished) continue;
    if (!tenant_may_run(slot.tenant, control.size() / kWordBytes, mode, word)) ++telemetry.masked;
  }
  return telemetry;
}

RuntimeCounters counters_of(const RingTelemetry& telemetry) {
  const Occupancy& slots = telemetry.occupancy;
  const std::uint64_t total = slots.total(), empty = slots.of(status::kEmpty);
  RuntimeCounters counters;
  counters.gpu_idle_slots = empty;
  counters.gpu_idle_ppm = share(empty, total, kPpm);
  counters.frontier_density_bps = share(slots.queue_depth(), total, kBps);
  counters.occupancy_proxy_bps = share(total - empty, total, kBps);
  counters.drained_slots = telemetry.control.done_count;
  counters.unreclaimed_done = slots.of(status::kDone);
  Word most = 0, least = 0;
  for (const Word claims : telemetry.control.tenant_fairness) {
    counters.tenant_fairness += claims;
    if (claims == 0) continue;
    most = std::max(most, claims);
    least = least == 0 ? claims : std::min(least, claims);
  }
  counters.tenant_fairness_skew = most - least;
  for (const Word claims : telemetry.control.priority_fairness) counters.priority_fairness += claims;
  return counters;
}

Result<void> PriorityAccounting::record_requeue(Word age, Mode mode) {
  if (requeue_count == std::numeric_limits<std::uint64_t>::max()) {
    if (mode == Mode::kStrict) return refused("requeues are counted up to 2^64 - 1");  // quirk accounting-overflow
  } else {
    ++requeue_count;
  }
  max_priority_age = std::max(max_priority_age, age);
  return ok();
}

Result<void> PriorityAccounting::record_aged_promotion(Word age, Mode mode) {
  if (aged_promotions == std::numeric_limits<std::uint64_t>::max()) {
    if (mode == Mode::kStrict) return refused("aged promotions are counted up to 2^64 - 1");
  } else {
    ++aged_promotions;
  }
  max_priority_age = std::max(max_priority_age, age);
  return ok();
}

PriorityAccounting priority_accounting(const RingTelemetry& telemetry) {
  return {.requeue_count = telemetry.occupancy.of(status::kRequeue)};
}

LaunchRequest launch_request(const RingTelemetry& telemetry, std::span<const WindowTelemetry> windows,
                             LaunchRequest request, Mode mode) {
  const auto fill = [](auto& field, std::uint64_t value) {
    using Field = std::remove_reference_t<decltype(field)>;
    if (field == 0) field = static_cast<Field>(std::min<std::uint64_t>(value, std::numeric_limits<Field>::max()));
  };
  const RuntimeCounters counters = counters_of(telemetry);
  fill(request.graph_node_count, telemetry.occupancy.total());
  fill(request.graph_edge_count, telemetry.occupancy.queue_depth());
  fill(request.frontier_density_bps, counters.frontier_density_bps);
  // Quirk hot-overwritten.
  if (mode == Mode::kStrict) request.hot_opcode_count = request.hot_window_count = 0;
  fill(request.hot_opcode_count, telemetry.control.metrics.size());
  fill(request.hot_window_count,
       static_cast<std::uint64_t>(
           std::count_if(windows.begin(), windows.end(), [](const WindowTelemetry& one) { return one.is_hot(); })));
  const std::uint64_t requeued = telemetry.occupancy.of(status::kRequeue);
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - request.requeue_count;
  request.requeue_count += std::min(requeued, room);
  return request;
}

Result<LaunchRecommendation> recommend_launch(const RingTelemetry& telemetry, std::span<const WindowTelemetry> windows,
                                              const LaunchRequest& request, Mode mode) {
  return recommend_launch(launch_request(telemetry, windows, request, mode));
}

}  // namespace meshbed::ring
