#include "testbed/workload/megakernel/host.h"

#include <fmt/format.h>

#include <algorithm>

#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/workload/megakernel/programs.h"
#include "testbed/workload/megakernel/times.h"

namespace meshbed::testbed {

using ring::Word;

namespace {

/// Looks at which nothing had been done since the one before: one may come just before something is.
constexpr int kLooksUntilStuck = 2;

}  // namespace

void RingHost::publish(Ring& ring, Word slot, const Item& item) {
  Word* const words = ring::slot_at(ring.buffers.kernel, slot);
  words[ring::slot_word::kOpcode] = item.opcode;
  words[ring::slot_word::kTenant] = item.tenant;
  words[kRingLayout.priority_word] = ring::priority::kNormal;  // as all of the ancestor's hosts do
  std::copy(std::begin(item.args), std::end(item.args), words + kRingLayout.arg0_word);
  const Picoseconds begin_ps = host_.now_ps();
  host_.spend(has_ring(settings_) ? settings_.publish_ps : 0);
  ring.kernel.see_slot(slot);
  if (RingParts* const parts = ring.kernel.parts()) {
    parts->add(host_.rank(), RingPart::kQueue, begin_ps, host_.now_ps());
  }
  ring::PlainWords::release(words + ring::slot_word::kStatus, ring::status::kPublished);
  trace_.add({.at_ps = host_.now_ps(),
              .rank = host_.rank(),
              .ring = ring.index,
              .slot = slot,
              .opcode = item.opcode,
              .kind = RingEventKind::kPublish,
              .tenant = static_cast<int>(item.tenant),
              .priority = static_cast<int>(item.level),
              .arrived_ps = item.arrived_ps >= 0 ? item.arrived_ps : begin_ps});
  ++ring.counted.published;
  ring.kernel.published(slot);
  ring.kernel.nudge();
}

void RingHost::take_counters(Ring& ring, ring::Mode mode) {
  const auto bytes_of = [](const std::vector<Word>& words) {
    return ring::Bytes(reinterpret_cast<const std::uint8_t*>(words.data()), words.size() * sizeof(Word));
  };
  auto now = ring::decode_telemetry(bytes_of(ring.buffers.control), bytes_of(ring.buffers.slots), kRingLayout, mode);
  if (!now) return;
  ring.watch.counters = ring::counters_of(*now);
  // Of two looks; the host's own count may have gone round, of which strict mode makes no health.
  if (const auto health = ring::health_since(ring.seen ? *ring.seen : *now, *now, mode)) {
    ring.watch.health = ring::name_of(health->verdict);
  }
  ring.seen = *std::move(now);
}

RingVerdict RingHost::judge(const Ring& ring, Word done_delta) const {
  const std::optional<ring::Verdict> placeless = not_resident(settings_, ring.buffers.kernel, ring.index);
  ring::Verdict verdict = placeless ? *placeless : ring::verdict_of(ring.buffers.kernel, ring.kernel.lanes());
  if (verdict.cause == ring::Cause::kDrained && ring.unpublished > 0) {
    verdict.cause = ring::Cause::kWaitsForOther;
    verdict.text =
        fmt::format("{} published: what they need on their rank is never done",
                    ring.unpublished == 1 ? "a slot is not" : fmt::format("{} slots are not", ring.unpublished));
  }
  int waits_for = -1;
  if (verdict.cause == ring::Cause::kWaitsForPeer) {
    const Word* const args = ring::slot_at(ring.buffers.kernel, verdict.slot) + kRingLayout.arg0_word;
    const Word connection = args[ring::mesh_arg::kConnection];
    if (connection < ring.program.receives.size()) waits_for = ring.program.receives[connection].peer;
  }
  return {.rank = host_.rank(),
          .reached = true,
          .at_ps = host_.now_ps(),
          .cause = verdict.cause,
          .text = verdict.text,
          .queue_depth = verdict.tally.queue_depth(),
          .ancestor_suspects = ring::suspects_stall(verdict.tally, done_delta),
          .ring = ring.index,
          .waits_for = waits_for};
}

void RingHost::look_at(Ring& ring) {
  const Word done = ring.buffers.control[ring::control_word::kDoneCount];
  const Word delta = done - ring.done_before;
  const bool progressed = delta != 0 || ring.kernel.slots_ended() != ring.ended_before;
  if (progressed || ring.watch.looks == 0) ring.progressed_ps = host_.now_ps();
  const bool moved = progressed || works_(host_.now_ps() - ring.progressed_ps);
  ring.done_before = done;
  ring.ended_before = ring.kernel.slots_ended();
  const ring::Tally tally = ring::tally_of(ring.buffers.kernel);
  const bool has_work = tally.queue_depth() > 0 || ring.unpublished > 0;
  ring.looks_in_vain = moved || !has_work ? 0 : ring.looks_in_vain + 1;
  ++ring.watch.looks;
  ring.watch.in_vain += ring.looks_in_vain > 0 ? 1 : 0;
  ring.watch.suspected += ring::suspects_stall(tally, delta) ? 1 : 0;
  take_counters(ring, mode());
  if (ring.looks_in_vain >= kLooksUntilStuck) ring.stuck = judge(ring, delta);
}

bool RingHost::look() {
  for (Ring& ring : rings_) {
    look_at(ring);
    stuck_ = stuck_ || ring.stuck.has_value();
  }
  return !stuck_;
}

void RingHost::look_once_more() {
  for (Ring& ring : rings_) take_counters(ring, mode());
}

void RingHost::note_cycle(int ring) {
  if (auto& stuck = rings_[static_cast<std::size_t>(ring)].stuck) stuck->cause = ring::Cause::kWaitCycle;
}

void RingHost::note_stale(std::size_t index, const std::string& text) {
  Ring& ring = rings_[index];
  const ring::Tally tally = ring::tally_of(ring.buffers.kernel);
  ring.stuck = {.rank = host_.rank(),
                .reached = true,
                .at_ps = host_.now_ps(),
                .cause = ring::Cause::kFlagBeforeData,
                .text = text,
                .queue_depth = tally.queue_depth(),
                .ancestor_suspects = false,
                .ring = ring.index};
  stuck_ = true;
}

void RingHost::note_failed(const std::string& why) {
  for (std::size_t index = 0; index < rings_.size(); ++index) {
    Ring& ring = rings_[index];
    if (ring.stuck) continue;
    ring.stuck = judge(ring, 0);
    ring.stuck->cause = ring::Cause::kMessageFailed;
    ring.stuck->text = "its messages failed: " + why;
    ring.stuck->waits_for = -1;
    ring.stuck->broken_off = true;
  }
}

RingVerdict RingHost::verdict(std::size_t index) const {
  const Ring& ring = rings_[index];
  if (ring.stuck) return *ring.stuck;
  // Another ring of the rank is, or a rank has failed: what this one was at.
  if ((stuck_ || given_up_) && (ring::tally_of(ring.buffers.kernel).queue_depth() > 0 || ring.unpublished > 0)) {
    RingVerdict verdict = judge(ring, 0);
    verdict.broken_off = given_up_;
    return verdict;
  }
  return {.rank = host_.rank(),
          .reached = true,
          .at_ps = host_.now_ps(),
          .cause = ring::Cause::kDrained,
          .text = "nothing is queued",
          .ring = ring.index};
}

bool RingHost::wait(Picoseconds until_ps) {
  if (!next_look_ps_) next_look_ps_ = host_.now_ps() + settings_.launch_ps + settings_.watchdog_ps;
  const Picoseconds deadline_ps = until_ps < 0 ? *next_look_ps_ : std::min(until_ps, *next_look_ps_);
  host_.doze(ended_, deadline_ps, "megakernel: the host waits for slots");
  mask_on_time();
  serve_io();
  if (host_.now_ps() < *next_look_ps_) return true;
  next_look_ps_ = host_.now_ps() + settings_.watchdog_ps;
  return look();
}

void RingHost::publish_step(Ring& ring, Word slot, Word epoch) {
  const ring::MeshSlot one = slot_of_epoch(ring.program, slot, epoch);
  Item item{.opcode = one.opcode};
  std::copy(std::begin(one.args), std::end(one.args), std::begin(item.args));
  publish(ring, slot, item);
}

bool RingHost::has_done(const Ring& ring, std::uint64_t slots) {
  return ring.buffers.control[ring::control_word::kDoneCount] - ring.done_at_start >= slots;
}

void RingHost::run_epoch(Word epoch, const RingProxies& proxies) {
  // Does not end when another rank fails: this rank's watchdog reports the rank for which it waits.
  const auto goes_on = [&] { return !stuck_ && !proxies.failure(); };
  std::size_t longest = 0;
  for (Ring& ring : rings_) {
    ring.done_at_start = ring.buffers.control[ring::control_word::kDoneCount];
    ring.fenced = false;
    (void)ring.kernel.take_done();  // a program's slots are published again as they are
    longest = std::max(longest, ring.program.slots.size());
  }
  const bool in_order = !settings_.when_ready &&
                        std::all_of(rings_.begin(), rings_.end(), [](const Ring& ring) { return ring.in_order(); });
  if (!in_order) publish_epoch(epoch, goes_on);
  for (std::size_t slot = 0; in_order && slot < longest && goes_on(); ++slot) {
    for (Ring& ring : rings_) {
      if (slot < ring.program.slots.size()) publish_step(ring, static_cast<Word>(slot), epoch);
    }
  }
  // A lane may take the fence as soon as it is published: it closes what is done.
  const auto all_over = [&] {
    bool over = true;
    for (Ring& ring : rings_) {
      const std::size_t slots = ring.program.slots.size();
      if (!ring.fenced && has_done(ring, slots)) {
        ring.fenced = true;
        // With levels the last place, which is of the lowest.
        const Word place = ring.places.levels || ring.places.reuses ? ring.places.slots - 1 : static_cast<Word>(slots);
        publish(ring, place, {.opcode = ring::opcode::kBatchFence, .args = {static_cast<Word>(slots), epoch}});
      }
      over = over && ring.fenced && has_done(ring, slots + 1);
    }
    return over;
  };
  while (goes_on() && !all_over()) {
    if (!wait(-1)) return;
  }
}

void RingHost::mask_on_time() {
  if (masked_ || settings_.masked_tenant < 0 || host_.now_ps() < settings_.masked_at_ps) return;
  masked_ = true;
  for (Ring& ring : rings_) {
    ring.buffers.control[ring::control_word::kTenantMasks + static_cast<Word>(settings_.masked_tenant)] = 0;
  }
}

void RingHost::serve_io() {
  for (Ring& ring : rings_) {
    bool served = false;
    for (Word index = 0; index < ring::kIoEntries; ++index) {
      Word* const status = ring.buffers.io.data() + index * ring::kIoEntryWords + ring::io_word::kStatus;
      if (*status != ring::status::kPublished) continue;
      *status = ring::status::kIoOk;  // resources are at hand: serving them takes no time
      served = true;
    }
    if (served) ring.kernel.see_io();
  }
}

}  // namespace meshbed::testbed
