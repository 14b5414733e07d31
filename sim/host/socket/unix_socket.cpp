#include "sim/host/socket/unix_socket.h"

#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "sim/host/file/pipe.h"
#include "sim/host/host_state.h"

namespace meshbed::sim {
namespace {

/// 0 or an errno value; `name` without its leading zero.
int read_name(const sockaddr* address, socklen_t length, std::string& name) {
  constexpr std::size_t kStart = offsetof(sockaddr_un, sun_path);
  if (address == nullptr || length <= kStart || length > sizeof(sockaddr_un)) return EINVAL;
  if (address->sa_family != AF_UNIX) return EAFNOSUPPORT;
  const char* path = reinterpret_cast<const sockaddr_un*>(address)->sun_path;
  if (path[0] != '\0') return EROFS;
  name.assign(path + 1, length - kStart - 1);
  return 0;
}

}  // namespace

UnixSocket::UnixSocket(Process& owner) : File(owner) {}

UnixSocket::~UnixSocket() {
  if (name_.empty() || !World::exists()) return;
  host().unix_names.erase({process.node, name_});
}

short UnixSocket::events() const { return backlog_ == 0 ? POLLHUP : pending_.empty() ? 0 : POLLIN; }

std::string UnixSocket::describe() const { return "a Unix socket" + (name_.empty() ? "" : " named " + name_); }

int UnixSocket::bind(const sockaddr* address, socklen_t length) {
  std::string name;
  if (const int error = read_name(address, length, name); error != 0) return error;
  if (!name_.empty()) return EINVAL;
  if (!host().unix_names.emplace(std::pair(process.node, name), this).second) return EADDRINUSE;
  name_ = name;
  return 0;
}

int UnixSocket::listen(int backlog) {
  if (name_.empty()) return EINVAL;
  backlog_ = static_cast<std::size_t>(std::max(backlog, 1));
  return 0;
}

int UnixSocket::connect(const sockaddr* address, socklen_t length, std::shared_ptr<File>& connected) {
  std::string name;
  if (const int error = read_name(address, length, name); error != 0) return error;
  const auto found = host().unix_names.find({process.node, name});
  if (found == host().unix_names.end() || found->second->backlog_ == 0) return ECONNREFUSED;
  UnixSocket& listener = *found->second;
  if (listener.pending_.size() >= listener.backlog_) return EAGAIN;
  auto [ours, theirs] = make_stream_pair(process, listener.process);
  ours->nonblocking = nonblocking;
  connected = std::move(ours);
  listener.pending_.push_back(std::move(theirs));
  listener.notify();
  return 0;
}

Attempted UnixSocket::try_accept(std::shared_ptr<File>& accepted) {
  if (backlog_ == 0) return -EINVAL;
  if (pending_.empty()) return -EAGAIN;
  accepted = std::move(pending_.front());
  pending_.pop_front();
  return 0;
}

}  // namespace meshbed::sim
