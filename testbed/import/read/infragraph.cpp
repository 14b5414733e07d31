// InfraGraph (github.com/Keysight/infragraph, schema/ of 2.5.0; older layouts: infragraph_old.cpp): devices are made of
// components; instances are so many of a device; edges join components of instances over links, which have a bandwidth.
//
// Nomenclature: node - an instance with an index, "host.0". Host - a node whose device has a component of choice "nic",
// "npu", "xpu" or "cpu" with a NIC. Switch - every other node with an edge. Slice - "nic[0:2]", the indices 0 and 1.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "testbed/base/units.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kIndicesMost = 16384, kPortsMost = 256, kEdgesMost = 262144;

const Json& member(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : "";
}

std::size_t count_of(const Json& object) {
  return static_cast<std::size_t>(parse_digits(text(object, "count"), kIndicesMost).value_or(1));
}

/// "nic[0:2]" of a component with `count`: its name and indices. Without brackets: all.
struct Slice {
  std::string name;
  std::vector<std::size_t> indices;
};
Slice slice_of(const std::string& said, std::size_t count) {
  Slice slice;
  const std::size_t open = said.find('[');
  slice.name = said.substr(0, open);
  std::size_t begin = 0, end = count;
  if (open != std::string::npos) {
    const std::string inside = said.substr(open + 1, said.find(']', open) - open - 1);
    const std::size_t colon = inside.find(':');
    begin = static_cast<std::size_t>(parse_digits(inside.substr(0, colon), kIndicesMost).value_or(0));
    end = colon == std::string::npos
              ? begin + 1
              : static_cast<std::size_t>(parse_digits(inside.substr(colon + 1), kIndicesMost).value_or(count));
  }
  for (std::size_t index = begin; index < std::min(end, count); ++index) slice.indices.push_back(index);
  return slice;
}

class GraphReader {
 public:
  GraphReader(const Json& graph, const Part& part, Machines& machines)
      : graph_(graph), part_(part), machines_(machines) {}

  bool read() {
    for (const Json& device : list("devices")) devices_[text(device, "name")] = &device;
    for (const Json& link : list("links")) rates_[text(link, "name")] = rate_of(link);
    for (const Json& instance : list("instances")) add_instance(instance);
    for (const Json& edge : list("edges")) add_edge(edge);
    for (const Json& node : member(member(graph_, "annotations"), "nodes")) annotate(node);
    drop_unused();
    return !hosts_.empty();
  }

 private:
  struct Instance {
    const Json* device = nullptr;
    std::size_t count = 0;
    bool is_host = false;
  };

  const Json& list(const char* key) const {
    static const Json kEmpty = Json::array();
    const Json& value = member(graph_, key);
    return value.is_array() ? value : kEmpty;
  }

  std::string source_of(const std::string& word) const {
    const std::size_t found = part_.text.find(word);
    return source_at(part_.path, part_.text, found == std::string::npos ? 0 : found);
  }

  static std::optional<std::uint64_t> rate_of(const Json& link) {
    const Json& bandwidth = member(member(link, "physical"), "bandwidth");
    const std::string gigabits = text(bandwidth, "gigabits_per_second"),
                      bytes = text(bandwidth, "gigabytes_per_second");
    const std::string& number = gigabits.empty() ? bytes : gigabits;
    char* end = nullptr;
    const double rate = std::strtod(number.c_str(), &end) * (gigabits.empty() ? 8 : 1);
    if (number.empty() || !(rate > 0) || rate > 1e5) return std::nullopt;
    return static_cast<std::uint64_t>(rate * 1e9);
  }

  const Json* component(const Json& device, const std::string& name) const {
    const Json& components = member(device, "components");
    if (!components.is_array()) return nullptr;
    for (const Json& each : components) {
      if (text(each, "name") == name) return &each;
    }
    return nullptr;
  }

  static std::size_t count_of_choice(const Json& device, const std::string& choice) {
    std::size_t count = 0;
    const Json& components = member(device, "components");
    if (!components.is_array()) return 0;
    for (const Json& each : components) {
      if (text(each, "choice") == choice) count += count_of(each);
    }
    return count;
  }

