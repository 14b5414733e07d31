#include "plugin/net/state/state_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/net/process/state.h"

namespace meshbed::net {
namespace {

constexpr int kStateBacklog = 128;  // so that a burst of clients does not get EAGAIN
constexpr int kMostNames = 9;
constexpr std::size_t kPathBytesMost = sizeof(sockaddr_un{}.sun_path) - 1;
constexpr mode_t kForOthers = S_IRWXG | S_IRWXO;

Error door_error(const std::string& path, const std::string& what, int os_errno) {
  std::string text = path + ": " + what;
  if (os_errno != 0) text += std::string(": ") + std::strerror(os_errno);
  return {.code = ErrorCode::kSystem, .scope = Scope::kJob, .text = std::move(text), .os_errno = os_errno};
}

bool is_abstract(const std::string& path) { return !path.empty() && path.front() == '@'; }

/// The length of `address`; 0: the path is too long for one.
socklen_t to_sockaddr(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kPathBytesMost) return 0;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (is_abstract(path)) address.sun_path[0] = '\0';
  // An abstract name ends by its length; a path includes its final zero.
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract(path) ? 0 : 1));
}

std::string first_name(const std::string& folder, std::int64_t pid) { return folder + "state." + std::to_string(pid); }

Result<Socket> unix_socket() {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return door_error("Unix socket", "cannot be made", errno);
  return socket;
}

/// Makes the folder if it is missing. It must be ours, and no other user may write into it.
Result<void> prepare_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return door_error(folder, "cannot be made", errno);
  struct stat status {};
  if (::lstat(folder.substr(0, folder.size() - 1).c_str(), &status) != 0) return door_error(folder, "", errno);
  if (!S_ISDIR(status.st_mode)) return door_error(folder, "is no folder", 0);
  if (status.st_uid != ::geteuid()) return door_error(folder, "belongs to another user", 0);
  if ((status.st_mode & kForOthers) != 0) return door_error(folder, "is open to others: chmod 700 it", 0);
  return ok();
}

/// Whether a process listens there; a full queue also shows it.
bool is_alive(const sockaddr_un& address, socklen_t length) {
  auto socket = unix_socket();
  if (!socket) return true;
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(socket->descriptor(), generic, length) == 0 || errno != ECONNREFUSED;
}

/// 0, or errno.
int try_to_bind(const Socket& socket, const std::string& path) {
  sockaddr_un address;
  const socklen_t length = to_sockaddr(path, address);
  if (length == 0) return ENAMETOOLONG;
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket.descriptor(), generic, length) == 0) return 0;
  if (errno != EADDRINUSE) return errno;
  if (is_abstract(path) || is_alive(address, length)) return EADDRINUSE;
  ::unlink(path.c_str());
  return ::bind(socket.descriptor(), generic, length) == 0 ? 0 : errno;
}

}  // namespace

std::string state_folder(const std::string& setting, std::uint32_t user) {
  if (setting == "@") return "@meshbed-" + std::to_string(user) + "/";
  if (setting.empty()) return "/tmp/meshbed-" + std::to_string(user) + "/";
  return setting.back() == '/' ? setting : setting + "/";
}

StateRequestLine::Progress StateRequestLine::take(std::string_view bytes, bool ended) {
  const std::size_t end = bytes.find('\n');
  line_ += bytes.substr(0, std::min(end, kStateRequestBytes));
  const bool complete = end != std::string_view::npos || ended;
  if (line_.size() >= kStateRequestBytes) return Progress::kTooLong;
  if (!complete) return Progress::kWaits;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  return line_.empty() || line_ == kStateRequest ? Progress::kState : Progress::kUnknown;
}

Result<std::unique_ptr<StateSocket>> StateSocket::open(const std::string& setting, std::int64_t pid) {
  // First, so that nothing is left behind if such sockets are not supported.
  auto socket = unix_socket();
  if (!socket) return socket.error();
  const std::string folder = state_folder(setting, ::geteuid());
  // Checked before the folder is made.
  if (const std::string name = first_name(folder, pid); name.size() > kPathBytesMost) {
    return door_error(name, "a socket's path has " + std::to_string(kPathBytesMost) + " bytes at most", 0);
  }
  if (!is_abstract(folder)) {
    if (auto prepared = prepare_folder(folder); !prepared) return prepared.error();
  }
  std::unique_ptr<StateSocket> door(new StateSocket);
  for (int number = 1; number <= kMostNames; ++number) {
    const std::string path = first_name(folder, pid) + (number > 1 ? "." + std::to_string(number) : "");
    const int error = try_to_bind(*socket, path);
    if (error == EADDRINUSE) continue;
    if (error != 0) return door_error(path, "cannot be bound", error);
    door->path_ = path;
    break;
  }
  if (door->path_.empty()) return door_error(folder, "all names for this process are taken", EADDRINUSE);
  if (::listen(socket->descriptor(), kStateBacklog) != 0)
    return door_error(door->path_, "cannot be listened to", errno);
  door->socket_ = std::move(*socket);
  return door;
}

