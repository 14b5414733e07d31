// JSON: what iproute2 (ip -j, rdma -j) and lldpd (lldpctl -f json) print, and InfraGraph's.

#include <fmt/format.h>

#include <algorithm>

#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? found->dump() : "";
}

std::optional<std::uint64_t> number_at(const Json& object, const char* key, std::uint64_t most) {
  return parse_digits(text_at(object, key), most);
}

bool has_word(const Json& object, const char* key, const char* word) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() &&
         std::any_of(found->begin(), found->end(), [&](const Json& each) { return each == word; });
}

/// Lines of the values that a name stands beside: the parser keeps no places.
class Places {
 public:
  explicit Places(const Part& part) : part_(part) {}
  std::string of(const std::string& name) const {
    const std::size_t found = name.empty() ? 0 : part_.text.find('"' + name + '"');
    return source_at(part_.path, part_.text, found == std::string::npos ? 0 : found);
  }

 private:
  const Part& part_;
};

void take_kind(const Json& link, NicFacts& nic, const std::string& source) {
  if (text_at(link, "link_type") == "loopback") nic.kind = "loopback";
  if (has_word(link, "flags", "MASTER")) nic.kind = "bond";  // without -d nothing else shows it
  const auto info = link.find("linkinfo");
  if (info == link.end() || !info->is_object()) return;
  const std::string kind = text_at(*info, "info_kind");
  if (!kind.empty()) nic.kind = kind;
  if (kind == "vlan") nic.parent = text_at(link, "link");
  const auto data = info->find("info_data");
  if (data == info->end() || !data->is_object()) return;
  if (kind == "bond") {
    for (const char* option : {"mode", "xmit_hash_policy", "active_slave", "primary"}) {
      take_bond_option(nic, option, text_at(*data, option), source);
    }
  }
  if (kind != "vlan") return;
  if (const auto id = number_at(*data, "id", 4094)) nic.vlan.offer(static_cast<int>(*id), source);
}

void take_link(const Json& link, HostFacts& host, const Places& places) {
  const std::string name = text_at(link, "ifname"), source = places.of(name);
  NicFacts& nic = host.by_netdev(name, source);
  take_kind(link, nic, source);
  if (const auto mtu = number_at(link, "mtu", 1U << 20U)) nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
  const std::string mac = lower(text_at(link, "address"));
  if (!mac.empty()) nic.mac.offer(mac, source);
  if (text_at(link, "link_type") == "infiniband") nic.link_layer.offer("InfiniBand", source);
  const std::string state = text_at(link, "operstate"), master = text_at(link, "master");
  if (state == "UP" || state == "DOWN") nic.link_up.offer(state == "UP", source);
  if (!master.empty()) nic.master = master;
  const auto addresses = link.find("addr_info");
  if (addresses == link.end() || !addresses->is_array()) return;
  for (const Json& address : *addresses) {
    const bool is_dynamic = address.is_object() && address.value("dynamic", Json(false)) == Json(true);
    add_address(nic, text_at(address, "local") + "/" + text_at(address, "prefixlen"), source, is_dynamic);
  }
}

void take_route(const Json& route, HostFacts& host, const Places& places) {
  const std::string dev = text_at(route, "dev"), destination = text_at(route, "dst");
  if (dev.empty()) return;
  host.take_route(dev, destination, text_at(route, "gateway"), places.of(destination), Origin::kObserved);
}

void take_neighbour(const Json& entry, HostFacts& host, const Places& places) {
  const auto address = parse_ip_address(text_at(entry, "dst"));
  const std::string mac = lower(text_at(entry, "lladdr"));
  if (!address || mac.empty() || has_word(entry, "state", "FAILED")) return;
  const std::string source = places.of(text_at(entry, "dst"));
  host.by_netdev(text_at(entry, "dev"), source).neighbours.push_back({*address, mac, source});
}

void take_rdma_link(const Json& link, HostFacts& host, const Places& places) {
  const std::string device = text_at(link, "ifname"), source = places.of(device);
  const std::string netdev = text_at(link, "netdev"), state = text_at(link, "state");
  NicFacts& nic = netdev.empty() ? host.by_device(device, source) : host.join(device, netdev, source);
  if (const auto port = number_at(link, "port", 255)) nic.rdma_port.offer(static_cast<int>(*port), source);
  if (!state.empty()) nic.link_up.offer(state == "ACTIVE", source);
}

