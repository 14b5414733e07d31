#pragma once
// Store client: a rank's connection to the store. Used by one thread at a time (the service thread; the progress
// thread looks for failures while the service thread waits for it); abort() is for any thread.
//
// Requests may be left open (begin_get) and their replies collected later (take), so that many connections can be made
// at once. A failure that any rank announced shows in failure() during every wait.

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/coll/store/frame.h"
#include "plugin/coll/store/job_key.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {

class StoreClient {
 public:
  /// Connects to rank 0 at `place` (MeetingPlace's text) and introduces itself; where it has a key, both prove that
  /// they know it.
  static Result<std::unique_ptr<StoreClient>> connect(const std::string& place, const Identity& identity,
                                                      Deadline deadline) {
    return connect(place, identity, deadline, deadline);
  }
  /// The same, if rank 0 may listen for longer before it replies.
  static Result<std::unique_ptr<StoreClient>> connect(const std::string& place, const Identity& identity,
                                                      Deadline reached_by, Deadline welcome_by);
  /// Sends kBye, so that our absence is not taken for a failure.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Ours on the network that rank 0 is on.
  Result<SocketAddress> own_address() const { return coll::own_address(socket_); }

  Result<void> set(const std::string& key, const std::string& value);
  /// Requests a key's value, which may come much later. A value is read once, by the first request.
  Result<std::uint32_t> begin_get(const std::string& key);
  /// The answer to that request, if it has been received. No I/O.
  std::optional<std::string> take(std::uint32_t request);
  struct WaitLimits {
    std::int64_t long_ms = 0;  // as LongWait's; 0: none
    int for_rank = -1;         // the rank that is to set it: if it leaves, the wait ends; -1: any rank
  };
  /// begin_get and take until the deadline; kTimeout: the value did not come.
  Result<std::string> get(const std::string& key, Deadline deadline) { return get(key, deadline, {}); }
  Result<std::string> get(const std::string& key, Deadline deadline, const WaitLimits& patience);
  /// Returns when every rank has called it; on timeout the error names who has not.
  /// `long_wait_ms`: as LongWait's; 0: none.
  Result<void> barrier(std::int64_t timeout_ms, std::int64_t long_wait_ms = 0);
  /// Reports to rank 0 that we have waited for others for long, first for rank `peer` (-1: for none in particular), and
  /// our last calls. If the ranks' calls can never match, all of them get a failure soon after.
  Result<void> tell_waiting(int peer);
  Result<void> tell_waiting_no_longer() { return send({FrameType::kWaits, 0, {}}); }
  /// `calls`: an encode_calls() of what we called last; called by the thread that uses this client.
  void report_calls_by(std::function<std::string()> calls) { calls_ = std::move(calls); }
  /// After a wait in vain: by rank, which ranks have reported a wait. An error that names rank 0 if its store does not
  /// reply.
  Result<std::vector<bool>> waiting_ranks();
  /// After the same: the rank that `rank` waits for, the rank that this one waits for, and so on; a few at most. If
  /// they wait in a circle, the last one is one of the earlier ones, or `rank`. Errors as above.
  Result<std::vector<int>> waits_behind(int rank);
  /// After a failure: the ranks that go on, in order, the same list for all of them. These are the ranks that ask until
  /// each rank that is not known to be gone has asked, or until `timeout_ms` after the first. The failure is forgotten
  /// then. kRemote: they have gone on without us, or rank 0, whose store is needed, is gone.
  Result<std::vector<int>> agree_on_survivors(std::int64_t timeout_ms);
  /// Checks that rank 0 is alive, without waiting for the reply. kTimeout: it has not replied to the previous check,
  /// which was `before_ms` ago.
  Result<void> ask_alive(std::int64_t before_ms);
  /// Whether `rank` had left, by the last reply to ask_alive() or waiting_ranks().
  bool has_left(int rank) const;
  /// Announces to every rank that the communicator is broken (the first text wins), and waits for a limited time until
  /// rank 0 has passed it on. `culprit`: the rank that failed; -1: ours.
  void announce_failure(const std::string& text, int culprit = -1);
  /// Waits until rank 0 has replied once, or for two seconds: what it began to pass on before that has arrived.
  void catch_up() { (void)ask_who_waits({}); }
  /// From any thread: announces an abort, without waiting. A thread that waits here finds a failure within a second,
  /// whether or not rank 0 replies.
  void abort(const std::string& text);
  /// abort() was called: the next poll() finds it. What is sent after this is true arrives behind the abort.
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

  /// Receives what has arrived, waiting at most `timeout_ms` (0: not at all) where nothing has.
  Result<void> poll(int timeout_ms);
  /// The first announced failure ("rank 2: ..."), once poll() has received it.
  const std::optional<std::string>& failure() const { return failure_; }
  /// The rank that failed; if another rank reported us as failed, that rank; 0 if its store is gone.
  /// failure_is_abort(): the rank aborted.
  int failed_rank() const { return failed_rank_; }
  bool failure_is_abort() const { return failure_is_abort_; }

 private:
  struct Answer {
    std::uint32_t request;
    bool expired;
    std::string text;
  };

  StoreClient(std::string address, int rank, Socket socket)
      : address_(std::move(address)), rank_(rank), socket_(std::move(socket)) {}
  Result<void> send(const Frame& frame);
  /// False: the connection is lost. Any thread.
  bool write(const Frame& frame);
  /// The same, for a caller that holds `sending_`.
  bool write_alone(const Frame& frame);
  Result<void> introduce(const std::optional<JobKey>& key, const Identity& identity, Deadline deadline);
  Result<std::string> await_answer(FrameType wanted, Deadline deadline);
  Result<std::string> ask_who_waits(const std::string& question);
  /// Takes the ranks that have left off a reply to kWhoWaits; the ranks that wait remain.
  void note_who_left(std::string* waiting_and_left);
  Result<void> handle(Frame frame);
  Error lost();
  Error silent(std::int64_t for_ms);

  const std::string address_;
  const int rank_;
  const pid_t owner_ = ::getpid();
  std::mutex sending_;  // so that each frame is written as a whole
  Socket socket_;
  std::string received_;
  std::uint32_t next_request_ = 1;
  std::uint32_t life_request_ = 0;  // 0: none is unanswered
  std::function<std::string()> calls_;
  // Before the welcome: the replies to our introduction.
  std::optional<std::string> challenge_, welcome_;
  std::string left_;  // a bit for each rank, by the last reply
  std::vector<Answer> answers_;
  std::optional<std::string> failure_;
  int failed_rank_ = -1;
  bool failure_is_abort_ = false;
  bool told_ = false;  // rank 0 has passed a failure on
  std::atomic<bool> aborted_{false};
  std::string abort_text_;  // written before aborted_
};

}  // namespace meshbed::coll
