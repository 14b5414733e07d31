#pragma once
// Interleaver: the ranks of a simulation make their calls one at a time, in an order that a Chooser decides, which also
// decides when the wire delivers.
//
// The letters of a schedule:
//   0, 1, ...  that rank makes its next call, now
//   w          time advances until the wire is quiet: nothing has reached any rank's process for kQuiet
//   .          time advances to the next moment at which something reaches a rank's process
//   -          time advances, and all ranks poll at every moment, up to a pause in which a poll succeeds
// So a call is made immediately after the previous one, when the wire is quiet, or - `interruptions` times a run - at
// any moment in between. At most `late` times a run the wire delivers while a rank could make progress. A rank whose
// last call returned "not yet" has no turn until something has reached its process. If no rank has a turn and the wire
// is quiet, time advances in pauses that double, and all ranks poll again. Not chosen: which of a process's own threads
// runs first at one instant (that is the simulator's order).

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "plugin/base/units.h"
#include "sim/engine/world.h"
#include "testbed/verify/choice_tree.h"

namespace meshbed::testbed {

/// Longer than the transfer of any message in these small programs, shorter than any timer of a plugin.
inline constexpr Picoseconds kQuiet = 50 * kPicosecondsPerMicrosecond;
/// Simulated time without a successful call after which a run counts as deadlocked.
inline constexpr Picoseconds kHopeless = 120 * kPicosecondsPerSecond;

class Interleaver {
 public:
  static constexpr int kNoBound = 1'000'000;
  struct Options {
    int ranks = 2;
    int interruptions = 0;
    int late = kNoBound;
    std::function<void(const std::string& line)> print = {};  // prints each step
  };
  Interleaver(Options options, Chooser& chooser)
      : options_(std::move(options)), chooser_(chooser), ranks_(options_.ranks) {}

  /// Called by rank `rank`'s main thread before its first call; the last rank to call it starts the run.
  void enter(int rank);
  /// Called after its last call.
  void leave(int rank);

  /// The result of one call.
  enum class Answer { kDone, kNotYet };
  struct Look {
    std::size_t circle = 1;  // number of objects that the rank polls in turn
    bool first = true;       // first poll of this object: it counts as a change, even without a visible effect
  };
  /// Waits for the rank's turn, makes the call and records its result. `ready`: empty, or the condition for the rank's
  /// turn.
  Answer take(int rank, const std::string& name, Look look, const std::function<bool()>& ready,
              const std::function<Answer()>& call);

  /// The history of rank `rank`: "TIME CALL" of every successful call.
  const std::string& seen(int rank) const { return ranks_[static_cast<std::size_t>(rank)].seen; }
  /// Appends the call's own details to the history.
  void note(int rank, const std::string& text) { ranks_[static_cast<std::size_t>(rank)].seen += " " + text; }
  /// Ends the run with a finding, from any thread; does not return.
  void broken(const std::string& finding) { chooser_.end({.finding = finding, .outcome = "broken"}); }

 private:
  struct RankTurn {
    sim::Thread* thread = nullptr;
    enum class Is { kAway, kWaiting, kCalling, kGone } is = Is::kAway;
    std::string call;  // name of the next or current one
    std::size_t circle = 1;
    std::function<bool()> ready;
    std::size_t stale = 0;         // consecutive calls that returned "not yet"
    std::uint64_t seen_epoch = 0;  // of its process, after the last call
    ChoiceStep step;               // result of the last call
    std::string seen;
  };

  void run();
  void await_calls();
  std::string options() const;
  /// The state when the wire is quiet: the history of each rank, which determines its process, and its position in
  /// polling. Without the time: results must not depend on the exact time of a plugin's timers.
  std::string state() const;
  bool has_turn(const RankTurn& turn) const;
  void let_call(RankTurn& turn);
  void call(RankTurn& turn);
  /// A pause and the events that follow, with a poll at every moment; false: a poll succeeded.
  bool idle_pause();
  void let_time_pass(char option);
  void pause();
  /// Advances until something reaches a rank's process, to the end of that instant; false: nothing within `limit`.
  bool moment(Picoseconds limit);
  void print(const std::string& text) const;
  std::string waiting() const;

  Options options_;
  Chooser& chooser_;
  std::vector<RankTurn> ranks_;
  int entered_ = 0;
  sim::Thread* scheduler_ = nullptr;
  bool under_way_ = true;  // the wire may deliver something
  bool between_ = false;   // the last choice was '.'
  bool rested_ = false;    // the last event was that the wire became quiet
  int interrupted_ = 0, late_ = 0;
  int pauses_ = 0;  // since the last successful call
  Picoseconds pause_ = 0, last_progress_ = 0;
};

}  // namespace meshbed::testbed
