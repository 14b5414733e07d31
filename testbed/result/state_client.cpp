#include "testbed/result/state_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "plugin/base/deadline.h"
#include "plugin/net/state/state_socket.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

/// More than the reply of a process with thousands of connections: a longer reply is not from this plugin.
constexpr std::size_t kLargestAnswerBytes = std::size_t{64} << 20U;
constexpr std::string_view kSocketStart = "state.";
constexpr std::string_view kFolderStart = "meshbed-";

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

void add_sockets(const fs::path& folder, StateSockets& sockets) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    std::error_code unknown;
    if (name.rfind(kSocketStart, 0) == 0 && at->is_socket(unknown)) sockets.paths.push_back(at->path());
  }
  if (error) sockets.refused.push_back(folder.string() + ": " + error.message());
}

/// "/tmp/meshbed-0/state.17.2" is one of process 17.
bool is_of_process(const std::string& path, const std::string& pid) {
  const std::string name = fs::path(path).filename().string().substr(kSocketStart.size());
  return name.substr(0, name.find('.')) == pid;
}

/// Whether the process in the socket's name has ended.
bool is_left_behind(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (path.front() == '@' || name.rfind(kSocketStart, 0) != 0) return false;
  const long pid = std::strtol(name.c_str() + kSocketStart.size(), nullptr, 10);
  return pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

class Connection {
 public:
  Connection() : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  ~Connection() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// 0, or errno.
  int open(const std::string& path) const {
    if (descriptor_ < 0) return errno;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
    std::memcpy(address.sun_path, path.data(), path.size());
    const bool is_abstract = path.front() == '@';
    if (is_abstract) address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1));
    return ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), length) == 0 ? 0 : errno;
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string problem_of(int error) {
  if (error == EAGAIN) return "it accepts no connection: it is stopped, or other clients query it all the time";
  if (error == EACCES || error == EPERM)
    return "permission denied: it belongs to another user; run the command as root";
  if (error == ENOENT) return "there is no such socket";
  return std::strerror(error);
}

const char* kind_text(fs::file_type type) {
  switch (type) {
    case fs::file_type::regular:
      return "a regular file";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "no socket";
  }
}

constexpr const char* kWhereSocketsAre =
    "a process with a mesh plugin has its socket, state.PID, in /tmp/meshbed-UID/ or where its NCCL_MESH_STATE_SOCKET "
    "says";

[[noreturn]] void refuse(const std::string& word, const std::string& why) {
  throw std::runtime_error(fmt::format("state: {}: {}", word, why));
}

void add_folder(const std::string& word, StateSockets& sockets) {
  const std::size_t before = sockets.paths.size(), refused_before = sockets.refused.size();
  add_sockets(word, sockets);
  if (sockets.refused.size() > refused_before) {
    const std::string& why = sockets.refused.back();
    refuse(word,
           fmt::format("this folder cannot be read:{}; ask as its owner, or as root", why.substr(why.rfind(':') + 1)));
  }
  if (sockets.paths.size() == before) {
    refuse(word, fmt::format("this folder has no state sockets; {}", kWhereSocketsAre));
  }
}

void add_process(const std::string& word, const StateSockets& all, StateSockets& sockets) {
  const std::size_t before = sockets.paths.size();
  std::copy_if(all.paths.begin(), all.paths.end(), std::back_inserter(sockets.paths),
               [&](const std::string& path) { return is_of_process(path, word); });
  if (sockets.paths.size() > before) return;
  std::string others;
  for (const std::string& folder : all.refused) others += "; " + folder;
  refuse(word,
         "there is no such process with a mesh plugin; meshbed state without an argument shows all that can be asked" +
             others);
}

void add_path(const std::string& word, StateSockets& sockets) {
  std::error_code error;
  const fs::file_type type = word.front() == '@' ? fs::file_type::socket : fs::status(word, error).type();
  if (type == fs::file_type::directory) return add_folder(word, sockets);
  if (type == fs::file_type::not_found) refuse(word, fmt::format("there is no such socket; {}", kWhereSocketsAre));
  if (type == fs::file_type::none || type == fs::file_type::unknown) {
    refuse(word, fmt::format("this cannot be looked at: {}; ask as its owner, or as root", error.message()));
  }
  if (type != fs::file_type::socket) {
    refuse(word, fmt::format("this is {}, not a socket that can be asked; {}", kind_text(type), kWhereSocketsAre));
  }
  sockets.paths.push_back(word);
}

/// Reads up to the end; the problem, or "".
std::string read_answer(int descriptor, std::string& text, int patience_ms) {
  const auto give_up = Deadline::after_s(patience_ms / 1000.0);
  for (;;) {
    char bytes[65536];
    const ssize_t count = ::recv(descriptor, bytes, sizeof bytes, 0);
    if (count == 0) return text.empty() ? "it hung up without a word" : "";
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
    if (text.size() > kLargestAnswerBytes) return "the reply is too long: this is not a state";
    if (count > 0 && !give_up.passed()) continue;
    if (count > 0) errno = EAGAIN;  // slow single bytes do not count as a reply
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return std::strerror(errno);
    pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
    if (give_up.passed() || ::poll(&ready, 1, give_up.remaining_ms()) == 0) {
      return fmt::format("no answer within {} s: the process or its service thread is stopped", patience_ms / 1000.0);
    }
  }
}

}  // namespace

StateSockets find_state_sockets(const std::string& parent) {
  StateSockets sockets;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    const bool is_ours = name.rfind(kFolderStart, 0) == 0 && all_digits(name.substr(kFolderStart.size()));
    std::error_code unknown;
    if (is_ours && at->is_directory(unknown)) add_sockets(at->path(), sockets);
  }
  std::sort(sockets.paths.begin(), sockets.paths.end());
  return sockets;
}

StateSockets named_state_sockets(const std::vector<std::string>& words, const std::string& parent) {
  const StateSockets all = find_state_sockets(parent);
  StateSockets sockets;
  for (const std::string& word : words) {
    if (word.empty()) refuse("\"\"", "name a process, a socket or a folder of sockets");
    if (all_digits(word)) {
      add_process(word, all, sockets);
    } else {
      add_path(word, sockets);
    }
  }
  std::sort(sockets.paths.begin(), sockets.paths.end());
  return sockets;
}

StateAnswer ask_for_state(const std::string& path, int patience_ms) {
  StateAnswer answer{.path = path, .text = "", .problem = ""};
  const Connection connection;
  if (const int error = connection.open(path); error != 0) {
    answer.stale = error == ECONNREFUSED;
    answer.problem = answer.stale ? "its process has ended" : problem_of(error);
    // Remove the socket of a killed process, but not one of another program or of a process that is about to listen.
    if (answer.stale && is_left_behind(path)) ::unlink(path.c_str());
    return answer;
  }
  const std::string request = std::string(net::kStateRequest) + "\n";
  if (::send(connection.descriptor(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    answer.problem = std::strerror(errno);
    return answer;
  }
  answer.problem = read_answer(connection.descriptor(), answer.text, patience_ms);
  if (!answer.problem.empty()) answer.text.clear();
  return answer;
}

}  // namespace meshbed::testbed
