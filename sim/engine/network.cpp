#include "sim/engine/network.h"

#include <algorithm>
#include <set>
#include <utility>

#include "models/lan/bond.h"
#include "models/lan/frame.h"
#include "models/lan/qsfp.h"
#include "models/lan/router.h"
#include "models/pcie.h"
#include "plugin/base/check.h"

namespace meshbed::sim {

using models::PortRef;

namespace {

/// Of the function: two of a RoCE LAG have two links.
std::string link_end(const models::Cluster& cluster, PortRef port) {
  const auto& node = cluster.at(port.node);
  return node.name + "/" + models::function_name(node.nic(port.nic));
}

}  // namespace

std::string port_name(const models::Cluster& cluster, PortRef port) {
  const auto& node = cluster.at(port.node);
  return node.name + "/" + node.nic(port.nic).device;
}

Network::Network(const models::Cluster& cluster) : cluster_(cluster) {
  ports_.reserve(cluster.nodes.size());
  for (const auto& node : cluster.nodes) {
    auto& states = ports_.emplace_back(node.nics.size());
    for (std::size_t nic = 0; nic < node.nics.size(); ++nic) states[nic].up = node.nics[nic].link_up;
  }
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    const auto& cable = cluster.cables[index];
    MESHBED_CHECK(state(cable.a).link_out < 0 && state(cable.b).link_out < 0);
    const std::string a = link_end(cluster, cable.a);
    const std::string b = link_end(cluster, cable.b);
    const int forward = add_link(a + ">" + b, cable.rate_bps);
    const int backward = add_link(b + ">" + a, cable.rate_bps);
    auto& state_a = state(cable.a);
    auto& state_b = state(cable.b);
    state_a.cable = state_b.cable = static_cast<int>(index);
    state_a.link_out = state_b.link_in = forward;
    state_b.link_out = state_a.link_in = backward;
    state_a.peer = cable.b;
    state_b.peer = cable.a;
  }
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    const auto& sw = cluster.switches[index];
    for (std::size_t number = 0; number < sw.ports.size(); ++number) {
      const PortRef port = sw.ports[number];
      MESHBED_CHECK(state(port).link_out < 0);
      const auto& nic = cluster.nic_of(port);
      const std::uint64_t rate = sw.rate_bps != 0 ? std::min(sw.rate_bps, nic.rate_bps) : nic.rate_bps;
      const std::string name = link_end(cluster, port);
      auto& port_state = state(port);
      port_state.switch_index = static_cast<int>(index);
      if (!sw.boxes.empty()) port_state.box = sw.box_of_port[number];
      const std::string& box = port_state.box < 0 ? sw.name : sw.boxes[static_cast<std::size_t>(port_state.box)];
      port_state.link_out = add_link(name + ">" + box, rate);
      port_state.link_in = add_link(box + ">" + name, rate);
    }
  }
  add_shared();
  add_routers();
  add_trunks();
  bonds_.emplace(cluster, [this](PortRef port) { return link_up(port); });
}

void Network::add_shared() {
  for (const models::SharedLink& shared : models::shared_links(cluster_)) {
    const std::string name = cluster_.at(shared.node).name + "/" + shared.name;
    const int out = add_link(name + ">", shared.rate_bps);
    // What comes out of a cable was held to the rate of the port at its other end.
    const bool is_cabled = shared.is_qsfp() && state(shared.ports.front()).cable >= 0;
    const int in = is_cabled ? -1 : add_link(">" + name, shared.rate_bps);
    for (const PortRef port : shared.ports) {
      (shared.is_qsfp() ? state(port).qsfp_out : state(port).pcie_out) = out;
      (shared.is_qsfp() ? state(port).qsfp_in : state(port).pcie_in) = in;
    }
  }
  for (const models::SharedWire& wire : models::shared_wires(cluster_)) {
    for (const PortRef port : wire.a) state(port).far = wire.b;
    for (const PortRef port : wire.b) state(port).far = wire.a;
  }
}

