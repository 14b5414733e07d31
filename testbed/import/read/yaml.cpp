// YAML: netplan's files, containerlab's and InfraGraph's.

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>

#include "testbed/base/units.h"
#include "testbed/base/words.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

std::string source_of(const YAML::Node& node, const Part& part) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? part.path : fmt::format("{}:{}", part.path, mark.line + 1);
}

std::string text_of(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : ""; }

/// The value of a key; an undefined node where `map` is no map or has no such key.
YAML::Node at(const YAML::Node& map, const char* key) {
  if (!map || !map.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
  return map[key];
}

bool is_true(const YAML::Node& node) {
  const std::string text = lower(text_of(node));
  return text == "true" || text == "yes" || text == "on" || text == "y";
}

/// What the file says of one interface, of any section.
void take_interface(const YAML::Node& about, NicFacts& nic, HostFacts& host, const Part& part) {
  const YAML::Node mtu = at(about, "mtu");
  if (const auto bytes = parse_digits(text_of(mtu), 1U << 20U)) {
    nic.mtu_bytes.offer(static_cast<std::uint32_t>(*bytes), source_of(mtu, part), Origin::kConfigured);
  }
  const YAML::Node addresses = at(about, "addresses");
  if (addresses && addresses.IsSequence()) {
    for (const YAML::Node& each : addresses) {
      // {"10.0.0.1/24": {label: ...}}
      const YAML::Node address = each.IsMap() && each.size() > 0 ? each.begin()->first : each;
      add_address(nic, text_of(address), source_of(address, part));
    }
  }
  for (const char* key : {"dhcp4", "dhcp6"}) {
    if (const YAML::Node dhcp = at(about, key); is_true(dhcp) && nic.dhcp.empty()) nic.dhcp = source_of(dhcp, part);
  }
  for (const char* key : {"gateway4", "gateway6"}) {
    if (const YAML::Node gateway = at(about, key); gateway) {
      if (nic.default_via.empty()) nic.default_via = source_of(gateway, part);
    }
  }
  const YAML::Node routes = at(about, "routes");
  if (!routes || !routes.IsSequence()) return;
  for (const YAML::Node& route : routes) {
    host.take_route(nic.netdev.value, text_of(at(route, "to")), text_of(at(route, "via")), source_of(route, part),
                    Origin::kConfigured);
  }
}

/// The interface that an entry of netplan's is about; empty: several, which a pattern names.
std::string netdev_of(const std::string& id, const YAML::Node& about, const HostFacts& host) {
  const std::string set = text_of(at(about, "set-name")), matched = text_of(at(at(about, "match"), "name"));
  if (!set.empty()) return set;
  const std::string with_mac = host.netdev_with(lower(text_of(at(at(about, "match"), "macaddress"))));
  if (matched.empty() && !with_mac.empty()) return with_mac;
  const std::string& name = matched.empty() ? id : matched;
  const bool is_pattern = name.find_first_of("*?[") != std::string::npos;
  const bool is_id_alone = matched.empty() && at(about, "match");  // by MAC address, with the kernel's own name
  return is_pattern || (is_id_alone && !at(at(about, "match"), "macaddress")) ? "" : name;
}

/// mode, transmit-hash-policy and primary of a bond's parameters.
void take_bond(const YAML::Node& about, NicFacts& bond, const std::string& source, const Part& part) {
  const YAML::Node parameters = at(about, "parameters");
  if (parameters && parameters.IsMap()) {
    for (const auto& entry : parameters) {
      take_bond_option(bond, text_of(entry.first), text_of(entry.second), source_of(entry.second, part),
                       Origin::kConfigured);
    }
  }
  take_bond_default(bond, source);
}

void take_section(const YAML::Node& section, const std::string& kind, HostFacts& host, const Part& part) {
  if (!section || !section.IsMap()) return;
  for (const auto& entry : section) {
    const YAML::Node& key = entry.first;
    const YAML::Node& about = entry.second;
    const std::string id = text_of(key);
    if (id.empty() || (id == "renderer" && about.IsScalar())) continue;
    const std::string name = kind.empty() ? netdev_of(id, about, host) : id, source = source_of(key, part);
    if (name.empty()) {
      const std::string pattern = text_of(at(at(about, "match"), "name"));
      host.leave_out({id,
                      pattern.empty() ? "is matched by something other than a name or a MAC address"
                                      : fmt::format("matches several names, '{}'", pattern),
                      source});
      continue;
    }
    if (name != id) host.own_names[id] = name;
    NicFacts& nic = host.by_netdev(name, source, Origin::kConfigured);
    if (!kind.empty()) nic.kind = kind;
    if (kind == "bond") take_bond(about, nic, source, part);
    const std::string mac = lower(text_of(at(at(about, "match"), "macaddress")));
    if (!mac.empty()) nic.mac.offer(mac, source, Origin::kConfigured);
    if (const YAML::Node id_node = at(about, "id"); kind == "vlan" && id_node) {
      nic.parent = text_of(at(about, "link"));
      if (const auto number = parse_digits(text_of(id_node), 4094)) {
        nic.vlan.offer(static_cast<int>(*number), source_of(id_node, part), Origin::kConfigured);
      }
    }
    take_interface(about, nic, host, part);
    const YAML::Node members = at(about, "interfaces");
    if (!members || !members.IsSequence()) continue;
    for (const YAML::Node& member : members) {
      if (!text_of(member).empty()) host.memberships.push_back({text_of(member), name, source_of(member, part)});
    }
  }
}

bool read_netplan(const YAML::Node& network, const Part& part, HostFacts& host) {
  take_section(at(network, "ethernets"), "", host, part);
  take_section(at(network, "wifis"), "wifi", host, part);
  take_section(at(network, "modems"), "modem", host, part);
  take_section(at(network, "vlans"), "vlan", host, part);
  take_section(at(network, "bonds"), "bond", host, part);
  take_section(at(network, "bridges"), "bridge", host, part);
  take_section(at(network, "tunnels"), "tunnel", host, part);
  return true;
}

bool is_switch_kind(const std::string& kind) { return kind == "bridge" || kind == "ovs-bridge"; }

struct LinkEnd {
  std::string node, port;
  YAML::Node said;
};

/// "node:interface", or {node: ..., interface: ...} of the long form; nullopt: it is neither.
std::optional<LinkEnd> link_end(const YAML::Node& endpoint) {
  LinkEnd end{.node = "", .port = "", .said = endpoint};
  if (endpoint.IsMap()) {
    end.node = text_of(at(endpoint, "node"));
    end.port = text_of(at(endpoint, "interface"));
  } else {
    const std::string text = text_of(endpoint);
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return std::nullopt;
    end.node = text.substr(0, colon);
    end.port = text.substr(std::min(text.find_first_not_of(' ', colon + 1), text.size()));
  }
  if (end.node.empty() || end.port.empty()) return std::nullopt;
  return end;
}

/// nullptr: no host of that name is known.
HostFacts* find_host(Machines& machines, const std::string& name) {
  const auto found = std::find_if(machines.hosts.begin(), machines.hosts.end(),
                                  [&](const HostFacts& host) { return host.name.value == name; });
  return found == machines.hosts.end() ? nullptr : &*found;
}

HostFacts& host_named(Machines& machines, const std::string& name, const std::string& source, const Part& part) {
  if (HostFacts* const known = find_host(machines, name)) return *known;
  HostFacts& host = machines.hosts.emplace_back();
  host.name.offer(name, source);
  host.path = part.path;
  return host;
}

/// `ip addr add` of containerlab's exec lines.
void take_commands(const YAML::Node& commands, HostFacts& host, const Part& part) {
  if (!commands || !commands.IsSequence()) return;
  std::vector<std::unique_ptr<LineReader>> readers = ip_readers(host);
  for (const YAML::Node& command : commands) {
    const std::vector<std::string> words = words_of(text_of(command));
    if (!words.empty()) readers.front()->take(text_of(command), words, source_of(command, part));
  }
}

/// "ipv4: [192.168.0.1/24, 192.168.0.2/24]" of a link, one an end, or "ipv4: 192.168.0.1/24" of an endpoint; ipv6
/// likewise.
void take_link_addresses(const YAML::Node& link, const LinkEnd& end, std::size_t index, NicFacts& nic,
                         const Part& part) {
  for (const char* family : {"ipv4", "ipv6"}) {
    const YAML::Node both = at(link, family);
    if (both && both.IsSequence() && index < both.size()) add_address(nic, text_of(both[index]), source_of(both, part));
    if (!end.said.IsMap()) continue;
    if (const YAML::Node own = at(end.said, family)) add_address(nic, text_of(own), source_of(own, part));
  }
}

/// A cable where both ends are nodes of the file. Interfaces that lead elsewhere ("host:x", "type: dummy") are listed
/// as left out.
void read_link(const YAML::Node& nodes, const YAML::Node& link, const Part& part, Machines& machines) {
  std::vector<LinkEnd> ends;  // at nodes of the file
  std::string elsewhere = text_of(at(link, "type"));
  elsewhere = elsewhere.empty() ? "one end alone" : "a link of type " + elsewhere;
  const auto take = [&](const YAML::Node& endpoint) {
    const auto end = link_end(endpoint);
    if (!end) return;
    if (at(nodes, end->node.c_str())) return ends.push_back(*end);
    elsewhere = fmt::format("'{}:{}', which is no node of the file", end->node, end->port);
  };
  if (const YAML::Node all = at(link, "endpoints"); all && all.IsSequence()) {
    for (const YAML::Node& each : all) take(each);
  } else if (const YAML::Node one = at(link, "endpoint")) {
    take(one);
  }
  const std::string source = source_of(link, part);
  if (ends.size() != 2) {
    for (const LinkEnd& end : ends) {
      HostFacts* const host = find_host(machines, end.node);
      if (host != nullptr) host->leave_out({end.port, "leads to " + elsewhere, source});
    }
    return;
  }
  GivenCable cable;
  cable.source = source;
  for (std::size_t index = 0; index < 2; ++index) {
    const LinkEnd& end = ends[index];
    cable.node[index] = end.node;
    cable.port[index] = end.port;
    HostFacts* const host = find_host(machines, end.node);
    if (host == nullptr) continue;  // a switch
    NicFacts& nic = host->by_netdev(end.port, source, Origin::kConfigured);
    if (const auto mtu = parse_digits(text_of(at(link, "mtu")), 65535)) {
      nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source, Origin::kConfigured);
    }
    take_link_addresses(link, end, index, nic, part);
  }
  machines.cables.push_back(std::move(cable));
}

