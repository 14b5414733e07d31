// topology_report: the pair x NIC x subnet matrix as aligned text.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "models/lan/bond.h"
#include "models/nccl_environment.h"
#include "models/pcie.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "testbed/base/units.h"
#include "testbed/result/bonds.h"
#include "testbed/scenario/findings/media.h"
#include "testbed/scenario/findings/reach.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/report.h"
#include "testbed/topology/stock_nccl.h"

namespace meshbed::testbed {
namespace {

/// Rows of cells, printed with every column as wide as its widest cell.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      if (widths.size() < row.size()) widths.resize(row.size(), 0);
      // A row's last cell may be a remark that spans the rest.
      for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i + 1 < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
      text += line + row.back() + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

class Report {
 public:
  Report(const Scenario& scenario, bool all)
      : scenario_(scenario),
        cluster_(scenario.cluster),
        topology_(models::analyse(models::in_use(scenario.cluster))),
        missing_(models::pairs_without_direct_path(
            topology_, all ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(kMissingPairsMax))),
        all_(all) {}

  std::string text() const {
    const std::uint64_t nodes = cluster_.nodes.size();
    const std::uint64_t pairs = nodes * (nodes - 1) / 2;
    std::string text = head() + "\n" + environment();
    text += pairs <= kMatrixPairsMax || all_ ? pair_matrix() : medium_matrix();
    text += "\n" + missing_pairs(pairs);
    text += beyond_relays(pairs);
    text += "\n" + crossed_cables();
    return text + bonds() + pcie_links() + rank_devices();
  }

 private:
  const models::Node& node(int index) const { return cluster_.at(index); }
  const std::string& device(models::PortRef port) const {
    return node(port.node).nics[static_cast<std::size_t>(port.nic)].device;
  }
  /// Nothing where it leaves no NIC out.
  std::string environment() const {
    std::string text;
    for (const std::string& line : left_out_lines(cluster_, static_cast<int>(cluster_.nodes.size()))) {
      text += "environment: " + line + "\n";
    }
    return text.empty() ? "" : text + "\n";
  }
  /// As cables have it.
  const std::string& function(models::PortRef port) const {
    return models::function_name(node(port.node).nics[static_cast<std::size_t>(port.nic)]);
  }

  std::string head() const {
    std::uint64_t nics = 0;
    for (const auto& one : cluster_.nodes) nics += one.nics.size();
    const std::size_t routers = cluster_.routers.size();
    return fmt::format("{}: {}, {}, {}, {}{}; shape: {}\n", scenario_.name, counted(cluster_.nodes.size(), "node"),
                       counted(nics, "NIC"), counted(cluster_.cables.size(), "cable"),
                       counted(cluster_.switches.size(), "switch"),
                       routers > 0 ? ", " + counted(routers, "router") : "",
                       models::describe(models::classify(topology_), cluster_.nodes.size()));
  }

  /// "node0-node1", "switch0 VLAN 100"
  std::string medium(const models::Segment& segment) const {
    if (segment.router >= 0) return cluster_.routers[static_cast<std::size_t>(segment.router)].name;
    const std::string& name = segment.cable >= 0
                                  ? cluster_.cables[static_cast<std::size_t>(segment.cable)].name
                                  : cluster_.switches[static_cast<std::size_t>(segment.switch_index)].name;
    return segment.vlan == 0 ? name : name + " " + vlan_text(segment.vlan);
  }

  static std::string subnet(const models::Segment& segment) {
    return segment.router >= 0 ? "routed" : subnet_text(segment.subnet);
  }

  /// "100 Gb/s"; "25 Gb/s to 100 Gb/s" where the ports of a switch differ.
  static std::string rates(const models::Segment& segment) {
    const auto [least, most] = std::minmax_element(segment.port_rates_bps.begin(), segment.port_rates_bps.end());
    // Of two ports the slower one counts.
    if (*least == *most || segment.ports.size() == 2) return rate_text(*least);
    return rate_text(*least) + " to " + rate_text(*most);
  }