bool Network::wire_leads(PortRef port, PortRef other) const {
  const PortState& own = state(port);
  if (own.cable < 0) return false;
  return own.peer == other || std::find(own.far.begin(), own.far.end(), other) != own.far.end();
}

void Network::add_routers() {
  for (const models::Router& router : cluster_.routers) {
    auto& ports = router_ports_.emplace_back();
    for (const int index : router.switches) {
      const std::string& box = cluster_.switches[static_cast<std::size_t>(index)].name;
      const int to_router = add_link(box + ">" + router.name, router.rate_bps);
      const int from_router = add_link(router.name + ">" + box, router.rate_bps);
      ports.push_back({.switch_index = index, .to_router = to_router, .from_router = from_router});
    }
  }
}

std::uint64_t Network::PairKey::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, by words
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(source.node), static_cast<std::uint64_t>(source.nic),
        static_cast<std::uint64_t>(destination.node), static_cast<std::uint64_t>(destination.nic), flow}) {
    hash = (hash ^ word) * 0x100000001b3ULL;
  }
  return hash;
}

void Network::add_trunks() {
  for (std::size_t index = 0; index < cluster_.switches.size(); ++index) {
    const models::Switch& network = cluster_.switches[index];
    if (network.boxes.empty()) continue;
    Trunks& trunks =
        trunks_.try_emplace(static_cast<int>(index), Trunks{models::TrunkRoutes(network), {}}).first->second;
    std::set<std::string> names;
    for (const models::Trunk& trunk : network.trunks) {
      const std::string& a = network.boxes[static_cast<std::size_t>(trunk.a)];
      const std::string& b = network.boxes[static_cast<std::size_t>(trunk.b)];
      // Parallel ones have their own names added.
      const std::string more = names.insert(a + ">" + b).second ? "" : " (" + trunk.name + ")";
      const int forward = add_link(a + ">" + b + more, trunk.rate_bps);
      trunks.links.emplace_back(forward, add_link(b + ">" + a + more, trunk.rate_bps));
    }
  }
}

Network::TrunkWay Network::trunk_way(const PortState& from, const PortState& to, std::uint64_t flow) const {
  const models::Switch& network = cluster_.switches[static_cast<std::size_t>(from.switch_index)];
  TrunkWay way{.links = {}, .latency_ps = network.latency_ps};
  if (from.box == to.box) return way;
  Trunks& trunks = trunks_.at(from.switch_index);
  for (const models::TrunkHop& hop : trunks.routes.way(from.box, to.box, flow)) {
    const auto& [forward, back] = trunks.links[static_cast<std::size_t>(hop.trunk)];
    way.links.push_back(hop.forward ? forward : back);
    way.latency_ps += network.trunks[static_cast<std::size_t>(hop.trunk)].propagation_ps + network.latency_ps;
  }
  return way;
}

const Network::RouterPort& Network::router_port(int router, int switch_index) const {
  const auto& ports = router_ports_[static_cast<std::size_t>(router)];
  const auto found = std::find_if(ports.begin(), ports.end(),
                                  [&](const RouterPort& port) { return port.switch_index == switch_index; });
  MESHBED_CHECK(found != ports.end());
  return *found;
}

int Network::router_between(PortRef from, PortRef to) const {
  const int router = nic(device(from)).router;
  const int here = state(from).switch_index, there = state(to).switch_index;
  if (router < 0 || here < 0 || there < 0 || here == there) return -1;
  const models::Router& between = cluster_.routers[static_cast<std::size_t>(router)];
  return models::joins(between, here) && models::joins(between, there) ? router : -1;
}

std::vector<int> Network::way_out(PortRef port) const {
  const PortState& own = state(port);
  std::vector<int> links;
  for (const int link : {own.pcie_out, own.qsfp_out, own.link_out}) {
    if (link >= 0 || link == own.link_out) links.push_back(link);
  }
  return links;
}

