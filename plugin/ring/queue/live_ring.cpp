#include "plugin/ring/queue/live_ring.h"

#include <algorithm>

#include "plugin/base/check.h"
#include "plugin/ring/queue/wait.h"

namespace meshbed::ring {
namespace {

template <typename Steps, typename Memory, typename... Arguments>
bool run(Steps& steps, Memory& memory, Arguments... arguments) {
  Progress progress = Progress::kGoesOn;
  while (progress == Progress::kGoesOn) progress = steps.step(memory, arguments...);
  return progress == Progress::kSucceeded;
}

Error shut_down_error() {
  return {.code = ErrorCode::kClosed, .scope = Scope::kQueuePair, .text = "the ring was shut down"};
}

Error not_free(Word slot, Word now) {
  return refused("slot " + std::to_string(slot) + " is " + status_name(now) +
                 ": only EMPTY and DONE slots are published into");
}

bool is_aligned(const std::uint8_t* bytes) { return reinterpret_cast<std::uintptr_t>(bytes) % kWordBytes == 0; }

}  // namespace

Result<LiveRing> LiveRing::over(MutableBytes control, MutableBytes ring, const Layout& layout) {
  if (const Result<void> fits = check_control(control, layout); !fits) return fits.error();
  const Result<Word> slots = slot_count(ring.size());
  if (!slots) return slots.error();
  if (!is_aligned(control.data()) || !is_aligned(ring.data())) {
    return refused("a ring that is shared while it is worked on begins at a whole word");
  }
  return LiveRing(SharedWords(reinterpret_cast<Word*>(control.data()), control.size() / kWordBytes,
                              reinterpret_cast<Word*>(ring.data())),
                  *slots, layout);
}

Result<void> LiveRing::publish(const Publication& what) {
  if (const Result<void> fits = check_publication(slots_, *layout_, Mode::kSafe, what); !fits) return fits;
  const auto words = words_of(*layout_, what);
  PublishSteps steps{.slot = what.slot};
  if (run(steps, words_, words.data())) return ok();
  return not_free(what.slot, steps.found);
}

Result<void> LiveRing::publish_within(const Publication& what, std::int64_t timeout_ms) {
  if (const Result<void> fits = check_publication(slots_, *layout_, Mode::kSafe, what); !fits) return fits;
  bool closed = false;
  const bool is_free = wait_until(timeout_ms, 1, [&] {
    closed = is_shut_down();
    return closed || status::is_free(status_of(what.slot));
  });
  if (closed) return shut_down_error();
  if (!is_free) {
    return waited_in_vain(
        "slot " + std::to_string(what.slot) + " is " + status_name(status_of(what.slot)) + ", and has not become free",
        timeout_ms);
  }
  return publish(what);
}

bool LiveRing::try_claim(Word slot, Claim& claim) {
  ClaimSteps steps{.slot = slot};
  if (!run(steps, words_)) return false;
  claim.slot = slot;
  const auto word = [&](Word index) { return SharedWords::load(words_.slot_place(slot, index), Order::kRelaxed); };
  claim.words.status = status::kClaimed;
  claim.words.opcode = word(slot_word::kOpcode);
  claim.words.tenant = word(slot_word::kTenant);
  claim.words.priority = layout_->priority_word == Layout::kNone ? 0 : word(layout_->priority_word);
  for (Word arg = 0; arg < layout_->args_per_slot; ++arg) claim.words.args[arg] = word(layout_->arg0_word + arg);
  return true;
}

std::optional<LiveRing::Claim> LiveRing::claim() {
  Claim claim;
  for (Word looked = 0; looked < slots_; ++looked) {
    const Word slot = next_;
    next_ = next_ + 1 == slots_ ? 0 : next_ + 1;
    if (try_claim(slot, claim)) return claim;
  }
  return std::nullopt;
}

Result<LiveRing::Claim> LiveRing::claim_within(std::int64_t timeout_ms) {
  std::optional<Claim> found;
  bool closed = false;
  const bool ended = wait_until(timeout_ms, slots_, [&] {
    closed = is_shut_down();  // looked at first: what was published before it is still found
    found = claim();
    return found.has_value() || closed;
  });
  if (found) return *found;
  if (ended) return shut_down_error();
  return waited_in_vain("none of " + std::to_string(slots_) + " slots was published for a tenant that may run",
                        timeout_ms);
}

Result<void> LiveRing::finish(Word slot, Word as) {
  if (slot >= slots_ || status_of(slot) != status::kClaimed) {
    return refused("slot " + std::to_string(slot) + " is " +
                   (slot < slots_ ? status_name(status_of(slot)) : std::string("not there")) +
                   ": only a CLAIMED one is finished");
  }
  if (as != status::kDone && as != status::kWaitIo && as != status::kYield && as != status::kRequeue &&
      as != status::kFault) {
    return refused("a claimed slot is not left as " + status_name(as));
  }
  FinishSteps steps{.slot = slot, .as = as};
  run(steps, words_);
  return ok();
}

Result<void> LiveRing::done_within(Word slot, std::int64_t timeout_ms) {
  if (slot >= slots_) return refused("slot " + std::to_string(slot) + " is not there");
  Word now = 0;
  wait_until(timeout_ms, 1, [&] {
    now = status_of(slot);
    return now == status::kDone || now == status::kFault || now == status::kEmpty;
  });
  if (now == status::kDone) return ok();
  if (now == status::kFault || now == status::kEmpty) {
    return refused("slot " + std::to_string(slot) + " is " + status_name(now) + ", and will not become DONE");
  }
  return waited_in_vain("slot " + std::to_string(slot) + " is " + status_name(now) + ", and has not become DONE",
                        timeout_ms);
}

void LiveRing::shut_down() { SharedWords::store(words_.control_place(control_word::kShutdown), 1, Order::kRelease); }

bool LiveRing::is_shut_down() const {
  return SharedWords::load(words_.control_place(control_word::kShutdown), Order::kAcquire) != 0;
}

Word LiveRing::done_count() const {
  return SharedWords::load(words_.control_place(control_word::kDoneCount), Order::kAcquire);
}

Word LiveRing::status_of(Word slot) const {
  return SharedWords::load(words_.slot_place(slot, slot_word::kStatus), Order::kAcquire);
}

void LiveRing::set_tenant(Word tenant, bool may_run) {
  MESHBED_CHECK(tenant < kTenantMasksMost);
  SharedWords::store(words_.control_place(control_word::kTenantMasks + tenant), may_run ? kTenantMaskAll : 0,
                     Order::kRelease);
}

}  // namespace meshbed::ring
