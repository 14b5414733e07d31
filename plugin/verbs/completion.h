#pragma once
// A completion queue, and what a failed completion means. man ibv_poll_cq(3).

#include <infiniband/verbs.h>

#include <memory>
#include <span>

#include "plugin/base/result.h"
#include "plugin/verbs/device.h"

namespace meshbed::verbs {

class CompletionQueue {
 public:
  static Result<CompletionQueue> create(const Device& device, int entries);

  /// Up to completions.size() of them; 0: none now; negative: the queue is lost.
  int poll(std::span<ibv_wc> completions) {
    return ibv_poll_cq(queue_.get(), static_cast<int>(completions.size()), completions.data());
  }
  ibv_cq* raw() const { return queue_.get(); }

 private:
  struct Destroy {
    void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
  };
  std::unique_ptr<ibv_cq, Destroy> queue_;
};

/// What the user should look at when a work request ends with `status`.
const char* hint(ibv_wc_status status);

}  // namespace meshbed::verbs