/// Linux containers are hosts; every other kind is a network's own machine, a switch here.
bool read_containerlab(const YAML::Node& topology, const Part& part, Machines& machines) {
  const YAML::Node nodes = at(topology, "nodes"), links = at(topology, "links");
  if (!nodes || !nodes.IsMap()) return false;
  const std::string default_kind = text_of(at(at(topology, "defaults"), "kind"));
  bool any_linux = false;
  for (const auto& entry : nodes) {
    const std::string said = text_of(at(entry.second, "kind"));
    any_linux = any_linux || (said.empty() ? default_kind : said) == "linux";
  }
  for (const auto& entry : nodes) {
    const YAML::Node& key = entry.first;
    const YAML::Node& about = entry.second;
    const std::string name = text_of(key), said = text_of(at(about, "kind")), source = source_of(key, part);
    const std::string kind = said.empty() ? default_kind : said;
    if (name.empty()) continue;
    // Of routers alone, each is a node: their cabling is what counts.
    if (is_switch_kind(kind) || (any_linux && kind != "linux")) {
      machines.switches.push_back({name, source});
    } else {
      take_commands(at(about, "exec"), host_named(machines, name, source, part), part);
    }
  }
  if (!links || !links.IsSequence()) return true;
  for (const YAML::Node& link : links) {
    if (link.IsMap()) read_link(nodes, link, part, machines);
  }
  return true;
}

