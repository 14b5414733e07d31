#include "plugin/ring/telemetry/transitions.h"

#include <algorithm>
#include <array>

namespace meshbed::ring {
namespace {

struct LegalStep {
  Word from, to;
  Actor who;
};

constexpr LegalStep kLegalSteps[] = {
    {status::kEmpty, status::kPublished, Actor::kHost},
    {status::kDone, status::kPublished, Actor::kHost},
    {status::kPublished, status::kClaimed, Actor::kKernel},
    {status::kClaimed, status::kDone, Actor::kKernel},
    {status::kYield, status::kClaimed, Actor::kPriorityKernel},
    {status::kRequeue, status::kClaimed, Actor::kPriorityKernel},
    {status::kClaimed, status::kWaitIo, Actor::kHandler},
    {status::kClaimed, status::kYield, Actor::kHandler},
    {status::kClaimed, status::kRequeue, Actor::kHandler},
    {status::kClaimed, status::kFault, Actor::kHandler},
    {status::kWaitIo, status::kClaimed, Actor::kHandler},
    {status::kWaitIo, status::kDone, Actor::kHandler},
    {status::kWaitIo, status::kFault, Actor::kHandler},
};

constexpr unsigned kNoWay = 1000;

/// fewest[published][from][to], by relaxing until nothing changes: 2 x 8 nodes, so that a way is (status, has passed a
/// publish).
struct Ways {
  unsigned fewest[2][status::kCount][status::kCount];
};

constexpr Ways all_ways() {
  Ways ways{};
  for (Word from = 0; from < status::kCount; ++from) {
    unsigned cost[2][status::kCount];
    for (auto& row : cost) {
      for (unsigned& one : row) one = kNoWay;
    }
    cost[0][from] = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (int passed = 0; passed < 2; ++passed) {
        for (const LegalStep& step : kLegalSteps) {
          const int then = passed == 1 || step.to == status::kPublished ? 1 : 0;
          const unsigned through = cost[passed][step.from] + (step.to == status::kDone ? 1 : 0);
          if (through >= cost[then][step.to]) continue;
          cost[then][step.to] = through;
          changed = true;
        }
      }
    }
    for (Word to = 0; to < status::kCount; ++to) {
      ways.fewest[0][from][to] = cost[0][to] < cost[1][to] ? cost[0][to] : cost[1][to];
      ways.fewest[1][from][to] = cost[1][to];
    }
  }
  return ways;
}

constexpr Ways kWays = all_ways();

bool same_words(const SlotSnapshot& one, const SlotSnapshot& other) {
  return one.opcode == other.opcode && one.tenant == other.tenant && one.priority == other.priority &&
         one.args == other.args;
}

/// "word 1 (OPCODE) from NOP to PUT": the first of a slot's words that differs, as the ABI 2026-05 has them.
std::string changed_word(const SlotSnapshot& before, const SlotSnapshot& now) {
  const auto text = [](Word word, const char* name, const std::string& from, const std::string& to) {
    return "word " + std::to_string(word) + " (" + name + ") changed from " + from + " to " + to;
  };
  if (before.opcode != now.opcode) {
    return text(slot_word::kOpcode, "OPCODE", opcode_name(before.opcode), opcode_name(now.opcode));
  }
  if (before.tenant != now.tenant) {
    return text(slot_word::kTenant, "TENANT", std::to_string(before.tenant), std::to_string(now.tenant));
  }
  if (before.priority != now.priority) {
    return text(kLayout2026_05.priority_word, "PRIORITY", std::to_string(before.priority),
                std::to_string(now.priority));
  }
  for (Word arg = 0; arg < kArgsRead; ++arg) {
    if (before.args[arg] == now.args[arg]) continue;
    return text(kLayout2026_05.arg0_word + arg, ("ARG" + std::to_string(arg)).c_str(), std::to_string(before.args[arg]),
                std::to_string(now.args[arg]));
  }
  return "no word changed";
}

std::uint64_t claims_of(const ControlSnapshot& control) {
  std::uint64_t all = 0;
  for (const Word claims : control.tenant_fairness) all += claims;
  return all;
}

std::string behind(std::uint64_t done_count, std::uint64_t done) {
  return "the done count is " + std::to_string(done_count) + ", and slots have become DONE " + std::to_string(done) +
         " times at least: it is raised before a slot becomes DONE, and is never behind";
}

}  // namespace

const char* name_of(Actor actor) {
  switch (actor) {
    case Actor::kHost:
      return "host";
    case Actor::kKernel:
      return "kernel";
    case Actor::kPriorityKernel:
      return "priority-kernel";
    case Actor::kHandler:
      return "handler";
  }
  return "host";
}

