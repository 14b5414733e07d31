#pragma once
// How a sending connection that lost its leg gets another one: over any cable that still leads to the peer, the one it
// was asked for first, each in turn, until one stands or the connection gives up. The peer's service (resume_desk.h)
// says what has arrived.

#include <memory>
#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/net/clock.h"
#include "plugin/net/connecting.h"
#include "plugin/net/handle.h"
#include "plugin/net/leg.h"

namespace meshbed::net {

class Transport;

/// What a sender keeps of its connection's beginning, to find the receiver again.
struct Origin {
  Transport* transport = nullptr;
  Handle peer;
  int dev = 0;                // asked for by the caller
  std::uint64_t session = 0;  // session_number()
};

class Resumption {
 public:
  /// `service_port` of the peer's process. `origin` must outlive this.
  Resumption(const Origin& origin, std::uint16_t service_port, const LegSettings& settings,
             LegShape (*shape_on)(const verbs::Device&))
      : origin_(origin), service_port_(service_port), settings_(settings), shape_on_(shape_on) {}

  struct Resumed {
    std::unique_ptr<Leg> leg;
    std::uint64_t served = 0;  // clear-to-send entries below have been served
  };
  /// nullopt: not yet. An error: the peer's connection is gone, and no attempt would bring it back.
  Result<std::optional<Resumed>> advance();
  /// Why the last attempt came to nothing; empty: there was none.
  const std::string& obstacle() const { return obstacle_; }

 private:
  /// False: there is no way just now.
  bool begin_attempt();
  void put_off(const std::string& why);

  const Origin& origin_;
  std::uint16_t service_port_;
  LegSettings settings_;
  LegShape (*shape_on_)(const verbs::Device&);
  std::unique_ptr<Leg> leg_;
  std::unique_ptr<Connecting> connecting_;  // of leg_
  std::size_t attempts_ = 0;
  std::size_t ways_ = 1;  // of the last look; a pause after so many attempts
  Deadline next_attempt_;
  bool waits_ = false;  // for next_attempt_
  std::int64_t pause_ms_ = 1;
  std::string obstacle_;
};

/// The ways from here to where a sender's peer was, as links and addresses are now.
Result<std::vector<Route>> ways_to(const Origin& origin, const std::vector<Nic>& nics);

}  // namespace meshbed::net
