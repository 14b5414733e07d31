#pragma once
// What a sending and a receiving connection have in common: queue pair, completion queue, requests, the names of both
// ends, and the state of being broken.
//
// Built by the handshake on the service thread, used by one thread at a time afterwards. No locks within. A failed
// connection stays failed: the first failure is logged, every later call hands it on.

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/net/nic.h"
#include "plugin/net/request.h"
#include "plugin/net/wire.h"
#include "plugin/verbs/completion.h"
#include "plugin/verbs/device.h"
#include "plugin/verbs/queue_pair.h"

namespace meshbed::net {

/// Our end of a connection-to-be.
struct LocalEnd {
  verbs::Device* device = nullptr;
  Nic nic;
  IpPrefix address;
  verbs::GidEntry gid;
  std::uint64_t node = 0;
  std::uint32_t psn = 0;
};

struct ConnectionSettings {
  std::uint8_t queue_pair_timeout = 18;
  std::uint8_t queue_pair_retries = 6;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::int64_t operation_timeout_ns = 0;  // 0: none
  bool fatal_on_timeout = true;
};

class Connection : public Object {
 public:
  virtual ~Connection();

  verbs::Device& device() const { return *local_.device; }
  const LocalEnd& local() const { return local_; }
  /// What the other end must know; mtu is that of our port.
  WireEnd describe() const;
  /// After the other end's description came: leads the queue pair there. `mtu` is the one both agreed on.
  Result<void> join(const WireEnd& peer, std::uint8_t mtu);

  /// True: complete, `sizes` (may be nullptr) holds a size for each part, and the request is gone. Makes one poll of
  /// the completion queue where it is not complete yet.
  Result<bool> test(Request& request, int* sizes);

  /// Flushes what is posted and takes the completions in. Then the object may be deleted.
  void close();

 protected:
  Connection(ObjectKind kind, LocalEnd local, const ConnectionSettings& settings);
  /// `channel` (may be nullptr) announces completions after completions().arm(). `lane`: of a second queue pair with
  /// the same completion queue.
  Result<void> open(const verbs::QueuePairDepths& depths, ibv_comp_channel* channel = nullptr,
                    const verbs::QueuePairDepths* lane = nullptr);
  verbs::CompletionQueue& completions() { return *queue_; }

  /// One ibv_poll_cq; how many completions it brought. May leave the connection failed.
  int poll();
  virtual void completed(const ibv_wc& completion) = 0;
  /// After each poll of the completion queue, which brought `count` completions.
  virtual void polled(int /*count*/) {}
  /// close() begins; the queue pair still works.
  virtual void closing() {}
  /// Address and rkey of the memory that the peer writes into.
  virtual void describe_memory(WireEnd& end) const = 0;

  bool failed() const { return failure_.has_value(); }
  const Error& failure() const { return *failure_; }
  /// Logs and keeps the first failure; returns the one that is kept, to hand on.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and moves the queue pair to ERR.
  const Error& fail(Error error);
  Request& take_request();
  void finish(Request& request, std::uint64_t bytes);
  /// Posts one send work request; a refusal fails the connection.
  bool post_send(ibv_send_wr& work) { return post_send(work, *pair_); }
  bool post_send(ibv_send_wr& work, const verbs::QueuePair& pair);
  bool post_receive(ibv_recv_wr& work) { return post_receive(work, *pair_); }
  bool post_receive(ibv_recv_wr& work, const verbs::QueuePair& pair);
  const verbs::QueuePair& pair() const { return *pair_; }
  /// The second one; only where open() made it.
  const verbs::QueuePair& lane() const { return *lane_; }
  const WireEnd& peer() const { return peer_; }
  std::string ends_text() const;

  RequestPool pool_;

 private:
  void handle(const ibv_wc& completion);
  std::string advice(ibv_wc_status status) const;
  Error describe_failure(const ibv_wc& completion) const;
  std::optional<Error> check_lateness(Request& request);

  LocalEnd local_;
  ConnectionSettings settings_;
  WireEnd peer_;
  std::optional<verbs::CompletionQueue> queue_;
  std::optional<verbs::QueuePair> pair_, lane_;  // after the queue, so that they go first
  std::optional<Error> failure_;
  std::int64_t joined_ns_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

/// `flag` where `wanted`, else none.
constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

}  // namespace meshbed::net
