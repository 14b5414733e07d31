#include "plugin/net/rdma/resumption.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/rdma/direct_send_path.h"

namespace meshbed::net {
namespace {

/// One attempt on one path: a reachable peer replies within a round trip, and its adapter may take a second to resolve
/// ours.
constexpr std::int64_t kResumptionAttemptMs = 2500;
/// One attempt through relays, each of which has to reach the next one.
constexpr std::int64_t kChainAttemptMs = 10'000;
/// The search for a chain, and the pause before the next round, in which cables that are back are tried first.
constexpr std::int64_t kSearchMs = 1000;
constexpr std::int64_t kResumptionPauseMs = 1000;

}  // namespace

Resumption::Resumption(const Origin& origin, const QpLinkSettings& settings, std::int64_t failover_ms,
                       const FailedPaths& lost, std::vector<Hop> first)
    : origin_(origin), settings_(settings), attempt_most_ms_(failover_ms / 2), lost_(lost), first_(std::move(first)) {
  // The last relay of a chain reads the resuming service's port and the session from these fields.
  origin_.peer.tcp_port = origin.service_port;
  origin_.peer.cookie = origin.session;
}

bool Resumption::stands() const {
  return qp_link_ == nullptr || qp_link_->local().stands(*origin_.process->recent_nics());
}

Result<std::optional<Resumption::Resumed>> Resumption::advance() {
  if (connecting_ == nullptr && ((waits_ && !next_round_.passed()) || !begin_attempt())) {
    // Nothing to wait for here, but a simulated process must yield.
    ::poll(nullptr, 0, 0);
    return std::optional<Resumed>();
  }
  auto connected = connecting_->advance();
  if (connected && !*connected) return std::optional<Resumed>();
  if (!connected) {
    const bool is_final = connecting_->is_final();
    if (is_final) served_in_the_end_ = connecting_->served();
    connecting_.reset();
    qp_link_.reset();
    if (is_final) return connected.error();
    note(connected.error().text);
    return std::optional<Resumed>();
  }
  Resumed resumed{.qp_link = std::move(qp_link_), .served = connecting_->served(), .circuit = circuit_};
  resumed.addresses = origin_.peer.addresses;
  if (circuit_) resumed.control = connecting_->take_control();
  connecting_.reset();
  return std::optional(std::move(resumed));
}

/// Begins with the next path of this round: each cable once, then a chain. Returns false if there is none at present.
bool Resumption::begin_attempt() {
  waits_ = false;
  const auto recent = origin_.process->recent_nics();
  const std::vector<Nic>& nics = *recent;
  if (!first_.empty()) return go_through(std::exchange(first_, {}), nics);
  const auto ways = ways_to(origin_, nics);
  // A cable that was lost once is tried after the other cables; one that was lost repeatedly, after relays.
  std::size_t index = 0;
  for (const unsigned times : {0U, 1U}) {
    for (const Route& way : ways ? *ways : std::vector<Route>{}) {
      const Nic& nic = nics[static_cast<std::size_t>(way.nic)];
      if (lost_.times(CableEnds::of(nic, way)) != times || index++ != tried_) continue;
      ++tried_;
      return go_straight(way, nic);
    }
  }
  if (!ways) note(ways.error().text);
  return search(nics);
}

bool Resumption::go_straight(const Route& way, const Nic& nic) {
  circuit_.reset();
  if (!open_qp_link(way, nic, &DirectSendPath::shape_on)) return false;
  begin({.route = way,
         .target = {.address = way.remote.prefix.address, .port = origin_.service_port},
         .cookie = origin_.session,
         .patience_ms = std::min(kResumptionAttemptMs, attempt_most_ms_)});
  return true;
}

/// No cable leads to the peer: relays may, or the peer has other addresses now.
bool Resumption::search(const std::vector<Nic>& nics) {
  Service* service = origin_.process->service();
  PeerDiscovery* discovery = service != nullptr ? service->discovery() : nullptr;
  if (discovery == nullptr || tried_chain_ || (search_ != nullptr && search_ends_.passed()))
    return try_failed_paths(nics);
  if (search_ == nullptr) {
    search_ = std::make_unique<ChainSearch>(*origin_.process, *discovery, origin_.peer, origin_.dev);
    search_->begin(true);
    search_ends_ = Deadline::after_ms_or_never(kSearchMs);
  }
  if (const auto heard = discovery->find(process_of(origin_.peer))) {
    auto addresses = updated(origin_.peer.addresses, heard->addresses);
    if (addresses != updated(origin_.peer.addresses, {})) {
      origin_.peer.addresses = std::move(addresses);
      tried_ = 0;
      return false;
    }
  }
  const auto hops = search_->advance(nics);
  if (!hops) return false;
  tried_chain_ = true;
  return go_through(*hops, nics);
}

/// The last resort: if TCP gets through, RDMA may work again.
bool Resumption::try_failed_paths(const std::vector<Nic>& nics) {
  const auto ways = ways_to(origin_, nics);
  std::size_t lost = 0;
  for (const Route& way : ways ? *ways : std::vector<Route>{}) {
    const Nic& nic = nics[static_cast<std::size_t>(way.nic)];
    if (lost_.times(CableEnds::of(nic, way)) > 1 && lost++ == tried_lost_) {
      ++tried_lost_;
      return go_straight(way, nic);
    }
  }
  return end_round();
}

bool Resumption::go_through(const std::vector<Hop>& hops, const std::vector<Nic>& nics) {
  auto start = start_of(*origin_.process, hops, origin_.peer, origin_.dev, nics);
  if (!start) {
    note(start.error().text);
    return false;
  }
  circuit_ = start->circuit;
  const Route& route = start->destination.route;
  if (!open_qp_link(route, nics[static_cast<std::size_t>(route.nic)], &RelayedSendPath::shape_on)) return false;
  start->destination.onward->resumes = true;
  start->destination.patience_ms = std::min(kChainAttemptMs, attempt_most_ms_);
  begin(std::move(start->destination));
  return true;
}

bool Resumption::open_qp_link(const Route& route, const Nic& nic, QpLinkShape (*shape_on)(const verbs::Device&)) {
  const LocalEnd local = origin_.process->local_end(nic, route.local, route.gid);
  auto qp_link = QpLink::open(local, settings_, shape_on(*local.device));
  if (qp_link) {
    qp_link_ = std::move(*qp_link);
  } else {
    note(qp_link.error().text);
  }
  return qp_link_ != nullptr;
}

void Resumption::begin(Destination destination) {
  destination.resumes = true;
  connecting_ = std::make_unique<Connecting>(*origin_.process, std::move(destination), *qp_link_);
}

void Resumption::note(const std::string& why) {
  if (why != obstacle_) MESHBED_INFO("not taken up again yet: %s", why.c_str());
  obstacle_ = why;
}

bool Resumption::end_round() {
  search_.reset();
  tried_ = tried_lost_ = 0;
  tried_chain_ = false;
  waits_ = true;
  next_round_ = Deadline::after_ms_or_never(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, kResumptionPauseMs);
  return false;
}

}  // namespace meshbed::net
