// Nomenclature: medium - the wire (models/lan/qsfp.h) or switch that a NIC is attached to; group - all addresses of one
// subnet. Subnets nest or are disjoint. Sorted by address, then by length, every subnet comes right after the ones that
// contain it, so one pass with a stack finds all overlaps: O(n log n) for n addresses.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "models/lan/bond.h"
#include "models/lan/qsfp.h"
#include "testbed/scenario/check.h"

namespace meshbed::testbed {
namespace {

constexpr int kNoMedium = -1;
constexpr int kManagementNic = -2;

struct Holder {
  models::IpPrefix prefix;
  int medium = kNoMedium;
  int node = -1;
  std::string name;  // "node0/rocep1s0f0"
  std::string qsfp;  // see models/lan/qsfp.h
  Place place;
};

using Group = std::vector<const Holder*>;

/// The later one in the file: a generated holder has only the line of its section, a listed one its own line.
const Place& later_place(const Holder& left, const Holder& right) {
  return right.place.begin.line >= left.place.begin.line ? right.place : left.place;
}

models::IpAddress network_of(const models::IpPrefix& prefix) {
  return models::read_prefix(subnet_text(prefix))->address;
}

std::vector<Holder> holders_of(const Built& built, const ScenarioSpec& spec) {
  const auto& cluster = built.cluster;
  std::map<models::PortRef, int> medium;
  const std::vector<int> wires = models::wires(cluster);
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    medium[cluster.cables[index].a] = medium[cluster.cables[index].b] = wires[index];
  }
  int next = static_cast<int>(cluster.cables.size());
  for (const auto& box : cluster.switches) {
    for (const auto& port : box.ports) medium[port] = next;
    ++next;
  }
  std::vector<Holder> holders;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    const auto& node = cluster.nodes[n];
    for (std::size_t i = 0; i < node.nics.size(); ++i) {
      auto found = medium.end();
      // The addresses of a RoCE LAG are on the cable, or the switch, of any of its functions.
      for (const models::PortRef port : models::functions_of(cluster, {static_cast<int>(n), static_cast<int>(i)})) {
        if (found == medium.end()) found = medium.find(port);
      }
      for (const auto& prefix : node.nics[i].addresses) {
        holders.push_back({prefix, found == medium.end() ? kNoMedium : found->second, static_cast<int>(n),
                           fmt::format("{}/{}", node.name, node.nics[i].device), node.nics[i].qsfp,
                           built.nic_places[n][i]});
      }
    }
    if (node.management) {
      holders.push_back({node.management->address, kManagementNic, static_cast<int>(n),
                         fmt::format("{}/{}", node.name, node.management->netdev), "", spec.management.at("subnet")});
    }
  }
  return holders;
}

/// The kind of an address that cannot be assigned to a reachable interface; nullptr: the address can be assigned.
/// Sources: RFC 6890 (IPv4), RFC 4291 2.5 to 2.7 (IPv6).
const char* special_kind(const models::IpAddress& address) {
  const auto& bytes = address.bytes;
  const auto zero = [&bytes](std::size_t from, std::size_t to) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                       bytes.begin() + static_cast<std::ptrdiff_t>(to), [](std::uint8_t byte) { return byte == 0; });
  };
  if (address.family == models::Family::kIpv4) {
    if (bytes[0] == 0) return "of \"this network\"";
    if (bytes[0] == 127) return "a loopback address";
    // 169.254/16 (RFC 3927) is allowed: DGX Spark's playbooks recommend it for the one cable of a pair.
    return bytes[0] >= 224 ? "multicast or reserved" : nullptr;
  }
  if (bytes[0] == 0xff) return "multicast";
  if (bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80) return "link-local, which every interface has anyway";
  if (zero(0, 10) && bytes[10] == 0xff && bytes[11] == 0xff) return "an IPv4 address in IPv6's clothes";
  if (zero(0, 15) && bytes[15] <= 1) return bytes[15] == 0 ? "unspecified" : "the loopback address";
  return nullptr;
}

void check_kinds(const std::vector<Holder>& holders, Diagnostics& diagnostics) {
  for (const Holder& holder : holders) {
    const char* kind = special_kind(holder.prefix.address);
    if (kind == nullptr) continue;
    diagnostics.add(holder.place, fmt::format("{} of {} is {}; give it a unicast address, as 192.168.100.1/24 or "
                                              "fd00:1::1/64",
                                              to_text(holder.prefix.address), holder.name, kind));
  }
}

