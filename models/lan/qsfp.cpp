#include "models/lan/qsfp.h"

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace meshbed::models {
namespace {

/// A QSFP port; of a NIC that shares none, the NIC's own.
using Socket = std::tuple<int, std::string, int>;  // node, name, NIC

Socket socket_of(const Cluster& cluster, PortRef port) {
  const Nic& nic = cluster.nic_of(port);
  return {port.node, nic.qsfp, nic.qsfp.empty() ? port.nic : -1};
}

}  // namespace

std::vector<int> wires(const Cluster& cluster) {
  std::vector<int> first;
  std::map<std::pair<Socket, Socket>, int> found;
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    const Cable& cable = cluster.cables[index];
    auto key = std::pair(socket_of(cluster, cable.a), socket_of(cluster, cable.b));
    if (key.second < key.first) std::swap(key.first, key.second);
    first.push_back(found.try_emplace(std::move(key), static_cast<int>(index)).first->second);
  }
  return first;
}

std::vector<SharedWire> shared_wires(const Cluster& cluster) {
  const std::vector<int> first = wires(cluster);
  std::map<int, SharedWire> all;  // [first cable]
  for (std::size_t index = 0; index < first.size(); ++index) {
    const Cable& cable = cluster.cables[index];
    SharedWire& wire = all[first[index]];
    // Its first cable determines the ends.
    const bool is_turned = !wire.a.empty() && socket_of(cluster, cable.a) != socket_of(cluster, wire.a.front());
    wire.cables.push_back(static_cast<int>(index));
    wire.a.push_back(is_turned ? cable.b : cable.a);
    wire.b.push_back(is_turned ? cable.a : cable.b);
  }
  std::vector<SharedWire> shared;
  for (auto& [cable, wire] : all) {
    if (wire.cables.size() > 1) shared.push_back(std::move(wire));
  }
  return shared;
}

std::optional<SplitPort> split_port(const Cluster& cluster) {
  struct Lead {
    PortRef port;
    Socket to;
  };
  std::map<Socket, Lead> leads;
  std::optional<SplitPort> found;
  const auto add = [&](PortRef port, const Socket& to) {
    const Socket own = socket_of(cluster, port);
    const auto [entry, is_new] = leads.try_emplace(own, Lead{port, to});
    // One function on two cables is another mistake.
    const bool is_other = !is_new && entry->second.port != port;
    if (is_other && !found && entry->second.to != to) found = SplitPort{entry->second.port, port};
  };
  for (const Cable& cable : cluster.cables) {
    add(cable.a, socket_of(cluster, cable.b));
    add(cable.b, socket_of(cluster, cable.a));
  }
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    for (const PortRef port : cluster.switches[index].ports) add(port, {-1, "", static_cast<int>(index)});
  }
  return found;
}

}  // namespace meshbed::models
