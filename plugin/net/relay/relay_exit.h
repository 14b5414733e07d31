#pragma once
// Where a circuit leaves a relay: towards the next relay, which takes pieces unchanged, or towards the receiver, into
// whose memory the last relay writes the payload as a direct sender would.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "plugin/net/relay/relay_end.h"
#include "plugin/net/wire/piece.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

class RelayExit : public RelayEnd {
 public:
  struct Job {
    void* window = nullptr;    // of the circuit's entry, which holds the pieces
    bool to_receiver = false;  // the next node is the end of the chain
  };
  ~RelayExit() override { advance_to(taken_in_); }
  static Result<std::unique_ptr<RelayExit>> create(LocalEnd local, const ConnectionSettings& settings,
                                                   ibv_comp_channel* channel, const Job& job);

  /// The receiver announces from this entry on; earlier ones were served over other paths.
  void begin_at(std::uint64_t entry) { taken_ = entry; }
  /// Whether there is room for one more piece, here and at the other end.
  bool can_forward() const;
  /// Whether everything is with the neighbour, or the neighbour is gone. Posts a probe if the last pieces were not
  /// signalled.
  bool idle();
  /// The receiver has closed its end in order: it has everything that was sent to entries below `served`, although the
  /// acknowledgements may never arrive.
  void closed_there(std::uint64_t served);
  bool is_closed_there() const override { return closed_there_; }
  /// Number of pieces for which there is room.
  std::uint64_t room() const;
  /// Sends on a piece from the entry's window. Returns false if the circuit is broken.
  bool forward(const PieceHeader& piece);
  /// Pieces whose memory is no longer read.
  std::uint64_t forwarded() const { return forwarded_; }
  /// Pieces that are with the receiver.
  std::uint64_t delivered() {
    return to_receiver_ ? forwarded_ : load_counter(ring().as<std::uint8_t>(), kDeliveredAt);
  }

  /// The next group of clear-to-sends that has arrived and was not taken; nullptr: none.
  struct Announcement {
    const ClearToSend* entries = nullptr;
    std::uint32_t first = 0;  // slot
    std::uint32_t parts = 0;
  };
  Announcement next_announcement();
  void took(const Announcement& announcement) { taken_ += announcement.parts; }

 private:
  static constexpr std::uint32_t kSendDepth = 4 * kPieceSlots;

  RelayExit(std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings, bool to_receiver)
      : RelayEnd(ObjectKind::kSend, std::move(qp_link), settings), to_receiver_(to_receiver) {}
  const verbs::RegisteredBuffer& ring() { return qp_link().memory(); }
  void completed(const ibv_wc& completion) override;
  /// The memory of all pieces below is no longer read.
  void advance_to(std::uint64_t pieces);
  void ask_neighbour() override;
  bool post_notice(const verbs::QueuePair& pair);
  bool forward_to_relay(const PieceHeader& piece);
  bool forward_to_receiver(const PieceHeader& piece);
  bool write_sizes(const PieceHeader& header);
  bool refuse(const std::string& what);
  /// When the work completes, the memory of all pieces below `done_pieces` has been read; 0: it belongs to no piece.
  bool post(ibv_send_wr& work, ibv_sge* source, std::uint64_t done_pieces, bool signalled);

  bool to_receiver_;
  verbs::MrPointer window_;  // the entry's slots, for this device to read
  std::optional<PieceWindow> next_;
  std::uint64_t taken_ = 0;  // clear-to-send entries handed back
  std::uint64_t forwarded_ = 0;
  std::uint64_t taken_in_ = 0;    // pieces that forward() took
  std::uint64_t last_group_ = 0;  // group of the last piece, if there is one
  bool closed_there_ = false;
  std::array<std::uint32_t, kPieceSlots> bytes_{};  // of the pieces that are not forwarded, by slot
  std::uint32_t queued_ = 0;                        // places taken in the send queue
  std::uint32_t unsignalled_ = 0;                   // of them, since the last signalled one
  std::uint32_t questions_ = 0;                     // of them, probes, which complete no piece
  std::array<std::uint32_t, kMaxGroup> sizes_{};
};

}  // namespace meshbed::net
