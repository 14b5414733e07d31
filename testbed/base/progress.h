#pragma once
// Progress: how far a computation is, for a viewer that the program sets: the command's bar on a terminal, or the
// process that started a run of libmeshbed.

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

 private:
  int total_ = 0;
  int done_ = 0;
};

}  // namespace meshbed::testbed
