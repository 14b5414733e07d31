#pragma once
// The common part of both ends of a connection over TCP: the socket, the requests, deadlines and the first failure.
//
// For peers that no cable reaches, and only on request (tcp_network.h). The receiver announces its receives and the
// sender sends only what was announced, as on the RDMA path, instead of relying on TCP's window:
//   - a part that waits for its tag is never in the stream before a part that is needed first, so groups whose tags
//   come
//     in another order cannot block each other at the head of the line;
//   - every payload goes from the stream directly into the buffer that waits for it: nothing is buffered here, and the
//     kernel of a late receiver holds no more than was announced;
//   - a message that is too long is refused before any byte of it is sent.
// A send is complete when the kernel has all of it; the kernel delivers it independently of the receiver's calls. Both
// ends close in order, in any sequence and with data in flight: the socket goes to TcpNetwork::linger(), so that
// nothing is lost of what a sender sent or a receiver announced. A sender whose receiver has closed serves what was
// announced to it, as on the RDMA path, and fails with the first send beyond that. Cost of a message: 32 bytes before
// it and 32 back; one sendmsg() and one or two recvmsg() at each end.
//
// No call waits. The end of the stream shows that the peer's process has ended. The kernel detects a machine that has
// died: if something that was sent is not acknowledged for NCCL_MESH_FAILOVER_TIMEOUT_SEC (30 s if that is 0), the
// connection ends, and a HELLO after silence makes sure that there is something to acknowledge. The kernel also counts
// a peer as dead that receives nothing for this time: a process that stops in the middle of a receive loses its
// connection.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugin/net/link/endpoint.h"
#include "plugin/net/link/request.h"
#include "plugin/net/link/silence.h"
#include "plugin/net/wire/socket.h"
#include "plugin/net/wire/tcp_frame.h"

namespace meshbed::net {

class Config;
class TcpNetwork;

/// The socket after the handshake, and the names of its ends.
struct TcpEnds {
  Socket socket;
  std::string netdev;  // our network interface
  IpAddress local;
  std::string peer_netdev;
  SocketAddress remote;
};

struct TcpSettings {
  std::int64_t operation_timeout_ns = 0;  // 0: none
  bool fatal_on_timeout = true;
  std::int64_t patience_ms = 30'000;  // until a machine that acknowledges nothing counts as dead
};
TcpSettings tcp_settings(const Config& config);

class TcpConnection : public Endpoint {
 public:
  ~TcpConnection() override;

  /// Moves bytes if the request is not complete yet.
  Progress test(Request& request, int* sizes) override;
  const Error& failure() const override { return *failure_; }
  void close() override;
  ConnectionState state(std::int64_t now_ns) override;
  /// "mgmt0 10.0.0.1 -> mgmt0 10.0.0.2 over TCP"
  std::string ends_text() const override;

 protected:
  /// `network` takes the socket over at the end.
  TcpConnection(ObjectKind kind, TcpEnds ends, const TcpSettings& settings, TcpNetwork& network);

  /// Moves bytes both ways, a few system calls at most.
  virtual void progress() = 0;
  /// Sends a HELLO unless data is in flight anyway.
  virtual void greet() = 0;
  /// The last chance to write pending frames.
  virtual void closing() {}

  static constexpr int kCallsAtOnce = 8;
  /// Reads bytes into `first`, then into `second`; 0: none now, or lost().
  std::size_t read(std::span<std::uint8_t> first, std::span<std::uint8_t> second);
  /// Writes bytes of `first`, then of `second`; 0: none now, or lost().
  std::size_t write(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second);
  /// The stream is over in at least one direction. What has arrived can still be read.
  bool lost() const { return !status_.empty(); }
  /// True also if the peer has only closed: it still receives.
  bool can_write() const { return !cannot_write_; }
  /// Call it when nothing can be read any more: fails if the stream is lost.
  void settle();

  /// After a call that moved nothing, and after one that did.
  void note_silence();
  void note_life() { silence_.end(); }

  bool failed() const { return failure_.has_value(); }
  /// Logs and keeps the first failure; returns the one that is kept.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and ends the stream.
  const Error& fail(Error error);
  /// Fails because the peer has violated the protocol.
  void fail_peer(const std::string& what);
  Error describe(ErrorCode code, const std::string& what) const;

  Request& take_request();
  void finish(Request& request, std::uint64_t bytes);

  /// A request that is not finished. `number` grows with each posted one.
  struct Outstanding {
    std::uint64_t number = 0;
    std::int64_t posted_ns = 0;  // 0: not kept
    RequestState state;
  };
  /// In the order of posting.
  virtual std::vector<Outstanding> outstanding() const = 0;
  /// The number of the next posted request.
  virtual std::uint64_t next_number() const = 0;
  /// The peer's action that it waits for; empty: none.
  virtual std::string awaited(const ConnectionState& state) const = 0;

  RequestPool pool_;

 private:
  void finish_all();
  std::string peer_text() const;
  void describe(MeshbedTransferEvent& data) const final;
  bool in_time(Request& request);
  std::size_t moved(ssize_t count, bool reading);

  TcpEnds ends_;
  TcpSettings settings_;
  TcpNetwork& network_;
  std::int64_t made_ns_;
  std::string status_;  // not empty: the stream is lost, and why
  bool cannot_write_ = false;
  std::optional<Error> failure_;
  std::uint32_t empty_looks_ = 0;
  Silence silence_;  // its mark is next_number()
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace meshbed::net