/// InfraGraph is one model in YAML and JSON. `left`: nodes that may still come, since aliases may repeat them; at 0
/// what is behind is left out.
nlohmann::json to_json(const YAML::Node& node, std::size_t& left) {
  if (left == 0) return {};
  --left;
  if (node.IsMap()) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& entry : node) {
      if (entry.first.IsScalar()) object[entry.first.Scalar()] = to_json(entry.second, left);
    }
    return object;
  }
  if (node.IsSequence()) {
    nlohmann::json list = nlohmann::json::array();
    for (const YAML::Node& each : node) list.push_back(to_json(each, left));
    return list;
  }
  return node.IsScalar() ? nlohmann::json(node.Scalar()) : nlohmann::json();
}

bool read_document(const YAML::Node& root, const Part& part, Reading& into) {
  if (const YAML::Node network = at(root, "network"); network && network.IsMap()) {
    return read_netplan(network, part, into.host);
  }
  if (const YAML::Node topology = at(root, "topology"); topology && topology.IsMap()) {
    return read_containerlab(topology, part, into.others);
  }
  const YAML::Node infrastructure = at(root, "infrastructure");
  const YAML::Node devices = at(infrastructure ? infrastructure : root, "devices");
  const bool has_instances = at(root, "instances") || at(infrastructure, "instances");
  if (!has_instances && devices && devices.IsSequence() && devices.size() > 0 && at(devices[0], "components")) {
    const YAML::Mark mark = devices.Mark();
    refuse(
        part.path, static_cast<std::size_t>(mark.line) + 1, static_cast<std::size_t>(mark.column) + 1,
        "devices: InfraGraph's devices without instances are no network; put instances and their edges into this file");
  }
  if (!at(root, "instances") && !at(infrastructure, "instances") && !at(infrastructure, "connections")) return false;
  constexpr std::size_t kNodesMost = 2'000'000;
  std::size_t left = kNodesMost;
  const nlohmann::json graph = to_json(root, left);
  if (left == 0) refuse(part.path, 0, 0, fmt::format("has more than {} values; import a part of it", kNodesMost));
  return read_infragraph(graph, part, into.others);
}

