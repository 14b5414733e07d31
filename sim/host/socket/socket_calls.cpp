// Sockets of ranks: making, naming and connecting them.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "plugin/base/log.h"
#include "sim/host/load/calls.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/tcp_socket.h"
#include "sim/host/socket/udp_socket.h"
#include "sim/host/socket/unix_datagram.h"
#include "sim/host/socket/unix_socket.h"

namespace meshbed::sim {
namespace {

int result_of(int error) { return error == 0 ? 0 : fail(error); }

int add_socket(std::shared_ptr<Socket> socket, int flags) {
  socket->nonblocking = (flags & SOCK_NONBLOCK) != 0;
  return current_state().descriptors.add(std::move(socket), (flags & SOCK_CLOEXEC) != 0);
}

int make_socket(int family, int type, int protocol) {
  if (outside()) return ::socket(family, type, protocol);
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (family == AF_UNIX && kind == SOCK_STREAM) {
    auto socket = std::make_shared<UnixSocket>(*World::current_process());
    socket->nonblocking = (type & SOCK_NONBLOCK) != 0;
    return current_state().descriptors.add(std::move(socket), (type & SOCK_CLOEXEC) != 0);
  }
  if (family == AF_UNIX && kind == SOCK_DGRAM) {
    auto socket = std::make_shared<UnixDatagram>(*World::current_process());
    socket->nonblocking = (type & SOCK_NONBLOCK) != 0;
    return current_state().descriptors.add(std::move(socket), (type & SOCK_CLOEXEC) != 0);
  }
  if (family != AF_INET && family != AF_INET6) return fail(EAFNOSUPPORT);
  const bool stream = kind == SOCK_STREAM, datagrams = kind == SOCK_DGRAM;
  const int expected = stream ? IPPROTO_TCP : IPPROTO_UDP;
  if ((!stream && !datagrams) || (protocol != 0 && protocol != expected)) {
    if (first_time(current_state(), "socket type")) {
      MESHBED_WARN("%s: only TCP and UDP sockets are simulated", World::current_process()->name.c_str());
    }
    return fail(stream || datagrams ? EPROTONOSUPPORT : ESOCKTNOSUPPORT);
  }
  Process& process = *World::current_process();
  if (datagrams) return add_socket(std::make_shared<UdpSocket>(process, family), type);
  return add_socket(std::make_shared<TcpSocket>(process, family), type);
}

/// The TCP socket behind a descriptor; nullptr with errno EBADF, ENOTSOCK or EOPNOTSUPP.
std::shared_ptr<TcpSocket> tcp_socket_at(int descriptor) {
  const auto socket = socket_at(descriptor);
  auto stream = std::dynamic_pointer_cast<TcpSocket>(socket);
  if (socket != nullptr && stream == nullptr) errno = EOPNOTSUPP;
  return stream;
}

int bind_socket(int descriptor, const sockaddr* address, socklen_t length) {
  if (is_real(descriptor)) return ::bind(descriptor, address, length);
  if (const auto local = unix_socket_at(descriptor)) return result_of(local->bind(address, length));
  if (const auto local = unix_datagram_at(descriptor)) return result_of(local->bind(address, length));
  const auto socket = socket_at(descriptor);
  if (socket == nullptr) return -1;
  const auto endpoint = read_sockaddr(socket->family(), address, length);
  return endpoint ? result_of(socket->bind(*endpoint)) : fail(EINVAL);
}

int listen_on(int descriptor, int backlog) {
  if (is_real(descriptor)) return ::listen(descriptor, backlog);
  if (const auto local = unix_socket_at(descriptor)) return result_of(local->listen(backlog));
  const auto socket = tcp_socket_at(descriptor);
  return socket != nullptr ? result_of(socket->listen(backlog)) : -1;
}

int accept_locally(UnixSocket& socket, int flags) {
  std::shared_ptr<File> accepted;
  const auto attempt = [&] { return socket.try_accept(accepted); };
  if (complete(socket, !socket.nonblocking, kForever, "accept", attempt) < 0) return -1;
  accepted->nonblocking = (flags & SOCK_NONBLOCK) != 0;
  return current_state().descriptors.add(std::move(accepted), (flags & SOCK_CLOEXEC) != 0);
}

int connect_locally(int descriptor, UnixSocket& socket, const sockaddr* address, socklen_t length) {
  std::shared_ptr<File> connected;
  if (const int error = socket.connect(address, length, connected); error != 0) return fail(error);
  current_state().descriptors.replace(descriptor, std::move(connected));
  return 0;
}

int accept_with_flags(int descriptor, sockaddr* address, socklen_t* length, int flags) {
  if (is_real(descriptor)) return ::accept4(descriptor, address, length, flags);
  if (const auto local = unix_socket_at(descriptor)) return accept_locally(*local, flags);
  const auto socket = tcp_socket_at(descriptor);
  if (socket == nullptr) return -1;
  std::shared_ptr<TcpSocket> accepted;
  const auto attempt = [&] { return socket->try_accept(accepted); };
  if (complete(*socket, may_block(*socket, 0), socket->receive_timeout, "accept", attempt) < 0) return -1;
  write_sockaddr(accepted->family(), accepted->remote, address, length);
  return add_socket(std::move(accepted), flags);
}

int accept_connection(int descriptor, sockaddr* address, socklen_t* length) {
  return accept_with_flags(descriptor, address, length, 0);
}

int connect_socket(int descriptor, const sockaddr* address, socklen_t length) {
  if (is_real(descriptor)) return ::connect(descriptor, address, length);
  if (const auto local = unix_socket_at(descriptor)) return connect_locally(descriptor, *local, address, length);
  if (const auto local = unix_datagram_at(descriptor)) return result_of(local->connect(address, length));
  const auto socket = socket_at(descriptor);
  if (socket == nullptr) return -1;
  const auto endpoint = read_sockaddr(socket->family(), address, length);
  if (!endpoint) return fail(EINVAL);
  const int error = socket->connect(*endpoint);
  if (error != EINPROGRESS) return result_of(error);
  if (!may_block(*socket, 0)) return fail(EINPROGRESS);
  const auto connected = [&]() -> Attempted { return socket->connecting() ? -EAGAIN : -socket->connect(*endpoint); };
  return static_cast<int>(complete(*socket, true, kForever, "connect", connected));
}

int shutdown_socket(int descriptor, int how) {
  if (is_real(descriptor)) return ::shutdown(descriptor, how);
  const auto socket = tcp_socket_at(descriptor);
  return socket != nullptr ? result_of(socket->shutdown(how)) : -1;
}

int get_own_name(int descriptor, sockaddr* address, socklen_t* length) {
  if (is_real(descriptor)) return ::getsockname(descriptor, address, length);
  if (const auto local = unix_datagram_at(descriptor)) {
    write_unix_name(local->name(), address, length);
    return 0;
  }
  const auto socket = socket_at(descriptor);
  if (socket == nullptr) return -1;
  write_sockaddr(socket->family(), socket->local, address, length);
  return 0;
}

int get_peer_name(int descriptor, sockaddr* address, socklen_t* length) {
  if (is_real(descriptor)) return ::getpeername(descriptor, address, length);
  const auto socket = socket_at(descriptor);
  if (socket == nullptr) return -1;
  if (!socket->connected()) return fail(ENOTCONN);
  write_sockaddr(socket->family(), socket->remote, address, length);
  return 0;
}

}  // namespace

std::shared_ptr<UnixSocket> unix_socket_at(int descriptor) {
  return std::dynamic_pointer_cast<UnixSocket>(file_at(descriptor));
}

std::shared_ptr<Socket> socket_at(int descriptor) {
  const auto file = file_at(descriptor);
  auto socket = std::dynamic_pointer_cast<Socket>(file);
  if (socket == nullptr) errno = file == nullptr ? EBADF : ENOTSOCK;
  return socket;
}

std::span<const Redirection> socket_redirections() {
  static const std::array table{
      redirect("socket", &make_socket),        redirect("bind", &bind_socket),
      redirect("listen", &listen_on),          redirect("accept", &accept_connection),
      redirect("accept4", &accept_with_flags), redirect("connect", &connect_socket),
      redirect("shutdown", &shutdown_socket),  redirect("getsockname", &get_own_name),
      redirect("getpeername", &get_peer_name),
  };
  return table;
}

}  // namespace meshbed::sim
