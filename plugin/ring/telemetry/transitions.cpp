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
    return broken("its other words have changed, and it cannot have been published in between");
  }
  return broken("no legal way leads there");
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
  if (done_count_ < least_done_) keep(whole(behind(done_count_, least_done_)));
  return found;
}

}  // namespace meshbed::ring
