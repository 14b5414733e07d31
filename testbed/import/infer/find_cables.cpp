// Cables and switches from four kinds of evidence, each weaker than the one before: files that name cables; LLDP, which
// the other end sends itself; neighbour tables, whose MAC addresses are another host's; subnets.
//
// Nomenclature: connector - what one cable is plugged into: a NIC, or the functions of one QSFP port. Medium - all
// connectors that evidence joins. One of two connectors is a cable, of more a switch.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "models/cluster.h"
#include "testbed/import/infer/mesh.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

bool counts(const AddressFact& address) { return !is_link_local(address.prefix.address); }

/// The first addresses by which the two find each other, or whose prefixes overlap; empty: there are none.
std::string shared_subnet(const NicFacts& one, const NicFacts& other) {
  for (const AddressFact& left : one.addresses) {
    for (const AddressFact& right : other.addresses) {
      if (!counts(left) || !counts(right)) continue;
      const bool same = models::same_subnet(left.prefix, right.prefix);
      if (same || models::overlaps(left.prefix, right.prefix)) return subnet_text(left.prefix);
    }
  }
  return "";
}

std::string first_subnet(const NicFacts& nic) {
  for (const AddressFact& address : nic.addresses) {
    if (counts(address)) return subnet_text(address.prefix);
  }
  return "";
}

