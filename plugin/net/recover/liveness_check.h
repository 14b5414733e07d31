#pragma once
// A receiver that lost its path and receives nothing from its sender checks whether the sender still exists: the
// sender's owner may not call the plugin for an hour, and resumes over any path when it does.
//
// It asks in two ways at once, and either reply is enough. Over the cable itself it asks the sender's service
// (LIVENESS_CHECK), which replies whether or not the sender's connections are polled; not behind relays, where only the
// last relay is known here. Over all cables it asks for the process that has the sending end of this session (INQUIRY,
// discovery_message.h), which may have another address now or another path to us. The session's number is random, so
// that no other process replies by chance. It is not secret: nothing on the cables is encrypted.

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
  /// The QP link that was lost.
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
  std::optional<ServiceCall> call_;  // while a reply may come over the cable
  std::string who_, why_;
};

}  // namespace meshbed::net