/// yaml-cpp 0.7 reads nested values by recursion: what nests deeper than any such file is not passed to it.
void require_shallow(const Part& part) {
  constexpr std::size_t kDepthMost = 200;
  std::size_t depth = 0, line = 1, dashes = 0;
  bool is_indent = true;
  for (const char letter : part.text) {
    if (letter == '\n') {
      ++line;
      dashes = 0;
      is_indent = true;
      continue;
    }
    if (letter == '[' || letter == '{') ++depth;
    if ((letter == ']' || letter == '}') && depth > 0) --depth;
    if (is_indent && (letter == '-' || letter == '?' || letter == ':')) ++dashes;
    if (letter != ' ' && letter != '-' && letter != '?' && letter != ':') is_indent = false;
    if (depth + dashes > kDepthMost) refuse(part.path, line, 1, "nests deeper than any file that is read here");
  }
}

}  // namespace

bool read_yaml(const Part& part, Reading& into) {
  require_shallow(part);
  try {
    return read_document(YAML::Load(part.text), part, into);
  } catch (const YAML::Exception& error) {
    const bool has_place = !error.mark.is_null();
    refuse(part.path, has_place ? static_cast<std::size_t>(error.mark.line) + 1 : 0,
           has_place ? static_cast<std::size_t>(error.mark.column) + 1 : 0,
           fmt::format("not YAML: {}; indent with spaces, and quote texts with a colon in them", error.msg));
  }
}

}  // namespace meshbed::testbed::hosts
