#pragma once
// TcpStack: what all nodes' TCP keeps beside the sockets: bound ports, and connections by number.
//
// Events name a connection by its number, never by pointer: a connection may be gone when its event is due.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/host/endpoint.h"
#include "sim/host/tcp_connection.h"

namespace meshbed::sim {

class TcpSocket;

class TcpStack {
 public:
  // --- ports of a node ---
  /// Binds `socket` to its local endpoint's address and `port`; 0 takes the next ephemeral one. 0 or EADDRINUSE.
  int bind(int node, TcpSocket& socket, std::uint16_t port);
  void unbind(int node, TcpSocket& socket);
  /// Who listens there; the exact address goes before the wildcard. nullptr: nobody.
  TcpSocket* listener(int node, const Endpoint& endpoint) const;

  // --- connections ---
  Connection& add_connection();
  /// nullptr: gone.
  Connection* find(std::uint64_t number);
  /// Frees the connection where neither end has it and nothing is on the wire.
  void release(std::uint64_t number);

 private:
  struct Ports {
    std::map<std::uint16_t, std::vector<TcpSocket*>> bound;
    std::uint16_t next_ephemeral = 0;  // set on first use
  };
  std::map<int, Ports> nodes_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_number_ = 1;
};

}  // namespace meshbed::sim
