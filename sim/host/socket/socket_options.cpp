// Socket options of ranks. An option without an effect in the model (buffer sizes, Nagle, keep-alive) is kept and read
// back; one that is not known is refused.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugin/base/log.h"
#include "sim/host/file/pipe.h"
#include "sim/host/load/calls.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/socket.h"

namespace meshbed::sim {
namespace {

using Option = std::pair<int, int>;  // level, name

// Hints to a kernel that the model does not have.
constexpr std::array kHints{
    Option{SOL_SOCKET, SO_KEEPALIVE},   Option{SOL_SOCKET, SO_SNDBUF},     Option{SOL_SOCKET, SO_RCVBUF},
    Option{SOL_SOCKET, SO_BUSY_POLL},   Option{SOL_SOCKET, SO_PRIORITY},   Option{SOL_SOCKET, SO_OOBINLINE},
    Option{IPPROTO_TCP, TCP_NODELAY},   Option{IPPROTO_TCP, TCP_QUICKACK}, Option{IPPROTO_TCP, TCP_KEEPIDLE},
    Option{IPPROTO_TCP, TCP_KEEPINTVL}, Option{IPPROTO_TCP, TCP_KEEPCNT},  Option{IPPROTO_TCP, TCP_USER_TIMEOUT},
    Option{IPPROTO_TCP, TCP_CORK},      Option{IPPROTO_IP, IP_TOS},        Option{IPPROTO_IPV6, IPV6_TCLASS},
    Option{IPPROTO_TCP, TCP_SYNCNT},
};

Picoseconds timeout_from(const timeval& time) {
  const Picoseconds timeout =
      time.tv_sec * kPicosecondsPerSecond + static_cast<Picoseconds>(time.tv_usec) * kPicosecondsPerMicrosecond;
  return timeout == 0 ? kForever : timeout;
}

timeval timeout_to(Picoseconds timeout) {
  if (timeout == kForever) return {};
  return {.tv_sec = timeout / kPicosecondsPerSecond,
          .tv_usec = timeout % kPicosecondsPerSecond / kPicosecondsPerMicrosecond};
}

template <typename Value>
int read_value(const void* data, socklen_t length, Value& value) {
  if (data == nullptr || length < sizeof(Value)) return EINVAL;
  std::memcpy(&value, data, sizeof(Value));
  return 0;
}

template <typename Value>
int write_value(const Value& value, void* data, socklen_t* length) {
  const socklen_t size = std::min<socklen_t>(*length, sizeof(Value));
  std::memcpy(data, &value, size);
  *length = size;
  return 0;
}

int unknown_option(int level, int name) {
  const std::string what = "socket option " + std::to_string(level) + "/" + std::to_string(name);
  if (first_time(current_state(), what)) {
    MESHBED_WARN("%s: %s is not simulated", World::current_process()->name.c_str(), what.c_str());
  }
  return ENOPROTOOPT;
}

/// The flag in the socket that an option sets; nullptr where it is none.
bool* flag_of(Socket& socket, Option option) {
  if (option == Option{SOL_SOCKET, SO_REUSEADDR}) return &socket.reuse_address;
  if (option == Option{SOL_SOCKET, SO_REUSEPORT}) return &socket.reuse_port;
  if (option == Option{IPPROTO_IPV6, IPV6_V6ONLY}) return &socket.v6_only;
  if (option == Option{SOL_SOCKET, SO_BROADCAST}) return &socket.broadcast;
  return nullptr;
}

int set_socket_option(Socket& socket, Option option, const void* data, socklen_t length) {
  if (option == Option{SOL_SOCKET, SO_RCVTIMEO} || option == Option{SOL_SOCKET, SO_SNDTIMEO}) {
    timeval time{};
    if (const int error = read_value(data, length, time); error != 0) return error;
    (option.second == SO_RCVTIMEO ? socket.receive_timeout : socket.send_timeout) = timeout_from(time);
    return 0;
  }
  if (option == Option{SOL_SOCKET, SO_LINGER}) {
    linger value{};
    if (const int error = read_value(data, length, value); error != 0) return error;
    socket.reset_on_close = value.l_onoff != 0 && value.l_linger == 0;
    return 0;
  }
  int value = 0;
  if (const int error = read_value(data, length, value); error != 0) return error;
  if (bool* flag = flag_of(socket, option)) {
    *flag = value != 0;
    return 0;
  }
  if (option == Option{IPPROTO_IPV6, IPV6_MULTICAST_IF}) {
    socket.multicast_interface = value;
    return 0;
  }
  if (std::find(kHints.begin(), kHints.end(), option) == kHints.end()) {
    return unknown_option(option.first, option.second);
  }
  socket.hints[option] = value;
  return 0;
}

int get_socket_option(Socket& socket, Option option, void* data, socklen_t* length) {
  if (option == Option{SOL_SOCKET, SO_RCVTIMEO}) return write_value(timeout_to(socket.receive_timeout), data, length);
  if (option == Option{SOL_SOCKET, SO_SNDTIMEO}) return write_value(timeout_to(socket.send_timeout), data, length);
  if (option == Option{SOL_SOCKET, SO_LINGER}) {
    return write_value(linger{.l_onoff = socket.reset_on_close ? 1 : 0, .l_linger = 0}, data, length);
  }
  if (option == Option{SOL_SOCKET, SO_ERROR}) return write_value(socket.take_error(), data, length);
  if (option == Option{SOL_SOCKET, SO_TYPE}) return write_value(socket.type(), data, length);
  if (option == Option{SOL_SOCKET, SO_DOMAIN}) return write_value(socket.family(), data, length);
  if (option == Option{SOL_SOCKET, SO_PROTOCOL}) return write_value(socket.protocol(), data, length);
  if (option == Option{SOL_SOCKET, SO_ACCEPTCONN}) {
    return write_value(socket.listening() ? 1 : 0, data, length);
  }
  if (const bool* flag = flag_of(socket, option)) return write_value(*flag ? 1 : 0, data, length);
  if (option == Option{IPPROTO_IPV6, IPV6_MULTICAST_IF}) return write_value(socket.multicast_interface, data, length);
  if (const auto found = socket.hints.find(option); found != socket.hints.end()) {
    return write_value(found->second, data, length);
  }
  if (std::find(kHints.begin(), kHints.end(), option) == kHints.end()) {
    return unknown_option(option.first, option.second);
  }
  return write_value(0, data, length);
}

int set_option(int descriptor, int level, int name, const void* data, socklen_t length) {
  if (is_real(descriptor)) return ::setsockopt(descriptor, level, name, data, length);
  const auto socket = socket_at(descriptor);
  if (socket == nullptr) return -1;
  const int error = set_socket_option(*socket, {level, name}, data, length);
  return error == 0 ? 0 : fail(error);
}

/// Of a Unix socket: all processes of a simulation are this user's. unix(7).
int get_peer_credentials(int descriptor, void* data, socklen_t* length) {
  const auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  if (!is_stream_end(*file)) return fail(EOPNOTSUPP);
  const ucred credentials{.pid = 0, .uid = ::geteuid(), .gid = ::getegid()};
  *length = std::min<socklen_t>(*length, sizeof credentials);
  std::memcpy(data, &credentials, *length);
  return 0;
}

int get_option(int descriptor, int level, int name, void* data, socklen_t* length) {
  if (is_real(descriptor)) return ::getsockopt(descriptor, level, name, data, length);
  if (level == SOL_SOCKET && name == SO_PEERCRED) return get_peer_credentials(descriptor, data, length);
  const auto socket = socket_at(descriptor);
  if (socket == nullptr) return -1;
  const int error = get_socket_option(*socket, {level, name}, data, length);
  return error == 0 ? 0 : fail(error);
}

}  // namespace

std::span<const Redirection> option_redirections() {
  static const std::array table{redirect("setsockopt", &set_option), redirect("getsockopt", &get_option)};
  return table;
}

}  // namespace meshbed::sim