  std::string pair_matrix() const {
    Table table;
    table.row({"pair", "", "NICs", "", "subnet", "rate", "over"});
    const int nodes = static_cast<int>(cluster_.nodes.size());
    for (int i = 0; i < nodes; ++i) {
      for (int j = i + 1; j < nodes; ++j) {
        const auto paths = models::direct_paths(topology_, i, j);
        std::string left = node(i).name;
        std::string right = node(j).name;
        if (paths.empty()) table.row({left, right, "no direct path"});
        for (const auto& path : paths) {
          const auto& segment = topology_.segments[static_cast<std::size_t>(path.segment)];
          table.row({left, right, function(path.from), function(path.to), subnet(segment), rate_text(path.rate_bps),
                     medium(segment)});
          left = right = "";  // further rails of the pair stand below it
        }
      }
    }
    return table.text();
  }

  /// One line a cable or switch and subnet: what remains readable with thousands of pairs.
  std::string medium_matrix() const {
    constexpr std::size_t kLinesMax = 128;
    Table table;
    table.row({"subnet", "rate", "over", "NICs"});
    for (std::size_t i = 0; i < std::min(topology_.segments.size(), kLinesMax); ++i) {
      const auto& segment = topology_.segments[i];
      const auto port_text = [&](models::PortRef port) { return node(port.node).name + "/" + function(port); };
      const std::string ports = segment.ports.size() == 2
                                    ? port_text(segment.ports.front()) + ", " + port_text(segment.ports.back())
                                    : fmt::format("{}: {} ... {}", counted(segment.ports.size(), "NIC"),
                                                  port_text(segment.ports.front()), port_text(segment.ports.back()));
      table.row({subnet(segment), rates(segment), medium(segment), ports});
    }
    std::string text = table.text();
    if (topology_.segments.size() > kLinesMax) {
      text += fmt::format("and {} more\n", topology_.segments.size() - kLinesMax);
    }
    return text + "(one line a subnet; --all prints one a pair)\n";
  }

  std::string missing_pairs(std::uint64_t pairs) const {
    if (missing_.count == 0) return fmt::format("Every pair has a direct path ({}).\n", counted(pairs, "pair"));
    std::string text = fmt::format("Without a direct path: {} of {}.\n", missing_.count, counted(pairs, "pair"));
    Table table;
    for (const auto& [from, to] : missing_.first) {
      const auto path = models::shortest_path(topology_, from, to);
      std::string way = "not even by relay";
      if (!path.empty()) {
        std::string over;
        for (std::size_t i = 1; i + 1 < path.size(); ++i) over += (over.empty() ? "" : ", ") + node(path[i]).name;
        way = fmt::format("{} hops, over {}", path.size() - 1, over);
      }
      table.row({"  " + node(from).name, node(to).name, way});
    }
    text += table.text();
    if (missing_.count > missing_.first.size()) {
      text += fmt::format("  and {} more; --all lists them\n", missing_.count - missing_.first.size());
    }
    return text;
  }

  /// Empty where there are none.
  std::string beyond_relays(std::uint64_t pairs) const {
    constexpr std::size_t kNamed = 8;
    const AllBeyondRelays beyond = all_beyond_relays(cluster_, topology_, static_cast<int>(cluster_.nodes.size()),
                                                     all_ ? missing_.first.size() : kNamed);
    if (beyond.count == 0) return "";
    std::string text = fmt::format(
        "\nBeyond the reach of relays: {} of {}. Between them lie more cables than a chain may have\n"
        "(NCCL_MESH_MAX_RELAY_HOPS); a message from one to the other is an error.\n",
        beyond.count, counted(pairs, "pair"));
    Table table;
    for (const BeyondRelays& pair : beyond.first) {
      table.row({"  " + node(pair.from).name, node(pair.to).name,
                 fmt::format("{} cables, {} at most", pair.cables, pair.limit)});
    }
    text += table.text();
    if (beyond.count > beyond.first.size()) {
      text += fmt::format("  and {} more; --all lists them\n", beyond.count - beyond.first.size());
    }
    return text;
  }

