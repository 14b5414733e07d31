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
  /// Waits for circuits that others still use: until they are closed, or nothing has moved for a second.
  ~RelayService();

  Scout& scout() { return scout_; }

 private:
  explicit RelayService(Transport& transport) : scout_(transport) {}
  void run();
  /// Moves pieces until nothing moves any more.
  void move_circuits();
  void wait();
  /// Told to stop, and nothing is under way for others any more, or has been for too long.
  bool may_stop() const;

  Scout scout_;
  std::vector<verbs::CompletionChannel> channels_;
  std::unique_ptr<RelayDesk> desk_;
  std::vector<std::unique_ptr<Circuit>> circuits_;
  std::vector<pollfd> watched_;
  int wake_[2] = {-1, -1};
  std::atomic<bool> stop_{false};
  std::int64_t stop_at_ns_ = 0;  // written before stop_
  std::int64_t last_move_ns_ = 0;
  std::thread thread_;
};

}  // namespace meshbed::net
