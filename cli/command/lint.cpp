#include "cli/command/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

#include "cli/command/commands.h"
#include "cli/common/command_line.h"
#include "cli/common/units.h"
#include "cli/report/bonds.h"
#include "cli/scenario/build.h"
#include "cli/scenario/idle_variables.h"
#include "cli/scenario/placement.h"
#include "cli/workload/medium_findings.h"
#include "cli/workload/megakernel/blocks.h"
#include "cli/workload/megakernel/programs.h"
#include "cli/workload/reach.h"
#include "models/lan/bond.h"
#include "models/pcie.h"
#include "models/topology.h"
#include "plugin/base/counted.h"
#include "plugin/net/process/config.h"

namespace meshbed::cli {
namespace {

using models::PortRef;

class Linter {
 public:
  explicit Linter(const Scenario& scenario)
      : scenario_(scenario),
        cluster_(scenario.cluster),
        topology_(models::analyse(is_ours() ? as_plugin_takes_it(cluster_) : cluster_)) {
    for (const auto& segment : topology_.segments) joined_.insert(segment.ports.begin(), segment.ports.end());
  }

  std::vector<std::string> run() {
    crossed_cables();
    for (const auto& cable : cluster_.cables) cable_ends(cable);
    for (std::string& finding : medium_findings(cluster_, topology_)) findings_.push_back(std::move(finding));
    switches();
    for (const std::string& port : ports_without_address(cluster_)) findings_.push_back(port);
    nics();
    reach();
    idle_gpus();
    net_plugin();
    variables();
    promises();
    rings();
    return std::move(findings_);
  }

 private:
  const models::Node& node(int index) const { return cluster_.nodes[static_cast<std::size_t>(index)]; }
  const models::Nic& nic(PortRef port) const { return node(port.node).nics[static_cast<std::size_t>(port.nic)]; }
  std::string name(PortRef port) const { return node(port.node).name + "/" + nic(port).device; }

  /// The net plugin is Meshbed's own.
  bool is_ours() const { return scenario_.workload.net_plugin.empty() || scenario_.workload.net_plugin == "mesh"; }

  template <typename... Parts>
  void add(const char* format, const Parts&... parts) {
    findings_.push_back(fmt::format(fmt::runtime(format), parts...));
  }

  void crossed_cables() {
    for (const auto& crossed : topology_.crossed) {
      // See cable_ends() and cable_vlan_findings().
      if (crossed.is_wrong_prefix() || crossed.is_other_vlan()) continue;
      const auto& cable = cluster_.cables[static_cast<std::size_t>(crossed.cable)];
      add("cable '{}' joins different subnets: {} is in {}, {} in {}; nothing can pass over it{}", cable.name,
          name(cable.a), crossed.a_subnets, name(cable.b), crossed.b_subnets, meant_for(cable));
    }
  }

  /// "; NODE/NIC is in SUBNET, too: ..." where another NIC of one end's node has the other end's subnet.
  std::string meant_for(const models::Cable& cable) const {
    for (const auto& [here, there] : {std::pair{cable.a, cable.b}, std::pair{cable.b, cable.a}}) {
      for (const auto& other : node(there.node).nics) {
        for (const auto& theirs : other.addresses) {
          for (const auto& ours : nic(here).addresses) {
            if (!models::same_subnet(ours, theirs)) continue;
            return fmt::format("; {}/{} is in {}, too: are two plugs swapped?", node(there.node).name, other.device,
                               models::subnet_string(theirs));
          }
        }
      }
    }
    return "";
  }

  void cable_ends(const models::Cable& cable) {
    const auto& a = nic(cable.a);
    const auto& b = nic(cable.b);
    for (const auto& left : a.addresses) {
      for (const auto& right : b.addresses) {
        if (!models::overlaps(left, right)) continue;
        const bool passes = contains(left, right.address) && contains(right, left.address);
        add("cable '{}': the subnets of {} ({}) and {} ({}) overlap, but have different prefix lengths{}; "
            "they must be equal",
            cable.name, to_string(left), name(cable.a), to_string(right), name(cable.b),
            passes ? "" : ", so that only one end finds the other in its own, and nothing can pass over it");
      }
    }
    if (a.mtu_bytes != b.mtu_bytes) {
      add("cable '{}': the MTU is {} at {} and {} at {}; larger packets are lost", cable.name, a.mtu_bytes,
          name(cable.a), b.mtu_bytes, name(cable.b));
    }
    if (a.rate_bps != b.rate_bps) {
      add("cable '{}': {} runs at {}, {} at {}; the slower one counts", cable.name, name(cable.a),
          rate_text(a.rate_bps), name(cable.b), rate_text(b.rate_bps));
    }
  }

