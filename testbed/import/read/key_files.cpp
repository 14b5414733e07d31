// Key files: NetworkManager's connections (nm-settings-keyfile(5)), systemd's .network and .netdev files
// (systemd.network(5), systemd.netdev(5)).
// Boost's INI reader refuses keys that stand twice, as systemd's Address= may, and has no line numbers for sources.

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "plugin/base/name_list.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

constexpr std::uint64_t kConfiguredMtuMost = 1U << 20U, kVlanMost = 4094;

struct Entry {
  std::string section, key, value;
  std::string source;
};

/// In the file's order; lines that are neither a section nor a key with a value are left out, as both programs do.
std::vector<Entry> entries_of(const Part& part) {
  std::vector<Entry> entries;
  std::string section;
  std::size_t at = 0, number = 0;
  while (at < part.text.size()) {
    const std::size_t end = std::min(part.text.find('\n', at), part.text.size());
    const std::string line(without_blanks(std::string_view(part.text).substr(at, end - at)));
    at = end + 1;
    ++number;
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || section.empty()) continue;
    entries.push_back({section, std::string(without_blanks(std::string_view(line).substr(0, equals))),
                       std::string(without_blanks(std::string_view(line).substr(equals + 1))),
                       fmt::format("{}:{}", part.path, number)});
  }
  return entries;
}

/// What is between these separators; nothing of empty pieces.
std::vector<std::string> pieces_of(const std::string& text, const char* separators) {
  std::vector<std::string> pieces;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (std::string piece(without_blanks(std::string_view(text).substr(at, end - at))); !piece.empty()) {
      pieces.push_back(std::move(piece));
    }
    at = end + 1;
  }
  return pieces;
}

/// "address1", "route12": the key with a number behind it, or without one.
bool is_numbered(const std::string& key, std::string_view name) {
  return key.rfind(name, 0) == 0 && key.find_first_not_of("0123456789", name.size()) == std::string::npos;
}

const Entry* find(const std::vector<Entry>& entries, std::initializer_list<const char*> sections, const char* key) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.key == key && std::find(sections.begin(), sections.end(), entry.section) != sections.end();
  });
  return found == entries.end() ? nullptr : &*found;
}

std::string value_of(const Entry* entry) { return entry == nullptr ? "" : entry->value; }

void take_mtu(const Entry* entry, NicFacts& nic) {
  const auto bytes = parse_digits(value_of(entry), kConfiguredMtuMost);
  if (bytes && *bytes > 0) nic.mtu_bytes.offer(static_cast<std::uint32_t>(*bytes), entry->source, Origin::kConfigured);
}

void take_gateway(const std::string& gateway, const std::string& source, NicFacts& nic) {
  if (parse_ip_address(gateway) && nic.default_via.empty()) nic.default_via = source;
}

/// NetworkManager's names of what is no Ethernet interface; "": it is one.
std::string kind_of(const std::string& type) {
  if (type == "wifi" || type == "802-11-wireless") return "wifi";
  for (const char* kind : {"vlan", "bond", "bridge", "tun", "vxlan", "dummy", "wireguard", "loopback"}) {
    if (type == kind) return kind;
  }
  return type == "team" ? "bond" : "";
}

void take_addresses(const std::vector<Entry>& entries, NicFacts& nic, HostFacts& host) {
  for (const Entry& entry : entries) {
    const bool is_v4 = entry.section == "ipv4";
    if (!is_v4 && entry.section != "ipv6") continue;
    if (entry.key == "method" && (entry.value == (is_v4 ? "auto" : "dhcp")) && nic.dhcp.empty())
      nic.dhcp = entry.source;
    if (is_numbered(entry.key, "address")) {
      const std::vector<std::string> pieces = pieces_of(entry.value, ",");  // address/length, gateway
      if (!pieces.empty()) add_address(nic, pieces[0], entry.source);
      if (pieces.size() > 1) take_gateway(pieces[1], entry.source, nic);
    }
    if (entry.key == "addresses") {
      for (const std::string& address : pieces_of(entry.value, ";,")) add_address(nic, address, entry.source);
    }
    if (entry.key == "gateway") take_gateway(entry.value, entry.source, nic);
    if (is_numbered(entry.key, "route")) {
      const std::vector<std::string> pieces = pieces_of(entry.value, ",");  // network, gateway, metric
      if (pieces.size() > 1) {
        host.take_route(nic.netdev.value, pieces[0], pieces[1], entry.source, Origin::kConfigured);
      }
    }
  }
}

