#pragma once
// ChoiceTree: explores all sequences of choices of a deterministic program, depth first.
//
// Nomenclature: option - a letter that a run may choose; digits are actors ("0": rank 0 acts), all others are shared by
// all actors (time). schedule - the letters that a run chose, in order; the same schedule gives the same run.
//
// The program is started only once: at a choice the process forks, and a child explores each option before the next
// one. Four reductions, which can all be disabled:
// - Actors are independent: two steps of two actors at one instant give the same result in either order. So after an
//   actor's step has been explored, it sleeps in its siblings until the first step that is not an actor's at the same
//   instant (sleep sets; Godefroid, LNCS 1032, 1996).
// - An actor's step that changed nothing is not explored while a sibling is left: the sibling's runs contain it later.
//   Nor is a step of time without events after an actor's step that changed something.
// - Paths that reach the same state are continued only once, by the first; and again only by a path that has spent less
//   of the bounded steps, because it has more options left.
// - While all actors can only poll, a child runs ahead and polls at every moment. There is no choice up to the first
//   poll that succeeds.
// Cost: one fork an option, and memory for as many processes as the longest schedule has choices. A fork costs more the
// more processes are above it (the kernel keeps a chain of them for each mapping), so a program must not make thousands
// of choices in one wait.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace meshbed::testbed {

/// The program's report of a step.
struct ChoiceStep {
  bool instant = false;  // the step took no time
  bool changed = true;   // false: only the time has changed
  bool leave = false;    // not to be explored: another option covers it, or it exceeds a bound
};

struct ChoiceTreeOptions {
  bool reduce = true;
  std::uint64_t runs_max = 1'000'000;  // the walk ends unfinished after that many
  unsigned run_limit_s = 60;           // of one run between two choices, wall-clock time
};

/// How a run ended.
struct RunEnd {
  std::string finding;  // empty: no fault
  std::string outcome;  // its result: equal for equivalent runs
};

struct ScheduleFinding {
  std::string schedule;
  std::string finding;
};

struct ChoiceTreeReport {
  std::uint64_t runs = 0;       // that ended
  std::uint64_t redundant = 0;  // abandoned at a step which other runs contain
  std::uint64_t choices = 0;    // choices with more than one option
  std::size_t longest = 0;      // letters of the longest schedule
  bool whole = true;            // false: the walk stopped at runs_max
  std::uint64_t broken = 0;
  std::vector<ScheduleFinding> findings;  // the first ones
  std::set<std::string> outcomes;
};

/// A program's interface for choices. Lives in the run's process.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Returns one of `options`, which must be distinct and not empty. Actors' letters come first.
  virtual char choose(const std::string& options) = 0;
  /// Called before a choice, after a step of time: the program is in `state`. Equal states must have equal
  /// continuations, except that a larger `spent` leaves the same or fewer options. A run must not reach a state twice.
  /// May not return.
  virtual void is_in(const std::string& state, unsigned spent) = 0;
  /// Called before a choice if all actors can only poll. `beat` lets all of them poll at every moment for a while;
  /// false: a poll succeeded. The beats before that one are executed here, as one letter.
  virtual void idle(const std::function<bool()>& beat) = 0;
  /// Called after the last chosen option has been executed; may not return.
  virtual void took(const ChoiceStep& step) = 0;
  /// Whether the last chosen option is not an actor's, although an actor could make progress. Always false in a
  /// replay.
  virtual bool late() const = 0;
  /// Ends the run immediately.
  [[noreturn]] virtual void end(const RunEnd& end) = 0;
  /// The letters so far.
  virtual const std::string& schedule() const = 0;
};

/// A program must end by calling Chooser::end().
using ChoiceProgram = std::function<void(Chooser& chooser)>;

/// Walks the tree in child processes; the caller must have one thread only. Throws std::runtime_error if no
/// process can be created.
ChoiceTreeReport walk_choices(const ChoiceTreeOptions& options, const ChoiceProgram& program);

/// One run, also in a child process. A letter that is not one of the options is a finding that names them; after the
/// end of `schedule` the first option is chosen. `outcome` receives the run's outcome.
ScheduleFinding replay_choices(const std::string& schedule, const ChoiceTreeOptions& options,
                               const ChoiceProgram& program, std::string* outcome = nullptr);

}  // namespace meshbed::testbed
