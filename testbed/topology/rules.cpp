#include "testbed/topology/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "models/gid_table.h"
#include "models/nccl_environment.h"
#include "plugin/base/counted.h"
#include "testbed/result/tables.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/stock_nccl.h"
#include "testbed/topology/tuner.h"

namespace meshbed::testbed {
namespace {

using models::Aim;

/// As many are gone through within a minute, at 18 us each.
constexpr std::uint64_t kChannelsMost = 2'000'000;
/// More nodes than that are counted, and their channels not listed one by one.
constexpr int kListedNodesMost = 64;
constexpr std::size_t kRules = models::kRoutingRules.size() + 1;  // and Mesh's, the last one

struct Outcomes {
  std::uint64_t channels = 0, reached = 0, lost = 0, refused = 0;
  void add(Aim aim) {
    ++channels;
    ++(aim == Aim::kReached ? reached : aim == Aim::kLost ? lost : refused);
  }
};

/// [node] the device lists of its ranks, each once; where they have all devices, that list.
std::vector<std::set<std::vector<int>>> device_lists(const Scenario& scenario, const models::Topology& topology) {
  std::vector<std::set<std::vector<int>>> lists(scenario.cluster.nodes.size());
  const std::vector<std::vector<int>> devices = devices_by_rank(scenario, topology);
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const int node = node_of(scenario, static_cast<int>(rank));
    std::vector<int> own = devices[rank];
    if (own.empty()) {
      own.resize(device_nics(scenario, topology, node).size());
      std::iota(own.begin(), own.end(), 0);
    }
    lists[static_cast<std::size_t>(node)].insert(std::move(own));
  }
  return lists;
}

/// Which device here talks to which there, of some rank on either node: empty where all ranks of both nodes have the
/// same, so that equal devices meet.
std::set<std::pair<int, int>> device_pairs(const std::set<std::vector<int>>& here,
                                           const std::set<std::vector<int>>& there) {
  std::set<std::pair<int, int>> pairs;
  if (here.size() <= 1 && there.size() <= 1) return pairs;
  for (const std::vector<int>& own : here) {
    for (const std::vector<int>& theirs : there) {
      for (std::size_t channel = 0; channel < std::max(own.size(), theirs.size()); ++channel) {
        if (!own.empty() && !theirs.empty()) pairs.insert({own[channel % own.size()], theirs[channel % theirs.size()]});
      }
    }
  }
  return pairs;
}

document::Table channel_table() {
  using document::in_text;
  return {.key = "",
          .meaning = "",
          .columns = {in_text("node -> node", 16, "").left(), in_text("dev", 3),
                      in_text("nccl-mesh-plugin", 18, "  ").left(), in_text("NCCL 2.30.7", 18).left(),
                      in_text("NCCL, subnet-aware", 22).left(), in_text("NCCL, s.-a., fused", 22).left(),
                      in_text("Mesh", 0).left()}};
}

/// Every rule on one scenario.
class RuleComparison {
 public:
  explicit RuleComparison(const Scenario& scenario)
      : cluster(scenario.cluster),
        topology(models::analyse(cluster)),
        nodes(nodes_of(scenario)),
        mesh(cluster, topology, nodes),
        stock_(cluster, models::settings_of(models::RoutingRule::kNccl)) {
    refuse_too_many();
    for (int rank = 0; rank < ranks_of(scenario); ++rank) {
      const int node = node_of(scenario, rank);
      if (std::find(nodes_by_rank.begin(), nodes_by_rank.end(), node) == nodes_by_rank.end()) {
        nodes_by_rank.push_back(node);
      }
    }
    for (const models::RoutingRule rule : models::kRoutingRules) others_.emplace_back(rule, cluster, topology);
    const std::vector<std::set<std::vector<int>>> lists = device_lists(scenario, topology);
    for (int from = 0; from < nodes; ++from) {
      const std::vector<int> joined = models::neighbours(topology, from);
      for (int to = 0; to < nodes; ++to) {
        if (from == to) continue;
        const bool is_near = std::binary_search(joined.begin(), joined.end(), to);
        // Of nodes that the environment leaves without a NIC the only channel is refused.
        const int channels = std::max(
            {static_cast<int>(stock_.nics(from).size()), static_cast<int>(mesh.devices(from)), is_near ? 1 : 0});
        const std::set<std::pair<int, int>> crossing =
            device_pairs(lists[static_cast<std::size_t>(from)], lists[static_cast<std::size_t>(to)]);
        crosses_rails = crosses_rails || !crossing.empty();
        for (const auto& [device, peer] : crossing) add_line(from, to, device, peer, is_near);
        for (int channel = 0; crossing.empty() && channel < channels; ++channel) {
          add_line(from, to, channel, channel, is_near);
        }
      }
    }
  }

