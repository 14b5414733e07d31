#pragma once
// RecordedCall: a call that was put into a stream while the stream recorded a graph. It runs whenever the graph does: a
// host function of the graph's hands it to its communicator, and the graph goes on when a word of pinned memory shows
// that it has ended. The word is the call's own and is set back by the host function, so that a graph may be launched
// any number of times, one launch after the other.
//
// The end of the last graph that holds it cannot be detected: it lives as long as the process, and so does the pinned
// memory that the graph copies its input to and its output from.

#include <cstdint>
#include <mutex>
#include <vector>

#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/loan.h"
#include "plugin/coll/run/pinned_pool.h"

namespace meshbed::coll {

class RecordedCall {
 public:
  /// `timeout_ms`: as Communicator::issue, from each launch.
  RecordedCall(Communicator& communicator, const Loan& loan, std::int64_t timeout_ms, PinnedWord word,
               PinnedBlock staging)
      : word_(word),
        communicator_(&communicator),
        operations_(loan.operations()),
        copied_bytes_(loan.copied_bytes()),
        timeout_ms_(timeout_ms),
        staging_(std::move(staging)) {}

  /// The graph's host function, by a thread of CUDA's; `call` is a RecordedCall. It does not wait.
  static void launch(void* call);
  /// The communicator ends: later launches log a warning and do nothing.
  void forget_communicator();
  /// The graph goes on; any thread.
  void end() const;

  const std::vector<Operation>& operations() const { return operations_; }
  /// By the graph, each time.
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  std::int64_t timeout_ms() const { return timeout_ms_; }
  /// What the operations work in; empty: in the caller's own memory.
  const PinnedBlock& staging() const { return staging_; }
  /// It is kEnded where the call has ended.
  const PinnedWord& word() const { return word_; }
  static constexpr std::uint32_t kEnded = 1;

 private:
  const PinnedWord word_;
  std::mutex mutex_;
  Communicator* communicator_;  // nullptr: it has gone
  const std::vector<Operation> operations_;
  const std::uint64_t copied_bytes_;
  const std::int64_t timeout_ms_;
  const PinnedBlock staging_;
};

}  // namespace meshbed::coll
