#include "testbed/result/bonds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "models/lan/bond.h"
#include "models/pcie.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

/// The bond without the functions that are not plugged in, or down; itself where those are all.
models::Bond with_links(const models::Node& node, const models::Bond& bond, const std::vector<int>& cabled) {
  models::Bond linked = bond;
  std::erase_if(linked.functions, [&](int nic) {
    return !node.nics[static_cast<std::size_t>(nic)].link_up ||
           std::find(cabled.begin(), cabled.end(), nic) == cabled.end();
  });
  return linked.functions.empty() ? bond : linked;
}

std::string line_of(const models::Node& node, const models::Bond& bond, const std::vector<int>& cabled) {
  const auto nic = [&](int index) -> const models::Nic& { return node.nics[static_cast<std::size_t>(index)]; };
  const models::Nic& first = nic(bond.functions.front());
  const std::string one_rate = rate_text(models::function_rate_bps(node, bond));
  std::string all, others;
  for (const int index : bond.functions) {
    const std::string& name = models::function_name(nic(index));
    all += (all.empty() ? "" : ", ") + name;
    if (index != bond.functions.front()) others += (others.empty() ? "" : " or ") + name;
  }
  const std::string head = fmt::format("{}/{}, {}", node.name, bond.name, to_string(bond.mode));
  if (!bond.lag) {
    return fmt::format(
        "{} over several cards: no RoCE LAG; RDMA uses {} of {}, {}; if its link goes, so do its "
        "connections, and the addresses to {}",
        head, first.device, all, one_rate, others);
  }
  if (bond.mode == models::BondMode::kActiveBackup) {
    return fmt::format(
        "{}: RoCE LAG of {} is RDMA device {}, {}; its queue pairs use {}, or {} if that one's link goes", head, all,
        first.device, one_rate, first.function, others);
  }
  return fmt::format("{}: RoCE LAG of {} is RDMA device {}, {}; {} one of them, {}, or another if that one's link goes",
                     head, all, first.device, rate_text(models::bond_rate_bps(node, with_links(node, bond, cabled))),
                     bond.hashes_flows ? "a queue pair uses" : "all queue pairs to one node use", one_rate);
}

}  // namespace

std::vector<std::string> bond_lines(const models::Cluster& cluster) {
  constexpr std::size_t kLinesMax = 16;
  std::vector<std::string> lines;
  std::size_t bonds = 0;
  const std::vector<std::vector<int>> cabled = models::cabled_nics(cluster);
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    const models::Node& node = cluster.nodes[index];
    for (const models::Bond& bond : node.bonds) {
      if (bonds++ < kLinesMax) lines.push_back(line_of(node, bond, cabled[index]));
    }
  }
  if (bonds > kLinesMax) lines.push_back(fmt::format("and {} more bonds", bonds - kLinesMax));
  return lines;
}

document::Table bond_table_shape() {
  using document::flag, document::integer, document::text, document::texts;
  return {
      .key = "bonds",
      .meaning = "the bonds of the nodes",
      .columns = {text("node", "its node"), text("name", "of the interface"), text("mode", "as the kernel names it"),
                  flag("roce_lag", "whether the card joins its functions in one RDMA device"),
                  text("device", "the RDMA device"), texts("functions", "the interfaces that it joins"),
                  integer("rate_bps", "bit/s", "of all functions that have a link"),
                  integer("queue_pair_rate_bps", "bit/s", "of the one that a queue pair uses")},
      .may_be_absent = true};
}

document::Table bond_table(const models::Cluster& cluster) {
  document::Table table = bond_table_shape();
  const std::vector<std::vector<int>> cabled = models::cabled_nics(cluster);
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    const models::Node& node = cluster.nodes[index];
    for (const models::Bond& bond : node.bonds) {
      auto functions = document::Value::array();
      for (const int index : bond.functions) {
        functions.push_back(models::function_name(node.nics[static_cast<std::size_t>(index)]));
      }
      table.add({node.name, bond.name, std::string(to_string(bond.mode)), bond.lag,
                 node.nics[static_cast<std::size_t>(bond.functions.front())].device, std::move(functions),
                 models::bond_rate_bps(node, with_links(node, bond, cabled[index])),
                 models::function_rate_bps(node, bond)});
    }
  }
  return table;
}

}  // namespace meshbed::testbed