  void add_instance(const Json& said) {
    const std::string name = text(said, "name");
    const auto device = devices_.find(text(said, "device"));
    if (!name.empty() && device == devices_.end()) unknown_[name] = text(said, "device");
    if (name.empty() || device == devices_.end()) return;
    Instance instance{device->second, count_of(said), count_of_choice(*device->second, "nic") > 0};
    if (nodes_ + instance.count > kIndicesMost) {
      refuse_at(part_, name,
                fmt::format("instances: there are more than {} nodes; import a part of them", kIndicesMost));
    }
    nodes_ += instance.count;
    const std::size_t gpus = count_of_choice(*device->second, "npu") + count_of_choice(*device->second, "xpu");
    for (std::size_t index = 0; index < instance.count; ++index) {
      const std::string node = node_name(name, index, instance.count), source = source_of(name);
      if (!instance.is_host) {
        machines_.switches.push_back({node, source});
        continue;
      }
      hosts_[node] = machines_.hosts.size();
      HostFacts& host = machines_.hosts.emplace_back();
      host.name.offer(node, source);
      host.path = part_.path;
      if (gpus <= 64) host.gpus.resize(gpus);
      for (const std::string& nic : nic_names(*device->second)) host.by_device(nic, source);
    }
    instances_[name] = instance;
  }

  /// Its NICs in the order of its components.
  static std::vector<std::string> nic_names(const Json& device) {
    std::vector<std::string> names;
    for (const Json& each : member(device, "components")) {
      if (text(each, "choice") != "nic") continue;
      const std::size_t count = std::min(count_of(each), kPortsMost);
      for (std::size_t index = 0; index < count && names.size() < kPortsMost; ++index) {
        names.push_back(count == 1 ? text(each, "name") : fmt::format("{}.{}", text(each, "name"), index));
      }
    }
    return names;
  }

  /// Components that no edge and no annotation names are no mesh's NICs.
  void drop_unused() {
    for (const auto& [name, index] : hosts_) {
      auto& nics = machines_.hosts[index].nics;
      const bool any = std::any_of(nics.begin(), nics.end(), [&, &node = name](const NicFacts& nic) {
        return used_.count(node + "/" + nic.device.value) > 0;
      });
      if (!any) continue;
      nics.erase(std::remove_if(nics.begin(), nics.end(),
                                [&, &node = name](const NicFacts& nic) {
                                  return used_.count(node + "/" + nic.device.value) == 0;
                                }),
                 nics.end());
    }
  }

  /// What meshbed export writes are instances of one node each, with the node's own name.
  static std::string node_name(const std::string& instance, std::size_t index, std::size_t count) {
    return count == 1 ? instance : fmt::format("{}.{}", instance, index);
  }

  std::vector<std::pair<std::string, std::string>> ends_of(const Json& endpoint, const std::string& connection) const {
    std::vector<std::pair<std::string, std::string>> ends;
    const std::string said = text(endpoint, "instance");
    const auto found = instances_.find(said.substr(0, said.find('[')));
    if (found == instances_.end())
      refuse_instance(said.substr(0, said.find('[')), connection.empty() ? said : connection);
    const Instance& instance = found->second;
    const std::string of = text(endpoint, "component"), component_name = of.substr(0, of.find('['));
    const Json* const part = component(*instance.device, component_name);
    const bool is_nested = component_name.find('.') != std::string::npos;  // of a device within the device
    if (part == nullptr && !is_nested) {
      refuse_at(part_, connection.empty() ? of : connection,
                fmt::format("edges: '{}' is no component of device '{}'; name one of its components, or add it there",
                            component_name, text(*instance.device, "name")));
    }
    const Slice nodes = slice_of(said, instance.count),
                ports = slice_of(of, part == nullptr ? 1 : std::min(count_of(*part), kPortsMost));
    const bool is_only = part != nullptr && count_of(*part) == 1;
    for (const std::size_t node : nodes.indices) {
      for (const std::size_t port : ports.indices) {
        if (ends.size() >= kIndicesMost) return ends;
        ends.emplace_back(node_name(nodes.name, node, instance.count),
                          is_only ? ports.name : fmt::format("{}.{}", ports.name, port));
      }
    }
    return ends;
  }

  /// An edge needs the instance, which is not there, or is of a device that is not.
  [[noreturn]] void refuse_instance(const std::string& name, const std::string& place) const {
    const auto unknown = unknown_.find(name);
    if (unknown == unknown_.end()) {
      refuse_at(part_, place,
                fmt::format("edges: '{}' is no instance; add it under instances, or correct the name", name));
    }
    refuse_at(
        part_, unknown->second,
        fmt::format("instances: {} is of device '{}', which is not under devices; put its definition into this file",
                    name, unknown->second));
  }