  void switches() {
    for (const auto& box : cluster_.switches) {
      std::set<std::uint32_t> mtus;
      for (const auto& port : box.ports) mtus.insert(nic(port).mtu_bytes);
      if (mtus.size() > 1) add("switch '{}': its ports have {} different MTUs", box.name, mtus.size());
      for (const auto& port : box.ports) {
        if (nic(port).addresses.empty() || !nic(port).link_up || joined_.count(port) != 0) continue;
        add("switch '{}': {} is alone in its subnet {} there", box.name, name(port),
            models::subnet_string(nic(port).addresses.front()));
      }
    }
  }

  void nics() {
    std::set<PortRef> cabled;
    for (const auto& cable : cluster_.cables) cabled.insert({cable.a, cable.b});
    for (const auto& box : cluster_.switches) cabled.insert(box.ports.begin(), box.ports.end());
    for (std::size_t n = 0; n < cluster_.nodes.size(); ++n) {
      for (std::size_t i = 0; i < cluster_.nodes[n].nics.size(); ++i) {
        const PortRef port{static_cast<int>(n), static_cast<int>(i)};
        // Of a RoCE LAG any function will do.
        const std::vector<PortRef> functions = models::functions_of(cluster_, port);
        one_nic(port, std::any_of(functions.begin(), functions.end(),
                                  [&](PortRef function) { return cabled.count(function) != 0; }));
      }
    }
  }

  void one_nic(PortRef port, bool is_cabled) {
    const auto& one = nic(port);
    if (!is_cabled && !one.addresses.empty()) {
      add("{} has {} but no cable", name(port), models::to_string(one.addresses.front()));
    }
    if (is_cabled && !one.link_up) add("{} is down from the start", name(port));
    const models::Bond* const bond = models::bond_of(cluster_, port);
    const bool has_gids = bond == nullptr || bond->functions.front() == port.nic;
    if (is_cabled && has_gids) pinned_gid(port);
    if (is_cabled) narrow_pcie(port);
    if (is_cabled) hidden_route(port);
    for (const auto& prefix : one.addresses) {
      const auto gid = models::gid_of(prefix.address);
      const bool found = std::any_of(one.gids.begin(), one.gids.end(), [&](const models::GidEntry& entry) {
        return entry.type == models::GidType::kRoceV2 && entry.gid == gid;
      });
      if (!found)
        add("{} has no RoCE v2 GID for {}; peers that expect one cannot connect", name(port),
            models::to_string(prefix.address));
    }
  }

  /// Routes by way of a router that the plugin does not see.
  void hidden_route(PortRef port) {
    const auto& one = nic(port);
    const bool is_set = std::any_of(node(port.node).environment.begin(), node(port.node).environment.end(),
                                    [](const auto& variable) { return variable.first == "NCCL_MESH_ALLOW_ROUTED"; });
    if (one.router < 0 || !one.policy_routed || is_set || !is_ours()) return;
    add("{} has its routes by way of {} in a table of its own (gateway_table = \"policy\"), which /proc/net/route does "
        "not show: set NCCL_MESH_ALLOW_ROUTED=1, or nothing goes over it",
        name(port), cluster_.routers[static_cast<std::size_t>(one.router)].name);
  }

  /// A function that its PCIe link can never feed.
  void narrow_pcie(PortRef port) {
    const auto& one = nic(port);
    if (models::behind_pcie_bps(node(port.node), one, one.rate_bps) == one.rate_bps) return;
    const auto& link = node(port.node).pcie[static_cast<std::size_t>(one.pcie)];
    add("{} has {} behind PCIe link '{}' of {}, and never gets more; [[node.pcie]] says what the link is", name(port),
        rate_text(one.rate_bps), link.name, rate_text(link.rate_bps));
  }

  /// A pinned index that the port lacks: nothing connects over it.
  void pinned_gid(PortRef port) {
    const auto& one = nic(port);
    for (const auto& [key, value] : cluster_.nodes[static_cast<std::size_t>(port.node)].environment) {
      if (key != "NCCL_IB_GID_INDEX") continue;
      const bool is_index = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
      const bool has_it =
          std::any_of(one.gids.begin(), one.gids.end(),
                      [&value = value](const models::GidEntry& entry) { return std::to_string(entry.index) == value; });
      if (!is_index || has_it) continue;
      std::string indices;
      for (const models::GidEntry& entry : one.gids) {
        indices += (indices.empty() ? "" : ", ") + std::to_string(entry.index);
      }
      add("{} has no GID at NCCL_IB_GID_INDEX={}, and is not used; it has {}: leave the variable unset", name(port),
          value, indices.empty() ? "none" : indices);
    }
  }

  /// It runs no rank and hangs on no cable: only the management network knows it.
  bool stands_apart(std::size_t node) const {
    const auto first = joined_.lower_bound({static_cast<int>(node), 0});
    return ranks_on(scenario_, static_cast<int>(node)) == 0 &&
           (first == joined_.end() || first->node != static_cast<int>(node));
  }

