#pragma once
// Flusher: reads our own memory through an adapter, so that the adapter's earlier writes to a GPU are visible.
//
// An adapter's writes to a GPU are posted, and their completion takes another path, to host memory: a GPU that reads as
// soon as the completion has arrived may find old bytes. A read of the GPU's memory by the same adapter does not pass
// earlier writes, so they have arrived when its result has (PCI Express Base Specification, section 2.4.1). The read
// goes over a queue pair that is connected to itself, into an unused host word, as in NCCL's own transport.
//
// Owned by a receiving connection, one for each device on which it has or had a QP link or a rail; made when GPU memory
// is first registered. Each device must be read through, because an adapter's read does not flush the writes of another
// one. Cost of a flush: one ibv_post_send and one ibv_poll_cq for the QP link's device and for each other device that
// has written.

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
  /// Whether it is still connected to itself, that is, the port still has its address.
  bool serves(const LocalEnd& local) const;
  /// Not broken, and its port is up.
  bool can_read() const;
  /// Sets whether the connection has its QP link or a rail on this device, so that flushes read through it.
  void stand(bool here);
  bool stands() const { return left_ns_ == 0; }
  /// The connection left the device so long ago that all its writes have landed. The bound is the longest wait for a
  /// read: a requester waits at most 50 ms (PCI Express Base Specification, section 2.8: completion timeout, default
  /// range), so a write cannot delay a read for longer.
  bool has_settled() const;

  /// Bytes have arrived over this device since the last read began.
  void note_write();
  /// Whether writes may be on their way that no read has flushed yet.
  bool has_unread() const { return unread_ || under_way_ > 0; }
  /// Reads a byte at `address`, which `rkey` is for. 0, or errno as ibv_post_send() returns it.
  int read(std::uint64_t work_id, std::uint64_t address, std::uint32_t rkey);
  /// As CompletionQueue::poll(), but without a poll if no read is in flight.
  int poll(std::span<ibv_wc> completions);

  /// A read failed or was given up; all others count as failed too.
  void set_broken() {
    broken_ = unread_ = true;
    under_way_ = 0;
  }
  bool broken() const { return broken_; }
  bool is_idle() const { return under_way_ == 0; }
  /// For a flusher that replaces another one: true the first time.
  bool take_freshness() { return std::exchange(fresh_, false); }
  void succeed(const Flusher& other) { losses_ = other.losses_; }
  /// Lost reads in a row, including those of the flushers that it replaced.
  unsigned losses() const { return losses_; }
  void note_loss() { ++losses_; }
  void note_read() { losses_ = 0; }
  /// For a broken one: put_off_look() after a check of its port in vain; look_is_due() when it may be checked again.
  void put_off_look(std::int64_t pause_ms) { next_look_ = Deadline::after_ms_or_never(pause_ms); }
  bool look_is_due() const { return next_look_.passed(); }

 private:
  explicit Flusher(LocalEnd local) : local_(std::move(local)) {}

  LocalEnd local_;
  bool broken_ = false;
  bool fresh_ = true;
  bool unread_ = true;  // a flusher that this one replaces may have left writes behind
  unsigned losses_ = 0;
  Deadline next_look_ = Deadline::after_ms_or_never(1);
  std::int64_t left_ns_ = 0;  // when it was left, or of a later arrival there; 0: not left
  std::uint32_t under_way_ = 0;
  verbs::RegisteredBuffer word_;
  verbs::CompletionQueue queue_;
  verbs::QueuePair pair_;  // last, so that it goes first
};

}  // namespace meshbed::net
