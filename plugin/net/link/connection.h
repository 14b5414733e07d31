#pragma once
// The common part of a sending and a receiving connection: its QP link, its requests and its state.
//
// Built by the handshake on the service thread, used by one caller at a time afterwards. Three states:
// clang-format off
//   up         the QP link works
//   suspended  the QP link is lost; requests stay and nothing completes. The connection is resumed on another QP link
//              (resumption.h), or fails if that takes too long
//   failed     permanent: the first failure is logged, and every later call returns it
// clang-format on
// The process's service works on suspended receiving connections; a thread that works on a connection takes its turn.

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/base/result.h"
#include "plugin/net/link/endpoint.h"
#include "plugin/net/link/event_log.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/link/request.h"
#include "plugin/net/link/retired_links.h"
#include "plugin/net/link/silence.h"
#include "plugin/net/process/state.h"

namespace meshbed::net {

/// When and how messages are striped over rails.
struct StripeSettings {
  std::uint64_t from_bytes = 0;  // shorter messages are not striped; 0: none is
  std::uint64_t hysteresis_bytes = 0;
  unsigned queue_pairs = 1;  // on each cable
};

struct ConnectionSettings {
  QpLinkSettings qp_link{};
  StripeSettings stripes{};
  std::int64_t operation_timeout_ns = 0;  // 0: none
  bool fatal_on_timeout = true;
  std::int64_t failover_ms = 0;  // how long it may be suspended; 0: it fails at once
  bool flushes = true;           // iflush() flushes received GPU memory
};

class Connection : public Endpoint {
 public:
  ~Connection() override;

  QpLink& qp_link() { return *qp_link_; }
  verbs::Device& device() const { return qp_link_->device(); }
  /// The device of its first QP link, on which users' memory is registered.
  verbs::Device& home() const { return home_; }
  const LocalEnd& local() const { return qp_link_->local(); }

  /// Polls the completion queue once if the request is not complete yet.
  Progress test(Request& request, int* sizes) override;
  const Error& failure() const override { return *failure_; }

  /// Announces that GPU memory will be used with this connection.
  virtual Result<void> expect_device_memory() { return ok(); }

  /// Flushes what is posted and polls the completions.
  void close() override;

  ConnectionState state(std::int64_t now_ns) override;
  std::string ends_text() const override { return qp_link_->ends_text(); }

 protected:
  Connection(ObjectKind kind, std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings);
  verbs::CompletionQueue& completions() { return qp_link_->completions(); }

  static constexpr int kPollAtOnce = 16;
  /// One ibv_poll_cq; returns the number of completions, kPollAtOnce at most. May leave the connection impaired.
  int poll();
  virtual void completed(const ibv_wc& completion) = 0;
  /// Polls once for what flushes wait for.
  virtual void advance_flushes() {}
  /// A work request that ended without success; the connection is impaired by now.
  virtual void flushed(const ibv_wc& /*completion*/) {}
  /// The same for the QP link's rails.
  virtual void rail_completed(std::size_t /*rail*/, const ibv_wc& /*completion*/) {}
  virtual void rail_flushed(std::size_t /*rail*/, const ibv_wc& /*completion*/) {}
  /// After each poll of the completion queue, which brought `count` completions.
  virtual void polled(int /*count*/) {}
  /// close() begins; the queue pair still works.
  virtual void closing() {}
  /// Whether it can go on without this QP link.
  virtual bool can_resume() const { return false; }
  /// One step of the resumption, while suspended.
  virtual void resume() {}
  /// Called at the end of the time that it may be suspended: whether there is a reason to wait as long again; nullopt:
  /// not known yet.
  virtual std::optional<bool> waits_longer() { return false; }
  /// The connection has failed or was closed; called once.
  virtual void ended() {}
  /// The QP link is in ERR.
  virtual void qp_link_lost() {}
  /// The other end of the QP link, or of one of its rails, does not reply: the connection is about to be suspended.
  virtual void way_lost(const QpLink& /*lost*/) {}
  /// Why the resumption has not succeeded so far, for the error text.
  virtual std::string obstacle() const { return ""; }
  /// Whether relays are between the peer and us.
  virtual bool is_relayed() const { return false; }
  /// The other end has closed in order and has sent END: its silence is no reason for a warning.
  virtual bool is_closed_there() const { return false; }
  /// Fills in what depends on its kind: the path, the peer, what it waits for.
  virtual void describe(ConnectionState& /*state*/) {}
  void describe(MeshbedTransferEvent& data) const final;
  /// Tags and size of a request that is not finished.
  virtual RequestState describe(const Request& /*request*/) { return {}; }
  /// Requests of groups below this one have been posted.
  virtual std::uint64_t next_group() const { return 0; }

  /// Call it after empty polls: during a silence (silence.h) it sends an empty message from time to time, whose
  /// completion shows whether the path still works. An end that only waits would otherwise never detect a dead path.
  /// The peer's adapter acknowledges it, so a peer process that computes for an hour does no harm.
  void listen_to_silence();
  /// Ends the silence; a new one begins with the next empty poll.
  void end_silence() { silence_.end(); }
  /// Calls post_probe() if there is room in the queue.
  virtual void probe() {}

