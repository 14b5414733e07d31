#pragma once
// The receiving end over TCP: announces its receives, and reads each message from the stream into the buffer that waits
// for it. Receives complete in the order of posting.

#include <array>
#include <span>

#include "plugin/net/rdma/receive.h"
#include "plugin/net/tcp/tcp_connection.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {

class TcpReceiveConnection : public TcpConnection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kTcpReceive;
  TcpReceiveConnection(TcpEnds ends, const TcpSettings& settings, TcpNetwork& network)
      : TcpConnection(kKind, std::move(ends), settings, network) {}
  ~TcpReceiveConnection() override;

  /// One request for all parts (1..8). nullptr: not now, 256 parts are outstanding; call again.
  Result<Request*> post(std::span<const ReceivePart> parts);

 private:
  struct Awaited {
    std::uint8_t* data = nullptr;
    std::uint32_t capacity_bytes = 0;
    std::int32_t tag = 0;
    bool arrived = false;
    Memory* memory = nullptr;    // held while in flight
    Request* request = nullptr;  // of the whole group
  };
  std::vector<Outstanding> outstanding() const override;
  std::uint64_t next_number() const override { return next_entry_; }
  std::string awaited(const ConnectionState& state) const override;
  void progress() override;
  void greet() override { put_frame({.type = TcpFrameType::kHello}); }
  void closing() override { write_out(); }

  Awaited& at(std::uint64_t entry) { return ring_[entry % kRingEntries]; }
  bool has_room(std::size_t parts) const;
  Result<void> check_arguments(std::span<const ReceivePart> parts);
  void announce(const ReceivePart& part, std::size_t position, Request& request);

  bool put_frame(const TcpFrame& frame);
  bool write_out();
  bool read_some();
  std::span<std::uint8_t> body_rest();
  /// Processes the bytes of a read().
  void take_bytes(std::size_t bytes);
  void take_in(const TcpFrame& frame);
  void begin_message(const TcpFrame& frame);
  void end_message();
  void release(std::uint64_t entry);

  std::array<Awaited, kRingEntries> ring_{};
  std::uint64_t next_entry_ = 0;
  std::uint64_t oldest_entry_ = 0;  // not received yet

  std::array<std::uint8_t, kTcpFrameBytes> head_{};
  std::size_t head_bytes_ = 0;
  bool in_body_ = false;  // of the message for body_entry_
  std::uint64_t body_entry_ = 0;
  std::size_t body_bytes_ = 0, body_length_bytes_ = 0;

  // Room for all announcements at once, and a few more frames.
  std::array<std::uint8_t, (kRingEntries + 16) * kTcpFrameBytes> out_{};
  std::size_t out_begin_ = 0, out_end_ = 0;
};

}  // namespace meshbed::net
