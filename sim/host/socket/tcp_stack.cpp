#include "sim/host/socket/tcp_stack.h"

#include "sim/host/socket/tcp_socket.h"

namespace meshbed::sim {

TcpSocket* TcpStack::listener(int node, const Endpoint& endpoint) const {
  TcpSocket* wildcard = nullptr;
  for (Socket* socket : ports.at(node, endpoint.port)) {
    if (!socket->listening() || !socket->takes(endpoint.address)) continue;
    auto* listener = static_cast<TcpSocket*>(socket);  // this table holds no other kind
    if (!is_any(socket->local.address)) return listener;
    if (wildcard == nullptr) wildcard = listener;
  }
  return wildcard;
}

std::vector<std::uint16_t> TcpStack::listening_ports(int node) const {
  return ports.ephemeral_with(node, [](const Socket& socket) { return socket.listening(); });
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
