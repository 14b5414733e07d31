#include "sim/host/socket/tcp_socket.h"

#include <linux/tcp.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/host/host_state.h"
#include "sim/host/socket/route.h"

namespace meshbed::sim {

TcpSocket::TcpSocket(Process& owner, int family) : Socket(owner, family) {}

TcpSocket::~TcpSocket() {
  if (!World::exists()) return;  // the end of the simulation closes nothing
  for (const auto& waiting : accept_queue_) waiting->reset_on_close = true;
  accept_queue_.clear();
  if (bound_) host().tcp.ports.unbind(process.node, *this);
  if (connection_ != nullptr) connection_->close(end_, reset_on_close);
  if (counted_) --host().counters.strangers_held;
}

int TcpSocket::bind(const Endpoint& endpoint) {
  if (bound_ || state_ != State::kFresh) return EINVAL;
  if (is_ipv6_link_local(endpoint.address) && endpoint.scope == 0) return EINVAL;  // Linux: __inet6_bind()
  if (!is_any(endpoint.address) && !is_own_address(process.node, endpoint.address)) return EADDRNOTAVAIL;
  local.address = endpoint.address;
  local.scope = endpoint.scope;
  if (const int error = host().tcp.ports.bind(process.node, *this, endpoint.port); error != 0) return error;
  bound_ = true;
  return 0;
}

int TcpSocket::listen(int backlog) {
  if (state_ != State::kFresh && state_ != State::kListening) return EINVAL;
  if (!bound_) {
    if (const int error = bind({.address = local.address, .port = 0}); error != 0) return error;
  }
  backlog_ = std::clamp(backlog, 0, SOMAXCONN);
  state_ = State::kListening;
  return 0;
}

Attempted TcpSocket::try_accept(std::shared_ptr<TcpSocket>& accepted) {
  if (state_ != State::kListening) return -EINVAL;
  if (accept_queue_.empty()) return -EAGAIN;
  accepted = std::move(accept_queue_.front());
  accept_queue_.pop_front();
  accepted->count_if_stranger();
  return 0;
}

void TcpSocket::count_if_stranger() {
  if (connection_ == nullptr || !connection_->from_stranger) return;
  counted_ = true;
  HostCounters& counters = host().counters;
  counters.peak_strangers_held = std::max(counters.peak_strangers_held, ++counters.strangers_held);
}

int TcpSocket::connect(const Endpoint& endpoint) {
  if (error_ != 0) return take_error();
  if (state_ == State::kConnected && std::exchange(connect_untold_, false)) return 0;
  if (state_ == State::kConnecting) return EALREADY;
  if (state_ != State::kFresh) return EISCONN;
  Endpoint to = endpoint;
  if (is_any(to.address)) {  // Linux takes the wildcard for the loopback address
    to.address = any_address(AF_INET);
    to.address.bytes = {127, 0, 0, 1};
  }
  return choose_route(to);
}

int TcpSocket::choose_route(const Endpoint& endpoint) {
  if (is_ipv6_link_local(endpoint.address)) {  // Linux: tcp_v6_connect()
    const unsigned scope = endpoint.scope != 0 ? endpoint.scope : local.scope;
    if (scope == 0 || (local.scope != 0 && local.scope != scope)) return EINVAL;
  }
  const auto route = find_route(process.node, endpoint.address, local.address);
  // Linux finds no route from an address that the node has lost since the socket was bound to it.
  const bool has_source = is_any(local.address) || is_own_address(process.node, local.address);
  if (!route || !has_source) return ENETUNREACH;
  if (!bound_) {
    if (const int error = bind({.address = local.address, .port = 0}); error != 0) return error;
  }
  if (is_any(local.address)) local.address = route->source;
  remote = endpoint;
  state_ = State::kConnecting;
  connection_ = &host().tcp.add_connection();
  end_ = 0;
  connection_->ends[0] = this;
  connection_->remote = endpoint;
  connection_->from_stranger = from_stranger;
  connection_->streams[0].route = *route;
  connection_->streams[0].route.source = local.address;
  connection_->start();
  return EINPROGRESS;
}

int TcpSocket::shutdown(int how) {
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return EINVAL;
  if (state_ == State::kListening && how != SHUT_WR) {  // Linux: ends the listening, accept() fails with EINVAL
    state_ = State::kFresh;
    notify();
    return 0;
  }
  if (state_ != State::kConnected) return ENOTCONN;
  if (how != SHUT_WR) read_shut_ = true;
  if (how != SHUT_RD && !std::exchange(write_shut_, true)) connection_->send_fin(end_);
  notify();
  return 0;
}

Picoseconds TcpSocket::user_timeout() const {
  const auto found = hints.find({IPPROTO_TCP, TCP_USER_TIMEOUT});
  return found != hints.end() ? found->second * kPicosecondsPerMillisecond : 0;
}

int TcpSocket::take_error() { return std::exchange(error_, 0); }

void TcpSocket::established() {
  state_ = State::kConnected;
  connect_untold_ = true;
  notify();
}

void TcpSocket::failed(int code) {
  state_ = State::kFresh;
  error_ = code;
  connection_ = nullptr;
  notify();
}

void TcpSocket::broken(int code) {
  if (state_ == State::kBroken) return;
  state_ = State::kBroken;
  error_ = code;
  notify();
}

void TcpSocket::adopt(Connection& connection, int end, const Endpoint& own, const Endpoint& peer) {
  connection_ = &connection;
  end_ = end;
  local = own;
  remote = peer;
  state_ = State::kConnected;
}

void TcpSocket::enqueue(std::shared_ptr<TcpSocket> accepted) {
  accept_queue_.push_back(std::move(accepted));
  notify();
}

short TcpSocket::events() const {
  const short failure = error_ != 0 ? POLLERR | POLLHUP | POLLIN | POLLOUT : 0;
  switch (state_) {
    case State::kFresh:
      return static_cast<short>(failure | POLLOUT | POLLHUP);
    case State::kListening:
      return accept_queue_.empty() ? 0 : POLLIN;
    case State::kConnecting:
      return 0;
    case State::kBroken:
      return static_cast<short>(failure | POLLIN | POLLOUT | POLLHUP | POLLRDHUP);
    case State::kConnected:
      break;
  }
  const TcpStream& in = connection_->streams[static_cast<std::size_t>(1 - end_)];
  const TcpStream& out = connection_->streams[static_cast<std::size_t>(end_)];
  short result = failure;
  if (in.unread_bytes() > 0 || in.fin_arrived || read_shut_) result |= POLLIN;
  if (out.room_bytes() > 0 || write_shut_) result |= POLLOUT;
  if (in.fin_arrived || read_shut_) result |= POLLRDHUP;
  if (in.fin_arrived && write_shut_) result |= POLLHUP;
  return result;
}

std::size_t TcpSocket::available_bytes() const {
  return connection_ != nullptr ? connection_->streams[static_cast<std::size_t>(1 - end_)].unread_bytes() : 0;
}

Attempted TcpSocket::try_read(void* data, std::size_t size, bool peek) {
  if (state_ == State::kConnecting) return -EAGAIN;
  if (connection_ == nullptr) return error_ != 0 ? -take_error() : -ENOTCONN;
  if (size == 0) return 0;
  const std::size_t count = connection_->receive(end_, static_cast<char*>(data), size, peek);
  if (count > 0) return static_cast<Attempted>(count);
  if (error_ != 0) return -take_error();
  const bool over = connection_->streams[static_cast<std::size_t>(1 - end_)].fin_arrived;
  return over || read_shut_ || state_ == State::kBroken ? 0 : -EAGAIN;
}

Attempted TcpSocket::try_write(const void* data, std::size_t size) {
  if (error_ != 0) return -take_error();
  if (state_ == State::kConnecting) return -EAGAIN;
  if (state_ == State::kBroken || write_shut_) return -EPIPE;
  if (state_ != State::kConnected) return -ENOTCONN;
  if (size == 0) return 0;
  const std::size_t count = connection_->send(end_, static_cast<const char*>(data), size);
  return count > 0 ? static_cast<Attempted>(count) : -EAGAIN;
}

std::string TcpSocket::describe() const {
  switch (state_) {
    case State::kFresh:
      return "a fresh socket";
    case State::kListening:
      return "a socket that listens on " + to_string(local);
    default:
      return "a socket " + to_string(local) + " > " + to_string(remote);
  }
}

}  // namespace meshbed::sim
