#include "tests/contract/suite/handshake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/contract/suite/patience.h"

namespace meshbed::contract {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("the ranks do not meet: " + what + ": " + std::strerror(errno));
}

sockaddr_in address_of(const ContractPlace& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(place.handshake_port));
  if (inet_pton(AF_INET, place.handshake_address, &address.sin_addr) != 1) fail(place.handshake_address);
  return address;
}

int stream_socket() {
  const int made = ::socket(AF_INET, SOCK_STREAM, 0);
  if (made < 0) fail("socket");
  return made;
}

int accept_peer(const sockaddr_in& address) {
  const int listener = stream_socket();
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (::listen(listener, 1) != 0) fail("listen");
  pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&waiting, 1, kMeetingPatience_ms);
  const int peer = ready == 1 ? ::accept(listener, nullptr, nullptr) : -1;
  ::close(listener);
  if (ready == 0) throw std::runtime_error("the ranks do not meet: the peer did not come");
  if (peer < 0) fail("accept");
  return peer;
}

/// The peer may not listen yet: asks again.
int connect_to_peer(const sockaddr_in& address) {
  int peer = -1;
  const bool there = wait_for(kMeetingPatience_ms, [&] {
    if (peer >= 0) ::close(peer);
    peer = stream_socket();
    return ::connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  });
  if (!there) fail("connect");
  return peer;
}

}  // namespace

Handshake::Handshake(const ContractPlace& place) {
  const sockaddr_in address = address_of(place);
  socket_ = place.rank == 0 ? accept_peer(address) : connect_to_peer(address);
  const int yes = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Handshake::~Handshake() { ::close(socket_); }

void Handshake::send(const void* data, std::size_t size) const {
  if (::send(socket_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) fail("send");
}

void Handshake::receive(char* data, std::size_t size) const {
  while (size > 0) {
    const ssize_t count = ::recv(socket_, data, size, 0);
    if (count == 0) throw std::runtime_error("the peer's part broke");
    if (count < 0) fail("recv");
    data += count;
    size -= static_cast<std::size_t>(count);
  }
}

}  // namespace meshbed::contract