Result<std::unique_ptr<StateSocket>> StateSocket::open_somewhere(const std::string& setting, std::int64_t pid,
                                                                 std::string& problem) {
  auto door = open(setting, pid);
  problem = door || setting.empty() ? "" : door.error().text;
  return problem.empty() ? std::move(door) : open("", pid);
}

StateSocket::~StateSocket() {
  if (!path_.empty() && !is_abstract(path_)) ::unlink(path_.c_str());
}

void StateSocket::watch(std::vector<pollfd>& watched) const {
  if (has_room() && !is_deaf_) watched.push_back({.fd = socket_.descriptor(), .events = POLLIN, .revents = 0});
  for (const auto& client : clients_) {
    const bool writes = !client->answer.empty();
    watched.push_back(
        {.fd = client->socket.descriptor(), .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0});
  }
}

void StateSocket::advance(const std::function<std::string()>& document) {
  std::string made;
  for (auto& client : clients_) {
    if (!advance(*client, document, made)) client.reset();
  }
  std::erase(clients_, nullptr);
  admit_clients(document, made);
}

bool StateSocket::has_room() const {
  const auto is_silent = [](const auto& client) { return client->answer.empty(); };
  return clients_.size() < kMostClients || std::any_of(clients_.begin(), clients_.end(), is_silent);
}

bool StateSocket::make_room(const std::function<std::string()>& document, std::string& made) {
  for (auto client = clients_.begin(); client != clients_.end(); ++client) {
    if (!(*client)->answer.empty()) continue;
    if (advance(**client, document, made) && !(*client)->answer.empty()) continue;
    clients_.erase(client);
    return true;
  }
  return false;
}

void StateSocket::admit_clients(const std::function<std::string()>& document, std::string& made) {
  if (is_deaf_ && !deaf_until_.passed()) return;
  is_deaf_ = false;
  // At most the length of the queue, because the service has other work too.
  for (int turn = 0; turn < kStateBacklog && has_room(); ++turn) {
    Socket socket(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      is_deaf_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
      if (is_deaf_) deaf_until_ = Deadline::after_ms_or_never(kPatienceMs);
      return;
    }
    if (!is_welcome(socket.descriptor())) continue;
    auto client = std::make_unique<Client>();
    client->socket = std::move(socket);
    client->deadline = Deadline::after_ms_or_never(kPatienceMs);
    // A client whose request has arrived already gets its answer, and no other client is removed for it.
    if (!advance(*client, document, made)) continue;
    if (clients_.size() >= kMostClients && !make_room(document, made)) continue;
    clients_.push_back(std::move(client));
  }
}

/// The folder keeps other users out; an abstract name does not.
bool StateSocket::is_welcome(int descriptor) const {
  if (!is_abstract(path_)) return true;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

bool StateSocket::advance(Client& client, const std::function<std::string()>& document, std::string& made) {
  if (client.deadline.passed()) return false;
  if (client.answer.empty() && !read_request(client, document, made)) return false;
  while (client.sent < client.answer.size()) {
    // A client that has gone must not cause SIGPIPE.
    const ssize_t count = ::send(client.socket.descriptor(), client.answer.data() + client.sent,
                                 client.answer.size() - client.sent, MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<std::size_t>(count);
  }
  return client.answer.empty();
}

/// Returns false if the client has gone. Prepares the answer when the request is complete.
bool StateSocket::read_request(Client& client, const std::function<std::string()>& document, std::string& made) {
  char bytes[kStateRequestBytes];
  const ssize_t count = ::recv(client.socket.descriptor(), bytes, sizeof bytes, 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  const auto refuse = [&client](const char* why) {
    client.answer = "{\"format\":" + std::to_string(kStateFormat) + ",\"error\":\"" + why + "\"}\n";
  };
  switch (client.request.take({bytes, static_cast<std::size_t>(count)}, count == 0)) {
    case StateRequestLine::Progress::kWaits:
      break;
    case StateRequestLine::Progress::kState:
      if (made.empty()) made = document() + "\n";
      client.answer = made;
      break;
    case StateRequestLine::Progress::kUnknown:
      refuse("there is no such request; there is: state");
      break;
    case StateRequestLine::Progress::kTooLong:
      refuse("a request has 63 bytes at most; there is: state");
      break;
  }
  return true;
}

}  // namespace meshbed::net
