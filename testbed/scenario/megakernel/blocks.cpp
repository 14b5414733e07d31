#include "testbed/scenario/megakernel/blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/gpu.h"
#include "plugin/ring/kernel/scan.h"
#include "testbed/scenario/megakernel/slot_programs.h"

namespace meshbed::testbed {

using ring::Word;

namespace {

std::string blocks_text(const Megakernel& settings, Word lanes) {
  if (settings.rings == 1) return fmt::format("{}", lanes);
  return fmt::format("{} ({} rings x {})", static_cast<std::uint64_t>(settings.rings) * lanes, settings.rings, lanes);
}

std::string ring_text(const Megakernel& settings, int ring) {
  return settings.rings == 1 ? "" : fmt::format(" of ring {}", ring);
}

}  // namespace

Word lanes_of(const Megakernel& settings, Word slots) {
  constexpr int kSafeLanesDefault = 8;
  if (settings.lanes > 0) return static_cast<Word>(settings.lanes);
  return settings.strict && !settings.by_priority ? slots : kSafeLanesDefault;
}

Word resident_of(const Megakernel& settings, Word lanes, int ring) {
  if (settings.sms == 0 || settings.initiation == "launch") return lanes;
  const std::uint64_t places = models::block_places(settings.sms, settings.held_sms, settings.blocks_per_sm);
  const std::uint64_t taken = static_cast<std::uint64_t>(ring) * lanes;  // by the rings before
  return static_cast<Word>(std::min<std::uint64_t>(lanes, places - std::min(places, taken)));
}

std::string places_text(const Megakernel& settings) {
  const std::uint64_t places = models::block_places(settings.sms, settings.held_sms, settings.blocks_per_sm);
  return fmt::format("{} places ({} SMs{} x {})", places, settings.sms,
                     settings.held_sms > 0 ? fmt::format(", {} held,", settings.held_sms) : "", settings.blocks_per_sm);
}

std::optional<ring::Verdict> not_resident(const Megakernel& settings, const ring::Kernel& kernel, int ring) {
  const Word resident = resident_of(settings, kernel.lanes, ring);
  if (resident == kernel.lanes || kernel.by_priority) return std::nullopt;
  for (Word slot = 0; slot < kernel.slots; ++slot) {
    const Word block = ring::owner_of(kernel, slot);
    if (block < resident || block >= kernel.lanes) continue;
    const Word* const words = ring::slot_at(kernel, slot);
    if (!ring::is_claimable(kernel, words[ring::slot_word::kStatus])) continue;
    if (ring::authority_of<ring::PlainWords>(kernel, words[ring::slot_word::kTenant]) == ring::Authority::kNo) continue;
    return ring::Verdict{
        .cause = ring::Cause::kNotResident,
        .tally = ring::tally_of(kernel),
        .slot = slot,
        .text = fmt::format("{} blocks wait, the GPU has {}: slot {}{} belongs to block {}, which is not resident",
                            blocks_text(settings, kernel.lanes), places_text(settings), slot, ring_text(settings, ring),
                            block)};
  }
  return std::nullopt;
}

std::optional<std::string> residency_finding(const Workload& workload, int ranks) {
  const Megakernel& settings = workload.megakernel;
  if (settings.sms == 0 || settings.by_priority) return std::nullopt;
  const bool is_queue = settings.program == "queue";
  const Workload of_ring = workload_of_ring(workload);
  for (int rank = 0; rank < (is_queue ? 1 : ranks); ++rank) {
    Word slots = 0;
    if (is_queue) {
      slots = ring_slots_of(settings, nullptr);
    } else {
      const Result<RingProgram> program = ring_program(of_ring, rank, ranks);
      if (!program) return std::nullopt;  // the run says why
      slots = ring_slots_of(settings, &*program);
    }
    const Word lanes = lanes_of(settings, slots);
    for (int ring = 0; ring < settings.rings; ++ring) {
      const Word resident = resident_of(settings, lanes, ring);
      if (resident == lanes || resident >= slots) continue;
      return fmt::format(
          "the megakernel's {} lanes are blocks, and the GPU has {}: slot {}{} and what else blocks from {} on own is "
          "never claimed, since no persistent block ends",
          blocks_text(settings, lanes), places_text(settings), resident, ring_text(settings, ring), resident);
    }
  }
  return std::nullopt;
}

}  // namespace meshbed::testbed
