#include "plugin/net/recover/failed_paths.h"

#include <algorithm>

namespace meshbed::net {
namespace {

constexpr std::int64_t kFirstLostPauseMs = 60'000;
constexpr std::int64_t kLongestLostPauseMs = 3'600'000;

}  // namespace

void FailedPaths::add(const QpLink& lost) {
  const Result<verbs::PortState> port = lost.device().query_port(lost.local().nic.port);
  if (!port || !port->active) return;
  const CableEnds ends = CableEnds::of(lost);
  auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& known) { return known.ends == ends; });
  if (entry == entries_.end()) entry = entries_.insert(entries_.end(), {.ends = ends, .not_before = {}});
  entry->pause_ms = std::clamp(2 * entry->pause_ms, kFirstLostPauseMs, kLongestLostPauseMs);
  entry->times = entry->not_before.passed() ? 1 : entry->times + 1;
  entry->not_before = Deadline::after_ms_or_never(entry->pause_ms);
}

unsigned FailedPaths::times(const CableEnds& ends) const {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& known) { return known.ends == ends; });
  return entry == entries_.end() || entry->not_before.passed() ? 0 : entry->times;
}

void FailedPaths::forgive(const std::vector<Nic>& nics) {
  std::erase_if(entries_, [&](const Entry& known) {
    return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) {
      return nic.device == known.ends.device && nic.port == known.ends.port && !nic.link_up;
    });
  });
}

}  // namespace meshbed::net
