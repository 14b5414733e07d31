#pragma once
// Interleaver: the ranks of a simulation make their calls one at a time, in an order that a Chooser decides, and the
// wire delivers when it is told to.
//
// The letters of a schedule:
//   0, 1, ...  that rank makes its next call, now
//   w          time goes on until the wire is quiet: nothing has reached any rank's process for kQuiet
//   .          time goes on to the next moment at which something reaches a rank's process
//   -          time goes on, and all look at every moment, up to a pause in which a look gets something done
// A call can so be made at once after the one before, when the wire is quiet, or - `interruptions` times a run - at any
// moment in between. At most `late` times a run does the wire deliver while a rank could get something done. A rank
// whose last call came back with "not yet" has no turn until something has reached its process; where nobody has a turn
// and the wire is quiet, time goes on by itself, in pauses that double, and all look again. What is not chosen: which
// of a process's own threads runs first at one instant (that is the simulator's order).

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "plugin/base/units.h"
#include "sim/engine/world.h"
#include "testbed/verify/choice_tree.h"

namespace meshbed::testbed {

/// Longer than any message of these small programs is under way, shorter than any timer of a plugin.
inline constexpr Picoseconds kQuiet = 50 * kPicosecondsPerMicrosecond;
/// Simulated time without any call that got something done: nothing will come any more.
inline constexpr Picoseconds kHopeless = 120 * kPicosecondsPerSecond;

class Interleaver {
 public:
  static constexpr int kNoBound = 1'000'000;
  struct Options {
    int ranks = 2;
    int interruptions = 0;
    int late = kNoBound;
    std::function<void(const std::string& line)> tell = {};  // each step, for people
  };
  Interleaver(Options options, Chooser& chooser)
      : options_(std::move(options)), chooser_(chooser), seats_(options_.ranks) {}

  /// Of rank `rank`'s main thread, before its first call; the last rank that comes starts the game.
  void sit_down(int rank);
  /// After its last call.
  void get_up(int rank);

  /// What one call came to.
  enum class Answer { kDone, kNotYet };
  struct Look {
    std::size_t circle = 1;  // so many different things the rank looks at in turns
    bool first = true;       // at this one: it counts as a change, whatever the plugin lets be seen of it
  };
  /// Waits for the rank's turn, makes the call and counts what came of it. `ready`: empty, or what must hold before the
  /// rank may have its turn.
  Answer take(int rank, const std::string& name, Look look, const std::function<bool()>& ready,
              const std::function<Answer()>& call);

  /// What rank `rank` saw: "TIME CALL" of every call that got something done.
  const std::string& seen(int rank) const { return seats_[static_cast<std::size_t>(rank)].seen; }
  /// Of a call's own words, with it.
  void note(int rank, const std::string& text) { seats_[static_cast<std::size_t>(rank)].seen += " " + text; }
  /// Ends the run with a finding, from any thread; does not return.
  void broken(const std::string& finding) { chooser_.end({.finding = finding, .outcome = "broken"}); }

 private:
  struct Seat {
    sim::Thread* thread = nullptr;
    enum class Is { kAway, kWaiting, kCalling, kGone } is = Is::kAway;
    std::string call;  // the next one's name, or the one that goes on
    std::size_t circle = 1;
    std::function<bool()> ready;
    std::size_t stale = 0;         // looks in a row that came back with "not yet"
    std::uint64_t seen_epoch = 0;  // of its process, after the last one
    ChoiceStep step;               // what came of the last call
    std::string seen;
  };

  void play();
  void await_calls();
  std::string options() const;
  /// What all that follows depends on, where the wire is quiet: what each rank saw, for that made its process what it
  /// is, and how far each is in looking. Not the time: no timer of a plugin is meant to be met exactly.
  std::string state() const;
  bool has_turn(const Seat& seat) const;
  void let_call(Seat& seat);
  void call(Seat& seat);
  /// A pause, and what comes of it, with a look at every moment; false: a look got something done.
  bool idle_beat();
  void let_time_pass(char option);
  void pause();
  /// Until something reaches a rank's process, and all of that instant; false: nothing within `limit`.
  bool moment(Picoseconds limit);
  void tell(const std::string& text) const;
  std::string waiting() const;

  Options options_;
  Chooser& chooser_;
  std::vector<Seat> seats_;
  int sitting_ = 0;
  sim::Thread* dealer_ = nullptr;
  bool under_way_ = true;  // the wire may bring something
  bool between_ = false;   // the last choice was '.'
  bool rested_ = false;    // the last thing that happened: the wire has become quiet
  int interrupted_ = 0, late_ = 0;
  int pauses_ = 0;  // since the last call that got something done
  Picoseconds pause_ = 0, last_progress_ = 0;
};

}  // namespace meshbed::testbed
