#include "plugin/net/resumption.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

/// One attempt on one way. A peer that is there answers within a round trip; its adapter may take a second to find
/// ours.
constexpr std::int64_t kAttemptMs = 2500;
constexpr std::int64_t kLongestPauseMs = 1000;

}  // namespace

Result<std::vector<Route>> ways_to(const Origin& origin, const std::vector<Nic>& nics) {
  return all_routes({.nics = &nics,
                     .peer = origin.peer.addresses,
                     .same_node = origin.peer.node == origin.transport->node(),
                     .dev = origin.dev,
                     .peer_dev = origin.peer.dev,
                     .gids = origin.transport->gid_preference()});
}

Result<std::optional<Resumption::Resumed>> Resumption::advance() {
  if (connecting_ == nullptr && ((waits_ && !next_attempt_.passed()) || !begin_attempt())) {
    // Nothing to look at here; whoever runs us may use the moment.
    ::poll(nullptr, 0, 0);
    return std::optional<Resumed>();
  }
  auto connected = connecting_->advance();
  if (connected && !*connected) return std::optional<Resumed>();
  if (!connected) {
    const bool is_final = connecting_->is_final();
    connecting_.reset();
    leg_.reset();
    if (is_final) return connected.error();
    put_off(connected.error().text);
    return std::optional<Resumed>();
  }
  Resumed resumed{.leg = std::move(leg_), .served = connecting_->served()};
  connecting_.reset();
  return std::optional(std::move(resumed));
}

bool Resumption::begin_attempt() {
  const std::vector<Nic> nics = origin_.transport->current_nics();
  auto ways = ways_to(origin_, nics);
  ways_ = ways ? ways->size() : 1;
  const std::size_t attempt = attempts_++;
  waits_ = false;
  if (!ways) {
    put_off(ways.error().text);
    return false;
  }
  const Route& way = (*ways)[attempt % ways->size()];
  const Nic& nic = nics[static_cast<std::size_t>(way.nic)];
  const LocalEnd local = origin_.transport->local_end(nic, way.local, way.gid);
  auto leg = Leg::open(local, settings_, shape_on_(*local.device));
  if (!leg) {
    put_off(leg.error().text);
    return false;
  }
  leg_ = std::move(*leg);
  connecting_ =
      std::make_unique<Connecting>(*origin_.transport,
                                   Destination{.route = way,
                                               .target = {.address = way.remote.prefix.address, .port = service_port_},
                                               .cookie = origin_.session,
                                               .resumes = true,
                                               .patience_ms = kAttemptMs},
                                   *leg_);
  return true;
}

void Resumption::put_off(const std::string& why) {
  MESHBED_INFO("not taken up again yet: %s", why.c_str());
  obstacle_ = why;
  if (attempts_ % ways_ != 0) return;  // another way waits to be tried
  waits_ = true;
  next_attempt_ = Deadline::in_ms(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, kLongestPauseMs);
}

}  // namespace meshbed::net
