#pragma once
// The relay service: the one thread that a process has for others. It answers who we are (scout), opens circuits
// (desk) and moves their pieces. Asleep unless there is something to do: completion channels, sockets and a pipe wake
// it. Started where a node has cables to more than one neighbour, and where a connection needs a chain.

#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/relay_desk.h"
#include "plugin/net/scout.h"
#include "plugin/verbs/completion.h"

namespace meshbed::net {

class RelayService {
 public:
  static Result<std::unique_ptr<RelayService>> start(Transport& transport);
  ~RelayService();

  /// Before the end: until no circuit is left, or nothing has moved for a second. False: others go on sending through
  /// this process, and go on after ten seconds too.
  bool wait_for_others() const;

  Scout& scout() { return scout_; }

 private:
  explicit RelayService(Transport& transport) : scout_(transport) {}
  void run();
  /// Moves pieces until nothing moves any more; true: it still does, but others want to be looked at too.
  bool move_circuits();
  /// Sleeps until something happens, unless pieces are moving; deals with sockets.
  void look_around(bool moving);

  Scout scout_;
  std::vector<verbs::CompletionChannel> channels_;
  std::unique_ptr<RelayDesk> desk_;
  std::vector<std::unique_ptr<Circuit>> circuits_;
  std::vector<pollfd> watched_;
  int wake_[2] = {-1, -1};
  std::atomic<bool> stop_{false};
  std::atomic<bool> in_use_{false};
  std::atomic<std::int64_t> last_move_ns_{0};
  std::thread thread_;
};

}  // namespace meshbed::net