  void add_edge(const Json& edge) {
    const std::string connection = text(edge, "connection");  // of the old layout
    const auto first = ends_of(member(edge, "ep1"), connection), second = ends_of(member(edge, "ep2"), connection);
    const std::string scheme = text(edge, "scheme"), link = text(edge, "link");
    const auto rate = rates_.find(link);
    const std::string source = source_of(connection.empty() ? text(member(edge, "ep1"), "instance") : connection);
    const auto add = [&](std::size_t one, std::size_t other) {
      if (machines_.cables.size() >= kEdgesMost) {
        refuse(part_.path, 0, 0,
               fmt::format("edges: there are more than {} cables; import a part of them", kEdgesMost));
      }
      GivenCable cable;
      cable.node[0] = first[one].first;
      cable.port[0] = first[one].second;
      cable.node[1] = second[other].first;
      cable.port[1] = second[other].second;
      if (rate != rates_.end()) cable.rate_bps = rate->second;
      cable.source = source;
      for (int end = 0; end < 2; ++end) touch(cable.node[end], cable.port[end], cable.rate_bps, source);
      machines_.cables.push_back(std::move(cable));
    };
    if (scheme == "many2many") {
      for (std::size_t one = 0; one < first.size(); ++one) {
        for (std::size_t other = 0; other < second.size(); ++other) add(one, other);
      }
      return;
    }
    for (std::size_t each = 0; each < std::min(first.size(), second.size()); ++each) add(each, each);
  }

  void touch(const std::string& node, const std::string& port, std::optional<std::uint64_t> rate_bps,
             const std::string& source) {
    const auto host = hosts_.find(node);
    if (host == hosts_.end()) return;
    NicFacts& nic = machines_.hosts[host->second].by_device(port, source);
    used_.insert(node + "/" + port);
    if (rate_bps) nic.rate_bps.offer(*rate_bps, source);
  }

  /// Of a node "HOST.COMPONENT.INDEX": ipaddress and mtu of its NIC.
  void annotate(const Json& said) {
    const std::string name = text(said, "name");
    const Json& attributes = member(said, "attributes");
    if (!attributes.is_array()) return;
    for (const auto& [node, index] : hosts_) {
      if (name.rfind(node + ".", 0) != 0) continue;
      std::string port = name.substr(node.size() + 1);
      if (port.rfind("0.", 0) == 0) port.erase(0, 2);  // the index of an instance of one node
      HostFacts& host = machines_.hosts[index];
      const auto has = [&](const std::string& device) {
        return std::any_of(host.nics.begin(), host.nics.end(),
                           [&](const NicFacts& nic) { return nic.device.value == device; });
      };
      if (!has(port) && port.size() > 2 && port.compare(port.size() - 2, 2, ".0") == 0) port.resize(port.size() - 2);
      if (!has(port)) continue;
      const std::string source = source_of(name);
      NicFacts& nic = host.by_device(port, source);
      used_.insert(node + "/" + port);
      for (const Json& attribute : attributes) {
        const std::string key = text(attribute, "attribute"), value = text(attribute, "value");
        if (key == "ipaddress") add_address(nic, value, source);
        if (key == "netdev") nic.netdev.offer(value, source);
        if (const auto mtu = parse_digits(value, 65535); key == "mtu" && mtu) {
          nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
        }
      }
    }
  }

  const Json& graph_;
  const Part& part_;
  Machines& machines_;
  std::map<std::string, const Json*> devices_;
  std::map<std::string, std::optional<std::uint64_t>> rates_;
  std::map<std::string, Instance> instances_;
  std::map<std::string, std::string> unknown_;  // instances of devices that are not there, and the device
  std::map<std::string, std::size_t> hosts_;    // index in machines_.hosts
  std::set<std::string> used_;                  // "NODE/PORT"
  std::size_t nodes_ = 0;
};

}  // namespace

bool read_infragraph(const nlohmann::json& graph, const Part& part, Machines& machines) {
  const Json present = in_present_layout(graph, part);
  if (!member(present, "instances").is_array()) return false;
  return GraphReader(present, part, machines).read();
}

}  // namespace meshbed::testbed::hosts
