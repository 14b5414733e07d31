#include "cli/workload/megakernel/host.h"

#include <algorithm>
#include <cmath>

#include "cli/scenario/megakernel_names.h"

namespace meshbed::cli {

using ring::Word;

namespace {

/// Looks at which nothing had been done since the one before: one may come just before something is.
constexpr int kLooksUntilStuck = 2;

}  // namespace

void RingHost::publish(Word slot, const Item& item) {
  Word* const words = ring::slot_at(buffers_.kernel, slot);
  words[ring::slot_word::kOpcode] = item.opcode;
  words[ring::slot_word::kTenant] = item.tenant;
  words[kRingLayout.priority_word] = ring::priority::kNormal;  // as all of the ancestor's hosts do
  std::copy(std::begin(item.args), std::end(item.args), words + kRingLayout.arg0_word);
  kernel_.forget_task(slot);
  host_.spend(settings_.publish_ps);
  ring::PlainWords::release(words + ring::slot_word::kStatus, ring::status::kPublished);
  trace_.add({.at_ps = host_.now_ps(),
              .rank = host_.rank(),
              .slot = slot,
              .opcode = item.opcode,
              .kind = RingEventKind::kPublish});
  ++counted_.published;
  kernel_.nudge();
}

bool RingHost::look() {
  const Word done = buffers_.control[ring::control_word::kDoneCount];
  const Word delta = done - done_before_;
  const bool moved = delta != 0 || kernel_.slots_ended() != ended_before_ || works_();
  done_before_ = done;
  ended_before_ = kernel_.slots_ended();
  const ring::Tally tally = ring::tally_of(buffers_.kernel);
  looks_in_vain_ = moved || tally.queue_depth() == 0 ? 0 : looks_in_vain_ + 1;
  if (looks_in_vain_ < kLooksUntilStuck) return true;
  const ring::Verdict verdict = ring::verdict_of(buffers_.kernel, kernel_.lanes());
  stuck_ = {.rank = host_.rank(),
            .reached = true,
            .at_ps = host_.now_ps(),
            .cause = verdict.cause,
            .text = verdict.text,
            .queue_depth = verdict.tally.queue_depth(),
            .ancestor_suspects = ring::suspects_stall(verdict.tally, delta)};
  return false;
}

RingVerdict RingHost::verdict() const {
  if (stuck_) return *stuck_;
  return {.rank = host_.rank(),
          .reached = true,
          .at_ps = host_.now_ps(),
          .cause = ring::Cause::kDrained,
          .text = "nothing is queued"};
}

bool RingHost::wait(Picoseconds until_ps) {
  if (!next_look_ps_) next_look_ps_ = host_.now_ps() + settings_.launch_ps + settings_.watchdog_ps;
  const Picoseconds deadline_ps = until_ps < 0 ? *next_look_ps_ : std::min(until_ps, *next_look_ps_);
  host_.doze(kernel_.ended(), deadline_ps, "megakernel: the host waits for slots");
  mask_on_time();
  serve_io();
  if (host_.now_ps() < *next_look_ps_) return true;
  next_look_ps_ = host_.now_ps() + settings_.watchdog_ps;
  return look();
}

void RingHost::run_epoch(const coll::SlotProgram& program, Word epoch, const RingProxy* proxy) {
  namespace arg = ring::mesh_arg;
  const auto goes_on = [&] { return !stuck_ && !(proxy != nullptr && proxy->failure()) && !host_.others_failed(); };
  const auto fence = static_cast<Word>(program.slots.size());
  const Word done_before = buffers_.control[ring::control_word::kDoneCount];
  for (Word slot = 0; slot < fence && goes_on(); ++slot) {
    const ring::MeshSlot& one = program.slots[slot];
    Item item{.opcode = one.opcode};
    std::copy(std::begin(one.args), std::end(one.args), std::begin(item.args));
    item.args[arg::kEpoch] = epoch;
    // Connections count their messages on from epoch to epoch.
    const Word connection = item.args[arg::kConnection];
    if (one.opcode == ring::opcode::kSignal || one.opcode == ring::opcode::kFence) {
      item.args[arg::kCount] += (epoch - 1) * static_cast<Word>(program.sends[connection].messages);
    } else if (one.opcode == ring::opcode::kWait) {
      item.args[arg::kCount] += (epoch - 1) * static_cast<Word>(program.receives[connection].landings.size());
    }
    publish(slot, item);
  }
  const auto wait_for = [&](Word done) {
    while (goes_on() && buffers_.control[ring::control_word::kDoneCount] - done_before < done) {
      if (!wait(-1)) return;
    }
  };
  wait_for(fence);
  if (!goes_on()) return;
  // A lane may take the fence as soon as it is published: it closes what is done.
  publish(fence, {.opcode = ring::opcode::kBatchFence, .args = {fence, epoch}});
  wait_for(fence + 1);
}

void RingHost::mask_on_time() {
  if (masked_ || settings_.masked_tenant < 0 || host_.now_ps() < settings_.masked_at_ps) return;
  masked_ = true;
  buffers_.control[ring::control_word::kTenantMasks + static_cast<Word>(settings_.masked_tenant)] = 0;
}

void RingHost::serve_io() {
  for (Word index = 0; index < ring::kIoEntries; ++index) {
    Word* const status = buffers_.io.data() + index * ring::kIoEntryWords + ring::io_word::kStatus;
    if (*status != ring::status::kPublished) continue;
    *status = ring::status::kIoOk;  // resources are at hand: what it takes is the host's next look
    kernel_.nudge();
  }
}

std::optional<Word> RingHost::free_slot(Word level) {
  Word begin = 0, end = buffers_.kernel.slots;
  if (settings_.by_priority) {
    begin = buffers_.control[kRingLayout.priority_offsets + level];
    end = buffers_.control[kRingLayout.priority_offsets + level + 1];
  }
  for (Word turn = 0; turn < end - begin; ++turn) {
    const Word slot = begin + (next_[level] + turn) % (end - begin);
    if (!ring::status::is_free(ring::slot_at(buffers_.kernel, slot)[ring::slot_word::kStatus])) continue;
    next_[level] = slot - begin + 1;
    return slot;
  }
  return std::nullopt;
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
  Picoseconds due_ps = host_.now_ps();
  for (int number = 0; number < settings_.items; ++number) {
    const Item item = draw(prng, number);
    due_ps += gap(prng);
    while (host_.now_ps() < due_ps) {
      if (!wait(due_ps)) return;
    }
    std::optional<Word> slot = free_slot(item.level);
    for (; !slot; slot = free_slot(item.level)) {
      if (!wait(-1)) return;
    }
    counted_.adds += item.opcode == ring::opcode::kAtomicAdd ? 1 : item.opcode == ring::opcode::kPackedSlot ? 2 : 0;
    publish(*slot, item);
    mask_on_time();
  }
  while (ring::tally_of(buffers_.kernel).queue_depth() > 0) {
    if (!wait(-1)) return;
  }
}

}  // namespace meshbed::cli
