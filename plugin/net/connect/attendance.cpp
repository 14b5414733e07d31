#include "plugin/net/connect/attendance.h"

#include <algorithm>

#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::net {

Attendance::Member* Attendance::member(const Who& who) {
  const auto known = std::find_if(members_.begin(), members_.end(), [&](const Member& one) {
    return one.who.node == who.node && one.who.process == who.process;
  });
  if (known != members_.end()) return &*known;
  if (members_.size() >= kMost) {
    const auto gone = std::find_if(members_.begin(), members_.end(), [](const Member& one) { return one.left; });
    if (gone == members_.end()) return nullptr;
    members_.erase(gone);
  }
  members_.push_back({.who = who, .addresses = {}});
  return &members_.back();
}

void Attendance::asked(const Who& who, std::uint64_t query, std::uint64_t way) {
  Member* one = member(who);
  if (one == nullptr) return;
  // A way of an earlier question may be cut by now.
  if (one->query != query) one->ways = 0;
  one->query = query;
  one->ways |= way;
  one->left = false;
}

void Attendance::answered(const Who& who, std::uint64_t way, const std::vector<PeerAddress>& addresses) {
  Member* one = member(who);
  if (one == nullptr) return;
  // With a fixed seed (NCCL_MESH_SEED) a process has the same number after its next init, but hardly the same port.
  if (one->left && (one->who.circuit_port == 0 || one->who.circuit_port == who.circuit_port)) return;
  one->left = false;
  one->who.circuit_port = who.circuit_port;
  one->ways |= way;
  one->addresses = addresses;
}

void Attendance::left(const Who& who) {
  Member* one = member(who);
  if (one == nullptr) return;
  // The circuit port is kept: answered() compares it.
  one->left = true;
  one->ways = 0;
  one->addresses.clear();
}

bool Attendance::apart(const Member& one, const Member& other, std::uint64_t open) {
  return one.who.node != other.who.node && (one.ways & open) != 0 && (other.ways & open) != 0 &&
         (one.ways & other.ways) == 0 && shared_address(one.addresses, other.addresses) == nullptr;
}

bool Attendance::need_us(std::uint64_t open) const {
  for (auto one = members_.begin(); one != members_.end(); ++one) {
    if (one->left) continue;
    const bool needs = std::any_of(one + 1, members_.end(),
                                   [&](const Member& other) { return !other.left && apart(*one, other, open); });
    if (needs) return true;
  }
  return false;
}

void Attendance::forget_present() {
  std::erase_if(members_, [](const Member& one) { return !one.left; });
}

}  // namespace meshbed::net
