#pragma once
// The steps by which a ring is shared while it is worked on: publish, claim and finish, each as a row of single
// accesses to shared words. LiveRing runs them on words of memory; the model check in tests/ring runs the very same
// ones on words of its own, all orders of all steps.
//
// The owner of each slot, and the store that passes it on:
//   a free slot (EMPTY, DONE)   its one publisher. It writes tenant, opcode and arguments, then STATUS = PUBLISHED with
//                               release: a lane that sees PUBLISHED by acquire sees the rest.
//   a PUBLISHED slot            none. A lane takes it by compare-and-swap (acquire); the others lose.
//   a CLAIMED slot              that lane. It raises DONE_COUNT, then STATUS = DONE with release: the publisher that
//                               sees DONE sees what the lane wrote, and every thread that sees DONE sees the count.
// A lane looks at a slot's tenant before it has claimed it. What it reads may be gone by the time of its claim, so it
// looks once more where the slot was another's; the slot of a tenant that may not run goes back as REQUEUE, which is
// claimed as PUBLISHED is (safe mode; quirk masked-after-claim).
//
// Memory: load(place, Order), store(place, word, Order), add(place, amount), swap(place, expected, desired) -> bool;
// places by slot_place(slot, word) and control_place(word); payload_words(), control_words().

#include <cstdint>

#include "plugin/ring/abi/control.h"

namespace meshbed::ring {

enum class Order { kRelaxed, kAcquire, kRelease };

/// What a step has come to.
enum class Progress { kGoesOn, kSucceeded, kFailed };

/// Writes a slot's words: `words[1]` and on, then STATUS. Strict: without release (quirk publish-without-release).
struct PublishSteps {
  Word slot = 0;
  Mode mode = Mode::kSafe;
  Word at = 0;     // 0: looks at STATUS; then the words; then STATUS again
  Word found = 0;  // where it has failed: what the slot's STATUS is

  template <typename Memory>
  Progress step(Memory& memory, const Word* words) {
    if (at == 0) {
      found = memory.load(memory.slot_place(slot, slot_word::kStatus), Order::kAcquire);
      if (!status::is_free(found)) return Progress::kFailed;
      at = 1;
      return Progress::kGoesOn;
    }
    if (at <= memory.payload_words()) {
      memory.store(memory.slot_place(slot, at), words[at], Order::kRelaxed);
      ++at;
      return Progress::kGoesOn;
    }
    memory.store(memory.slot_place(slot, slot_word::kStatus), status::kPublished,
                 mode == Mode::kSafe ? Order::kRelease : Order::kRelaxed);
    return Progress::kSucceeded;
  }
};

/// Claims one slot, or finds that it is not to be had.
struct ClaimSteps {
  enum class At : std::uint8_t {
    kStatus,
    kTenant,
    kBase,
    kMask,
    kSwap,
    kTenantAgain,
    kBaseAgain,
    kMaskAgain,
    kPutBack
  };

  Word slot = 0;
  Mode mode = Mode::kSafe;
  At at = At::kStatus;
  Word seen = 0;  // the status that is swapped away
  Word tenant = 0, base = 0;

  template <typename Memory>
  Progress step(Memory& memory) {
    const auto mask_of = [&] {
      const std::uint64_t word = std::uint64_t{base} + tenant;
      return word < memory.control_words() ? memory.load(memory.control_place(word), Order::kRelaxed) : 0;
    };
    const bool has_mask = mode == Mode::kStrict || tenant < kTenantMasksMost;
    switch (at) {
      case At::kStatus:
        seen = memory.load(memory.slot_place(slot, slot_word::kStatus), Order::kAcquire);
        if (seen != status::kPublished && (mode == Mode::kStrict || seen != status::kRequeue)) return Progress::kFailed;
        at = At::kTenant;
        return Progress::kGoesOn;
      case At::kTenant:
        tenant = memory.load(memory.slot_place(slot, slot_word::kTenant), Order::kRelaxed);
        at = At::kBase;
        return Progress::kGoesOn;
      case At::kBase:
        base = memory.load(memory.control_place(control_word::kTenantBase), Order::kRelaxed);
        at = At::kMask;
        return has_mask || mode == Mode::kStrict ? Progress::kGoesOn : Progress::kFailed;
      case At::kMask:
        if (mask_of() == 0) return Progress::kFailed;
        at = At::kSwap;
        return Progress::kGoesOn;
      case At::kSwap:
        if (!memory.swap(memory.slot_place(slot, slot_word::kStatus), seen, status::kClaimed)) return Progress::kFailed;
        at = At::kTenantAgain;
        return mode == Mode::kStrict ? Progress::kSucceeded : Progress::kGoesOn;
      case At::kTenantAgain: {
        const Word now = memory.load(memory.slot_place(slot, slot_word::kTenant), Order::kRelaxed);
        if (now == tenant) return Progress::kSucceeded;
        tenant = now;  // it was published anew since
        at = At::kBaseAgain;
        return Progress::kGoesOn;
      }
      case At::kBaseAgain:
        base = memory.load(memory.control_place(control_word::kTenantBase), Order::kRelaxed);
        at = has_mask ? At::kMaskAgain : At::kPutBack;
        return Progress::kGoesOn;
      case At::kMaskAgain:
        if (mask_of() != 0) return Progress::kSucceeded;
        at = At::kPutBack;
        return Progress::kGoesOn;
      case At::kPutBack:
        memory.store(memory.slot_place(slot, slot_word::kStatus), status::kRequeue, Order::kRelease);
        return Progress::kFailed;
    }
    return Progress::kFailed;
  }
};

/// A claimed slot becomes DONE, and counts; or what a handler leaves it as.
struct FinishSteps {
  Word slot = 0;
  Word as = status::kDone;
  bool counted = false;

  template <typename Memory>
  Progress step(Memory& memory) {
    if (as == status::kDone && !counted) {
      memory.add(memory.control_place(control_word::kDoneCount), 1);
      counted = true;
      return Progress::kGoesOn;
    }
    memory.store(memory.slot_place(slot, slot_word::kStatus), as, Order::kRelease);
    return Progress::kSucceeded;
  }
};

}  // namespace meshbed::ring
