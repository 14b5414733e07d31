#pragma once
// ChoiceTree: walks every sequence of choices that a deterministic program can be given, depth first.
//
// Nomenclature: option - a letter that a run may take at a choice; digits are actors ("0": rank 0 acts), all others
// belong to everybody (time). schedule - the letters that a run took, in order; the same schedule gives the same run.
//
// The program is never started twice: where it chooses, the process forks, and each option is gone down by a child
// before the next one. Four reductions, all off on demand:
// - Actors are independent of each other: two steps at one instant, by two of them, give the same in either order. So
//   after an actor's step was gone down, it sleeps in its siblings until something that is not an actor's step at the
//   same instant happens (sleep sets; Godefroid, LNCS 1032, 1996).
// - An actor's step that changed nothing is not gone down while a sibling is left: the sibling's runs have it later on.
//   Nor is a step of time in which nothing happened, after an actor's that did something.
// - Ways that meet in one state are gone on with once, by the way that came there first; again only by one that has
//   spent less of what is bounded, and so may do more than the first.
// - While nobody can do anything but look whether he can, a child goes ahead and looks at every moment; up to the first
//   look of which something comes there is nothing to choose.
// Cost: one fork an option, and memory for as many processes as the longest schedule has choices. A fork costs the more
// the more processes are above it (the kernel keeps a chain of them for each mapping), so that a wait of a thousand
// choices must not come about.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace meshbed::testbed {

/// What the program tells of a step that it took.
struct ChoiceStep {
  bool instant = false;  // no time went by in it
  bool changed = true;   // false: all but the time is as if it had not been
  bool leave = false;    // not to be gone down: another option there gives all of it, or it is beyond a bound
};

struct ChoiceTreeOptions {
  bool reduce = true;
  std::uint64_t runs_max = 1'000'000;  // then the walk ends, unfinished
  unsigned run_limit_s = 60;           // of one run between two choices, on the wall
};

/// How a run ended.
struct RunEnd {
  std::string finding;  // empty: as it should
  std::string outcome;  // what it came to: equal for runs that nobody could tell apart
};

struct ScheduleFinding {
  std::string schedule;
  std::string finding;
};

struct ChoiceTreeReport {
  std::uint64_t runs = 0;       // to their end
  std::uint64_t redundant = 0;  // left at a step which other runs have
  std::uint64_t choices = 0;    // places with more than one option
  std::size_t longest = 0;      // letters of the longest schedule
  bool whole = true;            // false: runs_max came first
  std::uint64_t broken = 0;
  std::vector<ScheduleFinding> findings;  // the first ones
  std::set<std::string> outcomes;
};

/// What a program chooses with. Lives in the run's process.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// One of `options`, none twice, one at least. Actors' letters come first.
  virtual char choose(const std::string& options) = 0;
  /// Before a choice, after a step of time: the program is in `state`, and the same state gives the same from here on,
  /// whatever came before it, but for what `spent` takes away: more of it leaves no more to choose. A run must not come
  /// to one state twice. May not return.
  virtual void is_in(const std::string& state, unsigned spent) = 0;
  /// Before a choice: nobody can do anything but look whether he can. `beat` lets them all look, at every moment at
  /// which they could, for a while; false: something came of it. Beats before that one are taken here, as one letter.
  virtual void idle(const std::function<bool()>& beat) = 0;
  /// Of the option that was chosen last, when it has been taken; may not return.
  virtual void took(const ChoiceStep& step) = 0;
  /// The option that was chosen last is no actor's, though an actor's there gets something done. A replay does not
  /// know.
  virtual bool late() const = 0;
  /// Ends the run, from wherever it is.
  [[noreturn]] virtual void end(const RunEnd& end) = 0;
  /// The letters so far.
  virtual const std::string& schedule() const = 0;
};

/// Must come to its end by Chooser::end().
using ChoiceProgram = std::function<void(Chooser& chooser)>;

/// Walks the tree in child processes; the caller must have one thread only. Throws std::runtime_error where the system
/// has no processes left.
ChoiceTreeReport walk_choices(const ChoiceTreeOptions& options, const ChoiceProgram& program);

/// One run, in a child process as well. A letter that is none of the options there is a finding that names them; where
/// `schedule` ends too early the first option is taken. `outcome` gets the run's.
ScheduleFinding replay_choices(const std::string& schedule, const ChoiceTreeOptions& options,
                               const ChoiceProgram& program, std::string* outcome = nullptr);

}  // namespace meshbed::testbed
