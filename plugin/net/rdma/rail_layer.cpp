#include "plugin/net/rdma/rail_layer.h"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/link/retired_links.h"
#include "plugin/net/rdma/direct_send_path.h"
#include "plugin/net/recover/silent_cables.h"

namespace meshbed::net {
namespace {

/// One attempt: a reachable peer replies within a round trip, and its adapter may take a second to resolve ours.
constexpr std::int64_t kRailAttemptMs = 2500;
constexpr std::int64_t kLongestRailPauseMs = 60'000;
/// How long connect() waits for the pairs of link-local addresses: a neighbour replies within a round trip, and most
/// pairs are not neighbours.
constexpr std::int64_t kLinkLocalPatienceMs = 200;
/// Calls between two readings of the clock.
constexpr std::uint32_t kRailCallsBetweenClocks = 16;

bool has_link_local(const PeerAddress& address) {
  return address.prefix.address.family == Family::kIpv6 && is_link_local(address.prefix.address);
}

}  // namespace

RailLayer::~RailLayer() {
  for (Attempt& attempt : attempts_) give_up(attempt);
}

void RailLayer::give_up(Attempt& attempt) {
  attempt.connecting.reset();
  put_away(std::move(attempt.rail), this);
}

void RailLayer::plan(const std::vector<Nic>& nics) {
  plan_again_ = !attempts_.empty();
  if (plan_again_) return;
  plan_.clear();
  waits_ = false;
  // A process of this node needs no cable, and two of them would not be faster than one.
  if (origin_.peer.node == origin_.process->node()) return;
  const auto ways = ways_to(origin_, nics);
  if (!ways) return;
  const auto peer_nic = [&](const IpAddress& address) {
    const auto found = std::find_if(origin_.peer.addresses.begin(), origin_.peer.addresses.end(),
                                    [&](const PeerAddress& known) { return known.prefix.address == address; });
    return found != origin_.peer.addresses.end() ? static_cast<int>(found->nic) : -1;
  };
  std::vector<CableEnds> taken{CableEnds::of(qp_link_)};
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if (qp_link_.rail(number) != nullptr) taken.push_back(CableEnds::of(*qp_link_.rail(number)));
  }
  std::vector<CableEnds> cables = taken;
  std::vector<RailRoute> usable;
  for (const Route& way : *ways) {
    const Nic& nic = nics[static_cast<std::size_t>(way.nic)];
    const CableEnds ends = CableEnds::of(nic, way);
    const auto shares_port = [&](const CableEnds& ports) {
      return (ports.device == nic.device && ports.port == nic.port) || peer_nic(ports.peer) == way.remote.nic;
    };
    // A cable that is much slower than the QP link's would only delay messages.
    const bool is_fast = 2 * std::uint64_t{nic.rate_mbps} >= qp_link_.local().nic.rate_mbps;
    const bool is_known = std::count(cables.begin(), cables.end(), ends) > 0;
    if (!is_fast || (!is_known && std::any_of(cables.begin(), cables.end(), shares_port))) continue;
    if (!is_known) cables.push_back(ends);
    usable.push_back({.route = way, .nic = nic});
  }
  // A cable's second queue pair only after the first ones of all cables.
  std::size_t room = kMaxRails - static_cast<std::size_t>(taken.size() - 1);
  for (unsigned pair = 0; pair < queue_pairs_; ++pair) {
    for (const RailRoute& way : usable) {
      const CableEnds ends = CableEnds::of(way.nic, way.route);
      const auto laid = std::count(taken.begin(), taken.end(), ends);
      if (laid > static_cast<std::ptrdiff_t>(pair) || room == 0) continue;
      plan_.push_back(way);
      taken.push_back(ends);
      --room;
    }
  }
  plan_link_local();
}

void RailLayer::plan_link_local() {
  const GidPreference preference{.roce_v2 = origin_.process->gid_preference().roce_v2};
  const auto has_rail = [this](const Nic& nic, const IpAddress& peer) {
    for (std::size_t number = 0; number < kMaxRails; ++number) {
      const QpLink* rail = qp_link_.rail(number);
      if (rail == nullptr) continue;
      const CableEnds ends = CableEnds::of(*rail);
      if ((ends.device == nic.device && ends.port == nic.port) || ends.peer == peer) return true;
    }
    return false;
  };
  for (const Nic& nic : origin_.process->current_link_local_nics()) {
    if (!nic.link_up || 2 * std::uint64_t{nic.rate_mbps} < qp_link_.local().nic.rate_mbps) continue;
    const auto gid = find_gid(nic, nic.link_local->address, preference);
    if (!gid) continue;
    for (const PeerAddress& remote : origin_.peer.addresses) {
      if (!has_link_local(remote) || has_rail(nic, remote.prefix.address)) continue;
      plan_.push_back({.route = {.nic = -1, .local = *nic.link_local, .gid = *gid, .remote = remote, .shared_bits = 64},
                       .nic = nic,
                       .link_local = true});
    }
  }
}

