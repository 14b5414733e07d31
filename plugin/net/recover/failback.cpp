#include "plugin/net/recover/failback.h"

#include <algorithm>

#include "plugin/net/connect/routed_ways.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kTrialMs = 2500;
constexpr std::int64_t kLongestReturnPauseMs = 60'000;
/// Calls between two readings of the clock.
constexpr std::uint32_t kReturnCallsBetweenClocks = 16;

}  // namespace

Result<std::vector<Route>> ways_to(const Origin& origin, const std::vector<Nic>& nics) {
  return ways(*origin.process, {.nics = &nics,
                                .peer = origin.peer.addresses,
                                .same_node = origin.peer.node == origin.process->node(),
                                .dev = origin.dev,
                                .peer_dev = origin.peer.dev,
                                .gids = origin.process->gid_preference()});
}

bool Failback::advance() {
  if (trial_.is_open()) {
    auto connected = finish_connect(trial_);
    if (connected && !*connected && !trial_ends_.passed()) return false;
    trial_.close();
    put_off();  // in case this look fails after all
    return connected && *connected;
  }
  if (looks_later_ && (++calls_ % kReturnCallsBetweenClocks != 0 || !next_look_.passed())) return false;
  const std::vector<Nic> nics = origin_.process->current_nics();
  const auto ways = ways_to(origin_, nics);
  const auto leads_home = [&](const Route& way) {
    const Nic& nic = nics[static_cast<std::size_t>(way.nic)];
    return nic.device == device_ && nic.port == port_ && way.remote.prefix.address == peer_;
  };
  const bool may_try = lost_.may_try({.device = device_, .port = port_, .peer = peer_});
  if (ways && may_try && leads_home(ways->front())) {
    const Route& way = ways->front();
    auto trial = begin_connect(way.local.address, {.address = peer_, .port = origin_.service_port});
    if (trial) {
      trial_ = std::move(*trial);
      trial_ends_ = Deadline::after_ms_or_never(kTrialMs);
      return false;
    }
  }
  put_off();
  return false;
}

void Failback::put_off() {
  looks_later_ = true;
  next_look_ = Deadline::after_ms_or_never(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, kLongestReturnPauseMs);
}

}  // namespace meshbed::net
