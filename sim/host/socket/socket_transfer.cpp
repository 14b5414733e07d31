// Sockets of ranks: moving bytes. A stream has no message boundaries: for it all of these are reads and writes.
// Datagrams go by sendto(), sendmsg() and recvfrom().
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "plugin/base/log.h"
#include "sim/host/file/pipe.h"
#include "sim/host/load/calls.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/transfer.h"
#include "sim/host/socket/udp_socket.h"
#include "sim/host/socket/unix_datagram.h"

namespace meshbed::sim {
namespace {

struct Timeouts {
  Picoseconds receive = kForever;
  Picoseconds send = kForever;
};

Timeouts timeouts_of(const File& file) {
  const auto* socket = dynamic_cast<const Socket*>(&file);
  return socket != nullptr ? Timeouts{socket->receive_timeout, socket->send_timeout} : Timeouts{};
}

ssize_t refuse_datagrams(const char* what) {
  if (first_time(current_state(), what))
    MESHBED_WARN("%s: %s of a UDP socket is not simulated", World::current_process()->name.c_str(), what);
  return fail(EOPNOTSUPP);
}

/// What a datagram has beside its bytes may be where it comes from: IPV6_PKTINFO (ipv6(7), RFC 3542). False: it is
/// something else.
bool read_packet_info(const msghdr& message, PacketInfo& info) {
  auto* whole = const_cast<msghdr*>(&message);
  for (cmsghdr* part = CMSG_FIRSTHDR(whole); part != nullptr; part = CMSG_NXTHDR(whole, part)) {
    in6_pktinfo given{};
    const bool is_known = part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO;
    if (!is_known || part->cmsg_len < CMSG_LEN(sizeof given)) return false;
    std::memcpy(&given, CMSG_DATA(part), sizeof given);
    info.interface = static_cast<int>(given.ipi6_ifindex);
    models::IpAddress source = any_address(AF_INET6);
    std::copy_n(given.ipi6_addr.s6_addr, source.bytes.size(), source.bytes.begin());
    if (!is_any(source)) info.source = source;
  }
  return true;
}

std::string bytes_of(const msghdr& message) {
  std::string bytes;
  for (std::size_t index = 0; index < message.msg_iovlen; ++index) {
    bytes.append(static_cast<const char*>(message.msg_iov[index].iov_base), message.msg_iov[index].iov_len);
  }
  return bytes;
}

ssize_t send_datagram(UdpSocket& socket, const msghdr& message) {
  const auto* name = static_cast<const sockaddr*>(message.msg_name);
  if (name == nullptr) return fail(EDESTADDRREQ);
  const auto endpoint = read_sockaddr(socket.family(), name, message.msg_namelen);
  if (!endpoint) return fail(EINVAL);
  PacketInfo info;
  if (message.msg_controllen != 0 && !(socket.family() == AF_INET6 && read_packet_info(message, info)))
    return refuse_datagrams("sendmsg() with anything but IPV6_PKTINFO beside the bytes");
  const std::string bytes = bytes_of(message);
  return answer(socket.send_to(bytes.data(), bytes.size(), *endpoint, info));
}

ssize_t send_bytes(int descriptor, const void* data, std::size_t size, int flags) {
  if (is_real(descriptor)) return ::send(descriptor, data, size, flags);
  const auto file = file_at(descriptor);
  return file != nullptr ? write_some(*file, {static_cast<const char*>(data), size}, flags, "send") : fail(EBADF);
}

/// A descriptor of the real operating system (a file, shared memory) on its way to another process.
class RealFile final : public File {
 public:
  RealFile(Process& owner, int descriptor) : File(owner), descriptor_(descriptor) {}
  ~RealFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  /// nullptr where it is not open.
  static std::shared_ptr<File> duplicate_of(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return copy >= 0 ? std::make_shared<RealFile>(*World::current_process(), copy) : nullptr;
  }
  int release() { return std::exchange(descriptor_, -1); }
  short events() const override { return 0; }
  std::string describe() const override { return "a file"; }
  bool can_be_passed() const override { return true; }

