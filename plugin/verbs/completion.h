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
  /// `channel` (may be nullptr) announces completions after arm().
  static Result<CompletionQueue> create(const Device& device, int entries, ibv_comp_channel* channel = nullptr);

  /// Up to completions.size() of them; 0: none now; negative: the queue is lost.
  int poll(std::span<ibv_wc> completions) {
    return ibv_poll_cq(queue_.get(), static_cast<int>(completions.size()), completions.data());
  }
  /// The next completion makes the channel readable, once. ibv_req_notify_cq(3): what came before does not count, so
  /// poll again afterwards.
  void arm() { ibv_req_notify_cq(queue_.get(), 0); }
  /// The object that CompletionChannel::drain() passes for this queue.
  void announce_to(void* whom) { queue_->cq_context = whom; }
  ibv_cq* raw() const { return queue_.get(); }

 private:
  struct Destroy {
    void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
  };
  std::unique_ptr<ibv_cq, Destroy> queue_;
};

/// Makes completions visible to poll(2). ibv_create_comp_channel(3).
class CompletionChannel {
 public:
  static Result<CompletionChannel> create(const Device& device);

  ibv_comp_channel* raw() const { return channel_.get(); }
  int descriptor() const { return channel_->fd; }
  /// Takes all pending announcements, and passes for each the object of announce_to(); never blocks.
  template <typename Announce>
  void drain(Announce announce) {
    ibv_cq* queue = nullptr;
    void* whom = nullptr;
    while (ibv_get_cq_event(channel_.get(), &queue, &whom) == 0) {
      ibv_ack_cq_events(queue, 1);
      announce(whom);
    }
  }

 private:
  struct Destroy {
    void operator()(ibv_comp_channel* channel) const { ibv_destroy_comp_channel(channel); }
  };
  std::unique_ptr<ibv_comp_channel, Destroy> channel_;
};

/// What the user should look at when a work request ends with `status`.
const char* hint(ibv_wc_status status);

}  // namespace meshbed::verbs
