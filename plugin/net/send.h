#pragma once
// The sending end. A send waits for the first clear-to-send group in the ring to have a part with its tag, then
// RDMA-writes into that part's memory. Groups are served strictly in order.
//
//   group of one  the last (usually only) write carries the size as immediate value
//   larger group  each part is written as it comes; the last one is followed by a write of all sizes with an immediate
//
// Messages longer than the port's limit are cut into several writes. Every send has exactly one signalled work
// request, so the send queue drains by itself. Cost of a send: one acquire load, one ibv_post_send, one ibv_poll_cq.

#include <array>
#include <memory>

#include "plugin/net/connection.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

struct SendArguments {
  void* data = nullptr;
  std::size_t size_bytes = 0;
  int tag = 0;
  Memory* memory = nullptr;  // may be nullptr where size_bytes is 0
};

class SendConnection : public Connection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kSend;
  static Result<std::unique_ptr<SendConnection>> create(LocalEnd local, const ConnectionSettings& settings);

  /// nullptr: not now (no clear-to-send, or no free request); call again. A message longer than the receive that it
  /// meets is an error for both ends: bytes are never cut off silently.
  Result<Request*> post(const SendArguments& send);

 private:
  SendConnection(LocalEnd local, const ConnectionSettings& settings);
  void completed(const ibv_wc& completion) override;
  void describe_memory(WireEnd& end) const override;

  /// The part of the group in turn that waits for `tag`; nullptr: none, or the group has not arrived.
  const ClearToSend* find_slot(int tag);
  ClearToSend* first_slot() const;
  bool on_last_part() const;
  void finish_part(std::uint32_t part);
  Result<void> check_arguments(const SendArguments& send);
  Result<Request*> refuse_oversized(const SendArguments& send, const ClearToSend& slot);
  std::uint32_t chunks_of(std::size_t size_bytes) const;
  bool write_message(const SendArguments& send, const ClearToSend& slot, Request& request);
  bool write_sizes(Request& request);
  bool write_refusal();

  verbs::RegisteredBuffer ring_;   // the peer writes clear-to-sends, we stage sizes
  std::uint64_t group_ = 0;        // first entry of the group that is being served
  std::uint32_t group_parts_ = 0;  // 0: its first entry has not been seen
  std::uint32_t matched_ = 0;      // bit per part
  std::uint32_t queued_ = 0;       // places taken in the send queue
  std::uint32_t depth_ = 0;
  std::size_t chunk_bytes_ = 0;
};

}  // namespace meshbed::net
