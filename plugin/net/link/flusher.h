#pragma once
// Flusher: reads of our own memory through an adapter, so that what it has written to a GPU before is there.
//
// An adapter's writes to a GPU are posted, and the completion that tells of them goes another way, to host memory: a
// GPU that reads as soon as the completion is there may find old bytes. A read of the GPU's memory by the same adapter
// passes no write before it, so that they are there when its answer is (PCI Express Base Specification, section 2.4.1).
// The read goes over a queue pair that is connected to itself, into a host word that nobody looks at, as NCCL's own
// transport does it.
//
// Owned by a receiving connection, one for each device that it stands on, has a rail on or has stood on; made when GPU
// memory is first registered. Each device must be read through, for no adapter's read pushes what another one wrote.
// Cost of a flush: one ibv_post_send and one ibv_poll_cq for the QP link's device and each other one that wrote
// something.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/verbs/completion.h"
#include "plugin/verbs/queue_pair.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

class Flusher {
 public:
  static Result<std::unique_ptr<Flusher>> open(const LocalEnd& local, const QpLinkSettings& settings);

  verbs::Device& device() const { return *local_.device; }
  const LocalEnd& local() const { return local_; }
  /// Still connected to itself: the port has the address that it had.
  bool serves(const LocalEnd& local) const;
  /// Not broken, and its port is up.
  bool can_read() const;
  /// The connection's QP link, or a rail of it, is on its device, and flushes read there; or no longer, from now on.
  void stand(bool here);
  bool stands() const { return left_ns_ == 0; }
  /// The connection left the device so long ago that nothing of what it wrote is on its way any more: what a read
  /// waits for at most. A read behind a write that takes longer would be an error, for no requester waits longer than
  /// 50 ms (PCI Express Base Specification, section 2.8: completion timeout, default range).
  bool has_settled() const;

  /// Something came over its device since the last read began.
  void note_write();
  /// Whether something may be on its way that no read has pushed yet.
  bool has_unread() const { return unread_ || under_way_ > 0; }
  /// Reads a byte at `address`, which `rkey` is for. 0, or errno as ibv_post_send() returns it.
  int read(std::uint64_t work_id, std::uint64_t address, std::uint32_t rkey);
  /// As CompletionQueue::poll(); does not ask where nothing is under way.
  int poll(std::span<ibv_wc> completions);

  /// A read failed or is given up, and so are all others.
  void set_broken() {
    broken_ = unread_ = true;
    under_way_ = 0;
  }
  bool broken() const { return broken_; }
  bool is_idle() const { return under_way_ == 0; }
  /// Of a flusher that takes the place of another: true the first time.
  bool take_freshness() { return std::exchange(fresh_, false); }
  void succeed(const Flusher& other) { losses_ = other.losses_; }
  /// Times in a row, also of those before it, that it lost its way.
  unsigned losses() const { return losses_; }
  void note_loss() { ++losses_; }
  void note_read() { losses_ = 0; }
  /// Of a broken one: its port was looked at just now, to no avail. True once it may be looked at again.
  void put_off_look(std::int64_t pause_ms) { next_look_ = Deadline::after_ms_or_never(pause_ms); }
  bool look_is_due() const { return next_look_.passed(); }

 private:
  explicit Flusher(LocalEnd local) : local_(std::move(local)) {}

  LocalEnd local_;
  bool broken_ = false;
  bool fresh_ = true;
  bool unread_ = true;  // as far as is known: what is behind a flusher that this one takes the place of
  unsigned losses_ = 0;
  Deadline next_look_ = Deadline::after_ms_or_never(1);
  std::int64_t left_ns_ = 0;  // or when something came there later; 0: not left
  std::uint32_t under_way_ = 0;
  verbs::RegisteredBuffer word_;
  verbs::CompletionQueue queue_;
  verbs::QueuePair pair_;  // last, so that it goes first
};

}  // namespace meshbed::net
