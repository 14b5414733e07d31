#include "sim/host/socket/port_table.h"

#include <algorithm>
#include <cerrno>

namespace meshbed::sim {
namespace {

// net.ipv4.ip_local_port_range of Linux; handed out in order, so that runs repeat.
constexpr std::uint16_t kEphemeralFirst = 32'768;
constexpr std::uint16_t kEphemeralLast = 60'999;

}  // namespace

int PortTable::bind(int node, Socket& socket, std::uint16_t port) {
  Ports& ports = nodes_[node];
  if (port != 0) {
    auto& sockets = ports.bound[port];
    if (std::any_of(sockets.begin(), sockets.end(), [&](Socket* other) { return other->conflicts(socket); })) {
      return EADDRINUSE;
    }
    socket.local.port = port;
    sockets.push_back(&socket);
    return 0;
  }
  for (int tried = kEphemeralFirst; tried <= kEphemeralLast; ++tried) {
    const bool restart = ports.next_ephemeral < kEphemeralFirst || ports.next_ephemeral > kEphemeralLast;
    const std::uint16_t candidate = restart ? kEphemeralFirst : ports.next_ephemeral;
    ports.next_ephemeral = static_cast<std::uint16_t>(candidate + 1);
    const auto found = ports.bound.find(candidate);
    if (found == ports.bound.end()) return bind(node, socket, candidate);
  }
  return EADDRINUSE;
}

void PortTable::unbind(int node, Socket& socket) {
  auto& bound = nodes_[node].bound;
  const auto found = bound.find(socket.local.port);
  if (found == bound.end()) return;
  std::erase(found->second, &socket);
  if (found->second.empty()) bound.erase(found);
}

const std::vector<Socket*>& PortTable::at(int node, std::uint16_t port) const {
  static const std::vector<Socket*> none;
  const auto ports = nodes_.find(node);
  if (ports == nodes_.end()) return none;
  const auto found = ports->second.bound.find(port);
  return found != ports->second.bound.end() ? found->second : none;
}

std::vector<std::uint16_t> PortTable::ephemeral_with(int node, bool (*matches)(const Socket& socket)) const {
  std::vector<std::uint16_t> found;
  const auto ports = nodes_.find(node);
  if (ports == nodes_.end()) return found;
  const auto& bound = ports->second.bound;
  for (auto entry = bound.lower_bound(kEphemeralFirst); entry != bound.end(); ++entry) {
    const auto& sockets = entry->second;
    if (entry->first > kEphemeralLast) break;
    if (std::any_of(sockets.begin(), sockets.end(), [&](const Socket* one) { return matches(*one); })) {
      found.push_back(entry->first);
    }
  }
  return found;
}

}  // namespace meshbed::sim
