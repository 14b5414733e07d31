#pragma once
// What both ends of a connection over TCP have in common: the socket, the requests, deadlines and the first failure.
//
// For peers that no cable reaches, and only where it was asked for (tcp_network.h). The receiver announces its receives
// and the sender sends only what was announced, as on the RDMA path, instead of leaving it to TCP's window:
//   - a part that waits for its tag never stands in the stream before one that is wanted first, so that groups whose
//     tags come in another order cannot block each other at the head of the line;
//   - every payload goes from the stream straight into the buffer that waits for it: nothing is buffered here, and no
//     receiver that is late makes its kernel hold more than was asked for;
//   - a message that is too long is refused before a byte of it is on its way.
// A send is complete when the kernel has all of it, which delivers it whatever the receiver does meanwhile. Both ends
// close in order, whoever is first and whatever is in flight: the socket goes to TcpNetwork::linger(), so that nothing
// is taken back of what a sender sent or a receiver announced. A sender whose receiver has closed serves what was
// announced to it, as on the RDMA path, and fails with the first send beyond that. Cost of a message: 32 bytes ahead of
// it and 32 back; one sendmsg() and one or two recvmsg() at each end.
//
// No call waits. A peer whose process ends is seen as the end of the stream. A machine that dies is seen by the kernel:
// what was sent and not acknowledged for NCCL_MESH_FAILOVER_TIMEOUT_SEC (30 s where that is 0) ends the connection, and
// a HELLO after silence makes sure that there is something to acknowledge. The kernel counts a peer that takes nothing
// for so long as dead, too: a process that stands still in the middle of a receive loses its connection.

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

/// The socket after the handshake, and what its ends are called.
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
  std::int64_t patience_ms = 30'000;  // with a machine that acknowledges nothing
};
TcpSettings tcp_settings(const Config& config);

class TcpConnection : public Endpoint {
 public:
  ~TcpConnection() override;

  /// Moves what can be moved where the request is not complete yet.
  Progress test(Request& request, int* sizes) override;
  const Error& failure() const override { return *failure_; }
  void close() override;
  ConnectionState state(std::int64_t now_ns) override;
  /// "mgmt0 10.0.0.1 -> mgmt0 10.0.0.2 over TCP"
  std::string ends_text() const override;

 protected:
  /// `network`: takes the socket over at the end.
  TcpConnection(ObjectKind kind, TcpEnds ends, const TcpSettings& settings, TcpNetwork& network);

  /// Moves bytes both ways, a few system calls at most.
  virtual void progress() = 0;
  /// Sends a HELLO where nothing is under way anyway.
  virtual void greet() = 0;
  /// The last chance for what is still to be written.
  virtual void closing() {}

  static constexpr int kCallsAtOnce = 8;
  /// Bytes into `first`, then into `second`; 0: none now, or lost().
  std::size_t read(std::span<std::uint8_t> first, std::span<std::uint8_t> second);
  /// Bytes out of `first`, then of `second`; 0: none now, or lost().
  std::size_t write(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second);
  /// The stream is over in at least one direction. What has arrived can still be read.
  bool lost() const { return !status_.empty(); }
  /// Not where the peer has only closed: it takes what is on its way then.
  bool can_write() const { return !cannot_write_; }
  /// To be called when nothing can be read any more: fails where the stream is lost.
  void settle();

  /// After a look that moved nothing, and after one that did.
  void note_silence();
  void note_life() { silence_.end(); }

  bool failed() const { return failure_.has_value(); }
  /// Logs and keeps the first failure; returns the one that is kept, to hand on.
  const Error& keep_failure(Error error);
  /// As keep_failure(), and ends the stream.
  const Error& fail(Error error);
  /// The peer sent something that it must not send.
  void fail_peer(const std::string& what);
  Error describe(ErrorCode code, const std::string& what) const;

  Request& take_request();
  void finish(Request& request, std::uint64_t bytes);

  /// A request that is not finished. `number` grows with each one that is posted.
  struct Outstanding {
    std::uint64_t number = 0;
    std::int64_t posted_ns = 0;  // 0: not kept
    RequestState state;
  };
  /// In the order of posting.
  virtual std::vector<Outstanding> outstanding() const = 0;
  /// Of the next one that is posted.
  virtual std::uint64_t next_number() const = 0;
  /// Whom it waits for; empty: for nobody.
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
