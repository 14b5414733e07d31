#pragma once
// PortTable: which sockets of a node are bound to which port; TCP has one, UDP another.

#include <cstdint>
#include <map>
#include <vector>

#include "sim/host/socket/socket.h"

namespace meshbed::sim {

class PortTable {
 public:
  /// Binds `socket` to its local endpoint's address and `port`; 0 takes the next ephemeral one. 0 or EADDRINUSE.
  int bind(int node, Socket& socket, std::uint16_t port);
  void unbind(int node, Socket& socket);
  /// In the order in which they were bound.
  const std::vector<Socket*>& at(int node, std::uint16_t port) const;
  /// The ephemeral ports of the node that any socket is bound to for which `matches` holds, in order.
  std::vector<std::uint16_t> ephemeral_with(int node, bool (*matches)(const Socket& socket)) const;

 private:
  struct Ports {
    std::map<std::uint16_t, std::vector<Socket*>> bound;
    std::uint16_t next_ephemeral = 0;  // set on first use
  };
  std::map<int, Ports> nodes_;
};

}  // namespace meshbed::sim
