#pragma once
// First messages: a TCP port of this process on every network of the machine, and the first message of each client
// (the accept queue of plugin/base, whose introduction is one message of wire.h).

#include <vector>

#include "plugin/base/accept_queue.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

/// A client, and its first message.
struct Arrival {
  Socket socket;
  SocketAddress local, remote;
  bool over_cable = false;
  Deadline deadline;  // of its whole handshake
  WireMessage message;
};

class FirstMessages {
 public:
  /// Listens on every address of this machine (IPv6 too where `ipv6`). make_introduction is set here.
  Result<void> open(bool ipv6, AcceptQueueOptions options);
  /// As AcceptQueue::advance.
  Result<void> advance(std::vector<Arrival>& arrivals);
  const AcceptQueue& queue() const { return queue_; }

 private:
  AcceptQueue queue_;
  std::vector<Introduced> introduced_;
};

}  // namespace meshbed::net
