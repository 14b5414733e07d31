#pragma once
// The way over a cable to the receiver: RDMA-writes into the memory that the clear-to-send names.
//
//   group of one  the last (usually only) write carries the size as immediate value
//   larger group  each part is written as it comes; the last one is followed by a write of all sizes with an immediate
//
// Messages longer than the port's limit are cut into several writes. Every send has exactly one signalled work
// request, so the send queue drains by itself. Cost of a send: one acquire load, one ibv_post_send, one ibv_poll_cq.

#include "plugin/net/carrier.h"

namespace meshbed::net {

class DirectCarrier : public Carrier {
 public:
  static LegShape shape_on(const verbs::Device& device);
  explicit DirectCarrier(SendConnection& connection);

  const char* size_problem(std::size_t size_bytes) const override;
  bool has_room(std::size_t size_bytes) const override;
  bool carry(const SendArguments& send, const Place& place, Request& request) override;
  bool carry_known(const Place&, std::uint32_t) override { return true; }  // the sizes of a group are staged
  bool carry_refusal(const Place& place) override;
  void completed(const ibv_wc& completion) override;
  bool settled() override { return queued_ == 0; }
  void probe() override;

 private:
  static constexpr std::uint64_t kProbeId = RequestPool::kControlBit | 1U;  // the refusal has 0

  std::uint32_t chunks_of(std::size_t size_bytes) const;
  bool write_message(const SendArguments& send, const Place& place, Request& request);
  bool write_sizes(const Place& place, Request& request);

  std::uint32_t queued_ = 0;  // places taken in the send queue
  std::uint32_t depth_ = 0;
  std::size_t chunk_bytes_ = 0;
  bool probing_ = false;
};

}  // namespace meshbed::net
