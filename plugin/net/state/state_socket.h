#pragma once
// The state socket of a process: a Unix stream socket. A client sends one line and gets one line of JSON:
//   state     (or nothing, then end of file)   the state of the process, as state.h has it
//   anything else                              {"format":1,"error":"..."}
//
// Belongs to the service's thread. Nothing here waits: a slow, silent or confused client has two seconds, and there are
// at most 32 clients. If more come, the one that has been silent longest is removed, so that silent clients do not
// delay requests. Only if all of them wait for their answers, further clients stay in the queue.
//
// Path: <folder>/state.<pid>; the folder is /tmp/meshbed-<uid>/ unless NCCL_MESH_STATE_SOCKET names another one. It
// must be ours, and not writable by others. "@" instead of a folder: the abstract name "@meshbed-<uid>/state.<pid>",
// for machines without a writable file system; then only this user and root get answers.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

inline constexpr const char* kStateRequest = "state";
inline constexpr std::size_t kStateRequestBytes = 64;  // with its end of line

/// The folder of this user's sockets, with a slash at its end; "@" for abstract names.
std::string state_folder(const std::string& setting, std::uint32_t user);

/// A request as it comes in, byte by byte. Pure.
class StateRequestLine {
 public:
  enum class Progress { kWaits, kState, kUnknown, kTooLong };
  /// `ended`: the client has shut its sending side down.
  Progress take(std::string_view bytes, bool ended);

 private:
  std::string line_;
};

class StateSocket {
 public:
  /// A client is removed only if this many others connect between its connect and its request.
  static constexpr std::size_t kMostClients = 32;
  static constexpr std::int64_t kPatienceMs = 2000;

  /// `setting`: the value of NCCL_MESH_STATE_SOCKET. A socket of a dead process is replaced; if a living process has
  /// the name (two libraries in one process, two containers with one /tmp), the next of nine names is used.
  static Result<std::unique_ptr<StateSocket>> open(const std::string& setting, std::int64_t pid);
  /// If that place cannot be used, opens it at the default one; `problem` is then the reason, otherwise empty.
  static Result<std::unique_ptr<StateSocket>> open_somewhere(const std::string& setting, std::int64_t pid,
                                                             std::string& problem);
  /// Removes the socket's name.
  ~StateSocket();
  StateSocket(const StateSocket&) = delete;
  StateSocket& operator=(const StateSocket&) = delete;

  /// The path for clients; "@..." is abstract.
  const std::string& path() const { return path_; }
  /// Adds what poll(2) should wait for.
  void watch(std::vector<pollfd>& watched) const;
  /// Deadlines are running.
  bool busy() const { return !clients_.empty() || is_deaf_; }
  /// Accepts clients and advances them; `document` makes the answer, once for all requests of this call.
  void advance(const std::function<std::string()>& document);

 private:
  struct Client {
    Socket socket;
    Deadline deadline;
    StateRequestLine request;
    std::string answer;
    std::size_t sent = 0;
  };
  StateSocket() = default;
  void admit_clients(const std::function<std::string()>& document, std::string& made);
  /// Whether there is room for one more client, or a client that can be removed.
  bool has_room() const;
  /// Removes the client that has been silent longest, unless its request has arrived; returns false if there is none.
  bool make_room(const std::function<std::string()>& document, std::string& made);
  /// Returns false if the client is finished.
  bool advance(Client& client, const std::function<std::string()>& document, std::string& made);
  bool read_request(Client& client, const std::function<std::string()>& document, std::string& made);
  bool is_welcome(int descriptor) const;

  std::string path_;
  Socket socket_;
  bool is_deaf_ = false;  // the process has no descriptor left for a client: accept(2) pauses
  Deadline deaf_until_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace meshbed::net
