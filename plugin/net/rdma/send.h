#pragma once
// The sending end. A send waits for the first clear-to-send group in the ring to have a part with its tag; what happens
// then is the send path's. Groups are served strictly in order.
//
// A lost QP link is replaced (resumption.h): everything that was sent and, as the receiver says, not served is sent
// once more, in the same order, before anything new.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/link/connection.h"
#include "plugin/net/rdma/rail_layer.h"
#include "plugin/net/rdma/resumption.h"
#include "plugin/net/rdma/send_path.h"
#include "plugin/net/recover/failback.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

class SendConnection : public Connection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kSend;
  /// With a cable to the receiver.
  static Result<std::unique_ptr<SendConnection>> create(LocalEnd local, const ConnectionSettings& settings);
  /// Through relays; attach() follows when the handshake is over.
  static Result<std::unique_ptr<SendConnection>> create(LocalEnd local, const ConnectionSettings& settings,
                                                        const CircuitStart& circuit);
  void attach(Socket control);
  /// The receiver is known: where to look for it when this QP link is lost, and for more cables to it, which are joined
  /// now. `nics`: ours, as they are now.
  void remember(Origin origin, const std::vector<Nic>& nics, std::uint32_t events);
  bool knows_its_receiver() const { return origin_.has_value(); }
  /// After remember(), before READY; one step. `nics`: ours, as they are now. True: the other cables to the receiver
  /// are joined, or given up for now.
  bool rails_joined(const std::vector<Nic>& nics);
  /// After the handshake: from now on its receiver may ask after it.
  void enroll();
  /// What its communicator's user says of the traffic.
  void heed(std::shared_ptr<const TrafficHint> hint) { hint_ = std::move(hint); }

  /// nullptr: not now (no clear-to-send, or no free request); call again. A message longer than the receive that it
  /// meets is an error for both ends: bytes are never cut off silently.
  Result<Request*> post(const SendArguments& send);

 private:
  friend class SendPath;
  SendConnection(std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings)
      : Connection(kKind, std::move(qp_link), settings) {}
  void completed(const ibv_wc& completion) override { send_path_->completed(completion); }
  void rail_completed(std::size_t rail, const ibv_wc& completion) override {
    send_path_->rail_completed(rail, completion);
  }
  void polled(int count) override;
  void closing() override { send_path_->closing(); }
  bool can_resume() const override;
  void ended() override;
  void qp_link_lost() override { send_path_->qp_link_lost(); }
  void way_lost(const QpLink& lost) override { failed_paths_.add(lost); }
  void resume() override;
  std::string obstacle() const override { return resumption_ != nullptr ? resumption_->obstacle() : ""; }
  void probe() override { send_path_->probe(); }
  bool is_relayed() const override { return send_path_->is_relayed(); }
  void describe(ConnectionState& state) override;
  RequestState describe(const Request& request) override;
  std::uint64_t next_group() const override { return group_ + kMaxGroup; }  // posting ends the silence

  /// The QP link's memory: the peer writes clear-to-sends, we stage what goes with a message.
  const verbs::RegisteredBuffer& ring() { return qp_link().memory(); }
  /// The part of the group in turn that waits for `tag`; nullptr: none, or the group has not arrived.
  const ClearToSend* find_slot(int tag);
  /// As find_slot(), and there may be sends just now.
  const ClearToSend* ready_slot(int tag);
  bool see_group();
  /// The whole group that begins with this entry, where it has arrived in the ring; 0: not yet. An error: failed().
  std::uint32_t parts_arrived(std::uint64_t group);
  /// Of a group's parts, as they were sent: staged for the write that ends it.
  std::uint32_t* size_records(std::uint64_t group) {
    return ring().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t) + slot_of(group);
  }
  ClearToSend* first_slot(std::uint64_t group) { return ring().as<ClearToSend>() + slot_of(group); }
  GroupSlot place_of(const ClearToSend& slot);
  void finish_part(std::uint32_t part);
  /// nullptr, or what is wrong with it.
  const char* problem_with(const SendArguments& send);
  [[gnu::cold, gnu::noinline]] Error refuse(const SendArguments& send, const char* problem);
  [[gnu::cold, gnu::noinline]] Result<Request*> refuse_oversized(const SendArguments& send, const GroupSlot& place);

  // --- rails ---
  void plan_rails(const std::vector<Nic>& nics);
  void lay_rails();

  // --- for a look from outside (send_state.cpp) ---
  struct Refused {
    int tag = 0;
    std::size_t size_bytes = 0;
  };
  std::string receiver_text();
  std::string refused_text(const std::string& peer);

  // --- taking up again (send_resume.cpp) ---
  [[gnu::cold, gnu::noinline]] void attend_to_ways();
  void look_around();
  void look_at_port();
  const QpLink* take_moved();
  const QpLink* qp_link_to(const WireEnd& end);
  void look_at_rails(const std::vector<Nic>& nics);
  void look_homewards();
  void look_for_detour();
  [[gnu::cold, gnu::noinline]] bool goes_back_for(const SendArguments& send);
  std::optional<std::vector<Hop>> way_back_for(const SendArguments& send);
  bool takes(const Nic& nic, const SendArguments& send);
  void finish_served(std::uint64_t served);
  void continue_on(Resumption::Resumed resumed);
  void replay();
  bool replay(Request& request, bool last_of_group);
  bool carry_what_is_known(std::uint64_t group, std::uint32_t parts);

  std::unique_ptr<SendPath> send_path_, retired_send_path_;
  std::shared_ptr<const TrafficHint> hint_;
  std::uint64_t group_ = 0;        // first entry of the group that is being served
  std::uint32_t group_parts_ = 0;  // 0: not known yet
  std::uint32_t matched_ = 0;      // bit per part
  std::uint32_t matched_parts_ = 0;
  bool group_seen_ = false;         // all its entries are in the ring
  bool known_carried_ = true;       // what was matched on an earlier QP link is known to this one's send path
  bool held_back_ = false;          // no new sends: earlier ones go first
  std::uint64_t confirmed_ = 0;     // the entries below are served, says the adapter
  std::optional<Refused> refused_;  // the send that could not be taken yet

  std::optional<Origin> origin_;
  std::vector<WireEnd> moved_ends_;  // of this QP link and its rails: where the receiver has said that they are by now
  std::vector<WireEnd> unmatched_ends_;  // likewise, of no QP link that is known
  FailedPaths failed_paths_;
  std::unique_ptr<RailLayer> rail_layer_;   // while a cable to the receiver has no rail
  std::unique_ptr<Resumption> resumption_;  // while suspended
  std::unique_ptr<Failback> failback_;
  std::unique_ptr<ChainSearch> detour_;  // while our port is down, and no other cable leads to the peer
  std::vector<Nic> detour_nics_;
  bool away_ = false;  // not on the first QP link's way
  bool began_relayed_ = false;
  bool went_back_ = false;         // goes_back_for() was true once
  bool going_back_ = false;        // to the chain before: that is why it is suspended
  bool going_home_ = false;        // as soon as nothing is under way here
  std::vector<Request*> replays_;  // sent on a lost QP link and not served, in order
  std::size_t replayed_ = 0;       // of them
  std::uint32_t events_seen_ = 0;  // Transport::port_events()
};

}  // namespace meshbed::net