void check_duplicates(const std::vector<Holder>& holders, Diagnostics& diagnostics) {
  std::map<models::IpAddress, const Holder*> owner;
  for (const auto& holder : holders) {
    const auto [entry, is_new] = owner.emplace(holder.prefix.address, &holder);
    if (is_new) continue;
    diagnostics.add(later_place(*entry->second, holder),
                    fmt::format("duplicate address: {} is on {} and on {}", to_text(holder.prefix.address),
                                entry->second->name, holder.name));
  }
}

/// For IPv4 link-local, the reason why two cables cannot share the subnet; empty for all other subnets.
std::string link_local_reason(const models::IpPrefix& prefix) {
  if (!models::is_ipv4_link_local(prefix.address)) return "";
  return "; all of 169.254.0.0/16 (IPv4 link-local) is one subnet, whatever the cable, so that one cable of a cluster "
         "can have it: give the others subnets of their own, as 192.168.100.0/24";
}

/// Checks one subnet: two NICs of one node must not be in it, nor may two separate cables use it.
void check_group(const Group& group, Diagnostics& diagnostics) {
  const std::string subnet = subnet_text(group.front()->prefix);
  std::map<int, const Holder*> first_on_node;
  std::map<int, const Holder*> first_on_medium;
  std::map<int, std::size_t> on_medium;
  bool reported = false;
  for (const Holder* holder : group) {
    if (holder->medium == kManagementNic) continue;
    const Holder* other = first_on_node.emplace(holder->node, holder).first->second;
    // Two functions of one port are on one wire: a packet reaches the same port whichever function sends it.
    const bool is_one_port = !holder->qsfp.empty() && holder->qsfp == other->qsfp;
    if (other->name != holder->name && !is_one_port && !reported) {
      reported = true;
      diagnostics.add(later_place(*other, *holder),
                      fmt::format("prefix overlap: {} and {} are both in {}; a node needs one subnet per NIC, "
                                  "or its kernel sends everything through the first{}",
                                  other->name, holder->name, subnet, link_local_reason(holder->prefix)));
    }
    first_on_medium.emplace(holder->medium, holder);
    ++on_medium[holder->medium];
  }
  const Holder* used = nullptr;
  for (const auto& [medium, count] : on_medium) {
    // Only one end in the subnet is a crossed cable, which lint reports.
    if (medium == kNoMedium || count < 2) continue;
    const Holder* holder = first_on_medium[medium];
    if (used != nullptr && !reported) {
      reported = true;
      diagnostics.add(later_place(*used, *holder),
                      fmt::format("prefix overlap: {} is the subnet of two cables ({} and {} are on different "
                                  "ones); give each cable its own{}",
                                  subnet, used->name, holder->name, link_local_reason(holder->prefix)));
    }
    used = holder;
  }
}

bool on_one_medium(const Group& left, const Group& right) {
  const int medium = left.front()->medium;
  if (medium < 0) return false;
  const auto is_there = [medium](const Holder* holder) { return holder->medium == medium; };
  return std::all_of(left.begin(), left.end(), is_there) && std::all_of(right.begin(), right.end(), is_there);
}

void report_overlap(const Holder& left, const Holder& right, Diagnostics& diagnostics) {
  const bool with_management = left.medium == kManagementNic || right.medium == kManagementNic;
  diagnostics.add(later_place(left, right),
                  fmt::format("prefix overlap: {} of {} and {} of {} share addresses; give each its own subnet{}",
                              subnet_text(left.prefix), left.name, subnet_text(right.prefix), right.name,
                              with_management ? " (the management network's is [management] subnet)" : ""));
}

}  // namespace

void check_addresses(const Built& built, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const auto holders = holders_of(built, spec);
  check_kinds(holders, diagnostics);
  check_duplicates(holders, diagnostics);

  // The order of addresses separates the families, so no IPv4 subnet is compared with an IPv6 one.
  std::map<std::tuple<models::IpAddress, std::uint8_t>, Group> groups;
  for (const auto& holder : holders) groups[{network_of(holder.prefix), holder.prefix.length_bits}].push_back(&holder);

  std::vector<const Group*> enclosing;
  for (const auto& [subnet, group] : groups) {
    check_group(group, diagnostics);
    const auto is_management = [](const Holder* holder) { return holder->medium == kManagementNic; };
    const auto other = std::find_if_not(group.begin(), group.end(), is_management);
    const auto management = std::find_if(group.begin(), group.end(), is_management);
    if (management != group.end() && other != group.end()) report_overlap(**other, **management, diagnostics);
    while (!enclosing.empty() && !models::overlaps(enclosing.back()->front()->prefix, group.front()->prefix)) {
      enclosing.pop_back();
    }
    if (!enclosing.empty() && !on_one_medium(*enclosing.back(), group)) {
      report_overlap(*enclosing.back()->front(), *group.front(), diagnostics);
    }
    enclosing.push_back(&group);
  }
}

}  // namespace meshbed::testbed
