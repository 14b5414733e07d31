#pragma once
// Where a circuit enters a relay: the window of slots into which the previous node writes pieces, and the return path,
// on which clear-to-sends and credits are written into its ring.

#include <array>
#include <cstdint>
#include <memory>

#include "plugin/net/relay/relay_end.h"
#include "plugin/net/wire/piece.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

class RelayEntry : public RelayEnd {
 public:
  static Result<std::unique_ptr<RelayEntry>> create(LocalEnd local, const ConnectionSettings& settings,
                                                    ibv_comp_channel* channel, std::uint64_t circuit);

  std::uint64_t arrived() const { return arrived_; }
  /// The piece of this number, which must have arrived and not been released: its checked header, then its payload.
  PieceHeader& piece(std::uint64_t number);
  /// The memory of the pieces, kPieceWindowBytes.
  void* window() { return qp_link().memory().as<void>(); }
  /// Lets the slots of all pieces below `pieces` be written again. Call it until there was room for the credits.
  void release_up_to(std::uint64_t pieces);

  bool can_confirm() const { return credits_.has_room(); }
  /// Confirms that the first `pieces` pieces, which end with a message, are with the receiver.
  bool confirm(std::uint64_t pieces);

  bool can_announce() const { return announcements_.has_room(); }
  /// Passes on a group of clear-to-sends, which are in slots first..first+parts of every ring on the chain.
  bool announce(const ClearToSend* entries, std::uint32_t first, std::uint32_t parts);

 private:
  static constexpr std::uint32_t kSendDepth = 128;

  /// The work in flight on one of the two queue pairs that lead back. Announcements and credits have one each: their
  /// relative order depends on timing, but each has an order of its own, which is the same in every run.
  struct ReturnPath {
    std::uint32_t queued = 0;  // places taken in the send queue
    std::uint32_t unsignalled = 0;
    bool has_room() const { return queued + 1 < kSendDepth; }
  };

  RelayEntry(std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings, std::uint64_t circuit)
      : RelayEnd(ObjectKind::kReceive, std::move(qp_link), settings), circuit_(circuit) {}
  void completed(const ibv_wc& completion) override;
  void ask_neighbour() override;
  /// Posts receives for `count` pieces, kPieceSlots at most, in one call.
  bool post_receives(std::uint64_t count);
  bool write_back(ReturnPath& way, std::uint64_t offset, const ibv_sge& source);

  std::uint64_t circuit_;
  std::array<ibv_recv_wr, kPieceSlots> receives_{};  // identical and chained
  verbs::RegisteredBuffer staging_;                  // a ring as the sender's, and the credits after it
  std::uint64_t arrived_ = 0, released_ = 0, told_ = 0;
  ReturnPath announcements_, credits_;
};

}  // namespace meshbed::net