  bool in_one_piece() const {
    if (models::classify(topology_).connected) return true;
    std::optional<int> first;
    for (std::size_t node = 0; node < cluster_.nodes.size(); ++node) {
      if (stands_apart(node)) continue;
      if (!first) {
        first = static_cast<int>(node);
      } else if (models::shortest_path(topology_, *first, static_cast<int>(node)).empty()) {
        return false;
      }
    }
    return true;
  }

  void reach() {
    const bool promised = scenario_.expect.error.has_value() || all_ask_for_tcp();
    if (cluster_.nodes.size() > 1 && !promised && !in_one_piece()) {
      add("the cluster falls apart: not every node reaches every other, not even by relay");
    }
    const Workload& workload = scenario_.workload;
    if (workload.kind != WorkloadKind::kCollective || scenario_.expect.error) return;
    const int ranks = ranks_of(scenario_);
    const bool to_all = workload.collective == "alltoall";
    const int first = workload.collective == "sendrecv" ? workload.shift : 1;
    for (int step = first; step <= (to_all ? ranks - 1 : first); ++step) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int from = node_of(scenario_, rank);
        const int to = node_of(scenario_, (rank + step) % ranks);
        const auto& senders = workload.senders;
        const bool sends = senders.empty() || std::find(senders.begin(), senders.end(), rank) != senders.end();
        if (!sends || from == to || !cannot_reach(from, to)) continue;
        if (may_go_elsewhere(workload) && !models::shortest_path(topology_, from, to).empty()) continue;
        add("{} sends from {} to {}, which have no direct path{}; the run fails (promise it by expect.error)",
            workload.collective, node(from).name, node(to).name, *cannot_reach(from, to));
        return;  // one is enough to say
      }
    }
  }

  /// Along the cables alone, rather than round the ring or in pairs.
  static bool may_go_elsewhere(const Workload& workload) {
    constexpr const char* kPairs[] = {"alltoall", "sendrecv", "gather", "scatter"};
    const bool in_pairs = std::find(std::begin(kPairs), std::end(kPairs), workload.collective) != std::end(kPairs);
    return !in_pairs && (workload.algorithm == "auto" || workload.algorithm == "mesh");
  }

  /// Why a message cannot go, behind "which have no direct path"; nullopt: it can.
  std::optional<std::string> cannot_reach(int from, int to) const {
    if (!models::direct_paths(topology_, from, to).empty()) return std::nullopt;
    if (asks_for_tcp(from) && asks_for_tcp(to)) return std::nullopt;
    if (models::shortest_path(topology_, from, to).empty()) return ", not even by relay";
    if (!may_relay(from)) return ", and relays are off (NCCL_MESH_ENABLE_RELAY=0)";
    const auto beyond = beyond_relays(cluster_, topology_, from, to);
    if (!beyond) return std::nullopt;
    const std::uint64_t others = all_beyond_relays(cluster_, topology_, nodes_of(scenario_), 0).count - 1;
    return fmt::format(
        ", and the {} cables between them are more than a chain may have (NCCL_MESH_MAX_RELAY_HOPS={}){}",
        beyond->cables, beyond->limit,
        others > 0 ? fmt::format("; so it is with {}", counted(others, "other pair")) : "");
  }

  bool may_relay(int from) const { return !has_variable(node(from), "NCCL_MESH_ENABLE_RELAY", "0"); }

  bool asks_for_tcp(int of) const {
    return has_variable(node(of), "NCCL_MESH_HYBRID_TCP", "1") || has_variable(node(of), "NCCL_MESH_DISABLE_RDMA", "1");
  }
  bool all_ask_for_tcp() const {
    bool all = true;
    for (std::size_t of = 0; of < cluster_.nodes.size(); ++of) all = all && asks_for_tcp(static_cast<int>(of));
    return all;
  }

  static bool has_variable(const models::Node& of, const std::string& name, const std::string& value) {
    const auto& variables = of.environment;
    return std::any_of(variables.begin(), variables.end(),
                       [&](const auto& variable) { return variable.first == name && variable.second == value; });
  }

  /// Fewer ranks than GPUs on a node that runs some; one node is enough to say.
  void idle_gpus() {
    const std::vector<int> all = ranks_by_node(scenario_);
    for (std::size_t index = 0; index < cluster_.nodes.size(); ++index) {
      const auto gpus = cluster_.nodes[index].gpus.size();
      const auto ranks = static_cast<std::size_t>(all[index]);
      if (ranks == 0 || gpus <= ranks) continue;
      add("{} has gpus = {} and runs {} (ranks_per_node): the others do nothing", cluster_.nodes[index].name, gpus,
          counted(ranks, "rank"));
      return;
    }
  }