 private:
  int descriptor_;
};

/// What a message hands on beside its bytes; 0 or an errno value. Descriptors over a Unix socket, and only of what can
/// be another process's as well.
int read_rights(const msghdr& message, PassedFiles& files) {
  auto* whole = const_cast<msghdr*>(&message);
  for (cmsghdr* part = CMSG_FIRSTHDR(whole); part != nullptr; part = CMSG_NXTHDR(whole, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return EOPNOTSUPP;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + index * sizeof(descriptor), sizeof(descriptor));
      const auto file = is_simulated(descriptor) ? file_at(descriptor) : RealFile::duplicate_of(descriptor);
      if (file == nullptr) return EBADF;
      if (!file->can_be_passed()) return EOPNOTSUPP;
      files.push_back(file);
    }
  }
  return 0;
}

/// New descriptors of the calling process for what came, as many as there is room for.
void write_rights(msghdr& message, std::size_t room, PassedFiles files, int flags) {
  const std::size_t fitting = room > CMSG_LEN(0) ? (room - CMSG_LEN(0)) / sizeof(int) : 0;
  if (files.size() > fitting) {
    message.msg_flags |= MSG_CTRUNC;
    files.resize(fitting);
  }
  if (files.empty()) return;
  const std::size_t bytes = files.size() * sizeof(int);
  auto* part = static_cast<cmsghdr*>(message.msg_control);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(bytes);
  unsigned char* next = CMSG_DATA(part);
  for (auto& file : files) {
    const auto real = std::dynamic_pointer_cast<RealFile>(file);
    const int descriptor = real != nullptr
                               ? real->release()
                               : current_state().descriptors.add(std::move(file), (flags & MSG_CMSG_CLOEXEC) != 0);
    std::memcpy(next, &descriptor, sizeof(descriptor));
    next += sizeof(descriptor);
  }
  message.msg_controllen = std::min(room, CMSG_SPACE(bytes));
}

ssize_t send_locally(UnixDatagram& socket, const msghdr& message, int flags) {
  UnixDatagram::Message made{.bytes = bytes_of(message), .from = socket.name()};
  if (message.msg_controllen != 0) {
    if (const int error = read_rights(message, made.files); error != 0) return fail(error);
  }
  int error = 0;
  const auto to = socket.target(static_cast<const sockaddr*>(message.msg_name), message.msg_namelen, error);
  if (to == nullptr) return fail(error);
  return complete(*to, may_block(socket, flags), kForever, "sendmsg", [&] { return to->try_take(made); });
}

ssize_t send_to(int descriptor, const void* data, std::size_t size, int flags, const sockaddr* address,
                socklen_t length) {
  if (is_real(descriptor)) return ::sendto(descriptor, data, size, flags, address, length);
  if (const auto local = unix_datagram_at(descriptor)) {
    iovec part{const_cast<void*>(data), size};
    msghdr message{};
    message.msg_name = const_cast<sockaddr*>(address);
    message.msg_namelen = length;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return send_locally(*local, message, flags);
  }
  const auto datagrams = std::dynamic_pointer_cast<UdpSocket>(file_at(descriptor));
  if (datagrams == nullptr) return send_bytes(descriptor, data, size, flags);  // a connected stream ignores the address
  const auto endpoint = read_sockaddr(datagrams->family(), address, length);
  return endpoint ? answer(datagrams->send_to(data, size, *endpoint)) : fail(EINVAL);
}

/// Puts a datagram's bytes where the message wants them; what does not fit is lost, recvmsg(2).
std::size_t scatter(const std::string& bytes, msghdr& message) {
  std::size_t done = 0;
  for (std::size_t index = 0; index < message.msg_iovlen; ++index) {
    const iovec& part = message.msg_iov[index];
    const std::size_t count = std::min(part.iov_len, bytes.size() - done);
    if (count > 0) std::memcpy(part.iov_base, bytes.data() + done, count);
    done += count;
  }
  if (done < bytes.size()) message.msg_flags |= MSG_TRUNC;
  return done;
}

ssize_t receive_locally(UnixDatagram& socket, msghdr& message, int flags) {
  UnixDatagram::Message taken;
  const auto attempt = [&] { return socket.try_receive(taken, (flags & MSG_PEEK) != 0); };
  const ssize_t count = complete(socket, may_block(socket, flags), kForever, "recvmsg", attempt);
  if (count < 0) return count;
  const std::size_t room = message.msg_control != nullptr ? message.msg_controllen : 0;
  message.msg_controllen = 0;
  message.msg_flags = 0;
  if (message.msg_name != nullptr) {
    write_unix_name(taken.from, static_cast<sockaddr*>(message.msg_name), &message.msg_namelen);
  }
  const std::size_t given = scatter(taken.bytes, message);
  write_rights(message, room, std::move(taken.files), flags);
  return (flags & MSG_TRUNC) != 0 ? count : static_cast<ssize_t>(given);
}

ssize_t send_message(int descriptor, const msghdr* message, int flags) {
  if (is_real(descriptor)) return ::sendmsg(descriptor, message, flags);
  const auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  if (const auto datagrams = std::dynamic_pointer_cast<UdpSocket>(file)) return send_datagram(*datagrams, *message);
  if (const auto local = std::dynamic_pointer_cast<UnixDatagram>(file)) return send_locally(*local, *message, flags);
  PassedFiles files;
  if (message->msg_controllen != 0) {
    if (!is_stream_end(*file)) return fail(EOPNOTSUPP);
    if (const int error = read_rights(*message, files); error != 0) return fail(error);
  }
  const bool passes = !files.empty();
  if (passes) attach_files(*file, std::move(files));
  const ssize_t count = write_vector(*file, message->msg_iov, message->msg_iovlen, flags, "sendmsg");
  if (passes && count <= 0) detach_files(*file);
  return count;
}

ssize_t receive_bytes(int descriptor, void* data, std::size_t size, int flags) {
  if (is_real(descriptor)) return ::recv(descriptor, data, size, flags);
  const auto file = file_at(descriptor);
  return file != nullptr ? read_some(*file, static_cast<char*>(data), size, flags, "recv") : fail(EBADF);
}

ssize_t receive_from(int descriptor, void* data, std::size_t size, int flags, sockaddr* address, socklen_t* length) {
  if (is_real(descriptor)) return ::recvfrom(descriptor, data, size, flags, address, length);
  if (const auto local = unix_datagram_at(descriptor)) {
    iovec part{data, size};
    msghdr message{};
    message.msg_name = address;
    message.msg_namelen = length != nullptr ? *length : 0;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t count = receive_locally(*local, message, flags);
    if (count >= 0 && length != nullptr) *length = message.msg_namelen;
    return count;
  }
  const auto datagrams = std::dynamic_pointer_cast<UdpSocket>(file_at(descriptor));
  if (datagrams == nullptr) {
    if (length != nullptr) *length = 0;  // a stream has no sender addresses
    return receive_bytes(descriptor, data, size, flags);
  }
  Endpoint source;
  const auto attempt = [&] { return datagrams->try_receive(data, size, (flags & MSG_PEEK) != 0, source); };
  const ssize_t count =
      complete(*datagrams, may_block(*datagrams, flags), datagrams->receive_timeout, "recvfrom", attempt);
  if (count >= 0) write_sockaddr(datagrams->family(), source, address, length);
  return count;
}

ssize_t receive_message(int descriptor, msghdr* message, int flags) {
  if (is_real(descriptor)) return ::recvmsg(descriptor, message, flags);
  const auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  if (std::dynamic_pointer_cast<UdpSocket>(file) != nullptr) return refuse_datagrams("recvmsg()");
  if (const auto local = std::dynamic_pointer_cast<UnixDatagram>(file)) return receive_locally(*local, *message, flags);
  const std::size_t room = message->msg_control != nullptr ? message->msg_controllen : 0;
  message->msg_namelen = 0;
  message->msg_controllen = 0;
  message->msg_flags = 0;
  const bool is_stream = is_stream_end(*file);
  if (is_stream) take_files(*file);  // that came with bytes of other reads, which drop them
  const ssize_t count = read_vector(*file, message->msg_iov, message->msg_iovlen, flags & ~MSG_CMSG_CLOEXEC, "recvmsg");
  if (is_stream && count > 0) write_rights(*message, room, take_files(*file), flags);
  return count;
}

ssize_t receive_bytes_checked(int descriptor, void* data, std::size_t size, std::size_t, int flags) {
  return receive_bytes(descriptor, data, size, flags);
}

ssize_t receive_from_checked(int descriptor, void* data, std::size_t size, std::size_t, int flags, sockaddr* address,
                             socklen_t* length) {
  return receive_from(descriptor, data, size, flags, address, length);
}

}  // namespace

