#include "plugin/coll/store/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace meshbed::coll {
namespace {

constexpr int kBacklog = 1024;  // every rank of a large job may knock at once
// Back-off between attempts to reach a rank 0 that does not listen yet.
constexpr int kFirstRetryMs = 1, kLastRetryMs = 128;

Error system_error(const std::string& what, int error) {
  return {ErrorCode::kSystem, Scope::kJob, what + ": " + std::strerror(error), error};
}

bool prepare(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL, 0);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return false;
  const int on = 1;  // requests are small and somebody waits for each
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A machine that lost its power ends no connection: the kernel asks it, after 30 s of silence, six times.
  const int idle_s = 30, between_s = 10, tries = 6;
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
  return true;
}

// 0: connected; otherwise the errno of this try.
int try_connect(Socket* socket, const SocketAddress& address, Deadline deadline) {
  *socket = Socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket->valid()) return errno;
  if (!prepare(socket->descriptor())) return errno;
  const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(socket->descriptor(), name, address.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!socket->wait_for(POLLOUT, deadline.remaining_ms())) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket->descriptor(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

// A port of the range that connecting sockets are given, on this host, with nobody listening: sooner or later the
// kernel gives a caller just this port, and TCP connects it to itself (RFC 9293, 3.5). Kept, it would also hold the
// port against the listener.
bool met_itself(const Socket& socket) {
  SocketAddress own, peer;
  own.length = peer.length = sizeof own.storage;
  return getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0 &&
         getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) == 0 &&
         to_text(own) == to_text(peer);
}

}  // namespace

Result<SocketAddress> parse_address(const std::string& text) {
  const auto refuse = [&](const char* why) {
    return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                 "bootstrap \"" + text + "\" is not ADDRESS:PORT or [ADDRESS]:PORT: " + why};
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return refuse("no port");
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end || port == 0) return refuse("the port is not 1 .. 65535");

  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  SocketAddress address;
  if (bracketed) {
    auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    if (inet_pton(AF_INET6, host.c_str(), &ipv6->sin6_addr) != 1) return refuse("not an IPv6 address");
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(port);
    address.length = sizeof *ipv6;
  } else {
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    if (inet_pton(AF_INET, host.c_str(), &ipv4->sin_addr) != 1) return refuse("not an IPv4 address");
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port);
    address.length = sizeof *ipv4;
  }
  return address;
}

std::string to_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (address.storage.ss_family == AF_INET6) {
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &ipv6->sin6_addr, host.data(), host.size());
    return "[" + std::string(host.data()) + "]:" + std::to_string(ntohs(ipv6->sin6_port));
  }
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  inet_ntop(AF_INET, &ipv4->sin_addr, host.data(), host.size());
  return std::string(host.data()) + ":" + std::to_string(ntohs(ipv4->sin_port));
}

void set_port(SocketAddress* address, std::uint16_t port) {
  if (address->storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address->storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address->storage)->sin_port = htons(port);
  }
}

SocketAddress at_any_port(SocketAddress address) {
  set_port(&address, 0);
  return address;
}

Result<SocketAddress> Socket::own_address() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return system_error("getsockname", errno);
  }
  return address;
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.descriptor_;
    other.descriptor_ = -1;
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Result<Socket> Socket::listen(const SocketAddress& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket", errno);
  const int on = 1;  // a job may follow another at once
  setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!prepare(socket.descriptor_)) return system_error("fcntl", errno);
  if (::bind(socket.descriptor_, reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    return system_error("bind", errno);
  }
  if (::listen(socket.descriptor_, kBacklog) != 0) return system_error("listen", errno);
  return socket;
}

Result<Socket> Socket::connect(const SocketAddress& address, Deadline deadline) {
  for (int retry_ms = kFirstRetryMs;; retry_ms = std::min(2 * retry_ms, kLastRetryMs)) {
    Socket socket;
    int error = try_connect(&socket, address, deadline);
    if (error == 0 && met_itself(socket)) {
      socket.close();
      error = ECONNREFUSED;
    }
    if (error == 0) return socket;
    if (deadline.passed()) return system_error("connect", error);
    // Nobody listens yet: there is no descriptor to wait on, so wait for time alone.
    poll(nullptr, 0, deadline.is_never() ? retry_ms : std::min(retry_ms, deadline.remaining_ms()));
  }
}

Socket Socket::accept() const {
  Socket client(::accept(descriptor_, nullptr, nullptr));
  if (client.valid() && !prepare(client.descriptor_)) client.close();
  return client;
}

Socket::Outcome Socket::read_into(std::string* buffer) const {
  constexpr std::size_t kChunkBytes = 4096, kCallBytes = 64 * 1024;
  char chunk[kChunkBytes];
  bool moved = false;
  for (std::size_t total = 0; total < kCallBytes;) {
    const ssize_t got = recv(descriptor_, chunk, sizeof chunk, 0);
    if (got > 0) {
      buffer->append(chunk, static_cast<std::size_t>(got));
      total += static_cast<std::size_t>(got);
      moved = true;
      if (static_cast<std::size_t>(got) < sizeof chunk) break;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    // What came before the end is still worth reading; the end shows again on the next call.
    return moved ? Outcome::kMoved : Outcome::kClosed;
  }
  return moved ? Outcome::kMoved : Outcome::kWouldBlock;
}

Socket::Outcome Socket::write_from(std::string* buffer) const {
  while (!buffer->empty()) {
    const ssize_t sent = send(descriptor_, buffer->data(), buffer->size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      buffer->erase(0, static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::kWouldBlock : Outcome::kClosed;
  }
  return Outcome::kMoved;
}

bool Socket::wait_for(short events, int timeout_ms) const {
  pollfd entry{descriptor_, events, 0};
  return poll(&entry, 1, timeout_ms) > 0;
}

}  // namespace meshbed::coll
