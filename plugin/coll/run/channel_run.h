#pragma once
// ChannelRun: one channel of one operation while it runs. Progress thread only. A plan channel run runs one by its
// plan; channel_schedule.h has the other kind.
//
// Nomenclature as in plan.h; in addition: window - messages in flight per direction; slot - staging memory of one
// received slice. A slot is taken when its receive is posted and free again when its slice has been reduced into the
// output, or, where it is forwarded from the slot itself, when that send has completed.
//
// Receives are posted up to a window ahead of their data. Requests complete in order (the ncclNet table is FIFO per
// connection), so only the oldest of each direction is tested: one or two calls a pass, each of which yields.
// The data path allocates nothing.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/coll/reduce/reduce.h"
#include "plugin/coll/transport/transport.h"

namespace meshbed::coll {

class GpuSums;
struct GpuAccess;

struct ChannelCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t gpu_direct_calls = 0;  // of a communicator
  std::int64_t connect_ns = 0;         // of a communicator: in which operations waited for connections
};

/// Messages of pairs have their sender's rank as tag; those of a collective operation tag_of() its signature.
inline constexpr int kTagOfSender = -1;

/// Everything that a channel run needs and does not own. Handles are registrations on the connection they are used
/// with; those that the plan does not need are null.
struct ChannelMemory {
  const char* input = nullptr;  // where the plan's own begin, as its output
  char* output = nullptr;
  const GpuAccess *input_gpu = nullptr, *output_gpu = nullptr;  // whose memory they are; nullptr: the host's
  ReduceKernels kernels{};                                      // where the plan reduces
  const char* own = nullptr;      // what it reduces with: the input, or the GPU's memory that the input was copied from
  std::shared_ptr<GpuSums> sums;  // null: the processor's
  char* staging = nullptr;        // null where there is no memory: in a replay
  std::uint64_t slot_bytes = 0;   // distance of two slots
  void* send_comm = nullptr;
  void* recv_comm = nullptr;
  int tag = kTagOfSender;  // of every message
  // The plugin's own: channel runs that share one wait for each other.
  const void *send_connection = nullptr, *recv_connection = nullptr;
  std::array<void*, 3> send_handles{};  // by Source
  void* output_handle = nullptr;
  void* staging_handle = nullptr;
};

class ChannelRun {
 public:
  virtual ~ChannelRun() = default;
  ChannelRun(const ChannelRun&) = delete;
  ChannelRun& operator=(const ChannelRun&) = delete;

  /// One pass: completes, reduces and posts what can be. True where anything moved; an error names peer and slice.
  virtual Result<bool> advance() = 0;
  virtual bool finished() const = 0;
  /// "channel 0: receive from rank 2 (3 slices done, 8 posted), ...", for a deadline's message.
  virtual std::string waiting_for() const = 0;
  /// The rank at the other end of what failed; -1: nothing has.
  int failed_peer() const { return failed_peer_; }
  /// The rank that must do something next; -1: none.
  virtual int awaited() const = 0;
  const ChannelCounters& counters() const { return counters_; }
  /// Of its sends and its receives; nullptr where it has none, or shares none with another channel run.
  virtual const void* send_comm() const { return nullptr; }
  virtual const void* recv_comm() const { return nullptr; }

 protected:
  ChannelRun() = default;
  /// A bit more of the copy between the caller's buffers; false where it is done.
  bool copy_some(const LocalCopy& copy, std::uint64_t element_bytes, const char* input, char* output);
  bool copied(const LocalCopy& copy, std::uint64_t element_bytes) const {
    return copied_bytes_ == copy.count * element_bytes;
  }
  /// Keeps the failure, of no peer's; false.
  bool fail_sum(const Error& error);
  /// Keeps the failure; false.
  bool fail(const char* what, int peer, int channel, std::uint64_t slice, const std::string& why);
  /// " (3 slices done, 8 posted)"
  static std::string slices_of(std::uint64_t done, std::uint64_t posted);
  static std::string wrong_size(std::uint64_t arrived_bytes, std::uint64_t due_bytes);