ssize_t read_some(File& file, char* data, std::size_t size, int flags, const char* what) {
  const bool blocks = may_block(file, flags);
  const bool peek = (flags & MSG_PEEK) != 0;
  const Picoseconds timeout = timeouts_of(file).receive;
  std::size_t done = 0;
  const auto attempt = [&]() -> Attempted { return file.try_read(data + done, size - done, peek); };
  do {
    const ssize_t count = complete(file, blocks, timeout, what, attempt);
    if (count < 0 && done == 0) return -1;
    if (count <= 0) break;  // bytes before the end or the error are returned first
    done += static_cast<std::size_t>(count);
  } while ((flags & MSG_WAITALL) != 0 && !peek && blocks && done < size);
  return static_cast<ssize_t>(done);
}

ssize_t write_some(File& file, std::span<const char> data, int flags, const char* what) {
  const bool blocks = may_block(file, flags);
  const Picoseconds timeout = timeouts_of(file).send;
  std::size_t done = 0;
  const auto attempt = [&]() -> Attempted { return file.try_write(data.data() + done, data.size() - done); };
  do {  // a blocking write takes everything
    const ssize_t count = complete(file, blocks, timeout, what, attempt);
    if (count < 0 && done == 0) return -1;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  } while (blocks && done < data.size());
  return static_cast<ssize_t>(done);
}

