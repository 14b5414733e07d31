#include "models/pcie.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "models/lan/bond.h"
#include "models/spark.h"
#include "plugin/base/check.h"

namespace meshbed::models {
namespace {

/// Bits a second of one lane after its code: PCI Express Base Specification, 8b/10b up to generation 2, 128b/130b up to
/// 5, flits of 256 bytes with 236 of packets in 6.
double lane_bps(int generation) {
  constexpr std::array<double, 6> kGigatransfers{2.5, 5, 8, 16, 32, 64};
  const double code = generation <= 2 ? 8.0 / 10 : generation <= 5 ? 128.0 / 130 : 236.0 / 256;
  return kGigatransfers[static_cast<std::size_t>(generation - 1)] * 1e9 * code;
}

/// A node's NICs with the rate of each: together no more than their PCIe links, and no more than their QSFP ports, each
/// as fast as the fastest of its functions.
std::uint64_t through_bps(const Node& node, const std::vector<std::pair<int, std::uint64_t>>& nics) {
  using ByLink = std::map<int, std::uint64_t>;  // [PCIe link, or -1]
  const auto sum_of = [&](const ByLink& by_link) {
    std::uint64_t sum_bps = 0;
    for (const auto& [link, bps] : by_link) {
      const std::uint64_t rate_bps = link < 0 ? 0 : node.pcie[static_cast<std::size_t>(link)].rate_bps;
      sum_bps += rate_bps == 0 ? bps : std::min(bps, rate_bps);
    }
    return sum_bps;
  };
  struct Port {
    std::uint64_t rate_bps = 0;
    ByLink by_link;
  };
  ByLink all;
  std::map<std::string, Port> ports;  // those without a name are one each, which limits nothing
  for (const auto& [index, rate_bps] : nics) {
    const Nic& nic = node.nic(index);
    all[nic.pcie] += rate_bps;
    Port& port = ports[nic.qsfp];
    port.rate_bps = nic.qsfp.empty() ? port.rate_bps + rate_bps : std::max(port.rate_bps, rate_bps);
    port.by_link[nic.pcie] += rate_bps;
  }
  std::uint64_t over_ports_bps = 0;
  for (const auto& [name, port] : ports) over_ports_bps += std::min(port.rate_bps, sum_of(port.by_link));
  return std::min(sum_of(all), over_ports_bps);
}

}  // namespace

std::uint64_t pcie_rate_bps(int lanes, int generation) {
  MESHBED_CHECK(lanes >= 1 && generation >= 1 && generation <= 6);
  constexpr double kMeasuredBps = 100e9;
  const double share = lanes * lane_bps(generation) / (kSparkLanes * lane_bps(kSparkGeneration));
  return static_cast<std::uint64_t>(share * kMeasuredBps + 0.5);
}

std::uint64_t pcie_coded_bps(int lanes, int generation) {
  MESHBED_CHECK(lanes >= 1 && generation >= 1 && generation <= 6);
  return static_cast<std::uint64_t>(lanes * lane_bps(generation));
}

std::vector<SharedLink> shared_links(const Cluster& cluster) {
  struct Behind {
    std::uint64_t ports_bps = 0, fastest_bps = 0;
    std::vector<PortRef> ports;
    std::map<int, std::uint64_t> by_link;  // of a QSFP port
  };
  std::map<std::pair<int, int>, Behind> links;          // [node, PCIe link]
  std::map<std::pair<int, std::string>, Behind> qsfps;  // [node, name]
  const auto add = [&](PortRef port, std::uint64_t rate_bps) {
    const Node& node = cluster.at(port.node);
    const Nic& nic = node.nic(port.nic);
    const auto put = [&](Behind& each) {
      each.ports_bps += rate_bps;
      each.fastest_bps = std::max(each.fastest_bps, rate_bps);
      each.by_link[nic.pcie] += rate_bps;
      each.ports.push_back(port);
    };
    if (nic.pcie >= 0 && node.pcie[static_cast<std::size_t>(nic.pcie)].rate_bps > 0) put(links[{port.node, nic.pcie}]);
    if (!nic.qsfp.empty()) put(qsfps[{port.node, nic.qsfp}]);
  };
  for (const Cable& cable : cluster.cables) {
    add(cable.a, cable.rate_bps);
    add(cable.b, cable.rate_bps);
  }
  for (const Switch& box : cluster.switches) {
    for (const PortRef port : box.ports) {
      const std::uint64_t own_bps = cluster.nic_of(port).rate_bps;
      add(port, box.rate_bps == 0 ? own_bps : std::min(box.rate_bps, own_bps));
    }
  }
  std::vector<SharedLink> found;
  for (auto& [key, each] : links) {
    const auto [node, index] = key;
    const PcieLink& link = cluster.at(node).pcie[static_cast<std::size_t>(index)];
    if (each.ports_bps <= link.rate_bps) continue;
    std::sort(each.ports.begin(), each.ports.end());
    found.push_back(
        {.node = node, .pcie = index, .name = link.name, .rate_bps = link.rate_bps, .ports = std::move(each.ports)});
  }
  for (auto& [key, each] : qsfps) {
    const Node& node = cluster.at(key.first);
    std::uint64_t fed_bps = 0;
    for (const auto& [link, bps] : each.by_link) {
      const std::uint64_t rate_bps = link < 0 ? 0 : node.pcie[static_cast<std::size_t>(link)].rate_bps;
      fed_bps += rate_bps == 0 ? bps : std::min(bps, rate_bps);
    }
    if (each.ports.size() < 2 || fed_bps <= each.fastest_bps) continue;
    std::sort(each.ports.begin(), each.ports.end());
    found.push_back({.node = key.first,
                     .pcie = -1,
                     .name = key.second,
                     .rate_bps = each.fastest_bps,
                     .ports = std::move(each.ports)});
  }
  return found;
}

std::uint64_t joint_rate_bps(const std::vector<SharedLink>& shared, const std::vector<PortRate>& ports) {
  std::uint64_t all_bps = 0;
  for (const PortRate& port : ports) all_bps += port.rate_bps;
  std::uint64_t over_links_bps = all_bps, over_qsfps_bps = all_bps;
  for (const SharedLink& link : shared) {
    std::uint64_t behind_bps = 0;
    for (const PortRate& each : ports) {
      if (std::binary_search(link.ports.begin(), link.ports.end(), each.port)) behind_bps += each.rate_bps;
    }
    if (behind_bps > link.rate_bps) (link.is_qsfp() ? over_qsfps_bps : over_links_bps) -= behind_bps - link.rate_bps;
  }
  return std::min(over_links_bps, over_qsfps_bps);
}

std::vector<int> gpu_nics(const Node& node, const std::vector<int>& nics, int gpu, int gpus_least) {
  std::vector<int> own;
  const int pcie = gpu < static_cast<int>(node.gpus.size()) ? node.gpus[static_cast<std::size_t>(gpu)].pcie : -1;
  for (const int nic : nics) {
    if (pcie >= 0 && node.nic(nic).pcie == pcie) own.push_back(nic);
  }
  if (!own.empty() || nics.empty()) return own;
  const auto count = static_cast<int>(nics.size());
  const int gpus = std::max({static_cast<int>(node.gpus.size()), gpus_least, 1});
  const int each = std::max(count / gpus, 1);
  const int first = count >= gpus ? gpu * each : gpu * count / gpus;
  for (int nic = first; nic < first + each; ++nic) own.push_back(nics[static_cast<std::size_t>(nic)]);
  return own;
}

std::vector<std::vector<int>> cabled_nics(const Cluster& cluster) {
  std::vector<std::vector<int>> cabled(cluster.nodes.size());
  const auto add = [&](PortRef port) {
    if (!is_standby(cluster, port)) cabled[static_cast<std::size_t>(port.node)].push_back(port.nic);
  };
  for (const Cable& cable : cluster.cables) {
    add(cable.a);
    add(cable.b);
  }
  for (const Switch& box : cluster.switches) std::for_each(box.ports.begin(), box.ports.end(), add);
  for (std::vector<int>& nics : cabled) std::sort(nics.begin(), nics.end());
  return cabled;
}

std::uint64_t node_rate_bps(const Node& node, const std::vector<int>& nics) {
  std::vector<std::pair<int, std::uint64_t>> rates;
  for (const int each : nics) rates.emplace_back(each, node.nic(each).rate_bps);
  return through_bps(node, rates);
}

std::uint64_t behind_pcie_bps(const Node& node, const Nic& nic, std::uint64_t rate_bps) {
  if (nic.pcie < 0) return rate_bps;
  const std::uint64_t link_bps = node.pcie[static_cast<std::size_t>(nic.pcie)].rate_bps;
  return link_bps == 0 ? rate_bps : std::min(rate_bps, link_bps);
}

}  // namespace meshbed::models