  /// A name without a slash is looked up by the loader when the ranks run.
  void net_plugin() {
    const std::string& plugin = scenario_.workload.net_plugin;
    std::error_code error;
    if (plugin.find('/') == std::string::npos || std::filesystem::is_regular_file(plugin, error)) return;
    add("workload.net_plugin: there is no file '{}'; the run fails on every rank", plugin);
  }

  /// What Meshbed's own plugin would warn of; each once, for nodes mostly agree.
  void variables() {
    if (!is_ours()) return;
    std::set<std::string> said;
    const auto say = [&](const std::string& what) {
      if (!what.empty() && said.insert(what).second) add("environment: {}", what);
    };
    for (const models::Node& one : cluster_.nodes) {
      const auto setting_of = [&one](const net::VariableInfo& info) {
        const auto given = std::find_if(one.environment.begin(), one.environment.end(),
                                        [&](const auto& entry) { return entry.first == info.name; });
        return net::evaluate(info, given != one.environment.end() ? given->second.c_str() : nullptr);
      };
      const auto of = [&](net::Variable other) { return setting_of(net::kVariables[static_cast<std::size_t>(other)]); };
      for (const net::VariableInfo& info : net::kVariables) say(net::complaint_of(setting_of(info), of));
      for (const auto& [name, value] : one.environment) {
        if (net::is_unknown_mesh_variable(name))
          say(name + " is no variable of the mesh plugin; meshbed env lists them");
      }
    }
    for (const std::string& note : idle_variable_notes(scenario_)) say(note);
    const bool any = std::any_of(cluster_.nodes.begin(), cluster_.nodes.end(), [](const models::Node& one) {
      return has_variable(one, "NCCL_MESH_ALLOW_ROUTED", "1");
    });
    if (any && cluster_.routers.empty()) {
      say("NCCL_MESH_ALLOW_ROUTED=1, and there is no [[router]]: each connection that needs relays first dials in "
          "vain");
    }
  }

  void promises() {
    for (const auto& [left, right] : scenario_.expect.unreachable) {
      const auto paths = models::direct_paths(topology_, find_node(cluster_, left), find_node(cluster_, right));
      if (!paths.empty()) {
        add("expect.unreachable: {} and {} do have a direct path, {} to {}", left, right, name(paths.front().from),
            name(paths.front().to));
      }
    }
  }

  void rings() {
    if (scenario_.workload.kind != WorkloadKind::kMegakernel) return;
    if (const auto problem = ring_slots_problem(scenario_.workload, ranks_of(scenario_))) add("{}", *problem);
    if (const auto finding = residency_finding(scenario_.workload, ranks_of(scenario_))) add("{}", *finding);
  }

  const Scenario& scenario_;
  const models::Cluster& cluster_;
  models::Topology topology_;
  std::set<PortRef> joined_;  // ports that reach another one
  std::vector<std::string> findings_;
};

/// Errors and findings of one file, printed; their number.
std::size_t lint_file(const std::string& path, const std::vector<std::string>& overrides, std::ostream& out) {
  try {
    const Scenario scenario = read_scenario(path, overrides);
    const auto findings = lint_findings(scenario);
    for (const auto& finding : findings) out << path << ": finding: " << finding << "\n";
    for (const auto& line : bond_lines(scenario.cluster)) out << path << ": " << line << "\n";
    if (findings.empty()) out << path << ": ok\n";
    return findings.size();
  } catch (const ScenarioError& error) {
    const std::string text = error.what();
    out << text << "\n";
    return 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
}

}  // namespace

std::vector<std::string> lint_findings(const Scenario& scenario) { return Linter(scenario).run(); }

int lint_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  bool dictionary = false;
  Syntax syntax("lint [options] FILE...");
  syntax.operands.add_options()("file", po::value(&files)->value_name("FILE..."), "scenario files to check");
  syntax.positions.add("file", -1);
  syntax.options.add_options()                                                                                  //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of every file; may be repeated")  //
      ("dictionary", po::bool_switch(&dictionary), "print what a scenario file may say (scenarios/README.md)");
  syntax.only_without({"dictionary"}, {"set"});
  if (!parse_arguments(arguments, syntax, out)) return 0;
  if (dictionary) {
    if (!files.empty()) throw std::runtime_error("lint --dictionary: takes no files");
    out << scenario_dictionary();
    return 0;
  }
  if (files.empty()) throw std::runtime_error("lint: name at least one scenario file");
  std::size_t findings = 0;
  for (const auto& file : files) findings += lint_file(file, overrides, out);
  out << counted(files.size(), "file") << ", " << counted(findings, "finding") << "\n";
  return findings == 0 ? 0 : 1;
}

}  // namespace meshbed::cli
