#include "plugin/net/relay/chain_search.h"

#include <algorithm>
#include <utility>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kLongestSearchPauseMs = 1000;
/// The wait after the first chain was found, for a shorter or better one: a multiple of the time of the first one,
/// because the others are about as far away, on slow machines as on fast ones.
constexpr std::int64_t kSettleLeastMs = 2, kSettleMostMs = 200, kSettleFactor = 4;

}  // namespace

void ChainSearch::begin(bool anew) {
  if (anew) discovery_.forget();
  found_ = false;
  began_ns_ = now_ns();
  ask();
}

void ChainSearch::ask() {
  discovery_.ask(further_ ? kFurthestCables : process_.config().max_relay_hops());
  next_question_ = Deadline::after_ms_or_never(question_pause_ms_);
  question_pause_ms_ = std::min(2 * question_pause_ms_, kLongestSearchPauseMs);
}

std::optional<std::vector<Hop>> ChainSearch::advance(const std::vector<Nic>& nics) {
  const auto best = [&] { return discovery_.chain(request(nics)); };
  const bool there = best().has_value();
  if (there && !found_) {
    found_ = true;
    const std::int64_t took_ms = (now_ns() - began_ns_) / 1'000'000;
    settled_ = Deadline::after_ms_or_never(std::clamp(kSettleFactor * took_ms, kSettleLeastMs, kSettleMostMs));
  }
  // best() looks again: a node that is no longer waited for may have replied just now, and may be on the best chain.
  if (there && settled_.passed() && !discovery_.expects_more(began_ns_, patience_ms_)) return best();
  if (next_question_.passed()) ask();
  return std::nullopt;
}

void ChainSearch::look_further() {
  if (further_) return;
  further_ = true;
  ask();
}

std::optional<int> ChainSearch::too_long(const std::vector<Nic>& nics) const {
  ChainRequest wanted = request(nics);
  const int limit = std::exchange(wanted.hop_limit, kFurthestCables);
  const auto hops = discovery_.chain(wanted);
  if (!hops) return std::nullopt;
  const int cables = static_cast<int>(hops->size()) + 1;
  return cables > limit ? std::optional(cables) : std::nullopt;
}

ChainRequest ChainSearch::request(const std::vector<Nic>& nics) const {
  // The peer's own ANSWER is newer than its handle.
  const auto peer = discovery_.find(process_of(peer_));
  const Config& config = process_.config();
  ChainRequest request{.nics = &nics,
                       .node = process_.node(),
                       .target = peer_.node,
                       .target_addresses = peer ? peer->addresses : peer_.addresses,
                       .hop_limit = config.max_relay_hops(),
                       .dev = dev_,
                       .in_flight_bytes = process_.in_flight_bytes()};
  if (config.flag(Variable::kRingLoadBalance)) {
    request.threshold_bytes = static_cast<std::uint64_t>(config.number(Variable::kRingBalanceThreshold));
  }
  return request;
}

Result<Route> route_to_first(const ProcessLinks& process, const std::vector<Hop>& hops, int dev,
                             const std::vector<Nic>& nics) {
  const std::vector<PeerAddress> there{{.prefix = hops.front().address, .nic = 0}};
  return choose_route({.nics = &nics, .peer = there, .dev = dev, .gids = process.gid_preference()});
}

Result<ChainStart> start_of(ProcessLinks& process, const std::vector<Hop>& hops, const Handle& peer, int dev,
                            const std::vector<Nic>& nics) {
  const Hop& first = hops.front();
  auto route = route_to_first(process, hops, dev, nics);
  if (!route) return route.error();
  ChainStart start{.destination = {.route = *route,
                                   .target = {.address = first.address.address, .port = first.port},
                                   .cookie = process.random()},
                   .circuit = {}};
  start.circuit = {.number = start.destination.cookie,
                   .hop_limit = static_cast<std::uint8_t>(process.config().max_relay_hops()),
                   .hops = hops};
  for (const Hop& hop : hops) {
    start.circuit.relays += (start.circuit.relays.empty() ? "" : ", ") + to_text(hop.address.address);
  }
  WireRoute onward{.origin = process.node(),
                   .hop = 1,
                   .hop_limit = start.circuit.hop_limit,
                   .onward = {hops.begin() + 1, hops.end()},
                   .handle = {}};
  Handle newest = peer;
  if (const auto heard = process.service()->discovery()->find(process_of(peer))) {
    newest.addresses = updated(peer.addresses, heard->addresses);
  }
  encode_handle(newest, onward.handle);
  start.destination.onward = std::move(onward);
  MESHBED_INFO("no subnet shared with the peer: through %s: %s, by %s", counted(hops.size(), "relay").c_str(),
               start.circuit.relays.c_str(), nics[static_cast<std::size_t>(route->nic)].device_name.c_str());
  return start;
}

}  // namespace meshbed::net
