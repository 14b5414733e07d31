#include "sim/host/tcp_stack.h"

#include <algorithm>
#include <cerrno>

#include "sim/host/tcp_socket.h"

namespace meshbed::sim {
namespace {

// net.ipv4.ip_local_port_range of Linux; handed out in order, so that runs repeat.
constexpr std::uint16_t kEphemeralFirst = 32'768;
constexpr std::uint16_t kEphemeralLast = 60'999;

}  // namespace

int TcpStack::bind(int node, TcpSocket& socket, std::uint16_t port) {
  Ports& ports = nodes_[node];
  if (port != 0) {
    auto& sockets = ports.bound[port];
    if (std::any_of(sockets.begin(), sockets.end(), [&](TcpSocket* other) { return other->conflicts(socket); })) {
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

void TcpStack::unbind(int node, TcpSocket& socket) {
  auto& bound = nodes_[node].bound;
  const auto found = bound.find(socket.local.port);
  if (found == bound.end()) return;
  std::erase(found->second, &socket);
  if (found->second.empty()) bound.erase(found);
}

TcpSocket* TcpStack::listener(int node, const Endpoint& endpoint) const {
  const auto ports = nodes_.find(node);
  if (ports == nodes_.end()) return nullptr;
  const auto found = ports->second.bound.find(endpoint.port);
  if (found == ports->second.bound.end()) return nullptr;
  TcpSocket* wildcard = nullptr;
  for (TcpSocket* socket : found->second) {
    if (socket->state() != TcpSocket::State::kListening || !socket->takes(endpoint.address)) continue;
    if (!is_any(socket->local.address)) return socket;
    if (wildcard == nullptr) wildcard = socket;
  }
  return wildcard;
}

Connection& TcpStack::add_connection() {
  const std::uint64_t number = next_number_++;
  return *(connections_[number] = std::make_unique<Connection>(number));
}

Connection* TcpStack::find(std::uint64_t number) {
  const auto found = connections_.find(number);
  return found != connections_.end() ? found->second.get() : nullptr;
}

void TcpStack::release(std::uint64_t number) {
  const auto found = connections_.find(number);
  if (found != connections_.end() && found->second->idle()) connections_.erase(found);
}

}  // namespace meshbed::sim
