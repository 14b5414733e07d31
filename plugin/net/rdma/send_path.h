#pragma once
// SendPath: how messages get from a sending connection's QP link to the receiver. One kind for each kind of way:
// DirectSendPath over a cable between the two, RelayedSendPath through relays. A connection has one at a time, and gets
// another one with another QP link.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "plugin/net/link/qp_link.h"
#include "plugin/net/link/request.h"
#include "plugin/net/process/state.h"
#include "plugin/net/process/traffic_hint.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {

class SendConnection;

struct SendArguments {
  void* data = nullptr;
  std::size_t size_bytes = 0;
  int tag = 0;
  Memory* memory = nullptr;  // may be nullptr where size_bytes is 0
  void* event = nullptr;     // the profiler's parent event; nullptr: none
};

/// Where in a group a message goes.
struct GroupSlot {
  std::uint64_t group = 0;  // first entry
  std::uint32_t part = 0;
  std::uint32_t parts = 0;
  bool last = false;  // the others of its group have gone
  const ClearToSend* entry = nullptr;
};

class SendPath {
 public:
  virtual ~SendPath() = default;
  SendPath(const SendPath&) = delete;
  SendPath& operator=(const SendPath&) = delete;

  /// nullptr, or why a message of this size can never be sent here.
  virtual const char* size_problem(std::size_t size_bytes) const = 0;
  virtual bool has_room(std::size_t size_bytes) const = 0;
  /// Sends the message, now or bit by bit; the request finishes in time. False: the connection is impaired.
  virtual bool carry(const SendArguments& send, const GroupSlot& place, Request& request) = 0;
  /// A part of a group that the receiver has, from an earlier QP link: only its size goes along.
  virtual bool carry_known(const GroupSlot& place, std::uint32_t size_bytes) = 0;
  /// Tells the peer that no message comes for this receive.
  virtual bool carry_refusal(const GroupSlot& place) = 0;

  virtual void completed(const ibv_wc& completion) = 0;
  virtual void rail_completed(std::size_t /*rail*/, const ibv_wc& /*completion*/) {}
  virtual bool takes_rails() const { return false; }
  /// One more rail lies beside the QP link, and the receiver knows it.
  virtual void rail_laid(std::size_t /*rail*/) {}
  /// After each poll of the completion queue, which brought `count` completions.
  virtual void polled(int /*count*/) {}
  /// The connection closes; the queue pair still works.
  virtual void closing() {}
  /// Nothing more gets through on this QP link.
  virtual void qp_link_lost() {}
  /// Another send path follows.
  virtual void retire() {}

  /// Whether everything that was carried is the receiver's.
  virtual bool settled() = 0;
  /// An empty write, whose end tells whether the way stands.
  virtual void probe() {}

  virtual bool is_relayed() const { return false; }
  /// Fills in the way, and whose answer what was carried waits for; nothing where there is none to wait for.
  virtual void describe(ConnectionState& state) = 0;

 protected:
  explicit SendPath(SendConnection& connection) : connection_(connection) {}

  // What a send path needs of its connection.
  QpLink& qp_link();
  const verbs::RegisteredBuffer& ring() { return qp_link().memory(); }
  const WireEnd& peer() { return qp_link().peer(); }
  Request* find(std::uint64_t work_id);
  void finish(Request& request);
  bool post_send(ibv_send_wr& work);
  bool post_send(ibv_send_wr& work, QpLink& way);
  bool post_probe(std::uint64_t work_id);
  void fail(Error error);
  /// The way is lost: suspends the connection, or fails it where it cannot be taken up again.
  void lose(Error error);
  bool impaired() const;
  /// What NCCL says of the traffic; nullptr: nobody can.
  const TrafficHint* hint() const;
  /// All receives below this entry are served.
  void confirm(std::uint64_t entry);

 private:
  SendConnection& connection_;
};

}  // namespace meshbed::net
