#pragma once
// The sending end. A send waits for the first clear-to-send group in the ring to have a part with its tag; what happens
// then depends on the way: DirectSend writes into the receiver's memory, RelayedSend hands pieces to a relay. Groups
// are served strictly in order.

#include <memory>
#include <utility>

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

  /// nullptr: not now (no clear-to-send, or no free request); call again. A message longer than the receive that it
  /// meets is an error for both ends: bytes are never cut off silently.
  Result<Request*> post(const SendArguments& send);

 protected:
  /// Where in the group in turn a message goes.
  struct Place {
    std::uint64_t group = 0;  // first entry
    std::uint32_t part = 0;
    std::uint32_t parts = 0;
    bool last = false;  // the others of its group have gone
    const ClearToSend* entry = nullptr;
  };

  SendConnection(std::unique_ptr<Leg> leg, const ConnectionSettings& settings)
      : Connection(kKind, std::move(leg), settings) {}
  /// The leg's memory: the peer writes clear-to-sends, we stage what goes with a message.
  const verbs::RegisteredBuffer& ring() { return leg().memory(); }

  /// nullptr, or why a message of this size can never be sent here.
  virtual const char* size_problem(std::size_t size_bytes) const = 0;
  virtual bool has_room(std::size_t size_bytes) const = 0;
  /// Sends the message, now or bit by bit; finish() follows. False: the connection has failed.
  virtual bool carry(const SendArguments& send, const Place& place, Request& request) = 0;
  /// Tells the peer that no message comes for this receive.
  virtual bool carry_refusal(const Place& place) = 0;

  // --- for taking up again ---
  /// No new sends while true: earlier ones go first.
  void hold_back(bool hold) { held_back_ = hold; }
  /// The first entry that was not served in full.
  std::uint64_t group_in_turn() const { return group_; }
  /// The ring is another one, in which all entries from group_in_turn() on appear once more.
  void expect_ring_anew() { group_seen_ = false; }
  /// The whole group that begins with this entry, where it has arrived in the ring; 0: not yet. An error: failed().
  std::uint32_t parts_arrived(std::uint64_t group);

 private:
  /// The part of the group in turn that waits for `tag`; nullptr: none, or the group has not arrived.
  const ClearToSend* find_slot(int tag);
  /// As find_slot(), and there may be sends just now.
  const ClearToSend* ready_slot(int tag);
  bool see_group();
  ClearToSend* first_slot(std::uint64_t group) { return ring().as<ClearToSend>() + slot_of(group); }
  Place place_of(const ClearToSend& slot);
  void finish_part(std::uint32_t part);
  /// nullptr, or the failure; takes a step towards being taken up again where the connection is suspended.
  Result<Request*> not_now();
  Result<void> check_arguments(const SendArguments& send);
  Result<Request*> refuse_oversized(const SendArguments& send, const Place& place);

  std::uint64_t group_ = 0;        // first entry of the group that is being served
  std::uint32_t group_parts_ = 0;  // 0: not known yet
  std::uint32_t matched_ = 0;      // bit per part
  bool group_seen_ = false;        // all its entries are in the ring
  bool held_back_ = false;
};

}  // namespace meshbed::net
