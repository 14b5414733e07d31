#pragma once
// A receiver that lost its way, and hears nothing of its sender, asks whether it is still there: its owner may be away
// for an hour, and comes back over whatever way there is when it looks again.
//
// It asks in two ways at once, and either answer will do. Over the cable itself, at the sender's service, which answers
// for its process whether its owners look or not; not behind relays, where only the last of them is known here. And
// over all cables, for the process that has the sending end of this session (discovery_message.h): it may have another
// address by now, or another way to us. Its number is random, so that nobody else answers for it by chance; whoever
// hears the question learns it, though, as whoever listens on its cables has before: nothing there is encrypted.

#include <cstdint>
#include <optional>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/net/connect/service_call.h"
#include "plugin/net/link/qp_link.h"

namespace meshbed::net {

class PeerDiscovery;
class ProcessLinks;

class LivenessCheck {
 public:
  /// What is known of the QP link that was lost.
  struct Lost {
    std::uint64_t session = 0;
    LocalEnd local;
    WireEnd sender;
  };
  LivenessCheck(ProcessLinks& process, const Lost& lost);
  ~LivenessCheck();
  LivenessCheck(const LivenessCheck&) = delete;
  LivenessCheck& operator=(const LivenessCheck&) = delete;

  enum class Answer { kNotYet, kThere, kGone };
  /// One step.
  Answer advance();
  /// After kGone.
  const std::string& why() const { return why_; }

 private:
  bool is_found_elsewhere();

  PeerDiscovery* discovery_;  // nullptr: relays are off
  std::uint64_t session_;
  Deadline ends_, next_question_;
  std::int64_t question_pause_ms_;
  std::optional<ServiceCall> call_;  // while an answer may come over the cable
  std::string who_, why_;
};

}  // namespace meshbed::net