/// The options of [bond], as nmcli writes them, or in older versions in one value: options=mode=802.3ad,miimon=100.
void take_bond(const std::vector<Entry>& entries, NicFacts& bond, const std::string& source) {
  for (const Entry& entry : entries) {
    if (entry.section != "bond") continue;
    take_bond_option(bond, entry.key, entry.value, entry.source, Origin::kConfigured);
    if (entry.key != "options") continue;
    for (const std::string& option : pieces_of(entry.value, ",; ")) {
      const std::size_t equals = option.find('=');
      if (equals == std::string::npos) continue;
      take_bond_option(bond, option.substr(0, equals), option.substr(equals + 1), entry.source, Origin::kConfigured);
    }
  }
  take_bond_default(bond, source);
}

/// False: the file is no connection of NetworkManager's.
bool take_connection(const std::vector<Entry>& entries, HostFacts& host) {
  const Entry* const type = find(entries, {"connection"}, "type");
  if (type == nullptr) return false;
  const Entry* const starts = find(entries, {"connection"}, "autoconnect");
  if (value_of(starts) == "false") return true;  // it is started by hand, if at all
  const std::string kind = kind_of(type->value);
  const std::string mac = lower(value_of(find(entries, {"ethernet", "802-3-ethernet"}, "mac-address")));
  const Entry* const name = find(entries, {"connection"}, "interface-name");
  std::string netdev = value_of(name);
  if (netdev.empty()) netdev = value_of(find(entries, {"vlan", "bond", "bridge"}, "interface-name"));  // older versions
  if (netdev.empty()) netdev = host.netdev_with(mac);
  const std::string parent = value_of(find(entries, {"vlan"}, "parent")), tag = value_of(find(entries, {"vlan"}, "id"));
  if (netdev.empty() && kind == "vlan" && !parent.empty()) netdev = parent + "." + tag;  // its default
  if (netdev.empty()) return true;                                                       // a profile for any interface
  for (const char* key : {"uuid", "id"}) {
    const std::string own = value_of(find(entries, {"connection"}, key));
    if (!own.empty() && own != netdev) host.own_names.emplace(own, netdev);
  }
  NicFacts& nic = host.by_netdev(netdev, (name == nullptr ? type : name)->source, Origin::kConfigured);
  if (!kind.empty()) nic.kind = kind;
  if (!mac.empty()) nic.mac.offer(mac, type->source, Origin::kConfigured);
  for (const char* key : {"master", "controller"}) {
    const Entry* const above = find(entries, {"connection"}, key);
    if (above != nullptr && !above->value.empty()) host.memberships.push_back({netdev, above->value, above->source});
  }
  if (kind == "bond") take_bond(entries, nic, type->source);
  if (kind == "vlan") {
    nic.parent = parent;
    const Entry* const id = find(entries, {"vlan"}, "id");
    if (const auto number = parse_digits(value_of(id), kVlanMost)) {
      nic.vlan.offer(static_cast<int>(*number), id->source, Origin::kConfigured);
    }
  }
  take_mtu(find(entries, {"ethernet", "802-3-ethernet", "infiniband"}, "mtu"), nic);
  take_addresses(entries, nic, host);
  return true;
}

bool is_true(const std::string& value) { return value == "yes" || value == "true" || value == "1" || value == "on"; }

/// What a .network file says of one interface.
void take_interface(const std::vector<Entry>& entries, const std::string& netdev, const std::string& source,
                    HostFacts& host) {
  NicFacts& nic = host.by_netdev(netdev, source, Origin::kConfigured);
  take_mtu(find(entries, {"Link"}, "MTUBytes"), nic);
  for (const Entry& entry : entries) {
    const bool is_network = entry.section == "Network";
    if ((is_network || entry.section == "Address") && entry.key == "Address") {
      add_address(nic, entry.value, entry.source);
    }
    if (is_network && entry.key == "DHCP" && entry.value != "no" && entry.value != "false" && nic.dhcp.empty()) {
      nic.dhcp = entry.source;
    }
    if (is_network && entry.key == "Gateway") take_gateway(entry.value, entry.source, nic);
  }
  // [Route]: a Gateway= without a Destination= is the default route's.
  const Entry* const gateway = find(entries, {"Route"}, "Gateway");
  const std::string destination = value_of(find(entries, {"Route"}, "Destination"));
  if (gateway != nullptr) {
    host.take_route(netdev, destination.empty() ? "default" : destination, gateway->value, gateway->source,
                    Origin::kConfigured);
  }
}

