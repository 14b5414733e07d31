#pragma once
// A sending end with a cable to the receiver: RDMA-writes into the memory that the clear-to-send names.
//
//   group of one  the last (usually only) write carries the size as immediate value
//   larger group  each part is written as it comes; the last one is followed by a write of all sizes with an immediate
//
// Messages longer than the port's limit are cut into several writes. Every send has exactly one signalled work
// request, so the send queue drains by itself. Cost of a send: one acquire load, one ibv_post_send, one ibv_poll_cq.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/homecoming.h"
#include "plugin/net/resumption.h"
#include "plugin/net/send.h"

namespace meshbed::net {

class DirectSend : public SendConnection {
 public:
  static Result<std::unique_ptr<DirectSend>> create(LocalEnd local, const ConnectionSettings& settings);
  /// After the handshake: where to look for the receiver when this leg is lost.
  void remember(Origin origin);

 private:
  using SendConnection::SendConnection;
  void completed(const ibv_wc& completion) override;
  const char* size_problem(std::size_t size_bytes) const override;
  bool has_room(std::size_t size_bytes) const override;
  bool carry(const SendArguments& send, const Place& place, Request& request) override;
  bool carry_refusal(const Place& place) override;
  void polled(int count) override;
  bool can_resume() const override;
  void resume() override;
  std::string obstacle() const override { return resumption_ != nullptr ? resumption_->obstacle() : ""; }

  std::uint32_t chunks_of(std::size_t size_bytes) const;
  bool write_message(const SendArguments& send, const Place& place, Request& request);
  bool write_sizes(const Place& place, Request& request);

  static constexpr std::uint64_t kProbeId = RequestPool::kControlBit | 1U;  // the refusal has 0

  static LegShape shape_on(const verbs::Device& device);
  void measure();
  // --- taking up again (direct_resume.cpp) ---
  void look_at_port();
  void look_homewards();
  void probe() override;
  void continue_on(Resumption::Resumed resumed);
  void replay();

  std::uint32_t queued_ = 0;  // places taken in the send queue
  std::uint32_t depth_ = 0;
  std::size_t chunk_bytes_ = 0;
  std::optional<Origin> origin_;
  std::unique_ptr<Resumption> resumption_;  // while suspended
  std::unique_ptr<Homecoming> homecoming_;
  bool away_ = false;              // not on the first leg's way
  bool going_home_ = false;        // as soon as nothing is under way here
  std::vector<Request*> replays_;  // sent on a lost leg and not served, in order
  std::size_t replayed_ = 0;       // of them
  std::uint64_t confirmed_ = 0;    // the entries below are served, says the adapter
  bool probing_ = false;
  std::uint32_t events_seen_ = 0;  // Transport::port_events()
};

}  // namespace meshbed::net
