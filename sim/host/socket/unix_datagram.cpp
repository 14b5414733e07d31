#include "sim/host/socket/unix_datagram.h"

#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/host/host_state.h"
#include "sim/host/load/calls.h"

namespace meshbed::sim {
namespace {

constexpr std::size_t kMessagesMax = 10;           // net.unix.max_dgram_qlen
constexpr std::size_t kMessageBytesMax = 212'992;  // net.core.wmem_default
constexpr std::size_t kPathOffset = offsetof(sockaddr_un, sun_path);

/// 0 or an errno value.
int parse_unix_name(const sockaddr* address, socklen_t length, UnixName& name) {
  if (address == nullptr || length <= kPathOffset || length > sizeof(sockaddr_un)) return EINVAL;
  if (address->sa_family != AF_UNIX) return EAFNOSUPPORT;
  const char* path = reinterpret_cast<const sockaddr_un*>(address)->sun_path;
  const std::size_t room = length - kPathOffset;
  name.assign(path, *path == '\0' ? room : ::strnlen(path, room));
  return 0;
}

}  // namespace

UnixDatagram::UnixDatagram(Process& owner) : File(owner) {}

UnixDatagram::~UnixDatagram() {
  // As a file does, a path stays until unlink().
  if (name_.empty() || name_[0] != '\0' || !World::exists()) return;
  host().unix_datagrams.erase({process.node, name_});
}

short UnixDatagram::events() const { return static_cast<short>(POLLOUT | (queue_.empty() ? 0 : POLLIN)); }

std::string UnixDatagram::describe() const {
  return "a Unix datagram socket" + (name_.empty() ? "" : " named " + (name_[0] == '\0' ? name_.substr(1) : name_));
}

int UnixDatagram::bind(const sockaddr* address, socklen_t length) {
  UnixName name;
  if (const int error = parse_unix_name(address, length, name); error != 0) return error;
  if (!name_.empty()) return EINVAL;
  if (!host().unix_datagrams.emplace(std::pair(process.node, name), weak_from_this()).second) return EADDRINUSE;
  name_ = name;
  return 0;
}

int UnixDatagram::connect(const sockaddr* address, socklen_t length) {
  int error = 0;
  UnixName name;
  if (error = parse_unix_name(address, length, name); error != 0) return error;
  if (target(address, length, error) == nullptr) return error;
  peer_ = std::move(name);
  return 0;
}

std::shared_ptr<UnixDatagram> UnixDatagram::target(const sockaddr* address, socklen_t length, int& error) const {
  UnixName name = peer_;
  if (address != nullptr) {
    error = parse_unix_name(address, length, name);
    if (error != 0) return nullptr;
  }
  error = name.empty() ? ENOTCONN : ECONNREFUSED;
  const auto found = host().unix_datagrams.find({process.node, name});
  return found != host().unix_datagrams.end() ? found->second.lock() : nullptr;
}

Attempted UnixDatagram::try_take(Message& message) {
  if (message.bytes.size() > kMessageBytesMax) return -EMSGSIZE;
  if (queue_.size() >= kMessagesMax) return -EAGAIN;
  const auto bytes = static_cast<Attempted>(message.bytes.size());
  queue_.push_back(std::move(message));
  notify();
  return bytes;
}

Attempted UnixDatagram::try_receive(Message& message, bool peek) {
  if (queue_.empty()) return -EAGAIN;
  if (peek) {
    message = queue_.front();
  } else {
    message = std::move(queue_.front());
    queue_.pop_front();
    notify();  // senders wait for room here
  }
  return static_cast<Attempted>(message.bytes.size());
}

Attempted UnixDatagram::try_read(void* data, std::size_t size, bool peek) {
  Message message;
  const Attempted result = try_receive(message, peek);
  if (result < 0) return result;
  const std::size_t count = std::min(size, message.bytes.size());
  std::memcpy(data, message.bytes.data(), count);
  return static_cast<Attempted>(count);
}

Attempted UnixDatagram::try_write(const void* data, std::size_t size) {
  int error = 0;
  const auto to = target(nullptr, 0, error);
  if (to == nullptr) return -error;
  Message message{.bytes = std::string(static_cast<const char*>(data), size), .from = name_};
  return to->try_take(message);
}

std::shared_ptr<UnixDatagram> unix_datagram_at(int descriptor) {
  return std::dynamic_pointer_cast<UnixDatagram>(file_at(descriptor));
}

void write_unix_name(const UnixName& name, sockaddr* address, socklen_t* length) {
  if (address == nullptr || length == nullptr) return;
  sockaddr_un full{};
  full.sun_family = AF_UNIX;
  std::memcpy(full.sun_path, name.data(), std::min(name.size(), sizeof(full.sun_path)));
  // A path is given with its zero byte.
  const bool is_path = !name.empty() && name[0] != '\0';
  const auto bytes = static_cast<socklen_t>(std::min(kPathOffset + name.size() + (is_path ? 1 : 0), sizeof full));
  std::memcpy(address, &full, std::min(*length, bytes));
  *length = bytes;
}

bool remove_unix_name(const std::string& path) {
  return !path.empty() && host().unix_datagrams.erase({World::current_process()->node, path}) == 1;
}

}  // namespace meshbed::sim
