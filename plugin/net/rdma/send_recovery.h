#pragma once
// What a sending connection does so as not to depend on the cable that it was made over: where its receiver is to be
// found, the cables that rails are still to be laid over, another QP link when this one is lost, what is sent once more
// on it, and the way back to the first cable.
//
// A part of its connection, which sees to the turn. What a message passes reads it in place, and calls nothing here:
// holds_back(), lacks_what_is_known(), has_work() and has_news().

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/link/process_links.h"
#include "plugin/net/rdma/rail_layer.h"
#include "plugin/net/rdma/resumption.h"
#include "plugin/net/rdma/send_path.h"
#include "plugin/net/recover/failback.h"

namespace meshbed::net {

class SendRecovery {
 public:
  explicit SendRecovery(SendConnection& connection) : connection_(connection) {}
  SendRecovery(const SendRecovery&) = delete;
  SendRecovery& operator=(const SendRecovery&) = delete;

  // --- while the connection is made ---
  /// The receiver is known: where to look for it when this QP link is lost, and for more cables to it, which are joined
  /// now. `nics`: ours, as they are now.
  void remember(Origin origin, const std::vector<Nic>& nics, std::uint32_t events);
  bool knows_receiver() const { return origin_.has_value(); }
  /// After remember(), before READY; one step. `nics`: ours, as they are now. True: the other cables to the receiver
  /// are joined, or given up for now.
  bool rails_joined(const std::vector<Nic>& nics);
  /// After the handshake: from now on its receiver may ask after it.
  void enroll();

  // --- for its connection ---
  bool can_resume() const;
  /// One step towards another QP link, while suspended.
  void resume();
  std::string obstacle() const { return resumption_ != nullptr ? resumption_->obstacle() : ""; }
  void way_lost(const QpLink& lost) { failed_paths_.add(lost); }
  /// Failed, or closed.
  void ended();

  /// No new sends: earlier ones go first.
  bool holds_back() const { return held_back_; }
  /// What was matched on an earlier QP link is not known to this one's send path: carry_what_is_known().
  bool lacks_what_is_known() const { return !known_carried_; }
  /// The parts of a group that were acknowledged on an earlier QP link, and so need not be sent again: their sizes
  /// still have to go out with the group's.
  bool carry_what_is_known(std::uint64_t group, std::uint32_t parts);
  /// There is something for attend_to_ways().
  [[gnu::always_inline]] bool has_work() const { return !replays_.empty() || away_ || rail_layer_ != nullptr; }
  /// What there is to do until everything is as it was meant to be.
  [[gnu::cold, gnu::noinline]] void attend_to_ways();
  /// Nothing came, and the receiver is known: is there something for look_around()?
  [[gnu::always_inline]] bool has_news() const {
    return events_seen_ != origin_->process->port_events() || detour_ != nullptr;
  }
  /// At the ports, for a reason why nothing comes.
  [[gnu::cold, gnu::noinline]] void look_around();
  /// The NIC that the connection goes on over does not take memory that is sent from for the first time: it goes back,
  /// as soon as nothing is under way, to the way that it left, and stays there. Once, since that way may be lost again.
  /// False: there is no way back.
  [[gnu::cold, gnu::noinline]] bool goes_back_for(const SendArguments& send);

  // --- for a look from outside (send_state.cpp) ---
  /// The receiver, wherever the next hop is.
  std::string receiver_text() const;
  /// What new sends wait for, where it is not `receiver` itself; empty: nothing.
  std::string waits_for(const std::string& receiver) const;

 private:
  // --- rails ---
  void plan_rails(const std::vector<Nic>& nics);
  void lay_rails();

  // --- ports ---
  void look_at_port();
  void look_at_rails(const std::vector<Nic>& nics);
  const QpLink* take_moved();
  const QpLink* qp_link_to(const WireEnd& end);

  // --- ways ---
  void look_homewards();
  void look_for_detour();
  std::optional<std::vector<Hop>> way_back_for(const SendArguments& send);
  bool takes(const Nic& nic, const SendArguments& send);

  // --- taking up again ---
  void continue_on(Resumption::Resumed resumed);
  void finish_served(std::uint64_t served);
  void replay();
  bool replay(Request& request, bool last_of_group);

  SendConnection& connection_;
  std::unique_ptr<SendPath> retired_send_path_;
  std::optional<Origin> origin_;
  std::vector<WireEnd> moved_ends_;  // of this QP link and its rails: where the receiver has said that they are by now
  std::vector<WireEnd> unmatched_ends_;  // likewise, of no QP link that is known
  FailedPaths failed_paths_;
  std::unique_ptr<RailLayer> rail_layer_;   // while a cable to the receiver has no rail
  std::unique_ptr<Resumption> resumption_;  // while suspended
  std::unique_ptr<Failback> failback_;
  std::unique_ptr<ChainSearch> detour_;  // while our port is down, and no other cable leads to the peer
  std::vector<Nic> detour_nics_;
  std::vector<Request*> replays_;  // sent on a lost QP link and not served, in order
  std::size_t replayed_ = 0;       // of them
  std::uint32_t events_seen_ = 0;  // Transport::port_events()
  bool held_back_ = false;
  bool known_carried_ = true;
  bool away_ = false;  // not on the first QP link's way
  bool began_relayed_ = false;
  bool went_back_ = false;   // goes_back_for() was true once
  bool going_back_ = false;  // to the chain before: that is why it is suspended
  bool going_home_ = false;  // as soon as nothing is under way here
};

}  // namespace meshbed::net
