// PCIe links that the file lists, with the NICs and GPUs attached to them.

#include <fmt/format.h>

#include <set>

#include "models/pcie.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {
namespace {

std::vector<std::string> pcie_names(const models::Node& node) {
  std::vector<std::string> names;
  for (const models::PcieLink& link : node.pcie) names.push_back(link.name);
  return names;
}

}  // namespace

void Builder::add_pcie_links(models::Node& node, const NodeSpec& spec) {
  std::set<std::string> listed;
  for (const PcieSpec& link : spec.pcie) {
    if (link.name.empty()) {
      if (!link.has("name")) diagnostics_.add(link.place, "[[node.pcie]] needs name");
      continue;
    }
    if (link.name == "none" || !listed.insert(link.name).second) {
      diagnostics_.add(link.at("name"), link.name == "none" ? "name: a NIC on 'none' is on no link; take another name"
                                                            : fmt::format("name: two [[node.pcie]] of {} are called "
                                                                          "'{}'",
                                                                          node.name, link.name));
      continue;
    }
    if (link.has("rate") && link.has("lanes")) {
      diagnostics_.add(link.at("lanes"), "lanes: the rate follows from lanes and generation; leave one of the two out");
    }
    if (link.has("lanes") != link.has("generation")) {
      diagnostics_.add(link.place, "[[node.pcie]] lanes and generation go together, as in lanes = 4, generation = 5");
    }
    int index = find_named(node.pcie, link.name);
    if (index < 0) {
      index = static_cast<int>(node.pcie.size());
      node.pcie.push_back({link.name, 0});
    }
    models::PcieLink& made = node.pcie[static_cast<std::size_t>(index)];
    if (link.has("rate")) {
      made.rate_bps = link.rate_bps;
      made.coded_bps = 0;
    }
    if (link.lanes > 0 && link.generation > 0) {
      made.rate_bps = models::pcie_rate_bps(link.lanes, link.generation);
      made.coded_bps = models::pcie_coded_bps(link.lanes, link.generation);
    }
  }
}

void Builder::hang_on_pcie(models::Node& node, const NodeSpec& spec) {
  const auto link_of = [&](const std::string& key, const std::string& name, const Place& place) {
    const int link = find_named(node.pcie, name);
    if (link >= 0 || name == "none") return link;
    diagnostics_.add(place, fmt::format("{}: there is no [[node.pcie]] '{}' on {}; it has: {}", key, name.substr(0, 64),
                                        node.name, list_names(pcie_names(node))));
    return -1;
  };
  for (const NicSpec& said : spec.nics) {
    const int nic = find_nic(node, said.device);
    if (nic < 0 || !said.has("pcie") || said.pcie.empty()) continue;
    node.nic(nic).pcie = link_of("pcie", said.pcie, said.at("pcie"));
  }
  if (!spec.has("gpu_pcie")) return;
  if (spec.gpu_pcie.size() != node.gpus.size()) {
    diagnostics_.add(spec.at("gpu_pcie"), fmt::format("gpu_pcie: names {} of {} GPUs of {}; one for each",
                                                      spec.gpu_pcie.size(), node.gpus.size(), node.name));
    return;
  }
  for (std::size_t gpu = 0; gpu < node.gpus.size(); ++gpu) {
    node.gpus[gpu].pcie = link_of("gpu_pcie", spec.gpu_pcie[gpu].value, spec.gpu_pcie[gpu].place);
  }
}

void Builder::add_pcie() {
  for (const NodeSpec& spec : spec_.nodes) {
    const auto found = node_index_.find(spec.name);
    if (found == node_index_.end()) continue;
    models::Node& node = node_at(found->second);
    add_pcie_links(node, spec);
    hang_on_pcie(node, spec);
  }
}

}  // namespace meshbed::testbed
