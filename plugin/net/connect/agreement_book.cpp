#include "plugin/net/connect/agreement_book.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "plugin/base/prng.h"
#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::net {
namespace {

std::string name_of(const RankAnnouncement& call) {
  return call.addresses.empty() ? "a node without a cable" : to_text(call.addresses.front().prefix.address);
}

bool lower(const IpAddress& left, const IpAddress& right) {
  return std::tie(left.family, left.bytes) < std::tie(right.family, right.bytes);
}

/// Bound on the processes that are kept as coming, for communicators of any size.
constexpr std::size_t kComingMost = 256;

/// The announcements of one process never decrease in this order.
int finality_of(const RankAnnouncement& call) {
  switch (call.stand) {
    case Stand::kComing:
      return 0;
    case Stand::kHere:
      return 1;
    case Stand::kYes:
      return call.done ? 4 : 2;
    case Stand::kDoubt:
      return 3;
    case Stand::kNo:
      return 4;
  }
  return 0;
}

/// A node with the addresses of all of its processes, which may be allowed different devices.
struct Node {
  IpAddress name;
  std::vector<PeerAddress> addresses;
};

}  // namespace

bool AgreementBook::hear(const RankAnnouncement& call, std::int64_t now_ns) {
  const std::pair key{call.node, call.process};
  if (key == std::pair{own_.node, own_.process}) return false;
  const bool counting = own_.stand == Stand::kHere || own_.stand == Stand::kComing;
  const auto found = others_.find(key);
  if (call.stand == Stand::kComing) {
    if (found == others_.end() && (coming_.size() < kComingMost || coming_.count(key) != 0)) coming_[key] = now_ns;
    return false;
  }
  if (found == others_.end()) {
    // A process that appears after we have counted all ranks is not in this communicator. This also bounds the memory.
    if (counting && others_.size() < own_.key.ranks) others_.emplace(key, call);
    return !call.done;
  }
  RankAnnouncement& known = found->second;
  known.ranks_here = std::max(known.ranks_here, call.ranks_here);
  if (finality_of(call) > finality_of(known)) {
    known.stand = call.stand;
    known.mesh = call.mesh;
  }
  known.done = known.done || call.done;
  decide();
  return (own_.done || own_.stand == Stand::kComing) && !call.done;
}

bool AgreementBook::is_somebody_coming(std::int64_t since_ns) const {
  std::set<std::uint64_t> nodes{own_.node};
  for (const auto& [key, call] : others_) nodes.insert(call.node);
  for (const auto& [key, heard_ns] : coming_) {
    if (heard_ns >= since_ns) nodes.insert(key.first);
  }
  return nodes.size() >= own_.key.nodes;
}

bool AgreementBook::look(bool out_of_time) {
  if (own_.stand != Stand::kHere) return false;
  const std::size_t counted = ranks();
  if (refused_by_other()) return true;
  if (counted == own_.key.ranks && nodes() == own_.key.nodes) {
    own_.stand = Stand::kYes;
    own_.mesh = hash();
    decide();
    return true;
  }
  if (counted >= own_.key.ranks) {
    refuse("NCCL counts " + std::to_string(own_.key.ranks) + " ranks on " + std::to_string(own_.key.nodes) +
           " nodes, and here are " + std::to_string(counted) + " on " + std::to_string(nodes()));
    return true;
  }
  if (out_of_time) {
    refuse("only " + std::to_string(counted) + " of " + std::to_string(own_.key.ranks) + " ranks, on " +
           std::to_string(nodes()) + " of " + std::to_string(own_.key.nodes) + " nodes, are there");
  }
  return own_.stand != Stand::kHere;
}

bool AgreementBook::refused_by_other() {
  for (const auto& [key, call] : others_) {
    if (call.rules != own_.rules) {
      refuse(name_of(call) + " has another version of this plugin");
    } else if (call.stand == Stand::kNo || call.stand == Stand::kDoubt) {
      refuse("a rank at " + name_of(call) + " declined");
    }
  }
  return own_.stand != Stand::kHere;
}

void AgreementBook::refuse(std::string reason) {
  own_.stand = Stand::kNo;
  outcome_ = Outcome::kNone;
  if (reason_.empty()) reason_ = std::move(reason);
}

bool AgreementBook::doubt() {
  if (own_.stand != Stand::kYes || outcome_ != Outcome::kOpen) return false;
  reason_ = "no vote came from " + silent();
  own_.stand = Stand::kDoubt;
  decide();
  return true;
}

