#pragma once
// What a sending and a receiving connection have in common: the leg it stands on, its requests, and its state.
//
// Built by the handshake on the service thread, used by one caller at a time afterwards. Three states:
//   up         the leg works
//   suspended  the leg is lost; requests stay, nothing completes, and the connection is taken up again on another leg
//              (resumption.h) or fails when that takes too long
//   failed     for good: the first failure is logged, every later call hands it on
// The process's service works on suspended receiving connections; whoever works on a connection takes its turn.

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/log.h"
#include "plugin/base/result.h"
#include "plugin/net/clock.h"
#include "plugin/net/leg.h"
#include "plugin/net/request.h"

namespace meshbed::net {

struct ConnectionSettings {
  LegSettings leg{};
  std::int64_t operation_timeout_ns = 0;  // 0: none
  bool fatal_on_timeout = true;
  std::int64_t failover_ms = 0;  // how long it may be suspended; 0: it fails at once
};

class Connection : public Object {
 public:
  virtual ~Connection();

  Leg& leg() { return *leg_; }
  verbs::Device& device() const { return leg_->device(); }
  /// The device of its first leg, on which users' memory is registered.
  verbs::Device& home() const { return home_; }
  const LocalEnd& local() const { return leg_->local(); }

  /// True: complete, `sizes` (may be nullptr) holds a size for each part, and the request is gone. Makes one poll of
  /// the completion queue where it is not complete yet.
  Result<bool> test(Request& request, int* sizes);

  /// Flushes what is posted and takes the completions in. Then the object may be deleted.
  void close();

  /// Working on a connection: false where somebody else does it right now, or wants to (claim()).
  class Turn {
   public:
    explicit Turn(Connection& connection) : Turn(connection, connection.claimed_.load(std::memory_order_relaxed)) {}
    ~Turn() {
      if (mine_) taken_.store(false, std::memory_order_release);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return mine_; }
    /// Nothing to do here just now; whoever runs us may use the moment.
    static void pass();

   private:
    friend class Connection;
    Turn(Connection& connection, bool refused)
        : taken_(connection.taken_), mine_(!refused && !taken_.exchange(true, std::memory_order_acquire)) {}

    std::atomic<bool>& taken_;
    bool mine_;
  };
  /// For the process's service. Callers come so often that it would hardly ever find them away; they stay away from now
  /// on, until release_claim(), and the turn is there soon.
  Turn claim() {
    claimed_.store(true, std::memory_order_relaxed);
    return Turn(*this, false);
  }
  void release_claim() { claimed_.store(false, std::memory_order_relaxed); }

 protected:
  Connection(ObjectKind kind, std::unique_ptr<Leg> leg, const ConnectionSettings& settings);
  verbs::CompletionQueue& completions() { return leg_->completions(); }

  /// One ibv_poll_cq; how many completions it brought. May leave the connection impaired.
  int poll();
  virtual void completed(const ibv_wc& completion) = 0;
  /// A work request that ended without success; the connection is impaired by now.
  virtual void flushed(const ibv_wc& /*completion*/) {}
  /// After each poll of the completion queue, which brought `count` completions.
  virtual void polled(int /*count*/) {}
  /// close() begins; the queue pair still works.
  virtual void closing() {}
  /// Whether it can go on without this leg.
  virtual bool can_resume() const { return false; }
  /// One step of being taken up again, while suspended.
  virtual void resume() {}
  /// What stood in its way so far, for the error if it comes to nothing.
  virtual std::string obstacle() const { return ""; }

  /// To be called after polls that brought nothing: after five seconds of silence, and whenever it has lasted
  /// twice as long, it sends an empty message, whose end tells whether the way still stands. Whoever only waits would
  /// otherwise never learn that it does not. An adapter answers for its process, so that one that computes for an hour
  /// is no reason for anything.
  void listen_to_silence();
  /// The silence ends, or begins anew.
  void end_silence() {
    silent_since_ns_ = 0;
    patience_ns_ = kSilenceNs;
  }
  /// post_probe(), where there is room for it.
  virtual void probe() {}

  /// Not up.
  bool impaired() const { return impaired_; }
  bool failed() const { return failure_.has_value(); }
  bool suspended() const { return suspension_.has_value(); }
  const Error& failure() const { return *failure_; }
  const Error& suspension() const { return *suspension_; }
  /// To be called where impaired(): takes a step of resume(). An error: failed.
  Result<void> attend();
  /// Logs and keeps the first failure; returns the one that is kept, to hand on.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and moves the queue pair to ERR.
  const Error& fail(Error error);
  /// Moves the queue pair to ERR, and the connection waits for another leg. `why` is the failure if none comes.
  void suspend(Error why, LogLevel level = LogLevel::kWarn);
  /// On this leg from now on. The connection stays suspended until go_on(). The old leg, which is in ERR, is kept until
  /// the next one or the end: destroying a queue pair may take seconds where its last packets wait for a dead link.
  void stand_on(std::unique_ptr<Leg> leg) {
    retired_ = std::move(leg_);
    leg_ = std::move(leg);
  }
  void go_on();
  /// In the order of their groups.
  std::vector<Request*> unfinished();
  Request& take_request();
  void finish(Request& request, std::uint64_t bytes);
  /// Posts one send work request; a refusal fails the connection.
  bool post_send(ibv_send_wr& work) { return post_send(work, pair()); }
  bool post_send(ibv_send_wr& work, const verbs::QueuePair& pair);
  bool post_receive(ibv_recv_wr& work) { return post_receive(work, pair()); }
  bool post_receive(ibv_recv_wr& work, const verbs::QueuePair& pair);
  /// An empty RDMA write, signalled: its end tells whether the way stands.
  bool post_probe(std::uint64_t work_id);
  const verbs::QueuePair& pair() const { return leg_->pair(); }
  const verbs::QueuePair& lane() const { return leg_->lane(); }
  const WireEnd& peer() const { return leg_->peer(); }
  const ConnectionSettings& settings() const { return settings_; }
  std::string ends_text() const { return leg_->ends_text(); }

  RequestPool pool_;

 private:
  void finish_all();
  void handle(const ibv_wc& completion);
  bool is_lost_way(ibv_wc_status status) const;
  std::string advice(ibv_wc_status status) const;
  Error describe_failure(const ibv_wc& completion) const;
  std::optional<Error> check_lateness(Request& request);

  std::unique_ptr<Leg> leg_, retired_;
  verbs::Device& home_;
  ConnectionSettings settings_;
  std::atomic<bool> taken_{false}, claimed_{false};
  bool impaired_ = false;
  std::optional<Error> failure_;
  std::optional<Error> suspension_;
  Deadline give_up_;  // while suspended
  std::int64_t suspended_ns_ = 0;
  unsigned resumed_ = 0;  // times
  std::uint32_t empty_polls_ = 0;
  static constexpr std::int64_t kSilenceNs = 5'000'000'000;
  std::int64_t silent_since_ns_ = 0;  // 0: not silent
  std::int64_t patience_ns_ = kSilenceNs;
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

/// `flag` where `wanted`, else none.
constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

}  // namespace meshbed::net
