// The sources of these statements, all of NCCL v2.30.7-1:
// - Devices and their choice by subnet: models/routing_rules.h names the lines.
// - No relays: a channel's peer is connected by the net device itself (src/transport/net.cc); nothing forwards.
// - Rings join node n with node n + 1, numbered by their first rank (src/init.cc 1290-1301, src/graph/connect.cc
// 95-113).
// - At init rings, trees and, with one GPU a node, PAT are connected with every NCCL_ALGO, unless runtimeConn is set
//   (src/init.cc 1552-1568); then each algorithm is connected by the first collective that uses it (src/group.cc
//   147-190). runtimeConn needs NCCL_RUNTIME_CONNECT, 1 by default (src/init.cc 61), and cuMem on every rank
//   (src/init.cc 719, 1040-1049): NCCL_CUMEM_ENABLE, by default on where the driver is CUDA 12.0 or later and the GPU
//   has virtual memory management (src/misc/cudawrap.cc 16-51).
// - Which nodes trees and PAT join: plugin/nccl/tuner_price.h.
// - Send and receive, and with them all-to-all, connect the two ranks themselves (src/transport.cc).

#include "testbed/topology/stock_nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "models/nccl_environment.h"
#include "plugin/base/counted.h"
#include "plugin/nccl/tuner_price.h"
#include "plugin/net/process/mesh_graph.h"

namespace meshbed::testbed {
namespace {

std::string joined_text(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

/// "node0, node1 and 2 more nodes"
std::string nodes_text(const models::Cluster& cluster, const std::vector<int>& nodes) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(cluster.at(node).name);
  if (names.size() <= kNamed) return joined_text(names, ", ");
  const std::size_t more = names.size() - kNamed;
  names.resize(kNamed);
  return joined_text(names, ", ") + " and " + counted(more, "more node");
}

/// NAME=VALUE of the routing variables that nodes of the job set, each once.
std::vector<std::string> routing_variables(const StockNcclQuestion& question, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    for (int node = 0; node < question.nodes; ++node) {
      for (std::string& one : models::set_variables(question.cluster.at(node), {name})) {
        if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(std::move(one));
      }
    }
  }
  return found;
}

std::vector<std::string> all_routing_variables() {
  return {models::kRoutingVariables.begin(), models::kRoutingVariables.end()};
}

/// "its defaults", "NCCL_IB_MERGE_NICS=0 (set) and NCCL_IB_SUBNET_AWARE_ROUTING=1"
std::string with_text(const std::vector<std::string>& set, const std::string& more) {
  if (set.empty()) return more.empty() ? "its defaults" : more;
  const std::string given = joined_text(set, " ") + " as the environment sets it";
  return more.empty() ? given : given + ", and " + more;
}

/// The job's nodes as a graph of cables, switches and routers, numbered as NCCL does.
class Nodes {
 public:
  explicit Nodes(const StockNcclQuestion& question) : question_(question), order_(question.nodes_by_rank) {
    for (const int node : order_) neighbours_.push_back(models::neighbours(question.topology, node));
  }

  bool joined(int left, int right) const {
    const std::vector<int>& mine = neighbours_[static_cast<std::size_t>(left)];
    return std::binary_search(mine.begin(), mine.end(), order_[static_cast<std::size_t>(right)]);
  }
  int size() const { return static_cast<int>(order_.size()); }

  /// An order of NCCL's numbers whose ring runs over cables alone; the given one where it does. nullopt: there is none.
  /// `known`: false where the search for one would take too long.
  std::optional<std::vector<int>> ring(bool& known) const {
    known = true;
    std::vector<int> order;
    for (int node = 0; node < size(); ++node) order.push_back(node);
    if (runs_over_cables(order)) return order;
    if (size() > net::MeshGraph::kNodesMost) {
      known = false;
      return std::nullopt;
    }
    net::MeshGraph graph(size());
    for (int left = 0; left < size(); ++left) {
      for (int right = left + 1; right < size(); ++right) {
        if (joined(left, right)) graph.join(left, right);
      }
    }
    if (!graph.connected()) return std::nullopt;
    order = graph.shortest_tour();
    if (!runs_over_cables(order)) return std::nullopt;
    return order;
  }

