#pragma once
// The door to a process's state: a Unix stream socket. A client says one line and gets one line of JSON:
//   state     (or nothing, then end of file)   the state of the process, as state.h has it
//   anything else                              {"format":1,"error":"..."}
//
// Belongs to the service's thread. Nothing here waits: a client that is slow, silent or confused has two seconds, and
// there are 32 of them at most. Where more come, the one that has been silent longest goes, so that nobody who asks
// waits for those who do not; only where all of them wait to read their answers do the next ones stay in the queue.
//
// Where: <folder>/state.<pid>, the folder /tmp/meshbed-<uid>/ unless NCCL_MESH_STATE_SOCKET names another one. It must
// be ours and nobody else's to write into. "@" instead of a folder: an abstract name, "@meshbed-<uid>/state.<pid>", for
// where no file system can be written; then only this user and root are answered.

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
  /// `ended`: the client says no more.
  Progress take(std::string_view bytes, bool ended);

 private:
  std::string line_;
};

class StateSocket {
 public:
  /// So many would have to come between the connect and the request of one who asks, for it to be sent away.
  static constexpr std::size_t kMostClients = 32;
  static constexpr std::int64_t kPatienceMs = 2000;

  /// `setting`: of NCCL_MESH_STATE_SOCKET. A socket that a dead process left behind is replaced; where the name is
  /// taken by a living one (two libraries in one process, two containers with one /tmp) the next of nine is used.
  static Result<std::unique_ptr<StateSocket>> open(const std::string& setting, std::int64_t pid);
  /// Where that place cannot be, at the one without a setting; `problem` then says why, empty otherwise.
  static Result<std::unique_ptr<StateSocket>> open_somewhere(const std::string& setting, std::int64_t pid,
                                                             std::string& problem);
  /// Takes the socket's name away.
  ~StateSocket();
  StateSocket(const StateSocket&) = delete;
  StateSocket& operator=(const StateSocket&) = delete;

  /// As a client must name it; "@..." is abstract.
  const std::string& path() const { return path_; }
  /// Adds what poll(2) should look for.
  void watch(std::vector<pollfd>& watched) const;
  /// Deadlines run.
  bool busy() const { return !clients_.empty() || is_deaf_; }
  /// Lets clients in and moves them on; `document` makes the answer, once for all who ask at this moment.
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
  /// There is room for one more, or somebody who must make room.
  bool has_room() const;
  /// Sends the client away that has been silent longest, unless it has asked by now; false: there is none.
  bool make_room(const std::function<std::string()>& document, std::string& made);
  /// False: done with.
  bool advance(Client& client, const std::function<std::string()>& document, std::string& made);
  bool read_request(Client& client, const std::function<std::string()>& document, std::string& made);
  bool is_welcome(int descriptor) const;

  std::string path_;
  Socket socket_;
  bool is_deaf_ = false;  // the process has no descriptor left for a client: not asked for all the time
  Deadline deaf_until_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace meshbed::net