  /// Not up.
  bool impaired() const { return impaired_; }
  bool failed() const { return failure_.has_value(); }
  bool suspended() const { return suspension_.has_value(); }
  const Error& suspension() const { return *suspension_; }
  /// Call it if impaired(): takes a step of resume(). An error: failed.
  Result<void> attend();
  /// The result of post() if nothing can be posted: nullptr, or the failure; takes a step if impaired().
  [[gnu::cold, gnu::noinline]] Result<Request*> not_now();
  /// Logs and keeps the first failure; returns the one that is kept.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and moves the queue pair to ERR.
  const Error& fail(Error error);
  /// Moves the queue pair to ERR, and the connection waits for another QP link. `why` is the failure if none comes.
  void suspend(Error why, LogLevel level = LogLevel::kWarn);
  /// Uses this QP link from now on. The connection stays suspended until go_on(). The old QP link, which is in ERR, is
  /// kept until the next change, and some seconds longer (retired_links.h).
  void stand_on(std::unique_ptr<QpLink> qp_link) {
    add_cables(past_cables_);
    put_away(std::exchange(retired_, std::move(qp_link_)), this);
    qp_link_ = std::move(qp_link);
  }
  void go_on(LogLevel level = LogLevel::kWarn);
  /// The resumption that ended last went back to the first cable.
  void note_return() { ++returned_; }
  /// Sends or receives, in the order of their groups.
  std::vector<Request*> unfinished();
  /// Whether the status means a lost path. Other statuses report errors that would occur again on another path.
  static bool is_lost_way(ibv_wc_status status, const LocalEnd& local);
  /// What you should check, for the error text.
  static std::string advice(ibv_wc_status status, const LocalEnd& local);
  Request& take_request() {
    Request& request = pool_.take();
    if (settings_.operation_timeout_ns != 0) stamp(request);
    return request;
  }
  void finish(Request& request, std::uint64_t bytes);
  /// Posts one send work request; a refusal fails the connection.
  bool post_send(ibv_send_wr& work) { return post_send(work, pair()); }
  bool post_send(ibv_send_wr& work, const verbs::QueuePair& pair) {
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(pair.raw(), &work, &refused);
    return error == 0 || post_failed("send", error);
  }
  bool post_receive(ibv_recv_wr& work) { return post_receive(work, pair()); }
  bool post_receive(ibv_recv_wr& work, const verbs::QueuePair& pair) {
    ibv_recv_wr* refused = nullptr;
    const int error = ibv_post_recv(pair.raw(), &work, &refused);
    return error == 0 || post_failed("receive", error);
  }
  /// Posts a signalled empty RDMA write, whose completion shows whether the path works.
  bool post_probe(std::uint64_t work_id);
  const verbs::QueuePair& pair() const { return qp_link_->pair(); }
  const verbs::QueuePair& lane() const { return qp_link_->lane(); }
  const WireEnd& peer() const { return qp_link_->peer(); }
  const ConnectionSettings& settings() const { return settings_; }

  RequestPool pool_;

 private:
  /// For an impaired connection, or requests with a time limit. Returns false if it has failed.
  [[gnu::cold, gnu::noinline]] bool attend_to(Request& request);
  [[gnu::cold, gnu::noinline]] static void stamp(Request& request) { request.posted_ns = now_ns(); }
  [[gnu::cold, gnu::noinline]] bool post_failed(const char* queue, int error);
  void allow_for_absence();
  void finish_all();
  int poll_rails();
  [[gnu::cold, gnu::noinline]] void handle_failed(const ibv_wc& completion);
  void handle_failure(const ibv_wc& completion, const QpLink& qp_link);
  Error describe_failure(const ibv_wc& completion, const QpLink& qp_link) const;
  [[gnu::cold, gnu::noinline]] const Error& fail_polling();
  bool in_time(Request& request);
  /// Adds what the present QP link and its rails have carried.
  void add_cables(std::vector<CableState>& cables) const;

  std::unique_ptr<QpLink> qp_link_, retired_;
  verbs::Device& home_;
  ConnectionSettings settings_;
  bool impaired_ = false;
  std::optional<Error> failure_;
  std::optional<Error> suspension_;
  Deadline give_up_;  // while suspended
  std::int64_t suspended_ns_ = 0;
  std::int64_t attended_ns_ = 0;  // when its owner last called, since suspended_ns_
  unsigned resumed_ = 0;          // number of resumptions
  unsigned returned_ = 0;         // number of resumptions on the first cable, after another one
  std::vector<CableState> past_cables_;
  unsigned fruitless_ = 0;             // resumptions in a row with nothing completed until the next loss
  std::uint64_t operations_then_ = 0;  // operations_ at the last resumption
  std::uint32_t empty_polls_ = 0;
  Silence silence_;  // its mark is next_group()
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

/// `flag` where `wanted`, else none.
constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

}  // namespace meshbed::net
