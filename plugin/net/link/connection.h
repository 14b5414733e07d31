#pragma once
// What a sending and a receiving connection have in common: the QP link it stands on, its requests, and its state.
//
// Built by the handshake on the service thread, used by one caller at a time afterwards. Three states:
//   up         the QP link works
//   suspended  the QP link is lost; requests stay, nothing completes, and the connection is taken up again on another
//   QP link
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
  std::uint64_t from_bytes = 0;  // shorter messages are not; 0: none is
  std::uint64_t hysteresis_bytes = 0;
  unsigned queue_pairs = 1;  // on each cable
};

struct ConnectionSettings {
  QpLinkSettings qp_link{};
  StripeSettings stripes{};
  std::int64_t operation_timeout_ns = 0;  // 0: none
  bool fatal_on_timeout = true;
  std::int64_t failover_ms = 0;  // how long it may be suspended; 0: it fails at once
  bool flushes = true;           // received GPU memory, where it is asked to
};

class Connection : public Endpoint {
 public:
  ~Connection() override;

  QpLink& qp_link() { return *qp_link_; }
  verbs::Device& device() const { return qp_link_->device(); }
  /// The device of its first QP link, on which users' memory is registered.
  verbs::Device& home() const { return home_; }
  const LocalEnd& local() const { return qp_link_->local(); }

  /// Makes one poll of the completion queue where the request is not complete yet.
  Progress test(Request& request, int* sizes) override;
  const Error& failure() const override { return *failure_; }

  /// GPU memory is going to be used with it.
  virtual Result<void> expect_device_memory() { return ok(); }

  /// Flushes what is posted and takes the completions in.
  void close() override;

  ConnectionState state(std::int64_t now_ns) override;
  std::string ends_text() const override { return qp_link_->ends_text(); }

 protected:
  Connection(ObjectKind kind, std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings);
  verbs::CompletionQueue& completions() { return qp_link_->completions(); }

  static constexpr int kPollAtOnce = 16;
  /// One ibv_poll_cq; how many completions it brought, kPollAtOnce at most. May leave the connection impaired.
  int poll();
  virtual void completed(const ibv_wc& completion) = 0;
  /// One look at what a flush waits for.
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
  /// One step of being taken up again, while suspended.
  virtual void resume() {}
  /// Asked when it has been suspended for as long as it may be: whether there is a reason to wait as long again;
  /// nullopt: that is not known yet.
  virtual std::optional<bool> waits_longer() { return false; }
  /// Failed, or closed: to be told once.
  virtual void ended() {}
  /// The QP link is in ERR.
  virtual void qp_link_lost() {}
  /// The QP link, or one of its rails, heard nothing of the other end: the connection is about to be suspended.
  virtual void way_lost(const QpLink& /*lost*/) {}
  /// What stood in its way so far, for the error if it comes to nothing.
  virtual std::string obstacle() const { return ""; }
  /// Relays stand between the peer and us.
  virtual bool is_relayed() const { return false; }
  /// The other end has closed in order, and said so: that it answers no more is no reason for a warning.
  virtual bool is_closed_there() const { return false; }
  /// Fills in what is its kind's own: the way, the peer, whom it waits for.
  virtual void describe(ConnectionState& /*state*/) {}
  void describe(MeshbedTransferEvent& data) const final;
  /// Of a request that is not finished: tags and size.
  virtual RequestState describe(const Request& /*request*/) { return {}; }
  /// Requests of groups below this one have been posted before now.
  virtual std::uint64_t next_group() const { return 0; }

  /// To be called after polls that brought nothing: now and then in a silence (silence.h) it sends an empty message,
  /// whose end tells whether the way still stands. Whoever only waits would otherwise never learn that it does not. An
  /// adapter answers for its process, so that one that computes for an hour is no reason for anything.
  void listen_to_silence();
  /// The silence ends, or begins anew.
  void end_silence() { silence_.end(); }
  /// post_probe(), where there is room for it.
  virtual void probe() {}

  /// Not up.
  bool impaired() const { return impaired_; }
  bool failed() const { return failure_.has_value(); }
  bool suspended() const { return suspension_.has_value(); }
  const Error& suspension() const { return *suspension_; }
  /// To be called where impaired(): takes a step of resume(). An error: failed.
  Result<void> attend();
  /// What post() returns where nothing can be posted: nullptr, or the failure; takes a step where impaired().
  [[gnu::cold, gnu::noinline]] Result<Request*> not_now();
  /// Logs and keeps the first failure; returns the one that is kept, to hand on.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and moves the queue pair to ERR.
  const Error& fail(Error error);
  /// Moves the queue pair to ERR, and the connection waits for another QP link. `why` is the failure if none comes.
  void suspend(Error why, LogLevel level = LogLevel::kWarn);
  /// On this QP link from now on. The connection stays suspended until go_on(). The old QP link, which is in ERR, is
  /// kept until the next one, and some seconds longer (retired_links.h).
  void stand_on(std::unique_ptr<QpLink> qp_link) {
    put_away(std::exchange(retired_, std::move(qp_link_)), this);
    qp_link_ = std::move(qp_link);
  }
  void go_on(LogLevel level = LogLevel::kWarn);
  /// Sends or receives, in the order of their groups.
  std::vector<Request*> unfinished();
  /// The way is lost, and nothing else: other statuses tell of mistakes, which would come again.
  static bool is_lost_way(ibv_wc_status status, const LocalEnd& local);
  /// What the person in front of the machine should look at.
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
  /// An empty RDMA write, signalled: its end tells whether the way stands.
  bool post_probe(std::uint64_t work_id);
  const verbs::QueuePair& pair() const { return qp_link_->pair(); }
  const verbs::QueuePair& lane() const { return qp_link_->lane(); }
  const WireEnd& peer() const { return qp_link_->peer(); }
  const ConnectionSettings& settings() const { return settings_; }

  RequestPool pool_;

 private:
  /// Where the connection does not work just now, or requests have a time limit. False: failed.
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

  std::unique_ptr<QpLink> qp_link_, retired_;
  verbs::Device& home_;
  ConnectionSettings settings_;
  bool impaired_ = false;
  std::optional<Error> failure_;
  std::optional<Error> suspension_;
  Deadline give_up_;  // while suspended
  std::int64_t suspended_ns_ = 0;
  std::int64_t attended_ns_ = 0;       // when its owner last looked, since then
  unsigned resumed_ = 0;               // times
  unsigned fruitless_ = 0;             // of them, in a row, without anything completed until the next loss
  std::uint64_t operations_then_ = 0;  // when it was taken up again
  std::uint32_t empty_polls_ = 0;
  Silence silence_;  // its mark is next_group()
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

/// `flag` where `wanted`, else none.
constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

}  // namespace meshbed::net