void AgreementBook::give_up() {
  if (own_.stand == Stand::kDoubt && outcome_ == Outcome::kOpen) refuse("no vote came from " + silent());
}

void AgreementBook::decide() {
  const bool doubts = own_.stand == Stand::kDoubt;
  if (outcome_ != Outcome::kOpen || (own_.stand != Stand::kYes && !doubts)) return;
  bool all_yes = true, all_doubt = true, any_doubt = false;
  for (const auto& [key, call] : others_) {
    const bool yes = call.stand == Stand::kYes;
    if (call.stand == Stand::kNo) return refuse("a rank at " + name_of(call) + " declined");
    if (yes && call.mesh != own_.mesh) return refuse("");
    if (yes && call.done) {
      own_.stand = Stand::kYes;
      outcome_ = Outcome::kAgreed;
      return;
    }
    all_yes = all_yes && yes;
    all_doubt = all_doubt && call.stand == Stand::kDoubt;
    any_doubt = any_doubt || call.stand == Stand::kDoubt;
  }
  if (!doubts && all_yes) {
    outcome_ = Outcome::kAgreed;
  } else if (!doubts && any_doubt) {
    doubt();
  } else if (doubts && all_doubt) {
    refuse("every rank waits for the decision of another one");
  }
}

bool AgreementBook::everybody_done() const {
  return std::all_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.second.done; });
}

RankAnnouncement AgreementBook::speak() {
  ++own_.sequence;
  return own_;
}

std::string AgreementBook::silent() const {
  std::string names;
  for (const auto& [key, call] : others_) {
    const bool answered = call.stand == Stand::kDoubt || call.stand == Stand::kNo || call.done;
    const bool awaited = own_.stand == Stand::kDoubt ? !answered : call.stand == Stand::kHere;
    if (awaited) names += (names.empty() ? "" : ", ") + name_of(call);
  }
  return names.empty() ? "others" : names;
}

std::size_t AgreementBook::ranks() const {
  std::size_t sum = own_.ranks_here;
  for (const auto& [key, call] : others_) sum += call.ranks_here;
  return sum;
}

std::size_t AgreementBook::nodes() const {
  std::set<std::uint64_t> nodes{own_.node};
  for (const auto& [key, call] : others_) nodes.insert(call.node);
  return nodes.size();
}

std::map<std::pair<std::uint64_t, std::uint32_t>, const RankAnnouncement*> AgreementBook::everybody() const {
  std::map<std::pair<std::uint64_t, std::uint32_t>, const RankAnnouncement*> all{{{own_.node, own_.process}, &own_}};
  for (const auto& [key, call] : others_) all.emplace(key, &call);
  return all;
}

std::uint64_t AgreementBook::hash() const {
  std::uint64_t sum = 0;
  const auto add = [&](std::uint64_t value) { sum = mix64(sum ^ value); };
  for (const auto& [key, call] : everybody()) {
    add(call->node);
    add(call->process);
    add(call->ranks_here);
    for (const PeerAddress& address : call->addresses) {
      add(address.prefix.length_bits);
      for (const std::uint8_t byte : address.prefix.address.bytes) add(byte);
    }
  }
  return sum;
}

Mesh AgreementBook::mesh() const {
  std::map<std::uint64_t, Node> by_node;
  for (const auto& [key, call] : everybody()) {
    auto& addresses = by_node[call->node].addresses;
    addresses.insert(addresses.end(), call->addresses.begin(), call->addresses.end());
  }
  std::vector<Node> places;
  for (auto& [node, place] : by_node) {
    for (const PeerAddress& address : place.addresses) {
      const bool first = &address == &place.addresses.front();
      if (first || lower(address.prefix.address, place.name)) place.name = address.prefix.address;
    }
    places.push_back(std::move(place));
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Node& left, const Node& right) { return lower(left.name, right.name); });
  Mesh mesh{.graph = MeshGraph(static_cast<int>(places.size())), .names = {}};
  for (std::size_t node = 0; node < places.size(); ++node) {
    mesh.names.push_back(places[node].name);
    for (std::size_t other = 0; other < node; ++other) {
      if (shared_address(places[node].addresses, places[other].addresses) == nullptr) continue;
      mesh.graph.join(static_cast<int>(node), static_cast<int>(other));
    }
  }
  return mesh;
}

}  // namespace meshbed::net