  std::string crossed_cables() const {
    if (topology_.crossed.empty()) return "Every cable joins two NICs of one subnet.\n";
    // A mistyped length is not mended at the rack, nor is a VLAN: those stand apart.
    Table swapped, mistyped, apart, bare;
    std::size_t swapped_count = 0, mistyped_count = 0, apart_count = 0, bare_count = 0;
    for (const auto& crossed : topology_.crossed) {
      // Link-local GIDs are on every cable: that there is no address does not make it a wrong one.
      if (const auto& cable = cluster_.cables[static_cast<std::size_t>(crossed.cable)];
          is_link_local_only(cluster_, cable)) {
        ++bare_count;
        bare.row({"  " + cable.name, node(cable.a.node).name + "/" + device(cable.a),
                  node(cable.b.node).name + "/" + device(cable.b)});
        continue;
      }
      if (crossed.is_other_vlan()) {
        ++apart_count;
        const auto& cable = cluster_.cables[static_cast<std::size_t>(crossed.cable)];
        apart.row({"  " + cable.name, node(cable.a.node).name + "/" + device(cable.a), vlan_text(crossed.a_vlan),
                   node(cable.b.node).name + "/" + device(cable.b), vlan_text(crossed.b_vlan)});
        continue;
      }
      const auto& cable = cluster_.cables[static_cast<std::size_t>(crossed.cable)];
      const bool wrong_prefix = crossed.is_wrong_prefix();
      ++(wrong_prefix ? mistyped_count : swapped_count);
      (wrong_prefix ? mistyped : swapped)
          .row({"  " + cable.name, node(cable.a.node).name + "/" + device(cable.a),
                wrong_prefix ? crossed.a_overlapping : crossed.a_subnets,
                node(cable.b.node).name + "/" + device(cable.b),
                wrong_prefix ? crossed.b_overlapping : crossed.b_subnets});
    }
    std::string text;
    if (swapped_count > 0) text += fmt::format("Crossed cables: {}.\n{}", swapped_count, swapped.text());
    if (mistyped_count > 0) {
      text += fmt::format(
          "Wrong prefix lengths: {}. The two ends' subnets overlap, but only one end finds the other in its own;\n"
          "nothing can pass until both have the same prefix length.\n{}",
          mistyped_count, mistyped.text());
    }
    if (apart_count > 0) {
      text += fmt::format(
          "Different VLANs: {}. Neither end takes the other's frames; give both ends of a cable the same vlan.\n{}",
          apart_count, apart.text());
    }
    if (bare_count > 0) {
      text += fmt::format("Cables without addresses, of which only link-local GIDs are left: {}.\n{}", bare_count,
                          bare.text());
    }
    return text;
  }

  /// Nothing where there are none.
  std::string bonds() const {
    std::string text;
    for (const std::string& line : bond_lines(cluster_)) text += (text.empty() ? "\nBonds:\n  " : "  ") + line + "\n";
    return text;
  }

  /// Those that carry less than their ports together; nothing where all ports get what they have.
  std::string pcie_links() const {
    constexpr std::size_t kLinesMax = 64;
    if (topology_.shared_links.empty()) return "";
    std::string text =
        "\nPCIe links and QSFP ports that carry less than the NICs behind them together, each direction:\n";
    Table table;
    for (std::size_t i = 0;
         i < (all_ ? topology_.shared_links.size() : std::min(topology_.shared_links.size(), kLinesMax)); ++i) {
      const models::SharedLink& link = topology_.shared_links[i];
      std::string ports;
      for (const models::PortRef port : link.ports) ports += (ports.empty() ? "" : ", ") + function(port);
      table.row({"  " + node(link.node).name, link.name, rate_text(link.rate_bps), ports});
    }
    text += table.text();
    if (topology_.shared_links.size() > kLinesMax && !all_) {
      text += fmt::format("  and {} more\n", topology_.shared_links.size() - kLinesMax);
    }
    std::vector<std::uint64_t> rates_bps;  // [node]
    const std::vector<std::vector<int>> cabled = models::cabled_nics(cluster_);
    for (std::size_t i = 0; i < cluster_.nodes.size(); ++i) {
      rates_bps.push_back(models::node_rate_bps(cluster_.nodes[i], cabled[i]));
    }
    const auto [least, most] = std::minmax_element(rates_bps.begin(), rates_bps.end());
    const std::uint64_t least_bps = *least, most_bps = *most;
    return text + fmt::format("A node sends {} at most, and gets as much.\n",
                              least_bps == most_bps ? rate_text(most_bps)
                                                    : rate_text(least_bps) + " to " + rate_text(most_bps));
  }

