#pragma once
// The receiving end. A (grouped) receive posts one empty receive work request, for the immediate value that will end
// it, and writes one clear-to-send entry per part into the sender's ring. Receives complete in the order of posting.
// Cost of a receive: one ibv_post_recv, one ibv_post_send, one ibv_poll_cq.

#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "plugin/net/connection.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

struct ReceivePart {
  void* data = nullptr;
  std::size_t size_bytes = 0;  // the largest message that may come
  int tag = 0;
  Memory* memory = nullptr;  // may be nullptr where size_bytes is 0
};

class Sessions;

class ReceiveConnection : public Connection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kReceive;
  static Result<std::unique_ptr<ReceiveConnection>> create(LocalEnd local, const ConnectionSettings& settings);
  ~ReceiveConnection() override;

  /// After the handshake: from now on its sender may take it up again (resume_desk.h).
  void enroll(Sessions& sessions);
  // --- by the process's service, which has the turn ---
  /// The sender stands on a new leg, `sender`, and dialled `local`: takes in what the old leg brought to the end, and
  /// puts everything that is still awaited on a new leg, which is joined; returns its description. To be asked again
  /// where it is nullopt: the old leg is not flushed yet. An error: not on this leg, or failed().
  Result<std::optional<WireEnd>> take_up(const LocalEnd& local, const WireEnd& sender, std::uint8_t mtu);
  /// All clear-to-send entries below have been served.
  std::uint64_t served() const { return oldest_entry_; }
  /// The sender stands on its new leg too: announces once more what is awaited.
  void announce_anew();
  bool over() const { return failed(); }
  /// Its sender has come over another leg than the first one. Any thread.
  bool was_taken_up() const { return taken_up_.load(std::memory_order_relaxed); }

  /// One request for all parts (1..8). nullptr: not now, 256 parts are outstanding; call again.
  Result<Request*> post(std::span<const ReceivePart> parts);

 private:
  ReceiveConnection(std::unique_ptr<Leg> leg, const ConnectionSettings& settings);
  void completed(const ibv_wc& completion) override;
  void flushed(const ibv_wc& completion) override;
  bool can_resume() const override;
  void resume() override { Turn::pass(); }
  void polled(int count) override;
  void probe() override;
  static LegShape shape_on(const verbs::Device& device);
  bool await(const Request& request);
  bool copy_ring(const Leg& from, const Leg& to);
  /// The leg's memory: we stage clear-to-sends, the peer writes sizes.
  const verbs::RegisteredBuffer& ring() { return leg().memory(); }

  bool has_room(std::size_t parts) const;
  Result<void> check_arguments(std::span<const ReceivePart> parts);
  void stage(std::span<const ReceivePart> parts, std::uint32_t slot);
  bool announce(std::uint32_t slot, std::size_t parts);
  bool take_sizes(Request& request, std::uint32_t immediate);
  void release_parts(std::uint32_t slot, std::size_t parts);

  std::uint64_t next_entry_ = 0;
  std::uint64_t oldest_entry_ = 0;  // not received yet
  std::uint64_t announced_ = 0;     // clear-to-send writes posted
  std::uint64_t announced_done_ = 0;
  std::uint64_t depth_ = 0;
  std::uint64_t awaited_ = 0;  // receive work requests without a completion
  Sessions* sessions_ = nullptr;
  std::atomic<bool> taken_up_{false};
  std::uint64_t session_ = 0;
  std::array<Memory*, kRingSlots> memories_{};  // held while in flight
};

}  // namespace meshbed::net
