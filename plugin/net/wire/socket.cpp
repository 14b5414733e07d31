#include "plugin/net/wire/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace meshbed::net {
namespace {

constexpr int kBacklog = 1024;
constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

Error socket_error(const char* what, int error_number) {
  return {.code = ErrorCode::kSystem,
          .scope = Scope::kQueuePair,
          .text = std::string(what) + ": " + std::strerror(error_number),
          .os_errno = error_number};
}

bool is_not_yet(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

Result<Socket> listen_anywhere(bool ipv6) {
  Socket socket(::socket(ipv6 ? AF_INET6 : AF_INET, kFlags, 0));
  if (!socket.is_open()) return socket_error("no socket for the control connection", errno);
  sockaddr_storage any{};
  SocketAddress address;
  address.address.family = ipv6 ? Family::kIpv6 : Family::kIpv4;
  const socklen_t length = to_sockaddr(address, any);
  if (ipv6) {
    const int off = 0;
    // If it fails, the kernel refuses IPv4 peers, which report it.
    ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&any), length) != 0) {
    return socket_error("no port for the control connection", errno);
  }
  if (::listen(socket.descriptor(), kBacklog) != 0) return socket_error("cannot listen", errno);
  return socket;
}

Result<Socket> begin_connect(const IpAddress& local, const SocketAddress& remote) {
  Socket socket(::socket(remote.address.family == Family::kIpv4 ? AF_INET : AF_INET6, kFlags, 0));
  if (!socket.is_open()) return socket_error("no socket for the control connection", errno);
  sockaddr_storage name{};
  socklen_t length = to_sockaddr({.address = local, .port = 0, .scope = remote.scope}, name);
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&name), length) != 0) {
    return socket_error("cannot use the NIC's address", errno);
  }
  const int on = 1;
  // For speed only: without it the handshake's small messages may wait for one another.
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  length = to_sockaddr(remote, name);
  if (::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&name), length) != 0 && errno != EINPROGRESS) {
    return socket_error("cannot reach the peer's address", errno);
  }
  return socket;
}

Result<bool> finish_connect(const Socket& socket) {
  if (!socket.wait_for(POLLOUT, 0)) return false;
  if (const int error = socket.connect_error(); error != 0) {
    return socket_error("cannot reach the peer's address", error);
  }
  return true;
}

Result<std::size_t> receive(const Socket& socket, std::span<std::uint8_t> target) {
  const ssize_t count = ::recv(socket.descriptor(), target.data(), target.size(), 0);
  if (count > 0) return static_cast<std::size_t>(count);
  if (count == 0) return socket_error("the peer closed the control connection", ECONNRESET);
  if (is_not_yet(errno)) return std::size_t{0};
  return socket_error("control connection lost", errno);
}

Result<std::size_t> send(const Socket& socket, std::span<const std::uint8_t> source) {
  const ssize_t count = ::send(socket.descriptor(), source.data(), source.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (is_not_yet(errno)) return std::size_t{0};
  return socket_error("control connection lost", errno);
}

Result<std::optional<WireMessage>> MessageReader::read(Socket& socket) {
  std::size_t wanted = kWireHeaderBytes;
  for (;;) {
    if (have_ >= kWireHeaderBytes) {
      auto length = message_bytes(std::span<const std::uint8_t>(buffer_).first<kWireHeaderBytes>());
      if (!length) return length.error();
      wanted = *length;
    }
    if (have_ == wanted) break;
    auto count = receive(socket, std::span(buffer_).subspan(have_, wanted - have_));
    if (!count) return count.error();
    if (*count == 0) return std::optional<WireMessage>{};
    have_ += *count;
  }
  have_ = 0;
  auto message = decode_message(std::span<const std::uint8_t>(buffer_).first(wanted));
  if (!message) return message.error();
  return std::optional<WireMessage>(std::move(*message));
}

void MessageWriter::start(const WireMessage& message) {
  length_ = encode_message(message, buffer_);
  sent_ = 0;
}

Result<bool> MessageWriter::write(Socket& socket) {
  while (sent_ < length_) {
    auto count = send(socket, std::span<const std::uint8_t>(buffer_).subspan(sent_, length_ - sent_));
    if (!count) return count.error();
    if (*count == 0) return false;
    sent_ += *count;
  }
  return true;
}

}  // namespace meshbed::net
