#pragma once
// UdpStack: the UDP state of all nodes: bound ports, and the datagrams on the wire.
//
// Model: a datagram takes its bits over the slowest link, one latency and one stack delay, independently of other
// traffic. It is lost if the link is down at its arrival, if no socket is bound, or if the receiver's buffer is full;
// no end is notified (no ICMP). A broadcast or multicast reaches every port of the cable or switch, and the sockets of
// the sender's own node (Linux ip_mc_output() loops a copy of a broadcast back; IPV6_MULTICAST_LOOP is on by default).

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "sim/host/socket/endpoint.h"
#include "sim/host/socket/port_table.h"
#include "sim/host/socket/route.h"

namespace meshbed::sim {

/// net.core.rmem_default of Linux.
inline constexpr std::size_t kUdpBufferBytes = 212'992;
/// What an IPv4 packet of 65535 bytes leaves beside its headers (udp(7)).
inline constexpr std::size_t kUdpLargestBytes = 65'507;

struct Datagram {
  Endpoint source, destination;
  std::string bytes = {};
};

class UdpStack {
 public:
  PortTable ports;

  /// Sends to the present end of the route; lost if its address does not resolve.
  void send(const IpRoute& route, const Datagram& datagram);
  /// To all ports that share the cable or switch of `port`, and to its own node.
  void send_to_all(models::PortRef port, const Datagram& datagram);

 private:
  struct InFlight {
    IpRoute route;
    Neighbour far;
    Datagram datagram;
    bool to_all = false;
  };
  void put_on_wire(InFlight packet);
  static void arrival_due(void* self, std::uint64_t number);
  void arrived(const InFlight& packet);

  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  std::uint64_t next_number_ = 1;
};

/// The broadcast address of an IPv4 subnet: host bits set (RFC 919). Of /31 and /32, which have none, the address
/// itself.
models::IpAddress broadcast_of(const models::IpPrefix& prefix);
/// ff02::1, the only IPv6 group that every host is in (RFC 4291).
bool is_all_nodes(const models::IpAddress& address);

}  // namespace meshbed::sim
