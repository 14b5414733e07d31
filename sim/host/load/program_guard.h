#pragma once
// Program guard: ends a rank's program that cannot go on (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT), or that never
// returns to the simulator. All ranks share one process, which goes on: the rank ends with an error that names the
// signal, the address and the calls that led there.
//
// Signals are handled on a stack of their own, for the program's stack may be used up. The handler only keeps
// addresses; then the thread leaves its program by a jump to run_guarded(). What the program has damaged in memory that
// it shares with the simulator stays damaged. Where the simulator itself then fails, the process writes the rank's
// error to stderr and ends.

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "sim/engine/world.h"

namespace meshbed::sim {

struct ProgramStop {
  std::string kind;  // "SIGSEGV", "busy", "abort"; the same in every run, as `text`, with its addresses, is not
  std::string text;  // the calls under way are its lines from the second on
};

/// What run_program() throws where its program was stopped.
class ProgramStopped final : public std::runtime_error {
 public:
  explicit ProgramStopped(const ProgramStop& stop) : std::runtime_error(stop.text), kind_(stop.kind) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

class ProgramGuard {
 public:
  struct Options {
    // Wall-clock time that a program may run without a call that waits; 0: any. Time in which the machine or the
    // process stands still does not count, nor does time in kernels of the simulated CUDA.
    double busy_limit_s = 0;
    // Another thread than main()'s was stopped; called by that thread, which does not run on. main()'s own end is an
    // exception of run_program().
    std::function<void(const Process& process, const ProgramStop& stop)> on_end{};
    int fatal_status = 1;  // of the process, where the simulator itself fails after a program has damaged its memory
  };

  /// After the World's constructor, by the thread that runs it, and destroyed by that thread. One at a time.
  explicit ProgramGuard(Options options);
  ~ProgramGuard();
  ProgramGuard(const ProgramGuard&) = delete;
  ProgramGuard& operator=(const ProgramGuard&) = delete;

  class State;

 private:
  State* const state_;
};

/// Runs code of a program's on the current thread. Returns why it was stopped; nullopt: it returned, or no guard
/// exists. Nothing that `body` owns is destroyed where it is stopped.
std::optional<ProgramStop> run_guarded(const std::function<void()>& body);

/// Ends the current thread's program as SIGABRT does; `why` takes the place of the signal's name. Returns where no
/// guard exists.
void stop_guarded(const std::string& why);

/// What run_guarded() returned of another thread than main()'s: reports it. Does not return.
void end_with_program(const ProgramStop& stop);

}  // namespace meshbed::sim