  /// NICs of ranks that have some of their own: which pairs of ranks have NICs without a common subnet, so that a
  /// message between them leaves or arrives by another rank's. Nothing where all ranks have all NICs of their nodes.
  std::string rank_devices() const {
    constexpr int kRanksMax = 512;  // whose pairs are looked at
    const int ranks = std::min(ranks_of(scenario_), all_ ? std::numeric_limits<int>::max() : kRanksMax);
    const std::vector<std::vector<int>> all_devices = devices_by_rank(scenario_, topology_);
    std::vector<std::vector<int>> nics;  // [rank]
    bool any = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int>& devices = all_devices[static_cast<std::size_t>(rank)];
      any = any || !devices.empty();
      const std::vector<int> opened = device_nics(scenario_, topology_, node_of(scenario_, rank));
      std::vector<int>& own = nics.emplace_back(devices.empty() ? opened : std::vector<int>());
      for (const int device : devices) own.push_back(opened[static_cast<std::size_t>(device)]);
    }
    if (!any) return "";
    std::string text = "\nNICs of the ranks, by their GPUs:\n";
    Table table;
    constexpr int kLinesMax = 32;
    for (int rank = 0; rank < std::min(ranks, all_ ? ranks : kLinesMax); ++rank) {
      std::string names;
      for (const int nic : nics[static_cast<std::size_t>(rank)]) {
        names += (names.empty() ? "" : ", ") + device({node_of(scenario_, rank), nic});
      }
      table.row({fmt::format("  rank {}", rank), node(node_of(scenario_, rank)).name, names});
    }
    text += table.text();
    if (ranks_of(scenario_) > kLinesMax && !all_)
      text += fmt::format("  and {} more\n", ranks_of(scenario_) - kLinesMax);
    return text + cross_rail_pairs(ranks, nics);
  }

  std::string cross_rail_pairs(int ranks, const std::vector<std::vector<int>>& nics) const {
    std::uint64_t pairs = 0, apart = 0;
    std::string first;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int peer = rank + 1; peer < ranks; ++peer) {
        const int from = node_of(scenario_, rank), to = node_of(scenario_, peer);
        const std::vector<models::DirectPath> paths = models::direct_paths(topology_, from, to);
        if (from == to || paths.empty()) continue;
        ++pairs;
        const auto has = [&](int of, int nic) {
          const std::vector<int>& own = nics[static_cast<std::size_t>(of)];
          return std::find(own.begin(), own.end(), nic) != own.end();
        };
        if (std::any_of(paths.begin(), paths.end(), [&](const models::DirectPath& path) {
              return has(rank, path.from.nic) && has(peer, path.to.nic);
            })) {
          continue;
        }
        if (apart++ == 0) first = fmt::format("ranks {} and {}", rank, peer);
      }
    }
    if (apart == 0) return fmt::format("Each of {} of ranks has NICs in one subnet.\n", counted(pairs, "pair"));
    return fmt::format(
        "Of {} of ranks {} have no NICs in one subnet ({} first): what they send crosses over to another rail, on one "
        "of\nthe two nodes.\n",
        counted(pairs, "pair"), apart, first);
  }

  const Scenario& scenario_;
  const models::Cluster& cluster_;
  models::Topology topology_;
  models::MissingPairs missing_;
  bool all_;
};

}  // namespace

std::string topology_report(const Scenario& scenario, bool all) { return Report(scenario, all).text(); }

}  // namespace meshbed::testbed
