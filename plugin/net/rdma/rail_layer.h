#pragma once
// Lays rails beside the QP link of a sending connection: one over each further cable to the same peer, so that long
// messages are striped over all of them.
//
// While the connection is made, all rails are joined at the same time, and connect() and accept() wait for them (READY
// does). So the first message is striped already, and which messages are striped does not depend on timing. A cable
// that does not reply in time is left to the background, and so is one that comes back later. In the background one
// rail is laid at a time, by one step whenever the connection is polled; until it is laid it is not used or waited for.
// A cable that does not reply is tried again, at growing intervals.
//
// The control connection runs over the cable itself, as for a QP link. A rail is optional, so it is used only after an
// empty write over it was acknowledged: RDMA may be blocked where TCP gets through.
//
// A port that has only a link-local address, as the second function of a QSFP port often has, may carry a rail as well.
// Its subnet does not show which of the peer's link-local ports is on its cable: each pair is tried, and the first that
// replies is laid. The other pairs are expected to stay silent, so connections wait for them only briefly and without a
// warning.

#include <memory>
#include <optional>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/rdma/resumption.h"
#include "plugin/net/recover/failed_paths.h"

namespace meshbed::net {

class RailLayer {
 public:
  /// All must outlive this. `queue_pairs`: on each cable, at least 1.
  RailLayer(const Origin& origin, const QpLinkSettings& settings, QpLink& qp_link, unsigned queue_pairs,
            const FailedPaths& lost)
      : origin_(origin), settings_(settings), qp_link_(qp_link), queue_pairs_(queue_pairs), lost_(lost) {}
  ~RailLayer();

  /// Looks for cables that have no rail yet; `nics`: our present NICs.
  void plan(const std::vector<Nic>& nics);
  /// plan() was called while a rail was being laid.
  bool wants_plan() const { return plan_again_ && attempts_.empty(); }
  /// No rail is left to be laid.
  bool done() const { return plan_.empty() && attempts_.empty() && unheard_.empty(); }
  /// One step. Returns the number of the rail that it completed, if any.
  std::optional<std::size_t> advance();

  /// For a connection that is being made: advance() begins with all cables at once.
  void join(std::int64_t patience_ms);
  /// Call it after each advance(), with our present NICs. Returns true when each cable's rail is laid and known to the
  /// receiver, or has failed, or the time is up.
  bool joined(const std::vector<Nic>& nics);

 private:
  struct RailRoute {
    Route route;
    Nic nic;
    bool link_local = false;  // the pair may not be on one cable
  };
  /// A rail that is being laid.
  struct Attempt {
    RailRoute way;
    std::size_t number = 0;
    std::unique_ptr<QpLink> rail;
    std::unique_ptr<Connecting> connecting;
  };
  /// Pairs of ports with link-local addresses alone, where neither port has a rail.
  void plan_link_local();
  /// Drops the planned and running attempts of other pairs of either port; the cable's further queue pairs remain.
  void settle_link_local(const RailRoute& laid);
  bool waits_for_cables() const;
  /// Begins an attempt with the first route of the plan.
  void begin();
  void give_up(Attempt& attempt);
  void fail(RailRoute way, const Error& why, bool answered);
  void put_off(RailRoute way);
  /// Warns of this cable; connections do not wait for it again for a while.
  void tell_silent(const RailRoute& way, const std::string& why);
  std::size_t free_number() const;

  const Origin& origin_;
  QpLinkSettings settings_;
  QpLink& qp_link_;
  unsigned queue_pairs_;
  const FailedPaths& lost_;
  bool plan_again_ = false;
  std::vector<RailRoute> plan_;  // the next one first
  std::vector<Attempt> attempts_;
  bool waits_ = false;  // for next_try_
  Deadline next_try_;
  std::int64_t pause_ms_ = 125;  // doubles with every failure
  std::uint32_t calls_ = 0;
  bool joining_ = false;
  std::size_t untried_ = 0;  // the first ones of the plan, while joining
  std::int64_t patience_ms_ = 0;
  std::int64_t looked_ns_ = 0, waited_ns_ = 0;
  /// Laid while joining; the receiver has not yet confirmed READY, which it does by closing the control connection.
  struct Unheard {
    std::size_t number = 0;
    Socket control;
  };
  std::vector<Unheard> unheard_;
};

}  // namespace meshbed::net
