// Files that describe a network before it is built (containerlab, InfraGraph) name cables and few addresses: ends
// without one get the next free address of their cable's subnet, or of a subnet that nothing else uses.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/cluster.h"
#include "models/topology_generate.h"
#include "testbed/import/infer/mesh.h"

namespace meshbed::testbed::hosts {
namespace {

class Assigner {
 public:
  explicit Assigner(Mesh& mesh) : mesh_(mesh) {
    for (const HostFacts& host : mesh.machines.hosts) {
      for (const NicFacts& nic : host.nics) {
        for (const AddressFact& address : nic.addresses) used_.push_back(address.prefix);
      }
    }
  }

  /// The ports of one cable or switch.
  void assign(const std::vector<Port>& ports) {
    std::optional<IpPrefix> subnet;
    bool is_missing = false;
    for (const Port port : ports) {
      const auto& addresses = mesh_.nic_of(port).addresses;
      is_missing = is_missing || addresses.empty();
      if (!subnet && !addresses.empty()) subnet = addresses.front().prefix;
    }
    if (!is_missing) return;
    if (!subnet) subnet = free_subnet(ports.size());
    std::uint64_t host = 1;
    for (const Port port : ports) {
      NicFacts& nic = mesh_.machines.hosts[port.host].nics[port.nic];
      if (!nic.addresses.empty()) continue;
      for (; host < models::host_capacity(*subnet); ++host) {
        const auto address = models::host_in_subnet(*subnet, 0, host);
        if (!address || !taken_.insert(to_text(*address)).second || is_used(*address)) continue;
        nic.addresses.push_back({*address, "assumed: no file gives one", false});
        mesh_.assumed.add("address", mesh_.name_of(port), "the next free one of its cable's subnet",
                          "which address has the interface? netplan or `ip addr` shows it");
        break;
      }
    }
  }

 private:
  bool is_used(const IpPrefix& address) const {
    return std::any_of(used_.begin(), used_.end(),
                       [&](const IpPrefix& used) { return used.address == address.address; });
  }

  /// 10.128.0.0 and on, wide enough for the ports.
  IpPrefix free_subnet(std::size_t ports) {
    const IpPrefix first = *parse_prefix(ports > 200 ? "10.192.0.0/16" : "10.128.0.0/24");
    for (;; ++(ports > 200 ? wide_ : narrow_)) {
      const auto subnet = models::host_in_subnet(first, ports > 200 ? wide_ : narrow_, 0);
      if (!subnet) throw std::runtime_error("no subnet is left for cables without addresses");
      const bool overlaps = std::any_of(used_.begin(), used_.end(), [&](const IpPrefix& used) {
        return models::overlaps(used, *subnet) || models::same_subnet(used, *subnet);
      });
      if (overlaps) continue;
      ++(ports > 200 ? wide_ : narrow_);
      return *subnet;
    }
  }

  Mesh& mesh_;
  std::vector<IpPrefix> used_;
  std::set<std::string> taken_;
  std::uint64_t narrow_ = 0, wide_ = 0;
};

}  // namespace

void assign_addresses(Mesh& mesh) {
  Assigner assigner(mesh);
  for (const FoundCable& cable : mesh.cables) {
    const bool joins_two = cable.ends[0].host != cable.ends[1].host;
    if (cable.is_given && joins_two) assigner.assign({mesh.addressed(cable.ends[0]), mesh.addressed(cable.ends[1])});
  }
  for (const FoundSwitch& box : mesh.switches) {
    if (!box.is_given) continue;
    // A node needs a subnet for each of its NICs: the first ports of all nodes, then the second ones, and so on.
    std::vector<std::vector<Port>> rails;
    std::map<std::size_t, std::size_t> next;
    for (const Port port : box.ports) {
      if (mesh.addressed(port) != port) continue;
      const std::size_t rail = next[port.host]++;
      if (rail >= rails.size()) rails.emplace_back();
      rails[rail].push_back(port);
    }
    for (const std::vector<Port>& rail : rails) assigner.assign(rail);
  }
}

}  // namespace meshbed::testbed::hosts