  std::optional<Error> failure_;
  ChannelCounters counters_;

 private:
  int failed_peer_ = -1;
  std::uint64_t copied_bytes_ = 0;
};
using ChannelRuns = std::vector<std::unique_ptr<ChannelRun>>;

class PlanRun : public ChannelRun {
 public:
  /// `net` may be null where the plan has no steps.
  PlanRun(Messages* net, const Plan& plan, const ChannelMemory& memory);

  Result<bool> advance() override;
  bool finished() const override {
    return sends_finished() && receives_finished() && copied(plan_.copy, plan_.request.element_bytes);
  }
  std::string waiting_for() const override;
  int awaited() const override {
    return !receives_finished() ? plan_.recv_peer : !sends_finished() ? plan_.send_peer : -1;
  }
  const void* send_comm() const override { return plan_.send_steps > 0 ? memory_.send_connection : nullptr; }
  const void* recv_comm() const override { return plan_.recv_steps > 0 ? memory_.recv_connection : nullptr; }

 private:
  struct PendingSend {
    void* request;
    std::uint64_t size_bytes;
    int slot;  // -1: sent from a user's buffer
  };
  struct PendingReceive {
    void* request;
    char* data;
    RecvStep slice;  // offsets and count of this slice
    std::uint64_t size_bytes;
    int slot;           // -1: lands in the output
    std::uint64_t sum;  // the GPU's, by number; 0: none
  };
  static constexpr std::size_t kWindowMax = nccl::kMaxRequests;

  bool sends_finished() const { return send_index_ == plan_.send_steps && sends_done_ == sends_posted_; }
  bool receives_finished() const { return recv_index_ == plan_.recv_steps && receives_done_ == receives_posted_; }
  void next_send_step();
  void next_recv_step();

  // The phases of a pass: true where something moved.
  bool complete_receives();
  bool post_receives();
  bool complete_sends();
  bool post_sends();
  bool sent_beyond(const RecvStep& slice) const;
  void digest(const PendingReceive& receive);
  void reduce(const PendingReceive& receive) const;
  bool has_arrived(const PendingReceive& receive, std::uint64_t number);
  void finish_receive();
  // Where the GPU reduces.
  bool complete_summed();
  /// False: the run has failed.
  bool begin_sum(PendingReceive& receive);
  static bool reduces(const RecvStep& slice) {
    return slice.arrival != Arrival::kStore && slice.arrival != Arrival::kStoreBehindSend;
  }
  char* result_of(const PendingReceive& receive) const;
  const char* own_of(const RecvStep& slice) const;
  char* slot_data(int slot) const;
  char* landing_of(const PendingReceive& receive) const;

  Messages* net_;
  const Plan plan_;
  const ChannelMemory memory_;
  const std::uint64_t window_;
  const std::uint64_t warns_before_;
  const int send_tag_, recv_tag_;

  // Sends: the step under way, how far into it, and counts of slices.
  SendStep send_{};
  std::uint64_t send_index_ = 0, send_offset_ = 0;  // offset in elements
  std::uint64_t sends_posted_ = 0, sends_done_ = 0;
  // Receives, likewise.
  RecvStep recv_{};
  std::uint64_t recv_index_ = 0, recv_offset_ = 0;
  std::uint64_t receives_posted_ = 0, receives_begun_ = 0, receives_done_ = 0;  // begun: arrived, to be reduced
  // Forwarding: slices that have arrived to be sent on, and that have been; of them those that wait in slots.
  std::uint64_t forwards_ready_ = 0, forwards_posted_ = 0;
  std::uint64_t partials_ready_ = 0, partials_posted_ = 0;
  std::uint64_t slots_posted_ = 0;
  std::uint32_t slots_busy_ = 0;  // bit per slot

  std::array<PendingSend, kWindowMax> pending_sends_;        // by slice % window
  std::array<PendingReceive, kWindowMax> pending_receives_;  // by slice % window
  std::array<int, kWindowMax> partial_slots_{};              // by partial % window
};

}  // namespace meshbed::coll
