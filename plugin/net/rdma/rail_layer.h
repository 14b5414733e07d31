#pragma once
// Lays rails beside the QP link of a sending connection: one over each further cable to the same peer, so that long
// messages are striped over all of them.
//
// While the connection is made they are joined: all cables at the same time, and connect() and accept() wait for them
// (READY does), so that the first message is striped already, and which messages are is no chance of the moment. A
// cable that has not answered in time is left to the background, as is one that comes back later: there one is laid at
// a time, one step whenever the connection is polled; what is not laid yet, or cannot be, is not used, and nobody waits
// for it. A cable that does not answer is tried again, ever more seldom.
//
// The control connection runs over the cable itself, as for a QP link; but a QP link has no choice, and a rail is a
// luxury: it is used only after an empty write of its own was acknowledged, for where TCP gets through RDMA may not.
//
// A port with a link-local address alone, as the second function of a QSFP port often has, may carry a rail as well.
// Its subnet does not show which of the peer's such ports is on its cable: each pair of them is tried, and the first
// that answers is laid. The others are expected to stay silent, so that connections wait for them only briefly, and
// without a warning.

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

  /// Looks for cables that have no rail yet; `nics`: ours, as they are now.
  void plan(const std::vector<Nic>& nics);
  /// It was asked to while it was laying one.
  bool wants_plan() const { return plan_again_ && attempts_.empty(); }
  /// Nothing is left to be laid.
  bool done() const { return plan_.empty() && attempts_.empty() && unheard_.empty(); }
  /// One step. The number of the rail that it was the last one for.
  std::optional<std::size_t> advance();

  /// The connection is being made, and waits: advance() begins with all cables at once.
  void join(std::int64_t patience_ms);
  /// To be asked after each advance(), with our NICs as they are now. True: each cable's rail is laid, and the receiver
  /// knows it; or it was tried, or the time is up.
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
  /// Where pairs of either port are planned or tried, they are not any more; the cable's further queue pairs are.
  void settle_link_local(const RailRoute& laid);
  bool waits_for_cables() const;
  /// Of the first way in the plan.
  void begin();
  void give_up(Attempt& attempt);
  void fail(RailRoute way, const Error& why, bool answered);
  void put_off(RailRoute way);
  /// Nobody waits for this cable again for a while.
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
  /// Laid while joining: the receiver closes the control connection when it has noted READY.
  struct Unheard {
    std::size_t number = 0;
    Socket control;
  };
  std::vector<Unheard> unheard_;
};

}  // namespace meshbed::net