std::optional<Actor> actor_named(const std::string& name) {
  for (const Actor actor : {Actor::kHost, Actor::kKernel, Actor::kPriorityKernel, Actor::kHandler}) {
    if (name == name_of(actor)) return actor;
  }
  return std::nullopt;
}

std::optional<Actor> who_may(Word from, Word to) {
  for (const LegalStep& step : kLegalSteps) {
    if (step.from == from && step.to == to) return step.who;
  }
  return std::nullopt;
}

bool may(Actor actor, Word from, Word to) {
  const std::optional<Actor> who = who_may(from, to);
  return who && (*who == actor || (*who == Actor::kKernel && actor == Actor::kPriorityKernel));
}

std::string to_text(const Violation& violation) {
  std::string text = "step " + std::to_string(violation.step) + ": ";
  if (violation.slot) {
    text += "slot " + std::to_string(*violation.slot) + ": " + status_name(violation.from) + " -> " +
            status_name(violation.to);
    if (violation.who) text += std::string(" by ") + name_of(*violation.who);
    text += ": ";
  }
  return text + violation.why;
}

std::optional<unsigned> fewest_done(Word from, Word to, bool published) {
  if (!status::is_known(from) || !status::is_known(to)) return std::nullopt;
  const unsigned fewest = kWays.fewest[published ? 1 : 0][from][to];
  if (fewest >= kNoWay) return std::nullopt;
  return fewest;
}

void TransitionChecker::tell(Violation violation) {
  if (!first_) first_ = std::move(violation);
}

void TransitionChecker::add(const Transition& transition) {
  const std::uint64_t step = steps_++;
  const auto broken = [&](std::string why) {
    tell({.step = step,
          .slot = transition.slot,
          .from = transition.from,
          .to = transition.to,
          .who = transition.who,
          .why = std::move(why)});
  };
  if (transition.slot >= statuses_.size()) {
    return broken("the ring has " + std::to_string(statuses_.size()) + " slots");
  }
  Word& now = statuses_[transition.slot];
  const Word was = now;
  now = transition.to;
  if (transition.to == status::kDone) ++done_;
  if (was != transition.from) return broken("the slot is " + status_name(was));
  if (may(transition.who, transition.from, transition.to)) return;
  const std::optional<Actor> who = who_may(transition.from, transition.to);
  broken(who ? std::string("that is for the ") + name_of(*who) + " to do" : "this is never allowed");
}

void TransitionChecker::observe_done_count(Word done_count) {
  done_count_ += static_cast<Word>(done_count - static_cast<Word>(done_count_));
  if (done_count_ < done_) tell({.step = steps_, .slot = {}, .who = {}, .why = behind(done_count_, done_)});
}

void SnapshotChecker::add(const RingTelemetry& snapshot) {
  std::optional<Violation> found = look(snapshot);
  if (found && !first_) first_ = std::move(found);
  slots_ = snapshot.slots;
  control_ = snapshot.control;
  done_count_word_ = snapshot.control.done_count;
  ++steps_;
}

std::optional<Violation> SnapshotChecker::look_at_slot(const SlotSnapshot& before, const SlotSnapshot& now) {
  const auto broken = [&](std::string why) {
    return Violation{
        .step = steps_, .slot = now.index, .from = before.status, .to = now.status, .who = {}, .why = std::move(why)};
  };
  if (!status::is_known(now.status)) return broken("there is no such status");
  const bool changed = !same_words(before, now);
  const std::optional<unsigned> done = fewest_done(before.status, now.status, changed);
  if (done) {
    least_done_ += *done;
    return std::nullopt;
  }
  if (fewest_done(before.status, now.status, false)) {
    return broken(changed_word(before, now) + ", and the slot cannot have been published in between");
  }
  return broken("no legal way leads there");
}

/// A slot whose words have changed, which would take a publish and so a DONE more than the done count has.
std::optional<Violation> SnapshotChecker::overwritten(const RingTelemetry& snapshot) const {
  for (std::size_t index = 0; index < slots_.size() && index < snapshot.slots.size(); ++index) {
    const SlotSnapshot &before = slots_[index], &now = snapshot.slots[index];
    if (same_words(before, now)) continue;
    const auto with = fewest_done(before.status, now.status, true);
    const auto without = fewest_done(before.status, now.status, false);
    if (!with || !without || *with <= *without) continue;
    return Violation{.step = steps_,
                     .slot = now.index,
                     .from = before.status,
                     .to = now.status,
                     .who = {},
                     .why = changed_word(before, now) + " while the slot was " + status_name(before.status) +
                            ": the done count leaves no room for a publish in between, so it was overwritten"};
  }
  return std::nullopt;
}

