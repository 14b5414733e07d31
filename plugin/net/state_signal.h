#pragma once
// SIGUSR1 as a question for the state, for those who ask for it (NCCL_MESH_STATE_SIGNAL=1). Not by default: the signal
// belongs to the program that loaded this library, and schedulers send it as a warning before they end a job.
//
// Nothing is taken from anybody: it is installed only where SIGUSR1 has its default disposition (which would end the
// process), and taken back only where it is still ours. The handler writes one byte to a pipe and does nothing else.
// The library stays loaded for good once a handler is installed, so that no handler ever points to nowhere.

#include <memory>

#include "plugin/base/result.h"

namespace meshbed::net {

class StateSignal {
 public:
  /// One a process (copy of the library). An error says why there is none.
  static Result<std::unique_ptr<StateSignal>> install();
  ~StateSignal();
  StateSignal(const StateSignal&) = delete;
  StateSignal& operator=(const StateSignal&) = delete;

  /// Readable after the signal.
  int descriptor() const { return pipe_[0]; }
  void drain() const;

 private:
  StateSignal() = default;

  int pipe_[2] = {-1, -1};
  bool installed_ = false;
};

/// To standard error, whatever NCCL's log level is: who sends a signal wants an answer. Gives up after a tenth of a
/// second where nobody reads.
void write_to_standard_error(const std::string& text);

}  // namespace meshbed::net
