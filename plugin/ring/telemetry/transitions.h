#pragma once
// Transitions: which actor may change a slot from which status to which (vyre, commit ca35047), and a checker that
// names the first illegal step.
//
// A slot's life            EMPTY -> PUBLISHED -> CLAIMED -> DONE -> PUBLISHED -> ...
// handlers of one's own    CLAIMED -> WAIT_IO, YIELD, REQUEUE, FAULT;  WAIT_IO -> CLAIMED, DONE, FAULT
// the priority kernel      YIELD, REQUEUE -> CLAIMED
//
// Between two snapshots a slot may have made many steps. The checker verifies that some legal way leads from the one to
// the other; that it passes a publish where the slot's other words have changed; and that the done count covers the
// DONEs which all these ways cannot do without: it is raised before a slot becomes DONE, so it may be ahead, never
// behind. A slot whose words have changed although the done count leaves no room for a publish was overwritten; it is
// named with its word. Of the control buffer's own words it names SHUTDOWN that is neither 0 nor 1 or goes back,
// TENANT_BASE that is not the masks' or changes, EPOCH that falls, and a done count that claims cannot explain.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/ring/telemetry/telemetry.h"

namespace meshbed::ring {

enum class Actor { kHost, kKernel, kPriorityKernel, kHandler };
/// "host", "kernel", "priority-kernel", "handler".
const char* name_of(Actor actor);
std::optional<Actor> actor_named(const std::string& name);

/// The actor that may make the step; nullopt: none, or the two are equal. The priority kernel may do everything that
/// the kernel may.
std::optional<Actor> who_may(Word from, Word to);
bool may(Actor actor, Word from, Word to);

struct Transition {
  Word slot = 0;
  Word from = 0, to = 0;
  Actor who = Actor::kHost;
};

struct Violation {
  std::uint64_t step = 0;  // of those that were given, from 0
  std::optional<Word> slot;
  Word from = 0, to = 0;
  std::optional<Actor> who;  // a snapshot does not say
  std::string why;
};
/// "step 3: slot 5: DONE -> CLAIMED by kernel: ...".
std::string to_text(const Violation& violation);

/// Single steps, one after the other, of a ring of which each slot is EMPTY at first.
class TransitionChecker {
 public:
  explicit TransitionChecker(Word slots) : statuses_(slots, status::kEmpty) {}

  /// The first illegal step is reported, and every later one is only counted.
  void add(const Transition& transition);
  /// What an observer has read of the control buffer now. Counts from the ring's first step on.
  void observe_done_count(Word done_count);

  const std::optional<Violation>& first() const { return first_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t done() const { return done_; }
  const std::vector<Word>& statuses() const { return statuses_; }

 private:
  void tell(Violation violation);

  std::vector<Word> statuses_;
  std::uint64_t steps_ = 0, done_ = 0;
  std::uint64_t done_count_ = 0;  // the observed one, without its wraps
  std::optional<Violation> first_;
};

/// Snapshots, one after the other. Each was read ring first, control buffer second.
class SnapshotChecker {
 public:
  explicit SnapshotChecker(Mode mode) : mode_(mode) {}

  void add(const RingTelemetry& snapshot);

  const std::optional<Violation>& first() const { return first_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t least_done() const { return least_done_; }  // DONEs that there must have been

 private:
  std::optional<Violation> look(const RingTelemetry& snapshot);
  std::optional<Violation> look_at_slot(const SlotSnapshot& before, const SlotSnapshot& now);
  std::optional<Violation> look_at_control(const RingTelemetry& snapshot) const;
  std::optional<Violation> overwritten(const RingTelemetry& snapshot) const;

  Mode mode_;
  std::vector<SlotSnapshot> slots_;
  ControlSnapshot control_;  // of the snapshot before
  Word done_count_word_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t done_count_ = 0, least_done_ = 0;
  std::optional<Violation> first_;
};

/// The fewest DONEs on a legal way between two statuses; nothing: there is no way. `published`: one that passes a
/// publish.
std::optional<unsigned> fewest_done(Word from, Word to, bool published);

}  // namespace meshbed::ring