ssize_t read_vector(File& file, const iovec* vectors, std::size_t count, int flags, const char* what) {
  if (count > IOV_MAX) return fail(EMSGSIZE);
  ssize_t total = 0;
  for (std::size_t index = 0; index < count; ++index) {
    const iovec& vector = vectors[index];
    if (vector.iov_len == 0) continue;
    // Only the first part may wait, unless all of it was asked for.
    const int part_flags = total > 0 && (flags & MSG_WAITALL) == 0 ? flags | MSG_DONTWAIT : flags;
    if (total > 0 && (part_flags & MSG_DONTWAIT) != 0 && (file.events() & POLLIN) == 0) break;
    const ssize_t got = read_some(file, static_cast<char*>(vector.iov_base), vector.iov_len, part_flags, what);
    if (got < 0) return total > 0 ? total : got;
    total += got;
    if (static_cast<std::size_t>(got) < vector.iov_len) break;
  }
  return total;
}

ssize_t write_vector(File& file, const iovec* vectors, std::size_t count, int flags, const char* what) {
  if (count > IOV_MAX) return fail(EMSGSIZE);
  ssize_t total = 0;
  for (std::size_t index = 0; index < count; ++index) {
    const iovec& vector = vectors[index];
    if (vector.iov_len == 0) continue;
    const ssize_t put = write_some(file, {static_cast<const char*>(vector.iov_base), vector.iov_len}, flags, what);
    if (put < 0) return total > 0 ? total : put;
    total += put;
    if (static_cast<std::size_t>(put) < vector.iov_len) break;
  }
  return total;
}

std::span<const Redirection> transfer_redirections() {
  static const std::array table{
      redirect("send", &send_bytes),
      redirect("sendto", &send_to),
      redirect("sendmsg", &send_message),
      redirect("recv", &receive_bytes),
      redirect("recvfrom", &receive_from),
      redirect("recvmsg", &receive_message),
      redirect("__recv_chk", &receive_bytes_checked),
      redirect("__recvfrom_chk", &receive_from_checked),
  };
  return table;
}

}  // namespace meshbed::sim
