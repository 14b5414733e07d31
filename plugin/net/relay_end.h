#pragma once
// What the two ends of a circuit in a relay have in common: the relay service's thread drives them, not a caller.

#include "plugin/net/connection.h"

namespace meshbed::net {

class RelayEnd : public Connection {
 public:
  /// Takes completions in; how many.
  int progress() { return poll(); }
  /// The next completion wakes whoever waits for the channel.
  void arm() { completions().arm(); }
  bool broken() const { return failed(); }
  const Error& what_broke() const { return failure(); }
  /// "192.168.100.2 (rocep1s0f0)"
  std::string neighbour() const { return to_text(peer().address.address) + " (" + peer().nic + ")"; }

 protected:
  using Connection::Connection;
};

}  // namespace meshbed::net
