#pragma once
// Progress: the progress of a computation, shown by a viewer that the program sets: the command's bar on a terminal, or
// the process that started a run of libmeshbed.

#include <cstdint>
#include <string>

namespace meshbed::testbed {

/// Sees the steps of one Progress at a time. Its calls come from one thread at a time, in the middle of a simulation:
/// they must not block and must not throw.
class ProgressViewer {
 public:
  virtual ~ProgressViewer() = default;
  /// `done`: steps that an earlier process did.
  virtual void begin(const std::string& label, int total, int done) = 0;
  virtual void show(int done) = 0;
  /// A simulation has come to `at_ps` of its virtual time, and `messages` have ended.
  virtual void simulated(std::uint64_t messages, std::int64_t at_ps) = 0;
  virtual void end() = 0;
};

/// The viewer from now on; nullptr: none. It must live as long as it is set.
void set_progress_viewer(ProgressViewer* viewer);

class Progress {
 public:
  /// `total` steps of what `label` names, `done` of which an earlier process did; one at a time in a process.
  Progress(const std::string& label, int total, int done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step();
  /// Takes what the viewer shows off the terminal, until the next step: something else is to be written there.
  void hide();

 private:
  int total_ = 0;
  int done_ = 0;
};

/// How far a simulation is, whether or not its workload has steps: every kEvery-th message is shown.
class SimulationProgress {
 public:
  SimulationProgress() = default;
  ~SimulationProgress();
  SimulationProgress(const SimulationProgress&) = delete;
  SimulationProgress& operator=(const SimulationProgress&) = delete;

  void message_ended(std::int64_t at_ps) {
    if (++messages_ % kEvery == 0) show(messages_, at_ps);
  }
  /// The same for one that counts its messages itself, while a SimulationProgress exists.
  static void show(std::uint64_t messages, std::int64_t at_ps);

 private:
  static constexpr std::uint64_t kEvery = 256;

  std::uint64_t messages_ = 0;
};

}  // namespace meshbed::testbed