  const models::Cluster& cluster;
  const models::Topology topology;
  const int nodes;
  const MeshRules mesh;
  std::vector<int> nodes_by_rank;
  bool crosses_rails = false;                  // ranks of one node have devices of their own
  std::array<Outcomes, kRules> near{}, far{};  // between nodes that a cable, switch or router joins, and others
  document::Table table = channel_table();     // in text alone: every channel, by each rule

  bool is_listed() const { return nodes <= kListedNodesMost; }

  /// What NCCL would open and Mesh does not, as (NIC, why).
  std::vector<std::pair<std::string, std::string>> left_out() const {
    std::vector<std::pair<std::string, std::string>> found;
    for (int node = 0; node < nodes; ++node) {
      const models::Node& modelled = cluster.at(node);
      const std::vector<int> live = models::live_nics(cluster, topology, node);
      for (const int index : stock_.nics(node)) {
        if (mesh.uses(node, index)) continue;
        const models::Nic& nic = modelled.nics[static_cast<std::size_t>(index)];
        const bool is_live = std::find(live.begin(), live.end(), index) != live.end();
        std::string why = is_live ? "slow beside the node's other ports, or without the pinned GID index"
                                  : "no port that it reaches has an address in its subnet";
        if (nic.addresses.empty()) {
          why =
              "no address; NCCL takes it by its link-local GID, " + to_text(models::link_local_address({node, index}));
          if (carries_stripes({node, index})) why += ", Mesh for stripes alone";
        }
        found.emplace_back(modelled.name + "/" + nic.device, why);
      }
    }
    return found;
  }

  /// Beside a connection to the same node on other ports.
  bool carries_stripes(models::PortRef port) const {
    const std::vector<models::PortRef> peers = models::link_local_peers(cluster, port);
    return std::any_of(peers.begin(), peers.end(), [&](models::PortRef peer) {
      return !models::direct_paths(topology, port.node, peer.node).empty();
    });
  }

  static const char* name_of(std::size_t rule) {
    return rule + 1 < kRules ? models::name_of(models::kRoutingRules[rule]) : "mesh";
  }
  static const char* description_of(std::size_t rule) {
    return rule + 1 < kRules ? models::describe(models::kRoutingRules[rule]) : "Mesh";
  }

 private:
  void refuse_too_many() const {
    std::uint64_t nics = 1;
    for (int node = 0; node < nodes; ++node) nics = std::max<std::uint64_t>(nics, stock_.nics(node).size());
    const auto channels = [&](std::uint64_t of) { return of * (of - 1) * nics; };
    const auto count = static_cast<std::uint64_t>(nodes);
    if (nodes < 2 || channels(count) <= kChannelsMost) return;
    std::uint64_t most = 1;
    while (channels(most + 1) <= kChannelsMost) ++most;
    throw std::runtime_error(
        fmt::format("topo rules: not above {} nodes with {} each, and there are {} nodes; cut the "
                    "scenario down (topo check has no such limit)",
                    most, counted(nics, "NIC"), nodes));
  }

  std::string cell(int node, Aim aim, int nic, int cables) const {
    if (aim == Aim::kRefused) return "refused";
    const std::string& device = cluster.nic_of(node, nic).device;
    if (aim == Aim::kLost) return "LOST " + device;
    return cables > 1 ? fmt::format("{}, {} cables", device, cables) : device;
  }

  void add_line(int from, int to, int channel, int peer, bool is_near) {
    auto& outcomes = is_near ? near : far;
    if (!is_listed()) {
      for (std::size_t rule = 0; rule < others_.size(); ++rule) {
        outcomes[rule].add(others_[rule].aim(from, to, channel, peer).aim);
      }
      return outcomes.back().add(mesh.aim(from, to, channel, peer, false).aim);
    }
    std::array<std::string, models::kRoutingRules.size()> cells;
    for (std::size_t rule = 0; rule < cells.size(); ++rule) {
      const models::Aimed aimed = others_[rule].aim(from, to, channel, peer);
      outcomes[rule].add(aimed.aim);
      cells[rule] = cell(from, aimed.aim, aimed.nic, 1);
    }
    const MeshAim ours = mesh.aim(from, to, channel, peer);
    outcomes.back().add(ours.aim);
    table.add({cluster.at(from).name + " -> " + cluster.at(to).name,
               peer == channel ? std::to_string(channel) : fmt::format("{}-{}", channel, peer), cells[0], cells[1],
               cells[2], cells[3], cell(from, ours.aim, ours.nic, ours.cables) + (ours.routed ? ", routed" : "")});
  }