/// One of iproute2's lists. An element says itself which.
bool take_list(const Json& list, HostFacts& host, const Places& places) {
  bool knew = false;
  for (const Json& each : list) {
    if (!each.is_object()) continue;
    const bool is_named = !text_at(each, "ifname").empty(), has_dev = !text_at(each, "dev").empty();
    if (is_named && (each.contains("port") || each.contains("netdev"))) {
      take_rdma_link(each, host, places);
    } else if (is_named && (each.contains("flags") || each.contains("addr_info") || each.contains("mtu"))) {
      take_link(each, host, places);
    } else if (has_dev && each.contains("lladdr")) {
      take_neighbour(each, host, places);
    } else if (has_dev && each.contains("dst")) {
      take_route(each, host, places);
    } else {
      continue;
    }
    knew = true;
  }
  return knew;
}

/// lldpctl writes a list of one as the element itself.
template <typename Take>
void for_each_of(const Json& listed, const Take& take) {
  if (!listed.is_array()) {
    take(listed);
    return;
  }
  for (const Json& each : listed) take(each);
}

/// A port's id: {"type": "mac", "value": "aa:..."}; of -f json0 [{"type", "value"}].
void take_port_id(const Json& port, LldpFact& fact) {
  if (!port.is_object() || !port.contains("id")) return;
  for_each_of(port["id"], [&](const Json& id) {
    const std::string value = text_at(id, "value");
    if (text_at(id, "type") == "mac") fact.mac = lower(value);
    if (fact.port.empty()) fact.port = value;
  });
}

std::string value_of(const Json& named) {
  if (named.is_string()) return named.get<std::string>();
  if (named.is_array()) return named.empty() ? "" : value_of(named.front());
  return text_at(named, "value");
}

void take_lldp(const Json& about, const std::string& netdev, HostFacts& host, const std::string& source) {
  if (!about.is_object()) return;
  LldpFact fact;
  fact.source = source;
  if (about.contains("chassis")) {
    for_each_of(about["chassis"], [&](const Json& chassis) {
      if (!chassis.is_object()) return;
      if (chassis.contains("name")) {
        fact.system = value_of(chassis["name"]);
        return;
      }
      for (const auto& [name, inside] : chassis.items()) {  // keyed by the system's name, or without one
        if (name != "id" && inside.is_object() && inside.contains("id")) fact.system = name;
      }
    });
  }
  if (about.contains("port")) {
    for_each_of(about["port"], [&](const Json& port) {
      take_port_id(port, fact);
      const std::string description = port.is_object() && port.contains("descr") ? value_of(port["descr"]) : "";
      if (!description.empty() && !fact.mac.empty()) fact.port = description;  // of a Linux host: its interface
    });
  }
  if (!fact.system.empty() || !fact.port.empty()) host.by_netdev(netdev, source).lldp.push_back(fact);
}

bool take_lldpctl(const Json& root, HostFacts& host, const Places& places) {
  const auto lldp = root.find("lldp");
  if (lldp == root.end()) return false;
  for_each_of(*lldp, [&](const Json& holder) {
    if (!holder.is_object() || !holder.contains("interface")) return;
    for_each_of(holder["interface"], [&](const Json& entry) {
      if (!entry.is_object()) return;
      const std::string named = text_at(entry, "name");  // -f json0
      if (!named.empty()) return take_lldp(entry, named, host, places.of(named));
      for (const auto& [netdev, about] : entry.items()) take_lldp(about, netdev, host, places.of(netdev));
    });
  });
  return true;
}

}  // namespace

bool read_json(const Part& part, Reading& into) {
  Json root;
  try {
    root = Json::parse(part.text);
  } catch (const Json::parse_error& error) {
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    const std::string what = error.what();
    const std::size_t colon = what.rfind("; ");
    refuse(part.path, line_at(part.text, offset), column_at(part.text, offset),
           fmt::format("not JSON: {}; save the command's output again, or leave the file out",
                       colon == std::string::npos ? what : what.substr(colon + 2)));
  } catch (const Json::exception& error) {
    refuse(part.path, 0, 0, fmt::format("not JSON: {}", error.what()));
  }
  const Places places(part);
  if (root.is_array()) return take_list(root, into.host, places);
  if (!root.is_object()) return false;
  if (root.contains("lldp")) return take_lldpctl(root, into.host, places);
  return read_infragraph(root, part, into.others);
}

}  // namespace meshbed::testbed::hosts
