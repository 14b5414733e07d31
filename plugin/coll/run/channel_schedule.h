#pragma once
// Schedule channel run: one channel of one operation while it runs by a schedule. Progress thread only.
//
// Nomenclature as in schedule.h; in addition: stream - the transfers over one connection, in the list's order; window -
// messages in flight per stream; slot - staging memory of one received slice that is to be reduced, free again once it
// has been. Requests of a stream complete in order, so only the oldest is tested, and only when what has arrived could
// be digested. A round ends when nothing of it is in flight: then the work memory may hold other elements.
// The data path allocates nothing.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/earlier_receives.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/reduce/reduce.h"
#include "plugin/coll/run/channel_run.h"
#include "plugin/coll/transport/transport.h"

namespace meshbed::coll {

/// A connection, and registrations on it; those that its transfers do not need are null.
struct StreamMemory {
  int peer = -1, way = 0;
  bool receives = false;
  void* comm = nullptr;
  char* staging = nullptr;       // slots
  std::uint64_t slot_bytes = 0;  // distance of two
  void* staging_handle = nullptr;
  void *input_handle = nullptr, *work_handle = nullptr, *output_handle = nullptr;
};

inline bool goes_over(const Transfer& transfer, const StreamMemory& stream) {
  return transfer.peer == stream.peer && transfer.way == stream.way && transfer.receives == stream.receives;
}

/// One for each connection that the schedule uses, in the order in which channel runs look at them.
std::vector<StreamMemory> streams_of(const Schedule& schedule);

struct ScheduleMemory {
  const char* input = nullptr;
  char* output = nullptr;
  const GpuAccess* gpu = nullptr;  // whose memory both are; nullptr: the host's
  char* work = nullptr;            // where the schedule needs it: partial results of round.begin and on
  const char* own = nullptr;      // what it reduces with: the input, or the GPU's memory that the input was copied from
  std::shared_ptr<GpuSums> sums;  // null: the processor's
  ReduceKernels kernels{};
  PartialKernels partial_kernels{};
  int tag = 0;  // of every message
  std::vector<StreamMemory> streams;
};

class ChannelSchedule : public ChannelRun {
 public:
  /// `net` may be null where the schedule has no transfers.
  ChannelSchedule(Messages* net, Schedule schedule, ScheduleMemory memory);

  Result<bool> advance() override;
  bool finished() const override;
  std::string waiting_for() const override;
  int awaited() const override;

 private:
  struct Pending {
    void* request = nullptr;
    std::size_t transfer = 0;
    Range slice;
    std::uint64_t size_bytes = 0;
    std::uint64_t sum = 0;  // the GPU's, by number; 0: none
  };
  struct Stream {
    StreamMemory memory;
    std::vector<Pending> pending;                   // by slice % window; a slice's slot has the same number
    std::size_t transfer = 0;                       // under way, ...
    std::uint64_t offset = 0;                       // ... and how far into it, in elements
    std::uint64_t posted = 0, begun = 0, done = 0;  // slices; begun: a receive's has arrived, to be reduced
  };

  bool finished(const Stream& stream) const {
    return stream.transfer == schedule_.transfers.size() && stream.done == stream.posted;
  }
  const Stream* unfinished() const;
  void begin_round();
  /// To its next transfer that has elements, this one included.
  void find_transfer(Stream& stream) const;
  /// Whether every earlier receive has digested what it shares with the slice.
  bool may_touch(std::size_t transfer, const Range& slice) const;
  // The phases of a pass: true where something moved.
  bool complete(Stream& stream);
  bool post(Stream& stream);
  void digest(const Pending& receive);
  /// Or has the GPU begin to. False: the run has failed.
  bool reduce(const Stream& stream, Pending& receive);
  void finish(Stream& stream);
  char* address_of(BufferRole place, const Range& slice) const;
  const char* own_of(const Range& slice) const;
  char* slot_of(const Stream& stream, std::uint64_t slice) const;
  bool fail(const Stream& stream, std::uint64_t slice, const std::string& why);

  Messages* net_;
  Schedule schedule_;
  const ScheduleMemory memory_;
  const std::uint64_t window_;
  const std::uint64_t warns_before_;
  bool last_round_ended_ = false;
  std::vector<Stream> streams_;
  EarlierReceives earlier_;
  std::vector<std::uint64_t> digested_;  // by transfer: how far a receive has come, in elements of the buffers
};

}  // namespace meshbed::coll
