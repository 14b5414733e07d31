#pragma once
// PollBackoff: when the thread that polls a communicator's requests sleeps. Any thread may poll; one does.
//
// A test() in vain of one request gives no information about the others. Only after as many tests in vain as there are
// requests, without a ring of the bell since before the first of them, there is no work: then the thread waits for the
// bell.

#include <atomic>
#include <cstdint>
#include <utility>

#include "plugin/local/doorbell.h"

namespace meshbed::local {

class PollBackoff {
 public:
  explicit PollBackoff(Doorbell doorbell) : doorbell_(std::move(doorbell)) {}

  const Doorbell& doorbell() const { return doorbell_; }
  void request_begins() { ++under_way_; }
  void request_ends() {
    --under_way_;
    vain_ = 0;
  }
  void test_was_in_vain() {
    const std::uint32_t rung = doorbell_.times_rung();
    if (seen_.exchange(rung) != rung) {
      vain_ = 0;
      return;
    }
    if (++vain_ <= under_way_) return;
    vain_ = 0;
    doorbell_.wait(rung);
  }

 private:
  Doorbell doorbell_;
  std::atomic<int> under_way_{0}, vain_{0};
  std::atomic<std::uint32_t> seen_{0};
};

}  // namespace meshbed::local
