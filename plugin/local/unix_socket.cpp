#include "plugin/local/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "plugin/local/refusal.h"

namespace meshbed::local {
namespace {

// Whole messages, in order; a socket of this kind shows the other end's close as a message of no bytes.
constexpr int kKind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int kBacklog = 128;
constexpr std::size_t kNameAt = offsetof(sockaddr_un, sun_path) + 1;  // behind the 0 of an abstract address

Error nobody_there() { return {ErrorCode::kRemote, Scope::kQueuePair, "the other end is closed"}; }

struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> bytes{};
};

}  // namespace

Result<UnixSocket> UnixSocket::listen() {
  Descriptor descriptor(socket(AF_UNIX, kKind, 0));
  if (!descriptor.is_open()) return refused_by_kernel("a Unix socket", errno);
  sockaddr_un any{};
  any.sun_family = AF_UNIX;
  // No more than the family: the kernel chooses an abstract address (unix(7), autobind).
  if (bind(descriptor.number(), reinterpret_cast<sockaddr*>(&any), sizeof any.sun_family) != 0 ||
      ::listen(descriptor.number(), kBacklog) != 0) {
    return refused_by_kernel("a Unix socket's address", errno);
  }
  return UnixSocket(std::move(descriptor));
}

Result<std::optional<UnixSocket>> UnixSocket::connect(const std::string& address) {
  Descriptor descriptor(socket(AF_UNIX, kKind, 0));
  if (!descriptor.is_open()) return refused_by_kernel("a Unix socket", errno);
  sockaddr_un peer{};
  peer.sun_family = AF_UNIX;
  if (kNameAt + address.size() > sizeof peer) return refuse(ErrorCode::kRemote, "a handle with a malformed address");
  std::memcpy(peer.sun_path + 1, address.data(), address.size());
  const auto size = static_cast<socklen_t>(kNameAt + address.size());
  if (::connect(descriptor.number(), reinterpret_cast<sockaddr*>(&peer), size) == 0) {
    return std::optional(UnixSocket(std::move(descriptor)));
  }
  if (errno == EAGAIN) return std::optional<UnixSocket>();
  if (errno != ECONNREFUSED) return refused_by_kernel("connecting to a process of this host", errno);
  return refuse(ErrorCode::kUnreachable,
                "no process of this host listens there: the receiver has ended, or is in another network namespace");
}

Result<std::string> UnixSocket::address() const {
  sockaddr_un own{};
  socklen_t size = sizeof own;
  if (getsockname(descriptor_.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0 || size <= kNameAt) {
    return refused_by_kernel("a Unix socket's own address", errno);
  }
  return std::string(own.sun_path + 1, size - kNameAt);
}

std::optional<UnixSocket> UnixSocket::accept() const {
  Descriptor guest(accept4(descriptor_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!guest.is_open()) return std::nullopt;
  return UnixSocket(std::move(guest));
}

Result<void> UnixSocket::send(std::span<const char> text, std::span<const int> descriptors) const {
  Control control;
  iovec part{const_cast<char*>(text.data()), text.size()};  // sendmsg() only reads
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(descriptor_.number(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) return ok();
  if (errno == EPIPE || errno == ECONNRESET) return nobody_there();
  return refused_by_kernel("handing memory to a process of this host", errno);
}

Result<std::optional<Letter>> UnixSocket::receive(std::span<char> text) const {
  Control control;
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const ssize_t size = recvmsg(descriptor_.number(), &message, MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<Letter>();
  if (size <= 0) return nobody_there();
  Letter letter;
  letter.size_bytes = static_cast<std::size_t>(size);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count && i < kDescriptorsMax; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      letter.descriptors[i] = Descriptor(number);
    }
  }
  return std::optional(std::move(letter));
}

int UnixSocket::process() const {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(descriptor_.number(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

bool UnixSocket::is_gone() const {
  char byte = 0;
  const ssize_t size = recv(descriptor_.number(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno == ECONNRESET);
}

}  // namespace meshbed::local
