#pragma once
// FollowedMessages: passes each message of a simulation on to its recorder, and shows the simulation's progress.

#include "sim/trace/recorder.h"
#include "testbed/base/progress.h"

namespace meshbed::testbed {

class FollowedMessages final : public sim::MessageSink {
 public:
  explicit FollowedMessages(sim::Recorder& recorder) : recorder_(recorder) {}
  void message(const sim::MessageRecord& record) override {
    recorder_.message(record);
    progress_.message_ended(record.completed_ps);
  }

 private:
  sim::Recorder& recorder_;
  SimulationProgress progress_;
};

}  // namespace meshbed::testbed
