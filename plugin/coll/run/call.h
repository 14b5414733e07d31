#pragma once
// Call: an operation issued on a communicator, with its future result. The communicator's threads finish it once; any
// thread may wait for it.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "plugin/base/result.h"
#include "plugin/coll/run/worker.h"

namespace meshbed::coll {

class Call {
 public:
  /// `operation`: its name, which lives for ever. `sequence`: of the calls on its communicator, from 1.
  Call(const char* operation, std::uint64_t sequence) : operation_(operation), sequence_(sequence) {}

  const char* operation() const { return operation_; }
  std::uint64_t sequence() const { return sequence_; }
  /// "all_reduce 3"
  std::string name() const { return std::string(operation_) + " " + std::to_string(sequence_); }

  /// `peer`: the rank that an error is about; -1: none in particular.
  void finish(Result<void> result, int peer = -1) {
    result_ = std::move(result);
    peer_ = peer;
    if (const auto told = std::exchange(at_end_, {})) told();
    done_.finish();
  }
  /// Sets a function that is called once, before waiting threads go on. Set it before the call is handed to the
  /// communicator's threads.
  void at_end(std::function<void()> told) { at_end_ = std::move(told); }
  void wait() { done_.wait(); }
  /// False where `timeout_ms` passed first.
  bool wait_for(std::int64_t timeout_ms) { return done_.wait_for(timeout_ms); }

  // For a finished call.
  const Result<void>& result() const { return result_; }
  int peer() const { return peer_; }

 private:
  const char* const operation_;
  const std::uint64_t sequence_;
  Result<void> result_;
  int peer_ = -1;
  std::function<void()> at_end_;
  Completion done_;
};

}  // namespace meshbed::coll
