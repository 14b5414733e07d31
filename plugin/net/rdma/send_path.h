#pragma once
// SendPath: how messages get from a sending connection's QP link to the receiver. There are two kinds: DirectSendPath
// over a cable between the two, RelayedSendPath through relays. A connection has one at a time, and gets another one
// with another QP link.

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

/// The position of a message in a group.
struct GroupSlot {
  std::uint64_t group = 0;  // first entry
  std::uint32_t part = 0;
  std::uint32_t parts = 0;
  bool last = false;  // the other parts of its group have been sent
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
  /// Sends the message, at once or in steps; the request completes later. Returns false if the connection is impaired.
  virtual bool carry(const SendArguments& send, const GroupSlot& place, Request& request) = 0;
  /// For a part of a group that the receiver has from an earlier QP link: only its size is sent.
  virtual bool carry_known(const GroupSlot& place, std::uint32_t size_bytes) = 0;
  /// Informs the peer that no message will come for this receive.
  virtual bool carry_refusal(const GroupSlot& place) = 0;

  virtual void completed(const ibv_wc& completion) = 0;
  virtual void rail_completed(std::size_t /*rail*/, const ibv_wc& /*completion*/) {}
  virtual bool takes_rails() const { return false; }
  /// A further rail is laid, and the receiver knows it.
  virtual void rail_laid(std::size_t /*rail*/) {}
  /// After each poll of the completion queue, which brought `count` completions.
  virtual void polled(int /*count*/) {}
  /// The connection closes; the queue pair still works.
  virtual void closing() {}
  /// The QP link has failed.
  virtual void qp_link_lost() {}
  /// Another send path replaces this one.
  virtual void retire() {}

  /// Whether everything that was sent is with the receiver.
  virtual bool settled() = 0;
  /// Posts an empty write, whose completion shows whether the path works.
  virtual void probe() {}

  virtual bool is_relayed() const { return false; }
  /// Fills in the path, and the acknowledgement that the messages in flight wait for, if there are any.
  virtual void describe(ConnectionState& state) = 0;

 protected:
  explicit SendPath(SendConnection& connection) : connection_(connection) {}

  // The parts of the connection that a send path uses.
  QpLink& qp_link();
  const verbs::RegisteredBuffer& ring() { return qp_link().memory(); }
  const WireEnd& peer() { return qp_link().peer(); }
  Request* find(std::uint64_t work_id);
  void finish(Request& request);
  bool post_send(ibv_send_wr& work);
  bool post_send(ibv_send_wr& work, QpLink& way);
  bool post_probe(std::uint64_t work_id);
  void fail(Error error);
  /// The path is lost: suspends the connection, or fails it if it cannot be resumed.
  void lose(Error error);
  bool impaired() const;
  /// NCCL's hints on the traffic; nullptr: NCCL gives none.
  const TrafficHint* hint() const;
  /// All receives below this entry are served.
  void confirm(std::uint64_t entry);

 private:
  SendConnection& connection_;
};

}  // namespace meshbed::net