void RailLayer::settle_link_local(const RailRoute& laid) {
  const auto shares_port = [&](const RailRoute& way) {
    return way.link_local && ((way.nic.device == laid.nic.device && way.nic.port == laid.nic.port) ||
                              way.route.remote.prefix.address == laid.route.remote.prefix.address);
  };
  const CableEnds cable = CableEnds::of(laid.nic, laid.route);
  const auto is_pair = [&](const RailRoute& way) { return CableEnds::of(way.nic, way.route) == cable; };
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    // If both ports are on one switch, the other pair replies too, and the receiver may have its rail already: only
    // attempts that are still dialling are dropped.
    const bool is_futile = shares_port(attempt->way) && !is_pair(attempt->way) && attempt->connecting->is_dialling();
    if (is_futile) give_up(*attempt);
    attempt = is_futile ? attempts_.erase(attempt) : attempt + 1;
  }
  const auto begun = plan_.begin() + static_cast<std::ptrdiff_t>(std::min(untried_, plan_.size()));
  untried_ -= static_cast<std::size_t>(
      std::count_if(plan_.begin(), begun, [&](const RailRoute& way) { return shares_port(way) && !is_pair(way); }));
  std::erase_if(plan_, [&](const RailRoute& way) { return shares_port(way) && !is_pair(way); });
  auto rails = static_cast<unsigned>(
      std::count_if(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) { return is_pair(attempt.way); }));
  rails += static_cast<unsigned>(std::count_if(plan_.begin(), plan_.end(), is_pair));
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if (qp_link_.rail(number) != nullptr && CableEnds::of(*qp_link_.rail(number)) == cable) ++rails;
  }
  for (; rails < queue_pairs_; ++rails) {
    plan_.insert(plan_.begin(), laid);
    if (joining_) ++untried_;
  }
}

bool RailLayer::waits_for_cables() const {
  const bool cables_answer = unheard_.empty() && std::all_of(attempts_.begin(), attempts_.end(),
                                                             [](const Attempt& one) { return one.way.link_local; });
  const std::int64_t patience_ms = cables_answer ? std::min(patience_ms_, kLinkLocalPatienceMs) : patience_ms_;
  return (!attempts_.empty() || !unheard_.empty()) && waited_ns_ < patience_ms * 1'000'000;
}

std::size_t RailLayer::free_number() const {
  const auto is_taken = [this](std::size_t number) {
    return qp_link_.rail(number) != nullptr ||
           std::any_of(attempts_.begin(), attempts_.end(),
                       [=](const Attempt& attempt) { return attempt.number == number; });
  };
  std::size_t number = 0;
  while (number < kMaxRails && is_taken(number)) ++number;
  return number;
}

void RailLayer::join(std::int64_t patience_ms) {
  joining_ = true;
  patience_ms_ = patience_ms;
  looked_ns_ = now_ns();
  const auto silent = std::stable_partition(plan_.begin(), plan_.end(), [this](const RailRoute& way) {
    return !origin_.process->silent_cables().contains(CableEnds::of(way.nic, way.route));
  });
  untried_ = static_cast<std::size_t>(silent - plan_.begin());
}

bool RailLayer::joined(const std::vector<Nic>& nics) {
  if (!joining_) return true;
  // A cable that was pulled meanwhile is not waited for.
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    const bool stands = attempt->rail->local().stands(nics);
    if (!stands) {
      give_up(*attempt);
      put_off(std::move(attempt->way));
    }
    attempt = stands ? attempt + 1 : attempts_.erase(attempt);
  }
  std::erase_if(unheard_, [&](Unheard& rail) {
    std::array<std::uint8_t, 16> unwanted;
    return !qp_link_.rail(rail.number)->local().stands(nics) || !receive(rail.control, unwanted);
  });
  // A long pause between two calls does not count against the cables: nothing was sent to them meanwhile.
  constexpr std::int64_t kLongestGapNs = 100'000'000;
  const std::int64_t now = now_ns();
  waited_ns_ += std::min(now - std::exchange(looked_ns_, now), kLongestGapNs);
  if (waits_for_cables()) return false;
  for (const Attempt& attempt : attempts_) {
    tell_silent(attempt.way, "it did not reply within " + std::to_string(patience_ms_) + " ms");
  }
  joining_ = false;
  unheard_.clear();
  waits_ = !plan_.empty();
  next_try_ = Deadline::after_ms_or_never(pause_ms_);
  return true;
}

