#pragma once
// The sending end over TCP. As on the RDMA path a send waits for the first announced group to have a part with its tag,
// and groups are served strictly in order. Messages are sent one after the other, in the order of posting.

#include <array>
#include <span>

#include "plugin/net/rdma/send_path.h"
#include "plugin/net/tcp/tcp_connection.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {

class TcpSendConnection : public TcpConnection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kTcpSend;
  TcpSendConnection(TcpEnds ends, const TcpSettings& settings, TcpNetwork& network)
      : TcpConnection(kKind, std::move(ends), settings, network) {}

  /// nullptr: not now (nothing is announced, or no free request); call again. A message longer than the matching
  /// receive is an error for both ends.
  Result<Request*> post(const SendArguments& send);

 private:
  struct Announced {
    std::uint32_t capacity_bytes = 0;
    std::int32_t tag = 0;
    std::uint8_t part = 0, parts = 0;
  };
  struct Refused {
    int tag = 0;
    std::size_t size_bytes = 0;
  };
  std::vector<Outstanding> outstanding() const override;
  std::uint64_t next_number() const override { return posted_; }
  std::string awaited(const ConnectionState& state) const override;
  void progress() override;
  void greet() override;
  void closing() override { write_control(); }

  Announced& at(std::uint64_t entry) { return ring_[entry % kRingEntries]; }
  /// Whether the whole first group is announced.
  bool group_stands();
  /// Whether a receive with this tag is announced in any group and not served yet.
  bool is_announced(int tag);
  /// The part of the first group that waits for `tag`; -1: none now.
  int find_part(int tag);
  Result<void> check_arguments(const SendArguments& send);
  Result<Request*> refuse_oversized(const SendArguments& send, std::uint64_t entry);
  void finish_part(std::uint32_t part);

  bool write_some();
  bool write_control();
  void begin_message();
  void take_written(std::size_t bytes);
  bool read_some();
  void take_in(const TcpFrame& frame);
  void take_announcement(const TcpFrame& frame);

  std::array<Announced, kRingEntries> ring_{};
  std::uint64_t announced_ = 0;  // entries
  std::uint64_t group_ = 0;      // first entry of the group that is being served
  std::uint32_t matched_ = 0;    // bit per part

  std::optional<Refused> refused_;  // the last send for which post() returned nullptr, until it is posted

  // Messages by the order of posting.
  std::array<Request*, RequestPool::kRequests> messages_{};
  std::uint64_t posted_ = 0, written_ = 0;
  std::array<std::uint8_t, kTcpFrameBytes> head_{};  // of the message in turn
  std::size_t head_sent_ = 0, body_sent_ = 0;
  bool begun_ = false;  // head_ is that of messages_[written_]
  std::array<std::uint8_t, kTcpFrameBytes> control_{};
  std::size_t control_left_ = 0;  // of control_, which is sent between two messages

  std::array<std::uint8_t, 64 * kTcpFrameBytes> arrived_{};
  std::size_t arrived_bytes_ = 0;
};

}  // namespace meshbed::net
