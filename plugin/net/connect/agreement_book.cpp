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

/// A node with the addresses of all of its processes, which may be allowed different devices.
struct Node {
  IpAddress name;
  std::vector<PeerAddress> addresses;
};

}  // namespace

bool AgreementBook::hear(const RankAnnouncement& call) {
  const std::pair key{call.node, call.process};
  if (key == std::pair{own_.node, own_.process}) return false;
  const auto found = others_.find(key);
  if (found == others_.end()) {
    // Who comes when we have counted all is none of this communicator; and nobody fills our memory.
    if (own_.stand == Stand::kHere && others_.size() < own_.key.ranks) others_.emplace(key, call);
    return !call.done;
  }
  RankAnnouncement& known = found->second;
  known.ranks_here = std::max(known.ranks_here, call.ranks_here);
  known.done = known.done || call.done;
  if (known.stand == Stand::kHere) {
    known.stand = call.stand;
    known.mesh = call.mesh;
  }
  return own_.done && !call.done;
}

bool AgreementBook::look(bool out_of_time) {
  if (own_.stand != Stand::kHere) return false;
  const std::size_t counted = ranks();
  if (refused_by_other()) return true;
  if (counted == own_.key.ranks && nodes() == own_.key.nodes) {
    own_.stand = Stand::kYes;
    own_.mesh = hash();
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
    } else if (call.stand == Stand::kNo) {
      refuse("a rank at " + name_of(call) + " does without");
    }
  }
  return own_.stand != Stand::kHere;
}

void AgreementBook::refuse(std::string reason) {
  own_.stand = Stand::kNo;
  reason_ = std::move(reason);
}

Outcome AgreementBook::outcome() const {
  if (own_.stand == Stand::kHere) return Outcome::kOpen;
  if (own_.stand == Stand::kNo) return Outcome::kNone;
  bool all = true;
  for (const auto& [key, call] : others_) {
    if (call.stand == Stand::kNo || (call.stand == Stand::kYes && call.mesh != own_.mesh)) return Outcome::kNone;
    all = all && call.stand == Stand::kYes;
  }
  return all ? Outcome::kAgreed : Outcome::kOpen;
}

bool AgreementBook::everybody_done() const {
  return std::all_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.second.done; });
}

RankAnnouncement AgreementBook::speak() {
  ++own_.sequence;
  return own_;
}

std::string AgreementBook::missing() const {
  std::string names;
  for (const auto& [key, call] : others_) {
    if (call.stand == Stand::kHere) names += (names.empty() ? "" : ", ") + name_of(call);
  }
  return names;
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