std::optional<Violation> SnapshotChecker::look_at_control(const RingTelemetry& snapshot) const {
  const ControlSnapshot& now = snapshot.control;
  const auto word = [&](Word index, const char* name, const std::string& what) {
    return Violation{.step = steps_,
                     .slot = {},
                     .who = {},
                     .why = "control word " + std::to_string(index) + " (" + name + ") " + what};
  };
  if (now.shutdown_word > 1) {
    return word(control_word::kShutdown, "SHUTDOWN", "is " + std::to_string(now.shutdown_word) + ", and not 0 or 1");
  }
  if (now.tenant_base != control_word::kTenantMasks) {
    return word(control_word::kTenantBase, "TENANT_BASE",
                "is " + std::to_string(now.tenant_base) + "; hosts write " +
                    std::to_string(control_word::kTenantMasks) + ", and kernels never write it");
  }
  if (steps_ == 0) return std::nullopt;
  if (now.shutdown_word < control_.shutdown_word) {
    return word(control_word::kShutdown, "SHUTDOWN", "went back from 1 to 0: a kernel that has seen it has ended");
  }
  if (static_cast<std::int32_t>(now.epoch - control_.epoch) < 0) {
    return word(kLayout2026_05.epoch, "EPOCH",
                "fell from " + std::to_string(control_.epoch) + " to " + std::to_string(now.epoch) +
                    ": kernels add 1 to it at a BATCH_FENCE, and nothing else writes it");
  }
  // Each DONE has its claim, which is counted before; of a ring without counters none can be counted.
  const Word done = now.done_count - done_count_word_;
  const std::uint64_t claims_before = claims_of(control_), claims = claims_of(now);
  const std::string jumped =
      "jumped from " + std::to_string(done_count_word_) + " to " + std::to_string(now.done_count) + ": ";
  if (claims > 0 && claims >= claims_before && static_cast<std::int32_t>(done) > 0) {
    std::uint64_t held = 0;
    for (const SlotSnapshot& slot : slots_) {
      held += slot.status == status::kClaimed || slot.status == status::kWaitIo ? 1 : 0;
    }
    // The ring is read first: slots may have been claimed since.
    const std::uint64_t most = claims - claims_before + held + slots_.size();
    if (done > most) {
      return word(control_word::kDoneCount, "DONE_COUNT",
                  jumped + std::to_string(done) + " slots DONE, and " + std::to_string(claims - claims_before) +
                      " claims since");
    }
  } else if (claims == 0 && static_cast<std::int32_t>(done) > 0 && done > slots_.size()) {
    const bool same = std::equal(slots_.begin(), slots_.end(), snapshot.slots.begin(), snapshot.slots.end(),
                                 [](const SlotSnapshot& before, const SlotSnapshot& after) {
                                   return before.status == after.status && same_words(before, after);
                                 });
    if (same) {
      return word(control_word::kDoneCount, "DONE_COUNT",
                  jumped + "more than all slots of the ring, of which none has changed");
    }
  }
  return std::nullopt;
}

std::optional<Violation> SnapshotChecker::look(const RingTelemetry& snapshot) {
  const auto whole = [&](std::string why) {
    return Violation{.step = steps_, .slot = {}, .who = {}, .why = std::move(why)};
  };
  std::optional<Violation> found;
  const auto keep = [&found](std::optional<Violation> one) {
    if (one && !found) found = std::move(one);
  };
  if (steps_ == 0) {
    for (const SlotSnapshot& slot : snapshot.slots) {
      if (!status::is_known(slot.status)) {
        keep(Violation{.step = 0,
                       .slot = slot.index,
                       .from = slot.status,
                       .to = slot.status,
                       .who = {},
                       .why = "there is no such status"});
      }
    }
    done_count_ = snapshot.control.done_count;
    least_done_ = snapshot.occupancy.of(status::kDone);
  } else if (snapshot.slots.size() != slots_.size()) {
    return whole("the ring has " + std::to_string(snapshot.slots.size()) + " slots, and had " +
                 std::to_string(slots_.size()));
  } else {
    const Word delta = snapshot.control.done_count - done_count_word_;
    if (mode_ == Mode::kStrict && snapshot.control.done_count < done_count_word_) {  // quirk watchdog-wrap
      keep(whole("the done count went back from " + std::to_string(done_count_word_) + " to " +
                 std::to_string(snapshot.control.done_count)));
    }
    done_count_ += delta;
    for (std::size_t index = 0; index < slots_.size(); ++index)
      keep(look_at_slot(slots_[index], snapshot.slots[index]));
  }
  if (done_count_ < least_done_) {
    keep(steps_ == 0 ? std::nullopt : overwritten(snapshot));
    keep(whole(behind(done_count_, least_done_)));
  }
  keep(look_at_control(snapshot));
  return found;
}

}  // namespace meshbed::ring
