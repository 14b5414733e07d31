#pragma once
// TcpStack: what all nodes' TCP keeps beside the sockets: bound ports, and connections by number.
//
// Events name a connection by its number, never by pointer: a connection may be gone when its event is due.

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/host/socket/endpoint.h"
#include "sim/host/socket/port_table.h"
#include "sim/host/socket/tcp_connection.h"

namespace meshbed::sim {

class TcpSocket;

class TcpStack {
 public:
  PortTable ports;
  /// When the port by which a route leaves (arrives) is free for another long segment.
  std::map<models::PortRef, Picoseconds> leaving_free_ps, arriving_free_ps;
  /// The socket that listens there; the exact address goes before the wildcard. nullptr: none.
  TcpSocket* listener(int node, const Endpoint& endpoint) const;
  /// Where any process of the node listens, in order: of the ports that the system chooses, those alone.
  std::vector<std::uint16_t> listening_ports(int node) const;

  // --- connections ---
  Connection& add_connection();
  /// nullptr: gone.
  Connection* find(std::uint64_t number);
  /// Frees the connection where neither end has it and nothing is on the wire.
  void release(std::uint64_t number);

 private:
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_number_ = 1;
};

}  // namespace meshbed::sim
