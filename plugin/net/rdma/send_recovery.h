#pragma once
// How a sending connection survives the loss of its cable: it keeps the receiver's addresses, lays rails over further
// cables, replaces a lost QP link, sends again what was lost with it, and returns to the first cable when it is back.
//
// It is part of its connection, which takes the turn. The data path only reads the inline conditions holds_back(),
// lacks_what_is_known(), has_work() and has_news(), and calls nothing else here.

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
  /// Keeps the receiver's addresses, for when this QP link is lost, and begins to join further cables to it. `nics`:
  /// our present NICs.
  void remember(Origin origin, const std::vector<Nic>& nics, std::uint32_t events);
  bool knows_receiver() const { return origin_.has_value(); }
  /// After remember(), before READY; one step. `nics`: our present NICs. Returns true when the other cables to the
  /// receiver are joined or given up for now.
  bool rails_joined(const std::vector<Nic>& nics);
  /// After the handshake: from now on the receiver may inquire about the session.
  void enroll();

  // --- for its connection ---
  bool can_resume() const;
  /// One step towards another QP link, while suspended.
  void resume();
  std::string obstacle() const { return resumption_ != nullptr ? resumption_->obstacle() : ""; }
  void way_lost(const QpLink& lost) { failed_paths_.add(lost); }
  /// The connection has failed or was closed.
  void ended();

  /// New sends wait while earlier ones are sent again.
  bool holds_back() const { return held_back_; }
  /// This QP link's send path lacks the sizes of parts that were matched on an earlier one: carry_what_is_known().
  bool lacks_what_is_known() const { return !known_carried_; }
  /// Passes on the sizes of a group's parts that were acknowledged on an earlier QP link: the parts need not be sent
  /// again, but their sizes are sent with the group's.
  bool carry_what_is_known(std::uint64_t group, std::uint32_t parts);
  /// update_routes() has work to do.
  [[gnu::always_inline]] bool has_work() const { return !replays_.empty() || away_ || rail_layer_ != nullptr; }
  /// One step of replaying sends, laying rails and returning to the first cable.
  [[gnu::cold, gnu::noinline]] void update_routes();
  /// Call it if nothing has completed and knows_receiver(): whether look_around() has work to do.
  [[gnu::always_inline]] bool has_news() const {
    return events_seen_ != origin_->process->port_events() || detour_ != nullptr;
  }
  /// Checks the ports for a reason why nothing completes.
  [[gnu::cold, gnu::noinline]] void look_around();
  /// For memory that the present NIC cannot register: the connection returns to the path that it left, as soon as
  /// nothing is in flight, and stays there. This happens once, because that path may be lost again. Returns false if
  /// there is no path back.
  [[gnu::cold, gnu::noinline]] bool goes_back_for(const SendArguments& send);

  // --- for the state socket (send_state.cpp) ---
  /// The receiver, not the next hop.
  std::string receiver_text() const;
  /// The receiver's node identity; 0: not known.
  std::uint64_t receiver_node() const { return origin_ ? origin_->peer.node : 0; }
  /// What new sends wait for, other than `receiver`; empty: nothing.
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

  // --- paths ---
  void look_homewards();
  void look_for_detour();
  std::optional<std::vector<Hop>> way_back_for(const SendArguments& send);
  bool takes(const Nic& nic, const SendArguments& send);

  // --- resuming ---
  void continue_on(Resumption::Resumed resumed);
  void finish_served(std::uint64_t served);
  void replay();
  bool replay(Request& request, bool last_of_group);

  SendConnection& connection_;
  std::unique_ptr<SendPath> retired_send_path_;
  std::optional<Origin> origin_;
  std::vector<WireEnd> moved_ends_;      // new addresses of the receiver's ends of this QP link and its rails (MOVED)
  std::vector<WireEnd> unmatched_ends_;  // likewise, for unknown QP links
  FailedPaths failed_paths_;
  std::unique_ptr<RailLayer> rail_layer_;   // while a cable to the receiver has no rail
  std::unique_ptr<Resumption> resumption_;  // while suspended
  std::unique_ptr<Failback> failback_;
  std::unique_ptr<ChainSearch> detour_;  // while our port is down, and no other cable leads to the peer
  std::vector<Nic> detour_nics_;
  std::vector<Request*> replays_;  // sent on a lost QP link and not served, in order
  std::size_t replayed_ = 0;       // how many of them were sent again
  std::uint32_t events_seen_ = 0;  // port_events() at the last look
  bool held_back_ = false;
  bool known_carried_ = true;
  bool away_ = false;  // not on the first QP link's path
  bool began_relayed_ = false;
  bool went_back_ = false;   // goes_back_for() was true once
  bool going_back_ = false;  // suspended in order to return to the previous chain
  bool going_home_ = false;  // returns to the first cable as soon as nothing is in flight here
};

}  // namespace meshbed::net
