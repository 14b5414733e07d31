#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/host/probe/parts.h"

namespace probe {
namespace {

int open_datagrams(const char* address, int port) {
  const Name name = name_of(address, port);
  const int descriptor = ::socket(name.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -errno;
  const int on = 1;
  if (::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) return -errno;
  if (::setsockopt(descriptor, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) != 0) return -errno;
  return ::bind(descriptor, raw(name), name.length) == 0 ? descriptor : -errno;
}

std::int64_t send_datagram(int descriptor, const char* text, const char* address, int port) {
  const Name name = name_of(address, port);
  const ssize_t count = ::sendto(descriptor, text, std::strlen(text), 0, raw(name), name.length);
  return count >= 0 ? count : -errno;
}

std::int64_t receive_datagram(int descriptor, char* text, std::size_t size, char* source, std::size_t source_size) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  const ssize_t count = ::recvfrom(descriptor, text, size - 1, 0, reinterpret_cast<sockaddr*>(&storage), &length);
  if (count < 0) return -errno;
  text[count] = 0;
  write_name(storage, source, source_size);
  return count;
}

int multicast_through(int descriptor, const char* interface) {
  const int index = static_cast<int>(::if_nametoindex(interface));
  return ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof(index)) == 0 ? 0 : -errno;
}

std::int64_t send_datagram_from(int descriptor, const char* text, const char* address, int port, const char* interface,
                                const char* source) {
  const Name name = name_of(address, port), from = name_of(source, 0);
  in6_pktinfo info{};
  info.ipi6_ifindex = ::if_nametoindex(interface);
  info.ipi6_addr = reinterpret_cast<const sockaddr_in6*>(raw(from))->sin6_addr;
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(info))]{};
  const std::size_t half = std::strlen(text) / 2;
  iovec parts[] = {{const_cast<char*>(text), half}, {const_cast<char*>(text) + half, std::strlen(text) - half}};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(raw(name));
  message.msg_namelen = name.length;
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = IPPROTO_IPV6;
  part->cmsg_type = IPV6_PKTINFO;
  part->cmsg_len = CMSG_LEN(sizeof(info));
  std::memcpy(CMSG_DATA(part), &info, sizeof(info));
  const ssize_t count = ::sendmsg(descriptor, &message, 0);
  return count >= 0 ? count : -errno;
}

int datagram_errors() {
  int wrong = 0;
  const auto expect = [&](bool condition) { wrong += condition ? 0 : 1; };
  const int shy = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  expect(shy >= 0);
  expect(send_datagram(shy, "x", "192.168.100.255", 4000) == -EACCES);  // without SO_BROADCAST: ip(7)
  expect(send_datagram(shy, "x", "10.9.9.9", 4000) == -ENETUNREACH);
  char text[8]{};
  expect(::recv(shy, text, sizeof(text), 0) == -1 && errno == EAGAIN);
  expect(::send(shy, "x", 1, 0) == -1 && errno == EDESTADDRREQ);
  expect(::listen(shy, 1) == -1 && errno == EOPNOTSUPP);
  const std::vector<char> large(65'508);
  const Name name = name_of("192.168.100.2", 4000);
  expect(::sendto(shy, large.data(), large.size(), 0, raw(name), name.length) == -1 && errno == EMSGSIZE);
  int type = 0;
  socklen_t length = sizeof(type);
  expect(::getsockopt(shy, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM);
  const int alone = ::socket(AF_INET, SOCK_DGRAM, 0);
  const Name taken = name_of("0.0.0.0", 4001);
  expect(::bind(shy, raw(taken), taken.length) == -1 && errno == EINVAL);  // bound by its first sendto()
  expect(::bind(alone, raw(taken), taken.length) == 0);
  const int second = ::socket(AF_INET, SOCK_DGRAM, 0);
  expect(::bind(second, raw(taken), taken.length) == -1 && errno == EADDRINUSE);
  // TCP's ports are others than UDP's.
  const int stream = ::socket(AF_INET, SOCK_STREAM, 0);
  expect(::bind(stream, raw(taken), taken.length) == 0);
  expect(::sendto(shy, text, 1, 0, nullptr, 0) == -1);
  msghdr nobodys{};
  expect(::sendmsg(shy, &nobodys, 0) == -1 && errno == EDESTADDRREQ);
  for (const int descriptor : {shy, alone, second, stream}) expect(::close(descriptor) == 0);
  return wrong;
}

}  // namespace

void add_datagrams(ProbeTable& table) {
  table.open_datagrams = &open_datagrams;
  table.send_datagram = &send_datagram;
  table.receive_datagram = &receive_datagram;
  table.send_datagram_from = &send_datagram_from;
  table.multicast_through = &multicast_through;
  table.datagram_errors = &datagram_errors;
}

}  // namespace probe
