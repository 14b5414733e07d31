#pragma once
// What connections ask of the one thread of their process (service/service_thread.h), which works whether their owners
// call or not.

#include "plugin/base/result.h"

namespace meshbed::net {

class PeerDiscovery;
class CablingAgreement;

class Service {
 public:
  virtual ~Service() = default;
  /// For chains of relays; nullptr: there can be none, and `scout_problem()` says why.
  virtual PeerDiscovery* discovery() = 0;
  /// nullptr as peer discovery().
  virtual CablingAgreement* agreement() = 0;
  virtual const Error& discovery_problem() const = 0;
  /// There is something to do. Any thread.
  virtual void wake() = 0;
  /// A receiving connection has begun to hold something back. Any thread.
  virtual void note_held() = 0;
};

}  // namespace meshbed::net
