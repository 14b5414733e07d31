#include "plugin/net/rail_layer.h"

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/direct_carrier.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

/// One attempt; a peer that is there answers within a round trip, and its adapter may take a second to find ours.
constexpr std::int64_t kAttemptMs = 2500;
constexpr std::int64_t kLongestPauseMs = 60'000;
/// So many between two looks at the clock.
constexpr std::uint32_t kCallsBetweenClocks = 16;

}  // namespace

void RailLayer::plan(const std::vector<Nic>& nics) {
  plan_again_ = rail_ != nullptr;
  if (plan_again_) return;
  plan_.clear();
  waits_ = false;
  // A process of this node needs no cable, and two of them would not be faster than one.
  if (origin_.peer.node == origin_.transport->node()) return;
  const auto ways = ways_to(origin_, nics);
  if (!ways) return;
  const auto peer_nic = [&](const IpAddress& address) {
    const auto found = std::find_if(origin_.peer.addresses.begin(), origin_.peer.addresses.end(),
                                    [&](const PeerAddress& known) { return known.prefix.address == address; });
    return found != origin_.peer.addresses.end() ? static_cast<int>(found->nic) : -1;
  };
  std::vector<CableEnds> taken{CableEnds::of(leg_)};
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if (leg_.rail(number) != nullptr) taken.push_back(CableEnds::of(*leg_.rail(number)));
  }
  std::vector<CableEnds> cables = taken;
  std::vector<Way> usable;
  for (const Route& way : *ways) {
    const Nic& nic = nics[static_cast<std::size_t>(way.nic)];
    const CableEnds ends = CableEnds::of(nic, way);
    const auto shares_port = [&](const CableEnds& ports) {
      return (ports.device == nic.device && ports.port == nic.port) || peer_nic(ports.peer) == way.remote.nic;
    };
    // A cable that is much slower than the leg's would only be waited for.
    const bool is_fast = 2 * std::uint64_t{nic.rate_mbps} >= leg_.local().nic.rate_mbps;
    const bool is_known = std::count(cables.begin(), cables.end(), ends) > 0;
    if (!is_fast || (!is_known && std::any_of(cables.begin(), cables.end(), shares_port))) continue;
    if (!is_known) cables.push_back(ends);
    usable.push_back({.route = way, .nic = nic});
  }
  // A cable's second queue pair only after the first ones of all cables.
  std::size_t room = kMaxRails - static_cast<std::size_t>(taken.size() - 1);
  for (unsigned pair = 0; pair < queue_pairs_; ++pair) {
    for (const Way& way : usable) {
      const CableEnds ends = CableEnds::of(way.nic, way.route);
      const auto laid = std::count(taken.begin(), taken.end(), ends);
      if (laid > static_cast<std::ptrdiff_t>(pair) || room == 0) continue;
      plan_.push_back(way);
      taken.push_back(ends);
      --room;
    }
  }
}

std::size_t RailLayer::free_number() const {
  std::size_t number = 0;
  while (number < kMaxRails && leg_.rail(number) != nullptr) ++number;
  return number;
}

std::optional<std::size_t> RailLayer::advance() {
  if (rail_ == nullptr) {
    if (plan_.empty() || (waits_ && (++calls_ % kCallsBetweenClocks != 0 || !next_try_.passed())) || !begin()) {
      return std::nullopt;
    }
  }
  auto connected = connecting_->advance();
  if (!connected) {
    fail(connected.error().text);
    return std::nullopt;
  }
  if (!*connected) return std::nullopt;
  connecting_.reset();
  leg_.lay(number_, std::move(rail_));
  plan_.erase(plan_.begin());
  return number_;
}

bool RailLayer::begin() {
  waits_ = false;
  number_ = free_number();
  if (number_ == kMaxRails) {
    plan_.clear();
    return false;
  }
  const Way& way = plan_.front();
  if (!lost_.may_try(CableEnds::of(way.nic, way.route))) {
    put_off();
    return false;
  }
  const LocalEnd local = origin_.transport->local_end(way.nic, way.route.local, way.route.gid);
  if (!DirectCarrier::may_be_rail(local)) {
    plan_.erase(plan_.begin());
    return false;
  }
  auto rail = Leg::open(local, settings_, DirectCarrier::rail_shape_on(*local.device));
  if (!rail) {
    fail(rail.error().text);
    return false;
  }
  rail_ = std::move(*rail);
  connecting_ = std::make_unique<Connecting>(
      *origin_.transport,
      Destination{.route = way.route,
                  .target = {.address = way.route.remote.prefix.address, .port = origin_.service_port},
                  .cookie = origin_.session,
                  .rail = WireRail{.number = static_cast<std::uint8_t>(number_), .sender_leg = leg_.pair().number()},
                  .patience_ms = kAttemptMs},
      *rail_);
  return true;
}

void RailLayer::fail(const std::string& why) {
  MESHBED_INFO("%s: no rail beside it yet: %s", leg_.ends_text().c_str(), why.c_str());
  connecting_.reset();
  rail_.reset();
  put_off();
}

void RailLayer::put_off() {
  // The others first, before this one is tried again.
  std::rotate(plan_.begin(), plan_.begin() + 1, plan_.end());
  waits_ = true;
  next_try_ = Deadline::in_ms(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, kLongestPauseMs);
}

}  // namespace meshbed::net
