#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/host/probe/parts.h"

namespace probe {

Name name_of(const char* address, int port) {
  Name name;
  if (std::strchr(address, ':') == nullptr) {
    auto* in = reinterpret_cast<sockaddr_in*>(&name.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, address, &in->sin_addr);
    name.length = sizeof(*in);
  } else {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&name.storage);
    in6->sin6_family = name.family = AF_INET6;
    in6->sin6_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET6, address, &in6->sin6_addr);
    name.length = sizeof(*in6);
  }
  return name;
}

void write_name(const sockaddr_storage& storage, char* text, std::size_t size) {
  char address[INET6_ADDRSTRLEN]{};
  const auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  const bool v4 = storage.ss_family == AF_INET;
  inet_ntop(storage.ss_family, v4 ? static_cast<const void*>(&in->sin_addr) : &in6->sin6_addr, address,
            sizeof(address));
  std::snprintf(text, size, "%s:%d", address, ntohs(in->sin_port));
}

namespace {

int listen_on(const char* address, int port, int backlog) {
  const Name name = name_of(address, port);
  const int descriptor = ::socket(name.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -errno;
  if (::bind(descriptor, raw(name), name.length) != 0 || ::listen(descriptor, backlog) != 0) return -errno;
  return descriptor;
}

int port_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return -errno;
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);  // at the same place in sockaddr_in6
}

int accept_one(int descriptor) {
  const int accepted = ::accept(descriptor, nullptr, nullptr);
  return accepted >= 0 ? accepted : -errno;
}

ProbeOutcome connect_socket(int descriptor, const char* address, int port) {
  const Name name = name_of(address, port);
  const std::int64_t begin = now_ns();
  const int error = ::connect(descriptor, raw(name), name.length) == 0 ? 0 : errno;
  return {error, now_ns() - begin};
}

ProbeOutcome connect_to(const char* address, int port, int* descriptor) {
  *descriptor = ::socket(name_of(address, 0).family, SOCK_STREAM, 0);
  return connect_socket(*descriptor, address, port);
}

ProbeOutcome connect_from(const char* source, const char* address, int port, int* descriptor) {
  const Name name = name_of(source, 0);
  *descriptor = ::socket(name.family, SOCK_STREAM, 0);
  if (::bind(*descriptor, raw(name), name.length) != 0) return {errno, 0};
  return connect_socket(*descriptor, address, port);
}

