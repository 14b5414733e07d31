#include "plugin/coll/store/socket.h"

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
#include <optional>

namespace meshbed::coll {
namespace {

constexpr int kBacklog = 1024;  // all ranks of a large job may connect at once
// Back-off between attempts to reach a rank 0 that does not listen yet.
constexpr int kFirstRetryMs = 1, kLastRetryMs = 128;
// How long one attempt may take. If the listener's queue is full, the kernel repeats an attempt only after 1 s, 3 s and
// 7 s: with many other clients, a new attempt finds room sooner.
constexpr int kAttemptMs = 500;

Error system_error(const std::string& what, int error) {
  return {ErrorCode::kSystem, Scope::kJob, what + ": " + std::strerror(error), error};
}

bool prepare(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL, 0);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return false;
  const int on = 1;  // requests are small and a rank waits for each
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A machine that lost its power ends no connection: the kernel probes it, after 30 s of silence, six times.
  const int idle_s = 30, between_s = 10, tries = 6;
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
  return true;
}

// 0: connected; otherwise the errno of this try.
int try_connect(Socket* socket, const SocketAddress& address, Deadline deadline) {
  sockaddr_storage name{};
  const socklen_t length_of_name = to_sockaddr(address, name);
  *socket = Socket(::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket->is_open()) return errno;
  if (!prepare(socket->descriptor())) return errno;
  if (::connect(socket->descriptor(), reinterpret_cast<const sockaddr*>(&name), length_of_name) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!socket->wait_for(POLLOUT, deadline.remaining_ms())) return ETIMEDOUT;
  return socket->connect_error();
}

std::optional<SocketAddress> name_of(const Socket& socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (ask(socket.descriptor(), reinterpret_cast<sockaddr*>(&name), &length) != 0) return std::nullopt;
  return from_sockaddr(reinterpret_cast<const sockaddr*>(&name));
}

// If the address is on this host, its port is in the ephemeral range and no process listens there, the kernel sooner or
// later gives a connecting socket just this port, and TCP connects it to itself (RFC 9293, 3.5). Such a socket would
// also block the port for the listener.
bool met_itself(const Socket& socket) {
  const auto own = name_of(socket, &getsockname), peer = name_of(socket, &getpeername);
  return own && peer && *own == *peer;
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
  const auto parsed = parse_ip_address(host);
  if (!parsed || (parsed->family == Family::kIpv6) != bracketed) {
    return refuse(bracketed ? "not an IPv6 address" : "not an IPv4 address");
  }
  return SocketAddress{.address = *parsed, .port = port};
}

SocketAddress at_any_port(SocketAddress address) {
  address.port = 0;
  return address;
}

Result<SocketAddress> own_address(const Socket& socket) {
  const auto address = name_of(socket, &getsockname);
  if (!address) return system_error("getsockname", errno);
  return *address;
}

Result<Socket> listen_at(const SocketAddress& address) {
  sockaddr_storage name{};
  const socklen_t length = to_sockaddr(address, name);
  Socket socket(::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return system_error("socket", errno);
  const int on = 1;  // a job may follow another at once
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!prepare(socket.descriptor())) return system_error("fcntl", errno);
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&name), length) != 0) {
    return system_error("bind", errno);
  }
  if (::listen(socket.descriptor(), kBacklog) != 0) return system_error("listen", errno);
  return socket;
}

Result<Socket> connect_to(const SocketAddress& address, Deadline deadline) {
  for (int retry_ms = kFirstRetryMs;; retry_ms = std::min(2 * retry_ms, kLastRetryMs)) {
    Socket socket;
    const Deadline attempt_by = Deadline::after_ms(kAttemptMs);
    int error = try_connect(&socket, address, attempt_by < deadline ? attempt_by : deadline);
    if (error == 0 && met_itself(socket)) {
      socket.close();
      error = ECONNREFUSED;
    }
    if (error == 0) return socket;
    if (deadline.passed()) return system_error("connect", error);
    // No process listens yet: there is no descriptor to wait on, so only wait for some time.
    poll(nullptr, 0, deadline.is_never() ? retry_ms : std::min(retry_ms, deadline.remaining_ms()));
  }
}

Socket socket_of_client(Descriptor descriptor) {
  Socket client(descriptor.release());
  if (!prepare(client.descriptor())) client.close();
  return client;
}

SocketOutcome read_into(const Socket& socket, std::string* buffer) {
  constexpr std::size_t kChunkBytes = 4096, kCallBytes = 64 * 1024;
  char chunk[kChunkBytes];
  bool moved = false;
  for (std::size_t total = 0; total < kCallBytes;) {
    const ssize_t got = recv(socket.descriptor(), chunk, sizeof chunk, 0);
    if (got > 0) {
      buffer->append(chunk, static_cast<std::size_t>(got));
      total += static_cast<std::size_t>(got);
      moved = true;
      if (static_cast<std::size_t>(got) < sizeof chunk) break;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    // Bytes before the end are returned first; the end shows again on the next call.
    return moved ? SocketOutcome::kMoved : SocketOutcome::kClosed;
  }
  return moved ? SocketOutcome::kMoved : SocketOutcome::kWouldBlock;
}

SocketOutcome write_from(const Socket& socket, std::string* buffer) {
  while (!buffer->empty()) {
    const ssize_t sent = send(socket.descriptor(), buffer->data(), buffer->size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      buffer->erase(0, static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? SocketOutcome::kWouldBlock : SocketOutcome::kClosed;
  }
  return SocketOutcome::kMoved;
}

}  // namespace meshbed::coll
