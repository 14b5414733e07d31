#pragma once
// A receiver that lost its way, and hears nothing of its sender, asks at the sender's process whether it is still
// there: its owner may be away for an hour, and comes back over whatever cable there is when it looks again.
//
// The question goes over the cable itself, to the service that answers for the process whether its owners look or not.

#include <cstdint>
#include <string>

#include "plugin/net/clock.h"
#include "plugin/net/leg.h"
#include "plugin/net/socket.h"

namespace meshbed::net {

class Knock {
 public:
  Knock(const LocalEnd& local, const WireEnd& sender, std::uint64_t session);

  enum class Answer { kNotYet, kThere, kGone };
  /// One step.
  Answer advance();
  /// After kGone.
  const std::string& why() const { return why_; }

 private:
  Answer gone(const std::string& why);

  std::uint64_t session_;
  std::string sender_;
  Deadline ends_;
  Socket socket_;
  std::string why_;
  bool connected_ = false, asked_ = false;
  MessageReader reader_;
  MessageWriter writer_;
};

}  // namespace meshbed::net
