#include "sim/host/socket/udp_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "models/gid_table.h"
#include "models/lan/vlan.h"
#include "plugin/base/log.h"
#include "sim/host/host_state.h"
#include "sim/host/socket/interfaces.h"
#include "sim/host/socket/route.h"

namespace meshbed::sim {
namespace {

struct Segment {
  models::PortRef port;
  models::IpAddress source;
};

/// Which of the node's cables an IPv4 broadcast address belongs to.
std::optional<Segment> broadcast_segment(int node, const models::IpAddress& destination) {
  const auto& nics = World::get().cluster().at(node).nics;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    for (const models::IpPrefix& prefix : nics[nic].addresses) {
      const bool has_one = prefix.address.family == models::Family::kIpv4 && prefix.length_bits < 31;
      if (has_one && broadcast_of(prefix) == destination) return Segment{{node, static_cast<int>(nic)}, prefix.address};
    }
  }
  return std::nullopt;
}

/// The cable behind an interface index.
std::optional<Segment> multicast_segment(int node, int interface_index) {
  const auto& nics = World::get().cluster().at(node).nics;
  for (const Interface& interface : interfaces_of(node)) {
    if (static_cast<int>(interface.index) != interface_index) continue;
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      if (models::address_netdev(nics[nic]) != interface.name) continue;
      const models::PortRef port{node, static_cast<int>(nic)};
      const bool has_ipv6 =
          std::any_of(nics[nic].addresses.begin(), nics[nic].addresses.end(),
                      [](const models::IpPrefix& prefix) { return prefix.address.family == models::Family::kIpv6; });
      // The kernel's choice if a multicast's source is not given (RFC 6724, rule 2).
      if (has_ipv6) return Segment{port, models::link_local_address(port)};
    }
  }
  return std::nullopt;
}

}  // namespace

UdpSocket::~UdpSocket() {
  if (!World::exists()) return;  // the end of the simulation closes nothing
  if (bound_) host().udp.ports.unbind(process.node, *this);
}

int UdpSocket::bind(const Endpoint& endpoint) {
  if (bound_) return EINVAL;
  if (!is_any(endpoint.address) && !is_own_address(process.node, endpoint.address)) return EADDRNOTAVAIL;
  local.address = endpoint.address;
  if (const int error = host().udp.ports.bind(process.node, *this, endpoint.port); error != 0) return error;
  bound_ = true;
  return 0;
}

int UdpSocket::connect(const Endpoint&) {
  if (first_time(current_state(), "connected UDP socket")) {
    MESHBED_WARN("%s: connect() of a UDP socket is not simulated", process.name.c_str());
  }
  return EOPNOTSUPP;
}

Attempted UdpSocket::send_to(const void* data, std::size_t size, const Endpoint& endpoint, const PacketInfo& info) {
  if (size > kUdpLargestBytes) return -EMSGSIZE;
  if (endpoint.port == 0) return -EINVAL;
  if (info.source && !is_own_address(process.node, *info.source)) return -EINVAL;  // Linux: ip6_datagram_send_ctl()
  if (!bound_) {
    if (const int error = bind({.address = local.address, .port = 0}); error != 0) return -error;
  }
  Datagram datagram{
      .source = local, .destination = endpoint, .bytes = std::string(static_cast<const char*>(data), size)};
  if (info.source) datagram.source.address = *info.source;
  const bool multicast = is_all_nodes(endpoint.address);
  const auto segment = multicast
                           ? multicast_segment(process.node, info.interface != 0 ? info.interface : multicast_interface)
                           : broadcast_segment(process.node, endpoint.address);
  if (multicast && !segment) return -ENETUNREACH;
  if (segment) {
    if (!multicast && !broadcast) return -EACCES;
    if (is_any(datagram.source.address)) datagram.source.address = segment->source;
    host().udp.send_to_all(segment->port, datagram);
    return static_cast<Attempted>(size);
  }
  const auto route = find_route(process.node, endpoint.address, datagram.source.address);
  const bool has_source = is_any(datagram.source.address) || is_own_address(process.node, datagram.source.address);
  if (!route || !has_source) return -ENETUNREACH;  // as a TCP socket's connect()
  if (is_any(datagram.source.address)) datagram.source.address = route->source;
  host().udp.send(*route, datagram);
  return static_cast<Attempted>(size);
}

void UdpSocket::deliver(const Datagram& datagram, bool over_wire) {
  if (inbox_bytes_ + datagram.bytes.size() > kUdpBufferBytes) return;
  World::get().progress();
  if (over_wire) host().counters.management_bytes += datagram.bytes.size();
  inbox_bytes_ += datagram.bytes.size();
  inbox_.push_back(datagram);
  notify();
}

Attempted UdpSocket::try_receive(void* data, std::size_t size, bool peek, Endpoint& source) {
  if (inbox_.empty()) return -EAGAIN;
  const Datagram& first = inbox_.front();
  const std::size_t count = std::min(size, first.bytes.size());
  std::memcpy(data, first.bytes.data(), count);
  source = first.source;
  if (!peek) {
    inbox_bytes_ -= first.bytes.size();
    inbox_.pop_front();
  }
  return static_cast<Attempted>(count);
}

Attempted UdpSocket::try_read(void* data, std::size_t size, bool peek) {
  Endpoint source;
  return try_receive(data, size, peek, source);
}

Attempted UdpSocket::try_write(const void*, std::size_t) { return -EDESTADDRREQ; }

short UdpSocket::events() const { return static_cast<short>(POLLOUT | (inbox_.empty() ? 0 : POLLIN)); }

std::string UdpSocket::describe() const { return "a UDP socket on " + to_string(local); }

}  // namespace meshbed::sim