class Finder {
 public:
  explicit Finder(Mesh& mesh) : mesh_(mesh) {
    for (const Port port : mesh.ports()) {
      const auto [entry, is_new] = index_.emplace(mesh.connector_of(port), connectors_.size());
      if (is_new) connectors_.emplace_back();
      connectors_[entry->second].push_back(port);
      connector_[port] = entry->second;
      const NicFacts& nic = mesh.nic_of(port);
      for (const std::string& name : {nic.device.value, nic.netdev.value}) {
        by_name_.emplace(mesh.host_of(port).name.value + "/" + name, entry->second);
      }
    }
    for (std::vector<Port>& ports : connectors_) {
      if (mesh.bond_of(ports.front()) == nullptr) continue;
      std::sort(ports.begin(), ports.end(),
                [&](Port left, Port right) { return mesh.place_in_bond(left) < mesh.place_in_bond(right); });
    }
    for (const GivenSwitch& box : mesh.machines.switches) switch_named(box.name);
    parent_.resize(connectors_.size() + switches_.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    evidence_.resize(parent_.size());
    for (Id id = 0; id < connectors_.size(); ++id) {
      const bool is_addressed = std::any_of(connectors_[id].begin(), connectors_[id].end(),
                                            [&](Port port) { return !first_subnet(mesh.nic_of(port)).empty(); });
      if (is_addressed) addressed_.push_back(id);
    }
  }

  void find() {
    take_given();
    take_lldp();
    take_neighbours();
    take_subnets();
    take_leftover();
    compare_subnets();
    report();
  }

 private:
  using Id = std::size_t;  // of a connector, or behind them of a switch

  Id switch_named(const std::string& name) {
    const auto [entry, is_new] = switch_index_.emplace(name, switches_.size());
    if (is_new) {
      switches_.push_back(name);
      if (!parent_.empty()) {
        parent_.push_back(parent_.size());
        evidence_.emplace_back();
      }
    }
    return connectors_.size() + entry->second;
  }

  Id root(Id id) const {
    while (parent_[id] != id) {
      parent_[id] = parent_[parent_[id]];  // halves the way of the next search
      id = parent_[id];
    }
    return id;
  }

  void join(Id one, Id other, const std::string& why) {
    const Id left = root(one), right = root(other);
    if (left == right) return;
    parent_[right] = left;
    for (std::string& each : evidence_[right]) evidence_[left].push_back(std::move(each));
    evidence_[right].clear();
    evidence_[left].push_back(why);
  }

  bool is_attached(Id id) const { return members_.count(root(id)) > 0; }

  /// How many connectors and switches each medium has, by its root; those of one alone are left out.
  void count_members() {
    members_.clear();
    std::map<Id, std::size_t> sizes;
    for (Id id = 0; id < parent_.size(); ++id) ++sizes[root(id)];
    for (const auto& [id, size] : sizes) {
      if (size > 1) members_[id] = size;
    }
    boxes_.clear();
    for (Id box = connectors_.size(); box < parent_.size(); ++box) {
      boxes_[root(box)].push_back(switches_[box - connectors_.size()]);
    }
  }

  /// As of the last count_members().
  bool has_switch(Id id) const { return boxes_.count(root(id)) > 0; }

  std::optional<Port> port_named(const std::string& node, const std::string& port) const {
    for (const auto& [each, id] : connector_) {
      const NicFacts& nic = mesh_.nic_of(each);
      if (mesh_.host_of(each).name.value == node && (nic.netdev.value == port || nic.device.value == port)) return each;
    }
    return std::nullopt;
  }

  std::optional<Id> connector_named(const std::string& node, const std::string& port) const {
    const auto found = by_name_.find(node + "/" + port);
    return found == by_name_.end() ? std::nullopt : std::optional<Id>(found->second);
  }

  void take_given() {
    for (const GivenCable& cable : mesh_.machines.cables) {
      std::optional<Id> ends[2];
      for (int end = 0; end < 2; ++end) {
        if (switch_index_.count(cable.node[end]) > 0) ends[end] = switch_named(cable.node[end]);
        if (!ends[end]) ends[end] = connector_named(cable.node[end], cable.port[end]);
      }
      if (!ends[0] || !ends[1]) continue;  // a management network, or the host of the containers
      join(*ends[0], *ends[1], fmt::format("{} names this cable", cable.source));
      given_.insert({*ends[0], *ends[1]});
      const auto one = port_named(cable.node[0], cable.port[0]), other = port_named(cable.node[1], cable.port[1]);
      if (one && other) seen_.insert({{*one, *other}, {*other, *one}});
      if (cable.rate_bps) rates_[*ends[0]] = rates_[*ends[1]] = *cable.rate_bps;
    }
    count_members();
  }

  /// The port that an LLDP neighbour is; nullopt: it is no port of these hosts.
  std::optional<Port> port_of(const LldpFact& fact) const {
    for (const auto& [port, id] : connector_) {
      const NicFacts& nic = mesh_.nic_of(port);
      if (!fact.mac.empty() && nic.mac.value == fact.mac) return port;
      const std::string name = lower(mesh_.host_of(port).name.value), system = lower(fact.system);
      const bool is_host = name == system || system.substr(0, system.find('.')) == name;
      if (is_host && (nic.netdev.value == fact.port || nic.device.value == fact.port)) return port;
    }
    return std::nullopt;
  }

  bool is_host(const std::string& system) const {
    const std::string wanted = lower(system);
    return std::any_of(mesh_.machines.hosts.begin(), mesh_.machines.hosts.end(), [&](const HostFacts& host) {
      return lower(host.name.value) == wanted || wanted.substr(0, wanted.find('.')) == lower(host.name.value);
    });
  }

  void take_lldp() {
    std::map<Port, std::pair<Port, std::string>> said;
    for (const auto& [port, id] : connector_) {
      for (const LldpFact& fact : mesh_.nic_of(port).lldp) {
        const std::optional<Port> other = port_of(fact);
        if (other && connector_.at(*other) != id) {
          const std::string why =
              fmt::format("LLDP: {} sees {} ({})", mesh_.name_of(port), mesh_.name_of(*other), fact.source);
          said[port] = {*other, why};
          seen_.insert({{port, *other}, {*other, port}});
          join(id, connector_.at(*other), why);
        } else if (!other && !fact.system.empty() && !is_host(fact.system)) {
          join(id, switch_named(fact.system),
               fmt::format("LLDP: {} sees {} port {} ({})", mesh_.name_of(port), fact.system, fact.port, fact.source));
        }
      }
    }
    for (const auto& [port, other] : said) {
      const auto back = said.find(other.first);
      if (back == said.end() || connector_.at(back->second.first) == connector_.at(port)) continue;
      contradict(mesh_.name_of(port), fmt::format("{}, but {}", other.second, back->second.second),
                 "collect both nodes again at the same time, and look at the cable");
    }
    count_members();
  }

  void take_neighbours() {
    std::map<std::string, Port> by_mac;
    for (const auto& [port, id] : connector_) {
      if (mesh_.nic_of(port).mac.known()) by_mac.emplace(mesh_.nic_of(port).mac.value, port);
    }
    std::vector<std::tuple<Id, Id, std::string>> found;
    for (const auto& [port, id] : connector_) {
      for (const NeighbourFact& neighbour : mesh_.nic_of(port).neighbours) {
        const auto other = by_mac.find(neighbour.mac);
        if (other == by_mac.end() || other->second.host == port.host) continue;
        const Id there = connector_.at(other->second);
        const std::string why = fmt::format("{} has {} of {} as neighbour ({})", mesh_.name_of(port), neighbour.mac,
                                            mesh_.name_of(other->second), neighbour.source);
        if ((is_attached(id) || is_attached(there)) && root(id) != root(there)) {
          if (!has_switch(id) && !has_switch(there)) {
            contradict(mesh_.name_of(port), fmt::format("{}, but another cable ends there: {}", why, evidence_of(id)),
                       "collect all nodes again at the same time, and look at the cables");
          }
          continue;
        }
        found.emplace_back(id, there, why);
      }
    }
    for (const auto& [one, other, why] : found) join(one, other, why);
    count_members();
  }

  std::string evidence_of(Id id) const {
    const auto& all = evidence_[root(id)];
    return all.empty() ? "no evidence" : all.front();
  }

  /// The subnet that two connectors share; empty: none.
  std::string subnet_of(Id one, Id other) const {
    for (const Port left : connectors_[one]) {
      for (const Port right : connectors_[other]) {
        if (left.host == right.host) continue;
        const std::string subnet = shared_subnet(mesh_.nic_of(left), mesh_.nic_of(right));
        if (!subnet.empty()) return subnet;
      }
    }
    return "";
  }

  void take_subnets() {
    std::map<Id, std::vector<std::pair<Id, std::string>>> shared;  // free connectors with whom they share a subnet
    for (std::size_t left = 0; left < addressed_.size(); ++left) {
      for (std::size_t right = left + 1; right < addressed_.size(); ++right) {
        const Id one = addressed_[left], other = addressed_[right];
        const std::string subnet = subnet_of(one, other);
        if (subnet.empty()) continue;
        shared[one].emplace_back(other, subnet);
        shared[other].emplace_back(one, subnet);
      }
    }
    std::vector<std::tuple<Id, Id, std::string>> found;
    for (const auto& [id, others] : shared) {
      if (is_attached(id)) continue;
      for (const auto& [other, subnet] : others) {
        if (is_attached(other) && !has_switch(other)) continue;
        found.emplace_back(id, other, subnet);
      }
    }
    for (const auto& [one, other, subnet] : found) join(one, other, fmt::format("both are in subnet {}", subnet));
    count_members();
  }

  /// Ends that no evidence joins: of two alone the other one is what is left.
  void take_leftover() {
    std::vector<Id> open;
    for (Id id = 0; id < connectors_.size(); ++id) {
      if (is_attached(id)) continue;
      const NicFacts& nic = mesh_.nic_of(connectors_[id].front());
      const bool is_used =
          !first_subnet(nic).empty() || nic.link_up.value_or(!nic.netdev.known() || !has_peerless(nic));
      if (is_used) open.push_back(id);
    }
    if (mesh_.machines.hosts.size() < 2) return;
    std::map<std::size_t, std::vector<Id>> by_host;
    for (const Id id : open) by_host[connectors_[id].front().host].push_back(id);
    const bool is_last_pair = open.size() == 2 && by_host.size() == 2;
    const bool is_two_hosts = mesh_.machines.hosts.size() == 2 && by_host.size() == 2 &&
                              by_host.begin()->second.size() == by_host.rbegin()->second.size();
    if (!is_last_pair && !is_two_hosts) return;
    const auto& one = by_host.begin()->second;
    const auto& other = by_host.rbegin()->second;
    for (std::size_t at = 0; at < one.size(); ++at) {
      const std::string names = fmt::format("{} to {}", mesh_.name_of(connectors_[one[at]].front()),
                                            mesh_.name_of(connectors_[other[at]].front()));
      // A link-local address that netplan asks for is known to the running machine alone.
      const bool is_configured = is_configuration(one[at]) && is_configuration(other[at]);
      if (is_configured) given_.insert({one[at], other[at]});
      join(one[at], other[at],
           is_last_pair ? "assumed: the only two ports that nothing else joins"
                        : "assumed: ports of the two nodes in their order");
      mesh_.assumed.add("cable", names, "one cable",
                        "where does it lead? `lldpctl` or `ip neigh` on both nodes shows it");
    }
    count_members();
  }

  bool is_configuration(Id id) const {
    const Fact<std::string>& netdev = mesh_.nic_of(connectors_[id].front()).netdev;
    return netdev.known() && netdev.origin == Origin::kConfigured;
  }

  /// A port of which nothing is known but its name may be cabled; one that is down without an address is not.
  static bool has_peerless(const NicFacts& nic) { return nic.link_up.known() && !nic.link_up.value; }

  /// Where cables are known by more than addresses, these must agree.
  void compare_subnets() {
    for (const Id id : addressed_) {
      const std::string subnet = first_subnet(mesh_.nic_of(connectors_[id].front()));
      if (subnet.empty() || !is_attached(id) || has_switch(id)) continue;
      bool shares_here = false;
      std::string elsewhere;
      for (const Id other : addressed_) {
        if (other == id || subnet_of(id, other).empty()) continue;
        if (root(other) == root(id)) shares_here = true;
        if (root(other) != root(id)) elsewhere = mesh_.name_of(connectors_[other].front());
      }
      if (shares_here || elsewhere.empty()) continue;
      contradict(mesh_.name_of(connectors_[id].front()),
                 fmt::format("{}, but its subnet {} is that of {}", evidence_of(id), subnet, elsewhere),
                 "move the cable, or exchange the addresses");
    }
  }

  void contradict(const std::string& place, const std::string& cause, const std::string& fix) {
    mesh_.findings.push_back({Severity::kWarning, "contradiction", place, cause, fix});
  }

  // -- what becomes of the media --------------------------------------------------------------------------------------

  void report() {
    std::map<Id, std::vector<Id>> media;
    for (Id id = 0; id < connectors_.size(); ++id) media[root(id)].push_back(id);
    for (const auto& [medium, inside] : media) {
      if (inside.size() == 1 && !has_switch(medium)) {
        report_open(inside.front());
      } else if (inside.size() == 2 && !has_switch(medium) && is_bond(inside[0]) && are_alike(inside[0], inside[1])) {
        report_bond_cables(inside[0], inside[1]);
      } else if (inside.size() == 2 && !has_switch(medium) && !is_bond(inside[0]) && !is_bond(inside[1])) {
        report_cable(inside[0], inside[1]);
      } else {
        report_switch(medium, inside);
      }
    }
    order_and_name(mesh_);
  }

  void report_open(Id id) {
    const Port port = connectors_[id].front();
    const NicFacts& nic = mesh_.nic_of(port);
    const std::string subnet = first_subnet(nic);
    if (subnet.empty()) return;  // a port without a cable needs none
    mesh_.findings.push_back({Severity::kWarning, "open-end", mesh_.name_of(port),
                              fmt::format("no other node that was read has a port in its subnet {} ({})", subnet,
                                          nic.addresses.front().source),
                              "add the node at the other end, or correct the address"});
  }

  const BondFacts* bond_of(Id id) const { return mesh_.bond_of(connectors_[id].front()); }
  bool is_bond(Id id) const { return bond_of(id) != nullptr; }

  /// Cables can join the members of the two, one by one; between all others there is a switch.
  bool are_alike(Id one, Id other) const {
    const BondFacts *const left = bond_of(one), *const right = bond_of(other);
    return left != nullptr && right != nullptr && left->mode.value == right->mode.value &&
           left->members.size() == right->members.size();
  }

  /// Members in their order, unless a file or LLDP shows which lead to which.
  void report_bond_cables(Id one, Id other) {
    std::vector<Port> far;
    for (const Port port : connectors_[one]) {
      const auto found = seen_.find(port);
      if (found != seen_.end() && connector_.at(found->second) == other) far.push_back(found->second);
    }
    std::vector<Port> sorted = far, all = connectors_[other];
    std::sort(sorted.begin(), sorted.end());
    std::sort(all.begin(), all.end());
    if (sorted == all) {
      connectors_[other] = far;
      const Port first = far.front();
      BondFacts& bond = mesh_.machines.hosts[first.host].bonds[static_cast<std::size_t>(mesh_.nic_of(first).bond)];
      move_addresses(mesh_.addressed(first), first);
      for (std::size_t at = 0; at < far.size(); ++at) bond.members[at] = mesh_.nic_of(far[at]).netdev.value;
    }
    for (std::size_t at = 0; at < connectors_[one].size(); ++at) {
      FoundCable cable;
      cable.ends[0] = connectors_[one][at];
      cable.ends[1] = connectors_[other][at];
      cable.is_given = given_.count(one) > 0 && given_.count(other) > 0;
      cable.evidence = fmt::format("{}", fmt::join(evidence_[root(one)], "; "));
      if (const auto rate = rates_.find(one); rate != rates_.end()) cable.rate_bps = rate->second;
      mesh_.cables.push_back(std::move(cable));
    }
  }

  void move_addresses(Port from, Port to) {
    if (from == to) return;
    std::swap(mesh_.machines.hosts[from.host].nics[from.nic].addresses,
              mesh_.machines.hosts[to.host].nics[to.nic].addresses);
    std::swap(mesh_.machines.hosts[from.host].nics[from.nic].gids, mesh_.machines.hosts[to.host].nics[to.nic].gids);
  }

  /// The pair of functions that share a subnet, or the first ones; the scenario's reader cables their fellows.
  void report_cable(Id one, Id other) {
    FoundCable cable;
    cable.ends[0] = connectors_[one].front();
    cable.ends[1] = connectors_[other].front();
    if (connectors_[one].size() == 1 || connectors_[other].size() == 1) {
      for (const Port left : connectors_[one]) {
        for (const Port right : connectors_[other]) {
          if (shared_subnet(mesh_.nic_of(left), mesh_.nic_of(right)).empty()) continue;
          cable.ends[0] = left;
          cable.ends[1] = right;
        }
      }
    }
    cable.is_given = given_.count(one) > 0 && given_.count(other) > 0;
    cable.evidence = fmt::format("{}", fmt::join(evidence_[root(one)], "; "));
    if (const auto rate = rates_.find(one); rate != rates_.end()) cable.rate_bps = rate->second;
    mesh_.cables.push_back(std::move(cable));
  }

  void report_switch(Id medium, const std::vector<Id>& inside) {
    FoundSwitch box;
    const auto named = boxes_.find(medium);
    const std::vector<std::string> boxes = named == boxes_.end() ? std::vector<std::string>() : named->second;
    for (const Id id : inside) box.ports.insert(box.ports.end(), connectors_[id].begin(), connectors_[id].end());
    std::sort(box.ports.begin(), box.ports.end());
    box.is_given = std::all_of(inside.begin(), inside.end(), [&](Id id) { return given_.count(id) > 0; });
    box.evidence = evidence_of(medium);
    if (evidence_[medium].size() > 1) box.evidence += fmt::format("; and {} more", evidence_[medium].size() - 1);
    if (!boxes.empty()) box.name = boxes.front();
    if (boxes.empty()) {
      mesh_.assumed.add("switch", fmt::format("{} ports of {}", box.ports.size(), box.evidence), "one switch",
                        "is there one, or are they cabled directly? `lldpctl` on each node shows it");
    }
    if (boxes.size() > 1) {
      const bool any_bond = std::any_of(inside.begin(), inside.end(), [&](Id id) { return is_bond(id); });
      mesh_.findings.push_back(
          {Severity::kWarning, "joined-switches", box.name,
           fmt::format("{} switches that {} become one ({}): its links between switches have no "
                       "limit here",
                       boxes.size(), any_bond ? "the cables of one bond lead to" : "are cabled to each other",
                       fmt::join(boxes, ", ")),
           "expect less where the links between switches are slower than the ports together"});
    }
    mesh_.switches.push_back(std::move(box));
  }

  Mesh& mesh_;
  std::map<std::string, Id> index_;
  std::vector<std::vector<Port>> connectors_;
  std::map<Port, Id> connector_;
  std::map<std::string, Id> by_name_;  // "NODE/DEVICE" and "NODE/NETDEV"
  std::vector<Id> addressed_;          // connectors with an address that identifies a cable
  std::vector<std::string> switches_;
  std::map<std::string, std::size_t> switch_index_;
  std::map<Id, std::vector<std::string>> boxes_;  // names of each medium's switches, by root
  mutable std::vector<Id> parent_;
  std::vector<std::vector<std::string>> evidence_;  // of each root
  std::map<Id, std::size_t> members_;               // of media with two members or more, by root
  std::map<Id, std::uint64_t> rates_;
  std::map<Port, Port> seen_;  // both ends of cables that a file or LLDP names
  std::set<Id> given_;         // ends of cables that a file names
};

}  // namespace

void find_cables(Mesh& mesh) { Finder(mesh).find(); }

}  // namespace meshbed::testbed::hosts