  /// Trees, or PAT, of ranks in that order join two nodes without a cable.
  bool needs_others(const std::vector<int>& order, const std::vector<nccl::Edge>& edges) const {
    return std::any_of(edges.begin(), edges.end(), [&](const nccl::Edge& edge) {
      return !joined(order[static_cast<std::size_t>(edge.from)], order[static_cast<std::size_t>(edge.to)]);
    });
  }

  std::string text_of(const std::vector<int>& order) const {
    std::string text;
    for (const int number : order) {
      const int node = order_[static_cast<std::size_t>(number)];
      text += (text.empty() ? "" : " - ") + question_.cluster.at(node).name;
    }
    return text;
  }

 private:
  bool runs_over_cables(const std::vector<int>& order) const {
    for (std::size_t at = 0; at < order.size(); ++at) {
      if (!joined(order[at], order[(at + 1) % order.size()])) return false;
    }
    return true;
  }

  const StockNcclQuestion& question_;
  const std::vector<int>& order_;
  std::vector<std::vector<int>> neighbours_;  // [NCCL's number], by node
};

/// Settings with which trees are connected at init.
std::vector<std::string> connects_trees(const StockNcclQuestion& question) {
  std::vector<std::string> against;
  for (const std::string& one : routing_variables(question, {"NCCL_CUMEM_ENABLE", "NCCL_RUNTIME_CONNECT"})) {
    if (one.substr(one.find('=')) == "=0") against.push_back(one);
  }
  return against;
}

std::vector<std::string> other_algorithms(const StockNcclQuestion& question) {
  std::vector<std::string> algorithm = routing_variables(question, {"NCCL_ALGO"});
  const bool other = std::any_of(algorithm.begin(), algorithm.end(), [](const std::string& one) {
    std::string value = one.substr(one.find('=') + 1);
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char letter) { return std::tolower(letter); });
    return value != "ring";
  });
  if (!other) algorithm.clear();
  return algorithm;
}

/// Whether trees can be left unconnected, and what stands against it.
std::string tree_text(const StockNcclQuestion& question) {
  const std::vector<std::string> against = connects_trees(question);
  if (!against.empty()) {
    return fmt::format(
        "It fails at init: with {} NCCL connects trees between such nodes with every NCCL_ALGO (init.cc 1552-1568).\n"
        "Remove {} from the environment.\n",
        joined_text(against, " and "), against.size() == 1 ? "it" : "them");
  }
  return "That needs cuMem and runtime connect (NCCL_CUMEM_ENABLE and NCCL_RUNTIME_CONNECT not 0; both are on by\n"
         "default from CUDA driver 12.0 on). Without them NCCL connects trees between such nodes at init, with\n"
         "every NCCL_ALGO, and fails (init.cc 1552-1568): SGLang and others set NCCL_CUMEM_ENABLE=0.\n";
}

/// What remains possible where some nodes share no cable.
std::string relay_text(const StockNcclQuestion& question) {
  const std::uint64_t far = question.far_channels;
  std::string text = fmt::format(
      "but it does not relay: {} between nodes that share no cable {} lost, send and receive between them\n"
      "(all-to-all, too) fail, ",
      counted(far, "channel"), far == 1 ? "is" : "are");
  const Nodes nodes(question);
  bool known = true;
  const auto order = nodes.ring(known);
  if (!order) {
    return text +
           (known ? "and no ring of cables joins all nodes: no algorithm of NCCL's works on this cabling\n"
                  : "and NCCL_ALGO=Ring works only with ranks in the order of a ring of cables, if there is one\n");
  }
  text += fmt::format("so that only a ring of neighbours works:\nNCCL_ALGO=Ring with ranks in the order {}\n",
                      nodes.size() > net::MeshGraph::kNodesMost ? "of the nodes" : nodes.text_of(*order));
  const std::vector<std::string> algorithm = other_algorithms(question);
  if (!algorithm.empty())
    text += "The environment sets " + joined_text(algorithm, " and ") + ", with which it fails.\n";
  const bool trees = nodes.needs_others(*order, nccl::tree_edges(nodes.size())) ||
                     nodes.needs_others(*order, nccl::pat_edges(nodes.size()));
  return trees ? text + tree_text(question) : text;
}

}  // namespace