ProbeOutcome connect_and_poll(const char* address, int port, int* descriptor) {
  *descriptor = ::socket(name_of(address, 0).family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const ProbeOutcome started = connect_socket(*descriptor, address, port);
  if (started.error != EINPROGRESS || started.elapsed_ns != 0) return {started.error, started.elapsed_ns};
  const std::int64_t begin = now_ns();
  pollfd entry{*descriptor, POLLOUT, 0};
  if (::poll(&entry, 1, -1) != 1) return {errno, now_ns() - begin};
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(*descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return {error, now_ns() - begin};
}

std::int64_t send_all(int descriptor, const char* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::send(descriptor, data + done, size - done, MSG_NOSIGNAL);
    if (count < 0) return -errno;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t receive(int descriptor, char* data, std::size_t size, int flags) {
  const ssize_t count = ::recv(descriptor, data, size, flags);
  return count >= 0 ? count : -errno;
}

std::int64_t fill_until_full(int descriptor) {
  const std::vector<char> chunk(1U << 20U);
  std::int64_t total = 0;
  for (;;) {
    const ssize_t count = ::send(descriptor, chunk.data(), chunk.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN ? total : -errno;
    total += count;
  }
}

ProbeOutcome poll_for(int descriptor, int events, int timeout_ms, int* revents) {
  pollfd entry{descriptor, static_cast<short>(events), 0};
  const std::int64_t begin = now_ns();
  const int count = ::poll(&entry, 1, timeout_ms);
  *revents = entry.revents;
  return {count < 0 ? errno : 0, now_ns() - begin};
}

int shut_write(int descriptor) { return ::shutdown(descriptor, SHUT_WR) == 0 ? 0 : -errno; }
int close_descriptor(int descriptor) { return ::close(descriptor) == 0 ? 0 : -errno; }

int peer_text(int descriptor, char* text, std::size_t size) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return -errno;
  write_name(storage, text, size);
  return 0;
}

int pipes() {
  int wrong = 0;
  const auto expect = [&](bool condition) { wrong += condition ? 0 : 1; };
  char text[8]{};
  int ends[2]{};
  expect(::pipe2(ends, O_NONBLOCK) == 0);
  expect(::read(ends[0], text, 8) == -1 && errno == EAGAIN);
  iovec parts[2] = {{const_cast<char*>("ab"), 2}, {const_cast<char*>("cd"), 2}};
  expect(::writev(ends[1], parts, 2) == 4);
  expect(::read(ends[0], text, 3) == 3 && std::memcmp(text, "abc", 3) == 0);
  expect(::close(ends[1]) == 0);
  expect(::read(ends[0], text, 8) == 1 && text[0] == 'd');
  expect(::read(ends[0], text, 8) == 0);
  expect(::close(ends[0]) == 0);
  expect(::close(ends[0]) == -1 && errno == EBADF);

  const int counter = ::eventfd(2, EFD_NONBLOCK);
  std::uint64_t value = 3;
  expect(::write(counter, &value, sizeof(value)) == sizeof(value));
  expect(::read(counter, &value, sizeof(value)) == sizeof(value) && value == 5);
  expect(::read(counter, &value, sizeof(value)) == -1 && errno == EAGAIN);

  int pair[2]{};
  expect(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  expect(::send(pair[0], "hi", 2, 0) == 2);
  expect(::recv(pair[1], text, 8, MSG_PEEK) == 2);
  expect(::recv(pair[1], text, 8, 0) == 2);
  expect(::socketpair(AF_INET, SOCK_STREAM, 0, pair) == -1 && errno == EOPNOTSUPP);
  expect(::socket(AF_UNIX, SOCK_SEQPACKET, 0) == -1 && errno == EAFNOSUPPORT);
  expect((::fcntl(counter, F_GETFL) & O_NONBLOCK) != 0);
  expect(::fcntl(counter, F_SETFL, 0) == 0 && (::fcntl(counter, F_GETFL) & O_NONBLOCK) == 0);

  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, "\0door", 5);
  const auto* door = reinterpret_cast<const sockaddr*>(&name);
  const socklen_t name_length = offsetof(sockaddr_un, sun_path) + 5;
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), client = ::socket(AF_UNIX, SOCK_STREAM, 0);
  expect(::connect(client, door, name_length) == -1 && errno == ECONNREFUSED);
  expect(::bind(listener, door, name_length) == 0);
  expect(::bind(client, door, name_length) == -1 && errno == EADDRINUSE);
  expect(::connect(client, door, name_length) == -1 && errno == ECONNREFUSED);
  expect(::listen(listener, 1) == 0);
  expect(::accept4(listener, nullptr, nullptr, 0) == -1 && errno == EAGAIN);
  expect(::connect(client, door, name_length) == 0);
  const int late = ::socket(AF_UNIX, SOCK_STREAM, 0);
  expect(::connect(late, door, name_length) == -1 && errno == EAGAIN);  // the queue is full
  expect(::send(client, "hi", 2, 0) == 2);
  const int served = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
  expect(::recv(served, text, 8, 0) == 2 && ::recv(served, text, 8, 0) == -1 && errno == EAGAIN);
  ucred peer{};
  socklen_t peer_length = sizeof(peer);
  expect(::getsockopt(served, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length) == 0 && peer.uid == ::geteuid());
  expect(::close(client) == 0 && ::recv(served, text, 8, 0) == 0);
  expect(::close(listener) == 0 && ::connect(late, door, name_length) == -1 && errno == ECONNREFUSED);
  name.sun_path[0] = '/';
  expect(::bind(late, door, name_length) == -1 && errno == EROFS);
  expect(::mkdir("/tmp/meshbed-of-a-rank", 0700) == -1 && errno == EROFS);
  expect(::unlink("/tmp/meshbed-of-a-rank") == -1 && errno == EROFS);

  const int tcp = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  expect(::setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
  int got = 0;
  socklen_t length = sizeof(got);
  expect(::getsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &got, &length) == 0 && got == 1);
  expect(::setsockopt(tcp, IPPROTO_TCP, 9999, &on, sizeof(on)) == -1 && errno == ENOPROTOOPT);
  return wrong;
}

}  // namespace

void add_sockets(ProbeTable& table) {
  table.listen_on = &listen_on;
  table.port_of = &port_of;
  table.accept_one = &accept_one;
  table.connect_to = &connect_to;
  table.connect_and_poll = &connect_and_poll;
  table.connect_from = &connect_from;
  table.send_all = &send_all;
  table.receive = &receive;
  table.fill_until_full = &fill_until_full;
  table.poll_for = &poll_for;
  table.shut_write = &shut_write;
  table.close_descriptor = &close_descriptor;
  table.peer_text = &peer_text;
  table.pipes = &pipes;
}

}  // namespace probe
