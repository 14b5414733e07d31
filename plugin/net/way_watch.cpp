#include "plugin/net/way_watch.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/process/clock.h"
#include "plugin/net/relay/chain_search.h"
#include "plugin/net/transport.h"
#include "plugin/net/wire/piece.h"

namespace meshbed::net {
namespace {

/// NCCL_MESH_RING_LOAD_BALANCE.
constexpr std::int64_t kChangesOver = 2;
/// Answers that take longer count in the next look.
constexpr std::int64_t kAnswersNs = 1'000'000;
/// Between two connections of a process that change: the second one sees what the first one's change has made of it.
constexpr std::int64_t kBetweenChangesNs = 20'000'000;
/// A relay never has more of one connection.
constexpr std::uint64_t kMostAtRelay = std::uint64_t{kPieceSlots} * kPieceBytes;

}  // namespace

std::shared_ptr<WatchedWay> WayWatch::enroll(const Handle& peer, int dev, const std::vector<Hop>& hops) {
  const Config& config = transport_.config();
  if (config.number(Variable::kRingLoadBalance) != kChangesOver) return nullptr;
  auto way = std::make_shared<WatchedWay>(peer, dev, hops,
                                          static_cast<std::uint64_t>(config.number(Variable::kRingBalanceThreshold)));
  way->next_look_ns_.store(now_ns() + way->balance_.pause_ns(), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  std::erase_if(ways_, [](const auto& known) { return known.use_count() == 1; });  // their connections are gone
  ways_.push_back(way);
  return way;
}

void WayWatch::changed(WatchedWay& way, const std::vector<Hop>& hops) {
  const std::uint64_t chance = transport_.random();
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  way.advised_ns_.store(0, std::memory_order_relaxed);
  way.hops_ = hops;
  way.balance_.changed(now, chance);
  way.next_look_ns_.store(now + way.balance_.pause_ns(), std::memory_order_relaxed);
}

std::optional<std::vector<Hop>> WayWatch::take_advice(WatchedWay& way) {
  const std::lock_guard lock(mutex_);
  const bool stale = way.is_stale(now_ns());
  way.advised_ns_.store(0, std::memory_order_relaxed);
  if (stale) return std::nullopt;
  return std::move(way.advised_);
}

void WayWatch::advance() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = now_ns();
  if (asked_ && now < weigh_at_ns_) return;
  if (std::exchange(asked_, false)) {
    const auto nics = transport_.recent_nics();
    for (const auto& way : ways_) {
      if (std::exchange(way->asked_, false)) weigh(*way, *nics, now);
    }
  }
  // Also those that began to want it while the others' answers were awaited.
  std::size_t relays = 0;
  for (const auto& way : ways_) {
    way->asked_ = way->wanted_.exchange(false, std::memory_order_acquire);
    if (way->asked_) relays = std::max(relays, way->hops_.size());
  }
  asked_ = relays > 0;
  if (!asked_) return;
  in_flight_bytes_ = transport_.in_flight_bytes();
  // Whose answers count is a relay, and no farther away: nobody need hand the question on to others.
  scout_.ask(static_cast<int>(relays));
  weigh_at_ns_ = now + kAnswersNs;
}

void WayWatch::weigh(WatchedWay& way, const std::vector<Nic>& nics, std::int64_t now_ns) {
  ChainRequest request = chain_request(transport_, scout_, {.peer = way.peer_, .dev = way.dev_}, nics);
  request.in_flight_bytes = in_flight_bytes_;
  request.taken = &way.hops_;
  request.own_bytes = way.own_bytes_.load(std::memory_order_relaxed);
  request.own_bytes_at_relays = std::min(request.own_bytes, kMostAtRelay);
  auto both = scout_.weigh(request);
  if (!both) {
    way.balance_.weigh_nothing();
  } else if (way.balance_.weigh({.here_bytes = both->taken_bytes, .there_bytes = both->other.in_flight_bytes},
                                now_ns) &&
             now_ns >= next_advice_ns_) {
    MESHBED_INFO("the chain to %s by %s carries %" PRIu64 " bytes of others, the one by %s %" PRIu64,
                 to_text(request.target_addresses.front().prefix.address).c_str(),
                 to_text(way.hops_.front().address.address).c_str(), both->taken_bytes,
                 to_text(both->other.hops.front().address.address).c_str(), both->other.in_flight_bytes);
    next_advice_ns_ = now_ns + kBetweenChangesNs;
    way.advised_ = std::move(both->other.hops);
    way.advised_ns_.store(now_ns, std::memory_order_relaxed);
  }
  // At chance, or every look would find a collective in the same one of its rounds. Each look is answered by every
  // process of the neighbours, which have as many as we do: so the processes of a node share what one would ask.
  const std::int64_t pause_ns = way.balance_.pause_ns() * static_cast<std::int64_t>(1 + scout_.known_siblings());
  const auto chance = static_cast<std::int64_t>(transport_.random() % static_cast<std::uint64_t>(pause_ns));
  way.next_look_ns_.store(now_ns + pause_ns / 2 + chance, std::memory_order_relaxed);
}

}  // namespace meshbed::net