StockNcclFacts stock_nccl_facts(const StockNcclQuestion& question) {
  StockNcclFacts facts;
  if (question.near_channels == 0) return facts;
  facts.working =
      models::settings_that_work(question.cluster, question.topology, question.nodes, question.crosses_rails);
  if (question.far_channels == 0) return facts;
  const Nodes nodes(question);
  const auto order = nodes.ring(facts.is_ring_known);
  if (!order) return facts;
  facts.ring_order = nodes.size() > net::MeshGraph::kNodesMost ? "of the nodes" : nodes.text_of(*order);
  facts.needs_other_joins = nodes.needs_others(*order, nccl::tree_edges(nodes.size())) ||
                            nodes.needs_others(*order, nccl::pat_edges(nodes.size()));
  facts.against = connects_trees(question);
  facts.other_algorithm = other_algorithms(question);
  return facts;
}

std::vector<std::string> left_out_lines(const models::Cluster& cluster, int nodes) {
  std::vector<std::string> lines;
  std::map<std::string, std::pair<std::set<std::string>, std::vector<int>>> out;  // [setting] NICs, nodes
  for (const models::LeftOutNic& one : models::left_out_nics(cluster)) {
    if (one.port.node >= nodes) continue;
    auto& [names, on] = out[one.setting];
    names.insert(cluster.nic_of(one.port).device);
    if (on.empty() || on.back() != one.port.node) on.push_back(one.port.node);
  }
  for (const auto& [setting, what] : out) {
    lines.push_back(fmt::format("{} leaves out {} of {}", setting,
                                joined_text({what.first.begin(), what.first.end()}, ", "),
                                nodes_text(cluster, what.second)));
  }
  return lines;
}

std::vector<std::string> environment_lines(const models::Cluster& cluster, int nodes) {
  std::vector<std::string> lines = left_out_lines(cluster, nodes);
  if (!lines.empty())
    lines.emplace_back("nccl-mesh-plugin reads neither NCCL_IB_HCA nor NCCL_IB_GID_INDEX, and takes all NICs");
  std::map<std::string, std::vector<int>> set, silent;
  for (int node = 0; node < nodes; ++node) {
    const models::Node& one = cluster.at(node);
    for (const std::string& setting :
         models::set_variables(one, {"NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_MERGE_NICS", "NCCL_IB_SUBNET_PREFIX_LEN",
                                     "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM"})) {
      set[setting].push_back(node);
    }
    if (!models::has_socket_interface(one)) {
      silent["NCCL_SOCKET_IFNAME=" + models::variable_of(one, "NCCL_SOCKET_IFNAME").value_or("")].push_back(node);
    }
  }
  for (const auto& [setting, on] : set) {
    lines.push_back(fmt::format("{} holds in each of NCCL's columns, on {}", setting, nodes_text(cluster, on)));
  }
  for (const auto& [setting, on] : silent) {
    lines.push_back(fmt::format("{} leaves no interface of {}: no bootstrap, so that nothing starts there", setting,
                                nodes_text(cluster, on)));
  }
  return lines;
}

std::string stock_nccl_report(const StockNcclQuestion& question) {
  if (question.near_channels == 0) return "stock NCCL: no two nodes share a cable or switch: no setting helps\n";
  const auto working =
      models::settings_that_work(question.cluster, question.topology, question.nodes, question.crosses_rails);
  const std::vector<std::string> given = routing_variables(question, all_routing_variables());
  if (!working) {
    return "stock NCCL: none of NCCL_IB_SUBNET_AWARE_ROUTING, NCCL_IB_MERGE_NICS, NCCL_IB_SUBNET_PREFIX_LEN and "
           "NCCL_IB_ADDR_FAMILY\nmakes it reach every neighbour on this cabling" +
           (given.empty() ? std::string() : ", neither with nor without " + joined_text(given, " ")) + "\n";
  }
  std::vector<std::string> kept;
  for (const std::string& one : given) {
    const std::string name = one.substr(0, one.find('='));
    if (std::find(working->without.begin(), working->without.end(), name) == working->without.end()) {
      kept.push_back(one);
    }
  }
  std::string text;
  if (working->without.empty()) {
    text = "stock NCCL reaches every neighbour on this cabling with " + with_text(kept, working->text) + "\n";
  } else {
    text = "stock NCCL does not reach every neighbour with " + joined_text(given, " ") +
           ", as the environment sets it.\nWithout " + joined_text(working->without, " and ") +
           " it reaches every neighbour on this cabling with " + with_text(kept, working->text) + "\n";
  }
  return question.far_channels > 0 ? text + relay_text(question) : text;
}

}  // namespace meshbed::testbed
