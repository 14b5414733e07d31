#pragma once
// What a sending and a receiving connection have in common: the leg it stands on, its requests, and the state of being
// broken.
//
// Built by the handshake on the service thread, used by one thread at a time afterwards. No locks within. A failed
// connection stays failed: the first failure is logged, every later call hands it on.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/net/leg.h"
#include "plugin/net/request.h"

namespace meshbed::net {

struct ConnectionSettings {
  LegSettings leg{};
  std::int64_t operation_timeout_ns = 0;  // 0: none
  bool fatal_on_timeout = true;
};

class Connection : public Object {
 public:
  virtual ~Connection();

  Leg& leg() { return *leg_; }
  verbs::Device& device() const { return leg_->device(); }
  const LocalEnd& local() const { return leg_->local(); }

  /// True: complete, `sizes` (may be nullptr) holds a size for each part, and the request is gone. Makes one poll of
  /// the completion queue where it is not complete yet.
  Result<bool> test(Request& request, int* sizes);

  /// Flushes what is posted and takes the completions in. Then the object may be deleted.
  void close();

 protected:
  Connection(ObjectKind kind, std::unique_ptr<Leg> leg, const ConnectionSettings& settings);
  verbs::CompletionQueue& completions() { return leg_->completions(); }

  /// One ibv_poll_cq; how many completions it brought. May leave the connection failed.
  int poll();
  virtual void completed(const ibv_wc& completion) = 0;
  /// After each poll of the completion queue, which brought `count` completions.
  virtual void polled(int /*count*/) {}
  /// close() begins; the queue pair still works.
  virtual void closing() {}
  bool failed() const { return failure_.has_value(); }
  const Error& failure() const { return *failure_; }
  /// Logs and keeps the first failure; returns the one that is kept, to hand on.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and moves the queue pair to ERR.
  const Error& fail(Error error);
  Request& take_request();
  void finish(Request& request, std::uint64_t bytes);
  /// Posts one send work request; a refusal fails the connection.
  bool post_send(ibv_send_wr& work) { return post_send(work, pair()); }
  bool post_send(ibv_send_wr& work, const verbs::QueuePair& pair);
  bool post_receive(ibv_recv_wr& work) { return post_receive(work, pair()); }
  bool post_receive(ibv_recv_wr& work, const verbs::QueuePair& pair);
  const verbs::QueuePair& pair() const { return leg_->pair(); }
  const verbs::QueuePair& lane() const { return leg_->lane(); }
  const WireEnd& peer() const { return leg_->peer(); }
  std::string ends_text() const { return leg_->ends_text(); }

  RequestPool pool_;

 private:
  void handle(const ibv_wc& completion);
  std::string advice(ibv_wc_status status) const;
  Error describe_failure(const ibv_wc& completion) const;
  std::optional<Error> check_lateness(Request& request);

  std::unique_ptr<Leg> leg_;
  ConnectionSettings settings_;
  std::optional<Error> failure_;
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

/// `flag` where `wanted`, else none.
constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

}  // namespace meshbed::net