  models::NcclRouting stock_;
  std::vector<models::RuleAims> others_;
};

/// "rules": how often each outcome came.
document::Table outcome_table(const RuleComparison& all) {
  using document::in_text, document::integer;
  document::Table table{.key = "rules",
                        .meaning =
                            "how often each outcome came: between nodes that a cable, switch or router joins, and "
                            "(far_) between the others",
                        .columns = {document::text("rule", "whose rules"), in_text(" ", 38, "").left(),
                                    integer("channels", "", "that were looked at"), integer("reached", "", "of those"),
                                    in_text("neighbours reached", 18),
                                    integer("lost", "", "aimed at a NIC without a cable").shown("lost", 6),
                                    integer("refused", "", "an error at once").shown("refused", 8),
                                    integer("far_channels", "", "likewise"), integer("far_reached", "", "likewise"),
                                    in_text("others reached", 15), integer("far_lost", "", "likewise"),
                                    integer("far_refused", "", "likewise")}};
  for (std::size_t rule = 0; rule < kRules; ++rule) {
    const Outcomes &near = all.near[rule], &far = all.far[rule];
    table.add({RuleComparison::name_of(rule), RuleComparison::description_of(rule), near.channels, near.reached,
               fmt::format("{} of {}", near.reached, near.channels), near.lost, near.refused, far.channels, far.reached,
               fmt::format("{} of {}", far.reached, far.channels), far.lost, far.refused});
  }
  return table;
}

StockNcclQuestion stock_question(const RuleComparison& all) {
  return {.cluster = all.cluster,
          .topology = all.topology,
          .nodes_by_rank = all.nodes_by_rank,
          .nodes = all.nodes,
          .crosses_rails = all.crosses_rails,
          .near_channels = all.near.back().channels,
          .far_channels = all.far.back().channels};
}

document::Section channels_section(const Scenario& scenario, const RuleComparison& all,
                                   const std::vector<std::string>& environment) {
  document::Section section{.title = "Rules"};
  section.with({document::text("scenario", "its name")});
  section.with(outcome_table(all));
  section.with(
      document::Table{.key = "left_out",
                      .meaning = "NICs that NCCL would open and Mesh leaves out",
                      .columns = {document::text("nic", "node and device").shown(" ", 0, "  ").left().followed_by(":"),
                                  document::text("why", "Mesh leaves it out").shown(" ", 0).left()}});
  section.with(all.table);
  section.set("scenario", scenario.name);
  section.line("{}: by whose rules a channel gets from node to node, and by which NIC", scenario.name);
  section.line(
      "LOST: aims with a NIC at another one to which it has no cable, and times out; refused: an error at once, "
      "which");
  section.line("says why. Devices are NICs with a link.");
  section.blank();
  for (const std::string& line : environment) section.line("environment: {}", line);
  if (!environment.empty()) section.blank();
  if (!all.is_listed()) {
    section.line("Channels of more than {} nodes are counted, not listed.", kListedNodesMost);
    section.blank();
    section.show("rules");
  } else if (all.table.rows.empty()) {
    section.line("There is nothing to list: no pair of nodes that run ranks has a NIC with a link.");
  } else {
    section.show("");
    section.blank();
    section.show("rules");
  }
  for (const auto& [nic, why] : all.left_out()) section.table("left_out").add({nic, why});
  if (!section.table("left_out").rows.empty()) {
    section.blank();
    section.line("NCCL would open these NICs, and Mesh leaves them out:");
    section.show_rows("left_out");
  }
  return section;
}

document::Section settings_section(const RuleComparison& all, const std::vector<std::string>& environment) {
  document::Section section{.title = "Settings"};
  section.with({document::texts("environment", "what it leaves out and sets"),
                document::text("settings", "under which stock NCCL works; null: none are known").or_null(),
                document::texts("settings_without", "variables that have to go")});
  const auto working = models::settings_that_work(all.cluster, all.topology, all.nodes, all.crosses_rails);
  section.set("environment", environment);
  section.set("settings", working ? document::Value(working->text) : document::Value(nullptr));
  section.set("settings_without", working ? working->without : std::vector<std::string>());
  section.blank();
  section.lines(all.mesh.relays() ? tuner_report(all.cluster, models::analyse(models::in_use(all.cluster)), all.nodes)
                                  : "tuner: relays are off: algorithms are NCCL's choice\n");
  section.blank();
  section.lines(stock_nccl_report(stock_question(all)));
  return section;
}

document::Section findings_section(const std::vector<Finding>& findings) {
  document::Section section{.title = "Findings"};
  section.with(document::finding_rows(findings));
  if (!findings.empty()) {
    section.blank();
    section.line("Findings:");
  }
  for (const std::string& line : finding_lines(findings)) section.line("  {}", line);
  return section;
}

}  // namespace

document::Document rules_document(const Scenario& scenario) {
  const RuleComparison all(scenario);
  const std::vector<std::string> environment = environment_lines(all.cluster, all.nodes);
  return {.title = "topo rules",
          .sections = {channels_section(scenario, all, environment), settings_section(all, environment),
                       findings_section(findings_of(scenario))}};
}

document::Table rules_table(const Scenario& scenario) { return outcome_table(RuleComparison(scenario)); }

StockNcclFacts stock_nccl_facts(const Scenario& scenario) {
  const RuleComparison all(scenario);
  return stock_nccl_facts(stock_question(all));
}

}  // namespace meshbed::testbed