std::vector<int> Network::way_in(PortRef port) const {
  const PortState& own = state(port);
  std::vector<int> links;
  // A cable is one link for both ends.
  if (own.cable < 0) links.push_back(own.link_in);
  if (own.qsfp_in >= 0) links.push_back(own.qsfp_in);
  if (own.pcie_in >= 0) links.push_back(own.pcie_in);
  return links;
}

int Network::add_link(std::string name, std::uint64_t rate_bps) {
  MESHBED_CHECK(rate_bps > 0);
  links_.push_back({.name = std::move(name), .rate_bps = rate_bps, .shaped_bps = rate_bps});
  return static_cast<int>(links_.size()) - 1;
}

const Path* Network::wire(PortRef source, PortRef destination, std::uint64_t flow) const {
  const PortState& from = state(source);
  const PortState& to = state(destination);
  const PairKey key{source, destination, from.box == to.box ? 0 : flow};
  if (const auto found = path_cache_.find(key); found != path_cache_.end()) return found->second;

  const bool by_cable = wire_leads(source, destination);
  const bool by_switch = from.switch_index >= 0 && from.switch_index == to.switch_index && source != destination;
  const int router = by_cable || by_switch ? -1 : router_between(source, destination);
  const Path* result = nullptr;
  if (by_cable || by_switch || router >= 0) {
    Path path{.source = source, .destination = destination, .index = static_cast<int>(paths_.size())};
    path.links = way_out(source);
    path.sent = path.links.size();
    if (router >= 0) {
      path.links.push_back(router_port(router, from.switch_index).to_router);
      path.links.push_back(router_port(router, to.switch_index).from_router);
    }
    TrunkWay through;
    if (by_switch) through = trunk_way(from, to, key.hash());
    path.links.insert(path.links.end(), through.links.begin(), through.links.end());
    for (const int link : way_in(destination)) path.links.push_back(link);
    if (by_cable) {
      path.latency_ps = cluster_.cables[static_cast<std::size_t>(from.cable)].propagation_ps;
    } else if (by_switch) {
      const auto& sw = cluster_.switches[static_cast<std::size_t>(from.switch_index)];
      path.latency_ps = 2 * sw.propagation_ps + through.latency_ps;
      path.mtu_bytes = models::forwarded_bytes(sw, nic(source), nic(destination));
    } else {
      const auto& box = cluster_.routers[static_cast<std::size_t>(router)];
      const auto& near = cluster_.switches[static_cast<std::size_t>(from.switch_index)];
      const auto& far = cluster_.switches[static_cast<std::size_t>(to.switch_index)];
      path.latency_ps = near.propagation_ps + near.latency_ps + 2 * box.propagation_ps + box.latency_ps +
                        far.latency_ps + far.propagation_ps;
      // The router's own ports have their switches' MTU.
      const std::uint32_t near_bytes = models::forwarded_bytes(near, nic(source), {});
      const std::uint32_t far_bytes = models::forwarded_bytes(far, {}, nic(destination));
      path.mtu_bytes = near_bytes == 0 || (far_bytes != 0 && far_bytes < near_bytes) ? far_bytes : near_bytes;
    }
    result = &paths_.emplace_back(std::move(path));
  }
  path_cache_.emplace(key, result);
  return result;
}

const Path* Network::path(PortRef source, PortRef destination, std::uint64_t flow) const {
  const PortRef to = device(destination);
  const PortRef from = bonds_->egress(device(source), to, flow);
  if (const PortState& own = state(from); own.cable >= 0) {
    if (device(own.peer) == to) return wire(from, own.peer);
    const auto found = std::find_if(own.far.begin(), own.far.end(), [&](PortRef far) { return device(far) == to; });
    return found != own.far.end() ? wire(from, *found) : nullptr;
  }
  const PortRef arrival = bonds_->egress(to, device(source), flow);
  if (link_up(arrival)) return wire(from, arrival, flow);
  // A switch sees at once which of its ports have a link, and spreads what is for one bond over those. Where they take
  // turns, it only learns the way to another one when that one sends.
  const models::Bond* const bond = models::bond_of(cluster_, to);
  const bool spreads = bond != nullptr && bond->mode != models::BondMode::kActiveBackup;
  for (const PortRef other : models::functions_of(cluster_, to)) {
    if (spreads && link_up(other)) return wire(from, other, flow);
  }
  return wire(from, arrival, flow);
}

