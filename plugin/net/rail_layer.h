#pragma once
// Lays rails beside the leg of a sending connection: one over each further cable to the same peer, so that long
// messages are striped over all of them. In the background, one step whenever the connection is polled: what is not
// laid yet, or cannot be, is not used, and nobody waits for it. A cable that does not answer is tried again, ever more
// seldom.
//
// The control connection runs over the cable itself, as for a leg; but a leg has no choice, and a rail is a luxury: it
// is used only after an empty write of its own was acknowledged, for where TCP gets through RDMA may not.

#include <memory>
#include <optional>
#include <vector>

#include "plugin/net/clock.h"
#include "plugin/net/connecting.h"
#include "plugin/net/leg.h"
#include "plugin/net/lost_ways.h"
#include "plugin/net/resumption.h"

namespace meshbed::net {

class RailLayer {
 public:
  /// All must outlive this. `queue_pairs`: on each cable, at least 1.
  RailLayer(const Origin& origin, const LegSettings& settings, Leg& leg, unsigned queue_pairs, const LostWays& lost)
      : origin_(origin), settings_(settings), leg_(leg), queue_pairs_(queue_pairs), lost_(lost) {}

  /// Looks for cables that have no rail yet; `nics`: ours, as they are now.
  void plan(const std::vector<Nic>& nics);
  /// It was asked to while it was laying one.
  bool wants_plan() const { return plan_again_ && rail_ == nullptr; }
  /// Nothing is left to be laid.
  bool done() const { return plan_.empty() && rail_ == nullptr; }
  /// One step. The number of the rail that it was the last one for.
  std::optional<std::size_t> advance();

 private:
  struct Way {
    Route route;
    Nic nic;
  };
  bool begin();
  void fail(const std::string& why);
  void put_off();
  std::size_t free_number() const;

  const Origin& origin_;
  LegSettings settings_;
  Leg& leg_;
  unsigned queue_pairs_;
  const LostWays& lost_;
  bool plan_again_ = false;
  std::vector<Way> plan_;  // the next one first
  std::size_t number_ = 0;
  std::unique_ptr<Leg> rail_;               // that is being laid
  std::unique_ptr<Connecting> connecting_;  // its
  bool waits_ = false;                      // for next_try_
  Deadline next_try_;
  std::int64_t pause_ms_ = 125;  // doubles with every failure
  std::uint32_t calls_ = 0;
};

}  // namespace meshbed::net
