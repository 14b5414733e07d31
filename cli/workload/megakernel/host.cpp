#include "cli/workload/megakernel/host.h"

#include <algorithm>

#include "cli/scenario/megakernel_names.h"
#include "cli/workload/megakernel/blocks.h"
#include "cli/workload/megakernel/times.h"

namespace meshbed::cli {

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
              .kind = RingEventKind::kPublish});
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
  const ring::Verdict verdict = placeless ? *placeless : ring::verdict_of(ring.buffers.kernel, ring.kernel.lanes());
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
  const bool moved = delta != 0 || ring.kernel.slots_ended() != ring.ended_before || works_();
  ring.done_before = done;
  ring.ended_before = ring.kernel.slots_ended();
  const ring::Tally tally = ring::tally_of(ring.buffers.kernel);
  ring.looks_in_vain = moved || tally.queue_depth() == 0 ? 0 : ring.looks_in_vain + 1;
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

RingVerdict RingHost::verdict(std::size_t index) const {
  const Ring& ring = rings_[index];
  if (ring.stuck) return *ring.stuck;
  // Another ring of the rank is: what this one was at.
  if (stuck_ && ring::tally_of(ring.buffers.kernel).queue_depth() > 0) return judge(ring, 0);
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
  namespace arg = ring::mesh_arg;
  const ring::MeshSlot& one = ring.program.slots[slot];
  Item item{.opcode = one.opcode};
  std::copy(std::begin(one.args), std::end(one.args), std::begin(item.args));
  item.args[arg::kEpoch] = epoch;
  // Connections count their messages on from epoch to epoch.
  const Word connection = item.args[arg::kConnection];
  if (one.opcode == ring::opcode::kSignal || one.opcode == ring::opcode::kFence) {
    item.args[arg::kCount] += (epoch - 1) * static_cast<Word>(ring.program.sends[connection].messages);
  } else if (one.opcode == ring::opcode::kWait) {
    item.args[arg::kCount] += (epoch - 1) * static_cast<Word>(ring.program.receives[connection].landings.size());
  }
  publish(ring, slot, item);
}

bool RingHost::has_done(const Ring& ring, std::uint64_t slots) {
  return ring.buffers.control[ring::control_word::kDoneCount] - ring.done_at_start >= slots;
}