/// Bond=, Bridge= and VLAN= of a .network file. `name`: an interface, or a pattern of several.
void take_uppers(const std::vector<Entry>& entries, const std::string& name, HostFacts& host) {
  const bool is_pattern = name.find_first_of("*?[") != std::string::npos;
  for (const Entry& entry : entries) {
    if (entry.section != "Network") continue;
    if (entry.key == "Bond" || entry.key == "Bridge") host.memberships.push_back({name, entry.value, entry.source});
    if (is_pattern) continue;
    if (entry.key == "VLAN") {
      for (const std::string& vlan : pieces_of(entry.value, " \t")) {
        NicFacts& upper = host.by_netdev(vlan, entry.source, Origin::kConfigured);
        upper.kind = "vlan";
        if (upper.parent.empty()) upper.parent = name;
      }
    }
    const Entry* const bond = find(entries, {"Network"}, "Bond");
    if ((entry.key == "PrimarySlave" || entry.key == "ActiveSlave") && bond != nullptr && is_true(lower(entry.value))) {
      take_bond_option(host.by_netdev(bond->value, bond->source, Origin::kConfigured), "primary", name, entry.source,
                       Origin::kConfigured);
    }
  }
}

/// False: the file has no [Match].
bool take_network(const std::vector<Entry>& entries, HostFacts& host) {
  const Entry* const matched = find(entries, {"Match"}, "Name");
  const Entry* const mac = find(entries, {"Match"}, "MACAddress");
  if (matched == nullptr && mac == nullptr) {
    return std::any_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.section == "Match"; });
  }
  std::vector<std::string> names = pieces_of(value_of(matched), " \t");
  if (names.empty()) {
    for (const std::string& each : pieces_of(lower(value_of(mac)), " \t")) {
      if (std::string netdev = host.netdev_with(each); !netdev.empty()) names.push_back(std::move(netdev));
    }
  }
  const std::string& source = (matched == nullptr ? mac : matched)->source;
  for (const std::string& name : names) {
    if (name.front() == '!') return true;  // all interfaces but these
    const bool is_pattern = name.find_first_of("*?[") != std::string::npos;
    if (!is_pattern) take_interface(entries, name, source, host);
    take_uppers(entries, name, host);
  }
  return true;
}

/// A .netdev file: a bond, VLAN or bridge. False: the file has no [NetDev].
bool take_netdev(const std::vector<Entry>& entries, HostFacts& host) {
  const Entry* const name = find(entries, {"NetDev"}, "Name");
  const std::string kind = lower(value_of(find(entries, {"NetDev"}, "Kind")));
  if (name == nullptr || name->value.empty() || kind.empty()) return false;
  NicFacts& nic = host.by_netdev(name->value, name->source, Origin::kConfigured);
  nic.kind = kind;
  take_mtu(find(entries, {"NetDev"}, "MTUBytes"), nic);
  if (kind == "bond") {
    for (const Entry& entry : entries) {
      if (entry.section == "Bond") take_bond_option(nic, entry.key, entry.value, entry.source, Origin::kConfigured);
    }
    take_bond_default(nic, name->source);
  }
  const Entry* const id = find(entries, {"VLAN"}, "Id");
  if (const auto number = parse_digits(value_of(id), kVlanMost)) {
    nic.vlan.offer(static_cast<int>(*number), id->source, Origin::kConfigured);
  }
  return true;
}

}  // namespace

bool read_key_file(const Part& part, Reading& into) {
  const std::vector<Entry> entries = entries_of(part);
  return take_connection(entries, into.host) || take_netdev(entries, into.host) || take_network(entries, into.host);
}

}  // namespace meshbed::testbed::hosts
