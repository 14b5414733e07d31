#include "plugin/net/link/roster.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/deadline.h"
#include "plugin/net/link/endpoint.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kLongestRosterLookMs = 50;
/// A call of the data path takes microseconds: this many attempts are made before the first pause of a millisecond.
constexpr int kLooksAtOnce = 64;

}  // namespace

void Roster::add(Endpoint& endpoint, std::uint64_t comm) {
  std::string name;
  // In its turn: the connection may be resumed meanwhile.
  for (bool named = false; !named;) {
    {
      const Endpoint::Turn turn = endpoint.claim(Endpoint::kToLook);
      if (turn) name = endpoint.ends_text();
      named = static_cast<bool>(turn);
    }
    if (!named) Endpoint::Turn::pass();
  }
  endpoint.release_claim(Endpoint::kToLook);
  const std::lock_guard lock(mutex_);
  entries_.push_back({.number = ++next_number_,
                      .endpoint = &endpoint,
                      .comm = comm,
                      .name = std::move(name),
                      .sends = endpoint.sends()});
}

void Roster::remove(const Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.endpoint == &endpoint; });
}

Roster::Entry* Roster::find(std::uint64_t number) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [number](const Entry& entry) { return entry.number == number; });
  return found != entries_.end() ? &*found : nullptr;
}

bool Roster::look_at(std::uint64_t number, std::int64_t now_ns, std::vector<ConnectionState>& states) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(number);
  if (entry == nullptr) return true;  // closed meanwhile
  {
    const Endpoint::Turn turn = entry->endpoint->claim(Endpoint::kToLook);
    if (!turn) return false;
    states.push_back(entry->endpoint->state(now_ns));
    states.back().comm = entry->comm;
  }
  entry->endpoint->release_claim(Endpoint::kToLook);
  return true;
}

void Roster::release(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (const Entry* entry = find(number)) entry->endpoint->release_claim(Endpoint::kToLook);
}

std::vector<ConnectionState> Roster::look(std::int64_t now_ns) {
  std::vector<Entry> seen;
  {
    const std::lock_guard lock(mutex_);
    seen = entries_;
  }
  std::vector<ConnectionState> states;
  const Deadline enough = Deadline::after_ms_or_never(kLongestRosterLookMs);
  for (const Entry& entry : seen) {
    bool looked = false;
    for (int looks = 0;; ++looks) {
      looked = look_at(entry.number, now_ns, states);
      if (looked || enough.passed()) break;
      ::poll(nullptr, 0, looks < kLooksAtOnce ? 0 : 1);
    }
    if (looked) continue;
    release(entry.number);
    states.push_back({.sends = entry.sends, .busy = true, .name = entry.name, .comm = entry.comm});
  }
  return states;
}

std::vector<ConnectionState> Roster::look_while_frozen(std::int64_t now_ns) {
  std::vector<ConnectionState> states;
  for (const Entry& entry : entries_) {
    states.push_back(entry.endpoint->state(now_ns));
    states.back().comm = entry.comm;
  }
  return states;
}

}  // namespace meshbed::net
