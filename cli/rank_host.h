#pragma once
// RankHost: what a rank's program needs of the world that it runs in. A workload is written against this alone, so that
// the simulated world (cli/simulate.cpp) and any later one run the same workload.
//
// One RankHost a rank; its calls may come from any thread of that rank. Nothing here may be called from `catch (...)`
// or `noexcept` code: a simulated thread is ended by an exception that must pass through.

#include <functional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::cli {

struct RankThread {
  const char* name = "";  // "service"
  std::function<void()> body;
};

class RankHost {
 public:
  virtual ~RankHost() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// "ADDRESS:PORT" of rank 0 on the management network.
  virtual const std::string& bootstrap() const = 0;
  virtual Picoseconds now_ps() const = 0;

  /// The calling thread looked at `what` and found nothing to do: lets others run, and time pass where nobody can.
  /// `why` is a string literal, shown where nothing ever happens again.
  virtual void idle(const void* what, const char* why) = 0;

  /// Waits until all ranks are here and lets them go at one instant; costs no time of its own. An error once any rank
  /// has failed: nobody waits for the dead.
  virtual Result<void> rendezvous() = 0;

  /// Runs the threads side by side as threads of this rank; returns when all have ended.
  virtual void run_together(std::vector<RankThread> threads) = 0;

  /// Loads the rank's own copy of a library. An error carries the loader's text.
  virtual Result<void*> load(const std::string& path) = 0;
  /// nullptr where the library has no such symbol.
  virtual void* symbol(void* library, const char* name) = 0;
};

/// What a rank runs, from its start to its end.
using RankProgram = std::function<Result<void>(RankHost&)>;

}  // namespace meshbed::cli
