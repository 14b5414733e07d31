#include "models/pcie.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "models/lan/bond.h"
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

void add_links(Node& node) {
  for (int link = 0; link < kSparkLinks; ++link) {
    node.pcie.push_back({"pcie" + std::to_string(link), pcie_rate_bps(kSparkLanes, kSparkGeneration)});
  }
}

}  // namespace

std::uint64_t pcie_rate_bps(int lanes, int generation) {
  MESHBED_CHECK(lanes >= 1 && generation >= 1 && generation <= 6);
  constexpr double kMeasuredBps = 100e9;
  const double share = lanes * lane_bps(generation) / (kSparkLanes * lane_bps(kSparkGeneration));
  return static_cast<std::uint64_t>(share * kMeasuredBps + 0.5);
}

void hang_on_spark_links(Node& node, int rails) {
  const int nics = static_cast<int>(node.nics.size());
  const int ports = nics / rails;
  if (nics == 0 || ports > kSparkPorts || nics > kSparkPorts * kSparkLinks) return;
  add_links(node);
  for (int nic = 0; nic < nics; ++nic) {
    node.nics[static_cast<std::size_t>(nic)].pcie = (rails == 1 ? nic : nic / ports) % kSparkLinks;
  }
}

void hang_on_spark_links_by_name(Node& node) {
  const auto link_of = [](const Nic& nic) {
    return nic.device.rfind("rocep1s0f", 0) == 0 ? 0 : nic.device.rfind("roceP2p1s0f", 0) == 0 ? 1 : -1;
  };
  if (std::none_of(node.nics.begin(), node.nics.end(), [&](const Nic& nic) { return link_of(nic) == 1; })) return;
  add_links(node);
  const int first = static_cast<int>(node.pcie.size()) - kSparkLinks;
  for (Nic& nic : node.nics) {
    if (nic.pcie < 0 && link_of(nic) >= 0) nic.pcie = first + link_of(nic);
  }
}

std::vector<SharedLink> shared_links(const Cluster& cluster) {
  struct Behind {
    std::uint64_t ports_bps = 0;
    std::vector<PortRef> ports;
  };
  std::map<std::pair<int, int>, Behind> behind;  // [node, link]
  const auto add = [&](PortRef port, std::uint64_t rate_bps) {
    const Node& node = cluster.nodes[static_cast<std::size_t>(port.node)];
    const int link = node.nics[static_cast<std::size_t>(port.nic)].pcie;
    if (link < 0 || node.pcie[static_cast<std::size_t>(link)].rate_bps == 0) return;
    Behind& each = behind[{port.node, link}];
    each.ports_bps += rate_bps;
    each.ports.push_back(port);
  };
  for (const Cable& cable : cluster.cables) {
    add(cable.a, cable.rate_bps);
    add(cable.b, cable.rate_bps);
  }
  for (const Switch& box : cluster.switches) {
    for (const PortRef port : box.ports) {
      const std::uint64_t own_bps =
          cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)].rate_bps;
      add(port, box.rate_bps == 0 ? own_bps : std::min(box.rate_bps, own_bps));
    }
  }
  std::vector<SharedLink> found;
  for (auto& [key, each] : behind) {
    const auto [node, link] = key;
    const std::uint64_t rate_bps =
        cluster.nodes[static_cast<std::size_t>(node)].pcie[static_cast<std::size_t>(link)].rate_bps;
    if (each.ports_bps <= rate_bps) continue;
    std::sort(each.ports.begin(), each.ports.end());
    found.push_back({.node = node, .pcie = link, .rate_bps = rate_bps, .ports = std::move(each.ports)});
  }
  return found;
}

std::vector<int> gpu_nics(const Node& node, const std::vector<int>& nics, int gpu, int gpus_least) {
  std::vector<int> own;
  const int pcie = gpu < static_cast<int>(node.gpus.size()) ? node.gpus[static_cast<std::size_t>(gpu)].pcie : -1;
  for (const int nic : nics) {
    if (pcie >= 0 && node.nics[static_cast<std::size_t>(nic)].pcie == pcie) own.push_back(nic);
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
  std::uint64_t total_bps = 0;
  std::vector<std::uint64_t> behind_bps(node.pcie.size());
  for (const int each : nics) {
    const Nic& nic = node.nics[static_cast<std::size_t>(each)];
    (nic.pcie < 0 ? total_bps : behind_bps[static_cast<std::size_t>(nic.pcie)]) += nic.rate_bps;
  }
  for (std::size_t link = 0; link < node.pcie.size(); ++link) {
    const std::uint64_t rate_bps = node.pcie[link].rate_bps;
    total_bps += rate_bps == 0 ? behind_bps[link] : std::min(behind_bps[link], rate_bps);
  }
  return total_bps;
}

std::uint64_t behind_pcie_bps(const Node& node, const Nic& nic, std::uint64_t rate_bps) {
  if (nic.pcie < 0) return rate_bps;
  const std::uint64_t link_bps = node.pcie[static_cast<std::size_t>(nic.pcie)].rate_bps;
  return link_bps == 0 ? rate_bps : std::min(rate_bps, link_bps);
}

}  // namespace meshbed::models
