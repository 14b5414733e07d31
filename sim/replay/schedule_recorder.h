#pragma once
// ScheduleRecorder: makes a RecordedSchedule of the messages of a simulated run.
//
// What a message waits for. At the instant T of the last thing that its rank saw before the message was posted, certain
// signals happened; one of them was the reason. Those of all messages of a stream are the signals that the stream
// follows. Each message waits for as many of each of them as its rank had seen at T, and then for what was left of the
// time until it was posted (software, mostly). On the same links each message thereby has the same time again. On
// others a stream may wait for one of its signals longer than the plugin would; signals that it does not follow never
// hold it up.
//
// A call begins when all ranks have ended the one before (or, where ranks do not wait for each other, this rank). What
// went over sockets is not in it: messages before the first call keep the delay that this gave them.
//
// Memory: about 300 bytes a message. Cost: O(n log n).

#include <cstdint>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/result.h"
#include "sim/replay/recorded_schedule.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::sim {

/// A rank's call, in the run's time.
struct RecordedCall {
  int rank = 0;
  Picoseconds begin_ps = 0, end_ps = 0;
};

class ScheduleRecorder final : public MessageSink {
 public:
  explicit ScheduleRecorder(const models::Cluster& cluster) : cluster_(cluster) {}
  void message(const MessageRecord& record) override { records_.push_back(record); }

  /// The messages so far, in order of posting.
  const std::vector<MessageRecord>& messages();

  /// `calls`: in order for each rank. What was flushed before it was on a link is left out. An error names the first
  /// message that cannot be replayed: one that was sent again, failed or was lost, or one of no rank.
  Result<RecordedSchedule> schedule(const std::vector<RecordedCall>& calls);

 private:
  const models::Cluster& cluster_;
  std::vector<MessageRecord> records_;
};

}  // namespace meshbed::sim
