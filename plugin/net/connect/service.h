#pragma once
// What connections need of their process' service thread (service/service_thread.h), which runs whether or not their
// owners call the plugin.

#include "plugin/base/result.h"

namespace meshbed::net {

class PeerDiscovery;
class CablingAgreement;

class Service {
 public:
  virtual ~Service() = default;
  /// For chains of relays; nullptr: there can be none, and discovery_problem() has the reason.
  virtual PeerDiscovery* discovery() = 0;
  /// nullptr as discovery().
  virtual CablingAgreement* agreement() = 0;
  virtual const Error& discovery_problem() const = 0;
  /// Wakes the thread: there is work. Any thread.
  virtual void wake() = 0;
  /// A receiving connection has begun to hold clear-to-sends back. Any thread.
  virtual void note_held() = 0;
};

}  // namespace meshbed::net