std::optional<std::size_t> RailLayer::advance() {
  if (joining_) {
    for (; untried_ > 0 && !plan_.empty(); --untried_) begin();
  } else if (attempts_.empty() && !plan_.empty() &&
             (!waits_ || (++calls_ % kRailCallsBetweenClocks == 0 && next_try_.passed()))) {
    begin();
  }
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    auto connected = attempt->connecting->advance();
    if (connected && !*connected) {
      ++attempt;
      continue;
    }
    Attempt over = std::move(*attempt);
    attempt = attempts_.erase(attempt);
    if (!connected) {
      const bool answered = over.connecting->was_refused();
      give_up(over);
      fail(std::move(over.way), connected.error(), answered);
      continue;
    }
    origin_.process->silent_cables().remove(CableEnds::of(over.way.nic, over.way.route));
    if (joining_) unheard_.push_back({.number = over.number, .control = over.connecting->take_control()});
    qp_link_.lay(over.number, std::move(over.rail));
    if (over.way.link_local) settle_link_local(over.way);
    return over.number;
  }
  return std::nullopt;
}

void RailLayer::begin() {
  waits_ = false;
  const std::size_t number = free_number();
  if (number == kMaxRails) {
    // Attempts that are under way may still give their numbers back.
    const bool all_laid = attempts_.empty();
    if (all_laid) plan_.clear();
    waits_ = !all_laid;
    next_try_ = Deadline::after_ms_or_never(pause_ms_);
    return;
  }
  RailRoute way = std::move(plan_.front());
  plan_.erase(plan_.begin());
  if (!lost_.may_try(CableEnds::of(way.nic, way.route))) {
    put_off(std::move(way));
    return;
  }
  const LocalEnd local = origin_.process->local_end(way.nic, way.route.local, way.route.gid);
  if (!DirectSendPath::may_be_rail(local)) return;
  auto rail = QpLink::open(local, settings_, DirectSendPath::rail_shape_on(*local.device));
  if (!rail) {
    fail(std::move(way), rail.error(), true);
    return;
  }
  Destination destination{
      .route = way.route,
      .target = {.address = way.route.remote.prefix.address,
                 .port = origin_.service_port,
                 .scope = way.link_local ? ::if_nametoindex(way.nic.netdev.c_str()) : 0},
      .cookie = origin_.session,
      .rail = WireRail{.number = static_cast<std::uint8_t>(number), .sender_qp_link = qp_link_.pair().number()},
      .patience_ms = kRailAttemptMs};
  auto connecting = std::make_unique<Connecting>(*origin_.process, std::move(destination), **rail);
  attempts_.push_back(
      {.way = std::move(way), .number = number, .rail = std::move(*rail), .connecting = std::move(connecting)});
}

void RailLayer::fail(RailRoute way, const Error& why, bool answered) {
  MESHBED_INFO("%s: no rail beside it yet: %s", qp_link_.ends_text().c_str(), why.text.c_str());
  if (joining_ && !answered) tell_silent(way, why.text);
  put_off(std::move(way));
}

void RailLayer::tell_silent(const RailRoute& way, const std::string& why) {
  if (!origin_.process->silent_cables().add(CableEnds::of(way.nic, way.route)) || way.link_local) return;
  MESHBED_WARN("%s: long messages are not striped over %s %s -> %s until that cable replies (look at it): %s",
               qp_link_.ends_text().c_str(), way.nic.device_name.c_str(), to_text(way.route.local.address).c_str(),
               to_text(way.route.remote.prefix.address).c_str(), why.c_str());
}

void RailLayer::put_off(RailRoute way) {
  // The others first, before this one is tried again.
  plan_.push_back(std::move(way));
  waits_ = true;
  next_try_ = Deadline::after_ms_or_never(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, kLongestRailPauseMs);
}

}  // namespace meshbed::net