void RingHost::run_epoch(Word epoch, const RingProxies& proxies) {
  // That another rank has failed is no reason to end: this one's watchdog says whom it misses.
  const auto goes_on = [&] { return !stuck_ && !proxies.failure(); };
  std::size_t longest = 0;
  for (Ring& ring : rings_) {
    ring.done_at_start = ring.buffers.control[ring::control_word::kDoneCount];
    ring.fenced = false;
    (void)ring.kernel.take_done();  // a program's slots are published again as they are
    longest = std::max(longest, ring.program.slots.size());
  }
  for (std::size_t slot = 0; slot < longest && goes_on(); ++slot) {
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
        const auto fence = static_cast<Word>(slots);
        publish(ring, fence, {.opcode = ring::opcode::kBatchFence, .args = {fence, epoch}});
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

std::optional<Word> RingHost::free_slot(Ring& ring, Word level) const {
  Word begin = 0, end = ring.buffers.kernel.slots;
  if (settings_.by_priority) {
    begin = ring.buffers.control[kRingLayout.priority_offsets + level];
    end = ring.buffers.control[kRingLayout.priority_offsets + level + 1];
  }
  take_free(ring);
  if (begin == end) return std::nullopt;
  auto slot = ring.free.lower_bound(begin + ring.next[level] % (end - begin));
  if (slot == ring.free.end() || *slot >= end) slot = ring.free.lower_bound(begin);
  if (slot == ring.free.end() || *slot >= end) return std::nullopt;
  ring.next[level] = *slot - begin + 1;
  return *slot;
}

void RingHost::take_free(Ring& ring) {
  for (const Word slot : ring.kernel.take_done()) ring.free.insert(slot);
}

bool RingHost::is_queued(Ring& ring) {
  take_free(ring);
  return ring.free.size() < ring.buffers.kernel.slots;
}

Picoseconds RingHost::gap(Prng& prng) const {
  if (settings_.arrivals == "constant") return settings_.arrival_gap_ps;
  if (settings_.arrivals != "poisson") return 0;
  // A whole multiple of 1/1024 of the gap, so that no library's logarithm decides a digest: the geometric law, which is
  // the exponential one in steps.
  constexpr std::uint64_t kSteps = 1024;
  std::uint64_t steps = 0;
  while (prng.below(kSteps) != 0) ++steps;
  return static_cast<Picoseconds>(static_cast<std::uint64_t>(settings_.arrival_gap_ps) * steps / kSteps);
}

RingHost::Item RingHost::draw(Prng& prng, int number) const {
  Item item{.tenant = static_cast<Word>(prng.below(static_cast<std::uint64_t>(settings_.tenants)))};
  item.level = settings_.by_priority ? draw_weighted(prng, settings_.priorities, ring::priority::kNormal)
                                     : ring::priority::kNormal;
  const RingMix kind = number == settings_.faulty_item ? RingMix::kFault : draw_mix(prng, settings_.mix);
  const Word observable = kRingLayout.observables + 1 + static_cast<Word>(number) % kAddWords;
  const auto compute_ns = static_cast<Word>(settings_.compute_ps / kPicosecondsPerNanosecond);
  const auto task = [&](ring::End end, Word times) {
    item.opcode = kTaskOpcode;
    item.args[0] = static_cast<Word>(end);
    item.args[1] = compute_ns;
    item.args[2] = times;
  };
  switch (kind) {
    case RingMix::kNop:
      item.opcode = ring::opcode::kNop;
      break;
    case RingMix::kAdd:
      item.opcode = ring::opcode::kAtomicAdd;
      item.args[0] = 1;
      item.args[1] = observable;
      break;
    case RingMix::kPacked:
      // Two ADDs: the table of spec 2.4's golden slot, with this opcode in both places.
      item.opcode = ring::opcode::kPackedSlot;
      item.args[0] = 0x0002'0402;
      item.args[1] = 0x0000'0202;
      item.args[2] = item.args[4] = 1;
      item.args[3] = item.args[5] = observable;
      break;
    case RingMix::kPrintf:
      item.opcode = ring::opcode::kPrintf;
      item.args[0] = static_cast<Word>(number);
      break;
    case RingMix::kLoadMiss:
      item.opcode = ring::opcode::kLoadMiss;
      item.args[0] = static_cast<Word>(number);
      break;
    case RingMix::kCompute:
      task(ring::End::kDone, 0);
      break;
    case RingMix::kYield:
      task(ring::End::kYield, 1);
      break;
    case RingMix::kRequeue:
      task(ring::End::kRequeue, 1);
      break;
    case RingMix::kFault:
      task(ring::End::kFault, 1);
      break;
  }
  return item;
}

void RingHost::run_queue(std::uint64_t seed) {
  Prng prng(mix64(seed) ^ mix64(static_cast<std::uint64_t>(host_.rank()) + 1));
  for (Ring& ring : rings_) {
    for (Word slot = 0; slot < ring.buffers.kernel.slots; ++slot) ring.free.insert(ring.free.end(), slot);
  }
  Picoseconds due_ps = host_.now_ps();
  for (int number = 0; number < settings_.items; ++number) {
    const Item item = draw(prng, number);
    due_ps += gap(prng);
    while (host_.now_ps() < due_ps) {
      if (!wait(due_ps)) return;
    }
    Ring& ring = rings_[static_cast<std::size_t>(number) % rings_.size()];
    std::optional<Word> slot = free_slot(ring, item.level);
    for (; !slot; slot = free_slot(ring, item.level)) {
      if (!wait(-1)) return;
    }
    ring.counted.adds += item.opcode == ring::opcode::kAtomicAdd ? 1 : item.opcode == ring::opcode::kPackedSlot ? 2 : 0;
    ring.free.erase(*slot);
    publish(ring, *slot, item);
    mask_on_time();
    serve_io();
  }
  while (std::any_of(rings_.begin(), rings_.end(), is_queued)) {
    if (!wait(-1)) return;
  }
}

}  // namespace meshbed::cli
