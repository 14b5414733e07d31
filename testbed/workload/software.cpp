#include "testbed/workload/software.h"

#include <algorithm>

#include "models/pcie.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

std::optional<models::CollectiveProtocol> said_protocol(const Scenario& scenario) {
  if (scenario.software.own_protocol) return std::nullopt;
  const std::string& protocol = scenario.workload.protocol;
  if (protocol == "ll") return models::CollectiveProtocol::kLl;
  return protocol == "ll128" ? models::CollectiveProtocol::kLl128 : models::CollectiveProtocol::kSimple;
}

/// Bytes of the engine's own messages for one byte of payload: NCCL's lines have 8 bytes for 4 and 128 for 120.
double payload_factor(const Scenario& scenario) {
  constexpr double kOfLl = 2, kOfLl128 = 128.0 / 120;
  if (scenario.workload.protocol == "ll") return kOfLl;
  return scenario.workload.protocol == "ll128" ? kOfLl128 : 1;
}

/// Bits a second of one NIC of the class, headers included, as cables are counted.
double class_nic_bps(const models::Machine& machine) {
  constexpr double kBitsPerByte = 8, kGiga = 1e9;
  return machine[models::MachineParameter::kNicGBps] * kGiga * kBitsPerByte;
}

/// What the class reaches of a PCIe link that carries less than its ports. The class's rate was measured behind the
/// class's own PCIe links: it holds where this one has bits for it, at the class's NICs or slower ones. Where it has
/// not, the link is narrower than the class's, and the class reaches the same share of what such links carry.
std::uint64_t reached_link_bps(const models::Machine& machine, const models::Node& node,
                               const models::SharedLink& shared) {
  const models::PcieLink& link = node.pcie[static_cast<std::size_t>(shared.pcie)];
  const double fraction = machine[models::MachineParameter::kNicFraction];
  double nics_bps = 0;
  for (const models::PortRef port : shared.ports) {
    const auto rate_bps = static_cast<double>(node.nic(port.nic).rate_bps);
    nics_bps += std::min(rate_bps, class_nic_bps(machine));
  }
  const double coded_bps = static_cast<double>(std::max(link.coded_bps, link.rate_bps));
  const double of_class_bps = fraction * std::max(nics_bps, static_cast<double>(link.rate_bps));
  const double of_link_bps = fraction * static_cast<double>(link.rate_bps);
  return static_cast<std::uint64_t>(std::max(1.0, of_class_bps <= coded_bps ? of_class_bps : of_link_bps));
}

}  // namespace

std::optional<models::CollectiveCall> modelled_call(const Scenario& scenario, const CollectiveCase& wanted) {
  const int ranks = ranks_of(scenario), nodes = nodes_with_ranks(scenario);
  if (nodes < 2) return std::nullopt;
  models::CollectiveCall call{
      .collective = wanted.op, .ranks = ranks, .nodes = nodes, .bytes = shape_of(wanted, ranks).bytes};
  call.protocol = said_protocol(scenario);
  const std::string& algorithm = scenario.workload.algorithm;
  if (algorithm == "ring") call.algorithm = models::CollectiveAlgorithm::kRing;
  if (algorithm == "tree" && models::may_tree(call)) call.algorithm = models::CollectiveAlgorithm::kTree;
  if (algorithm == "direct" || models::is_one_shot(*scenario.software.machine)) {
    call.algorithm = models::CollectiveAlgorithm::kDirect;
  }
  return call;
}

CollectiveCase with_software(const Scenario& scenario, CollectiveCase wanted) {
  if (scenario.software.machine == nullptr) return wanted;
  const auto call = modelled_call(scenario, wanted);
  if (!call) return wanted;
  const models::SoftwareCost cost = models::software_cost(*scenario.software.machine, *call, payload_factor(scenario));
  wanted.spent_ps = cost.call_ps + cost.bytes_ps;
  wanted.hop_ps = cost.hop_ps;
  return wanted;
}

models::SoftwareCost message_cost(const Scenario& scenario) {
  if (scenario.software.machine == nullptr) return {};
  return models::software_cost_of_messages(*scenario.software.machine,
                                           said_protocol(scenario).value_or(models::CollectiveProtocol::kSimple));
}

models::Cluster reached_cluster(const Scenario& scenario) {
  models::Cluster cluster = scenario.cluster;
  if (scenario.software.machine == nullptr) return cluster;
  const models::Machine& machine = *scenario.software.machine;
  const auto node_of_port = [&](models::PortRef port) -> const models::Node& { return cluster.at(port.node); };
  // Those that carry something: idle ones take nothing of what the host feeds them all.
  const std::vector<std::vector<int>> cabled = models::cabled_nics(cluster);
  const auto nics_at = [&](models::PortRef port) {
    return static_cast<int>(cabled[static_cast<std::size_t>(port.node)].size());
  };
  for (const models::SharedLink& shared : models::shared_links(scenario.cluster)) {
    if (shared.is_qsfp()) continue;  // follows from its cables
    models::Node& node = cluster.at(shared.node);
    node.pcie[static_cast<std::size_t>(shared.pcie)].rate_bps = reached_link_bps(machine, node, shared);
  }
  // The links alone: a NIC still says what it is, to the plugin and in sysfs.
  for (models::Cable& cable : cluster.cables) {
    cable.rate_bps = models::reached_bps(machine, cable.rate_bps, std::max(nics_at(cable.a), nics_at(cable.b)));
  }
  for (models::Switch& one : cluster.switches) {
    int nics = 1;
    std::uint64_t fastest_bps = 0;
    for (const models::PortRef port : one.ports) {
      nics = std::max(nics, nics_at(port));
      fastest_bps = std::max(fastest_bps, node_of_port(port).nics[static_cast<std::size_t>(port.nic)].rate_bps);
    }
    if (one.rate_bps == 0) one.rate_bps = fastest_bps;
    if (!one.ports.empty()) one.rate_bps = models::reached_bps(machine, std::min(one.rate_bps, fastest_bps), nics);
  }
  return cluster;
}

models::Cluster bounding_cluster(const Scenario& scenario) {
  models::Cluster cluster = scenario.cluster;
  if (scenario.software.machine == nullptr) return cluster;
  for (const models::SharedLink& shared : models::shared_links(scenario.cluster)) {
    if (shared.is_qsfp()) continue;
    models::Node& node = cluster.at(shared.node);
    std::uint64_t& rate_bps = node.pcie[static_cast<std::size_t>(shared.pcie)].rate_bps;
    rate_bps = std::max(rate_bps, reached_link_bps(*scenario.software.machine, node, shared));
  }
  return cluster;
}

}  // namespace meshbed::testbed