PortRef Network::device(PortRef port) const { return models::device_of(cluster_, port); }

std::optional<Bonds::Change> Network::look_at_bond(PortRef port) {
  return bonds_->look(port, [this](PortRef function) { return link_up(function); });
}

bool Network::link_up(PortRef port) const {
  const PortState& own = state(port);
  if (!own.up || own.link_out < 0) return false;
  return own.cable < 0 || state(own.peer).up;
}

bool Network::port_up(PortRef device) const {
  if (models::bond_of(cluster_, device) == nullptr) return link_up(device);
  const std::vector<PortRef> functions = models::functions_of(cluster_, device);
  return std::any_of(functions.begin(), functions.end(), [this](PortRef port) { return link_up(port); });
}

void Network::set_port_up(PortRef port, bool up) { state(port).up = up; }

bool Network::owns(PortRef port, const models::IpAddress& address) const {
  const auto& addresses = nic(port).addresses;
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const models::IpPrefix& prefix) { return prefix.address == address; });
}

bool Network::same_vlan(PortRef left, PortRef right) const { return nic(left).vlan == nic(right).vlan; }

PortRef Network::routed(PortRef from, const models::IpAddress& address) const {
  const int router = nic(from).router;
  if (router < 0 || !port_up(from) || models::route_by_router(nic(from), address) == nullptr) return {};
  const std::vector<PortRef> own = models::functions_of(cluster_, from);
  for (const int index : cluster_.routers[static_cast<std::size_t>(router)].switches) {
    const auto is_there = [&](PortRef port) { return state(port).switch_index == index; };
    if (std::any_of(own.begin(), own.end(), is_there)) continue;
    for (const PortRef port : cluster_.switches[static_cast<std::size_t>(index)].ports) {
      // The router's own ports are in no VLAN.
      if (nic(device(port)).vlan == 0 && owns(device(port), address)) return device(port);
    }
  }
  return {};
}

std::vector<PortRef> Network::joined(PortRef port) const {
  const PortState& own = state(port);
  if (own.cable >= 0 && !own.far.empty()) return own.far;
  if (own.cable >= 0) return {own.peer};
  if (own.switch_index < 0) return {};
  std::vector<PortRef> ports = cluster_.switches[static_cast<std::size_t>(own.switch_index)].ports;
  std::erase(ports, port);
  std::sort(ports.begin(), ports.end());
  return ports;
}

std::vector<PortRef> Network::neighbours(PortRef from) const {
  std::vector<PortRef> devices;
  for (const PortRef port : models::functions_of(cluster_, from)) {
    for (const PortRef other : joined(port)) {
      if (device(other) != from) devices.push_back(device(other));
    }
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

PortRef Network::answering(PortRef port, const models::IpAddress& address) const {
  const PortState& own = state(port);
  const PortRef from = device(port);
  const auto answers = [&](PortRef other) {
    return state(other).up && owns(device(other), address) && same_vlan(from, device(other));
  };
  if (own.cable >= 0) {
    if (answers(own.peer)) return device(own.peer);
    const auto far = std::find_if(own.far.begin(), own.far.end(), answers);
    return far != own.far.end() ? device(*far) : PortRef{};
  }
  const auto& ports = cluster_.switches[static_cast<std::size_t>(own.switch_index)].ports;
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](PortRef other) { return device(other) != from && answers(other); });
  return found != ports.end() ? device(*found) : PortRef{};
}

PortRef Network::neighbour(PortRef from, const models::IpAddress& address) const {
  for (const PortRef port : models::functions_of(cluster_, from)) {
    const PortRef found = link_up(port) ? answering(port, address) : PortRef{};
    if (found.node >= 0) return found;
  }
  return {};
}

}  // namespace meshbed::sim
