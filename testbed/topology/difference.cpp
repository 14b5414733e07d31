// The differences between two scenarios, and their effects.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "models/lan/bond.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "sim/engine/network.h"
#include "testbed/base/units.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/questions.h"
#include "testbed/topology/rules.h"
#include "testbed/workload/bounds.h"

namespace meshbed::testbed {
namespace {

using document::Value;

/// Facts of a cluster by their names: "node0/rocep1s0f0" "rate" "200 Gb/s".
using Facts = std::map<std::pair<std::string, std::string>, std::string>;

/// With more nodes, reachability is not compared.
constexpr int kComparedNodesMost = 256;
constexpr std::size_t kPairsShown = 16, kRunsShown = 4;

std::string joined_addresses(const models::Nic& nic) {
  std::string text;
  for (const models::IpPrefix& address : nic.addresses) text += (text.empty() ? "" : ", ") + to_text(address);
  return text.empty() ? "none" : text;
}

void add_node(Facts& facts, const models::Node& node) {
  facts[{"node " + node.name, "exists"}] = "yes";
  facts[{"node " + node.name, "GPUs"}] = std::to_string(node.gpus.size());
  for (const auto& [name, value] : node.environment) facts[{"node " + node.name, "environment " + name}] = value;
  for (const models::Nic& nic : node.nics) {
    const std::string place = "NIC " + node.name + "/" + models::function_name(nic);
    facts[{place, "exists"}] = "yes";
    facts[{place, "addresses"}] = joined_addresses(nic);
    facts[{place, "rate"}] = rate_text(nic.rate_bps);
    facts[{place, "MTU"}] = std::to_string(nic.mtu_bytes);
    facts[{place, "link"}] = nic.link_up ? "up" : "down";
    facts[{place, "netdev"}] = nic.netdev;
    if (nic.vlan != 0) facts[{place, "VLAN"}] = std::to_string(nic.vlan);
    if (nic.pcie >= 0) {
      const models::PcieLink& link = node.pcie[static_cast<std::size_t>(nic.pcie)];
      facts[{place, "PCIe link"}] = link.name + " " + rate_text(link.rate_bps);
    }
  }
}

Facts facts_of(const models::Cluster& cluster) {
  Facts facts;
  for (const models::Node& node : cluster.nodes) add_node(facts, node);
  for (const models::Cable& cable : cluster.cables) {
    // By its ends, so that another name is no other cable.
    std::string first = sim::port_name(cluster, cable.a), second = sim::port_name(cluster, cable.b);
    if (second < first) std::swap(first, second);
    const std::string place = "cable " + first + " - " + second;
    facts[{place, "exists"}] = "yes";
    facts[{place, "rate"}] = rate_text(cable.rate_bps);
    facts[{place, "latency"}] = fmt::format("{} ns", static_cast<double>(cable.propagation_ps) / 1e3);
  }
  for (const models::Switch& box : cluster.switches) {
    const std::string place = "switch " + box.name;
    facts[{place, "exists"}] = "yes";
    facts[{place, "rate"}] = rate_text(box.rate_bps);
    facts[{place, "MTU"}] = box.mtu_bytes == 0 ? "any" : std::to_string(box.mtu_bytes);
    for (const models::PortRef port : box.ports) facts[{place, "port " + sim::port_name(cluster, port)}] = "yes";
  }
  for (const models::Router& router : cluster.routers) {
    facts[{"router " + router.name, "exists"}] = "yes";
    facts[{"router " + router.name, "rate"}] = rate_text(router.rate_bps);
  }
  return facts;
}

/// Reachability by node names: 1 over a cable, more over relays, 0 not at all.
struct Reach {
  std::map<std::pair<std::string, std::string>, int> mesh;
  std::map<std::pair<std::string, std::string>, bool> nccl;  // on every channel
};

Reach reach_of(const Scenario& scenario) {
  Reach reach;
  const models::Cluster& cluster = scenario.cluster;
  const models::Topology topology = models::analyse(cluster);
  const MeshRules mesh(cluster, topology, nodes_of(scenario));
  const models::NcclRouting nccl(cluster, {});
  const int nodes = static_cast<int>(cluster.nodes.size());
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (from == to) continue;
      const std::pair key(cluster.at(from).name, cluster.at(to).name);
      const MeshAim aim = mesh.aim(from, to, 0, -1, false);
      reach.mesh[key] = aim.aim == models::Aim::kReached ? std::max(1, aim.cables) : 0;
      const int channels = std::max(1, static_cast<int>(nccl.nics(from).size()));
      bool all = true;
      for (int channel = 0; channel < channels; ++channel) {
        all = all && nccl.aim(from, to, channel).aim == models::Aim::kReached;
      }
      reach.nccl[key] = all;
    }
  }
  return reach;
}

/// 0: nothing can be said.
double bound_us(const Scenario& scenario) {
  if (scenario.workload.kind != WorkloadKind::kCollective) return 0;
  CollectiveCase wanted;
  wanted.op = *models::parse_collective(scenario.workload.collective);
  wanted.bytes = scenario.workload.bytes;
  wanted.root = scenario.workload.root;
  wanted.shift = scenario.workload.shift;
  wanted.senders = scenario.workload.senders;
  const CollectiveShape shape = shape_of(wanted.op, wanted.bytes, ranks_of(scenario), wanted.type);
  const Bounds bounds = BoundTable(scenario, {}, {}).of(wanted, shape.bytes);
  return static_cast<double>(bounds.any_algorithm_ps) / 1e6;
}

document::Section difference_shape() {
  using document::integer, document::number, document::text;
  document::Section section{.title = "Difference"};
  section.with(
      {text("old", "the first scenario"), text("new", "the second scenario"),
       integer("differences", "", "of nodes, NICs, cables, switches, environment and workload"),
       number("old_bound_us", "us", "lower bound of the workload's time on the cabling, all links up").or_null(),
       number("new_bound_us", "us", "likewise, of the second one").or_null()});
  section.with(document::Table{
      .key = "changes",
      .meaning = "what differs",
      .columns = {text("place", "a node, NIC, cable, switch, or the workload").shown("place", 46, "  ").left(),
                  text("what", "exists, addresses, rate, ...").shown("what", 14).left(),
                  text("old", "empty: not there").shown("old", 22).left(),
                  text("new", "empty: not there").shown("new", 22).left()}});
  section.with(document::Table{
      .key = "reach",
      .meaning = "pairs of nodes that reach each other in one scenario alone, or by more or fewer cables",
      .columns = {text("who", "mesh, or nccl: stock NCCL 2.30.7 on every channel").shown("who", 6, "  ").left(),
                  text("from", "").shown("from", 10).left(), text("to", "").shown("to", 10).left(),
                  text("old", "").shown("old", 14).left(), text("new", "").shown("new", 14).left(),
                  text("command", "a run that shows it; empty where the second one reaches it, and for NCCL")}});
  section.with(document::Table{.key = "findings",
                               .meaning = "findings of lint that came or went",
                               .columns = {text("change", "came or went").shown("", 5, "  ").left(),
                                           text("finding", "as lint prints it").shown("finding", 20).left()}});
  return section;
}

class Difference {
 public:
  Difference(const Scenario& older, const Scenario& newer)
      : older_(older), newer_(newer), section_(difference_shape()) {}

  document::Document document() {
    section_.set("old", older_.name);
    section_.set("new", newer_.name);
    changes();
    reach();
    findings();
    const double was_us = bound_us(older_), is_us = bound_us(newer_);
    section_.set("old_bound_us", document::known_value(was_us > 0, was_us));
    section_.set("new_bound_us", document::known_value(is_us > 0, is_us));
    section_.set("differences", section_.table("changes").rows.size());
    lines(was_us, is_us);
    return {.title = "topo diff", .sections = {std::move(section_)}};
  }

 private:
  void changes() {
    const Facts was = facts_of(older_.cluster), is = facts_of(newer_.cluster);
    document::Table& table = section_.table("changes");
    std::set<std::pair<std::string, std::string>> keys;
    for (const auto& [key, value] : was) keys.insert(key);
    for (const auto& [key, value] : is) keys.insert(key);
    const auto at = [](const Facts& facts, const auto& key) {
      const auto found = facts.find(key);
      return found != facts.end() ? found->second : std::string();
    };
    for (const auto& key : keys) {
      const std::pair exists(key.first, std::string("exists"));
      // Of what is in one scenario alone one line is enough.
      const bool in_both = was.contains(exists) && is.contains(exists);
      if (key.second != "exists" && !in_both) continue;
      if (at(was, key) != at(is, key)) table.add({key.first, key.second, at(was, key), at(is, key)});
    }
    const auto compare = [&](const char* what, const std::string& old_value, const std::string& new_value) {
      if (old_value != new_value) table.add({"workload", what, old_value, new_value});
    };
    compare("ranks", std::to_string(ranks_of(older_)), std::to_string(ranks_of(newer_)));
    compare("collective", older_.workload.collective, newer_.workload.collective);
    compare("bytes", size_text(older_.workload.bytes), size_text(newer_.workload.bytes));
    compare("algorithm", older_.workload.algorithm, newer_.workload.algorithm);
  }

  static std::string mesh_text(int cables) {
    if (cables == 0) return "not";
    return cables == 1 ? "direct" : fmt::format("{} cables", cables);
  }

  void reach() {
    if (std::max(older_.cluster.nodes.size(), newer_.cluster.nodes.size()) > kComparedNodesMost) return;
    const Reach was = reach_of(older_), is = reach_of(newer_);
    document::Table& table = section_.table("reach");
    for (const auto& [pair, cables] : is.mesh) {
      const auto before = was.mesh.find(pair);
      if (before == was.mesh.end() || before->second == cables) continue;
      std::string command;
      if (cables == 0) {
        const document::Document why =
            why_document(newer_, node_named(newer_, pair.first), node_named(newer_, pair.second));
        for (const auto& [field, value] : why.sections.front().fields) {
          if (field.key == "commands" && !value.empty()) command = value.front().get<std::string>();
        }
      }
      table.add({"mesh", pair.first, pair.second, mesh_text(before->second), mesh_text(cables), command});
    }
    for (const auto& [pair, reached] : is.nccl) {
      const auto before = was.nccl.find(pair);
      if (before == was.nccl.end() || before->second == reached) continue;
      table.add({"nccl", pair.first, pair.second, before->second ? "reached" : "not", reached ? "reached" : "not", ""});
    }
  }

  void findings() {
    const std::vector<std::string> was = finding_lines(older_), is = finding_lines(newer_);
    document::Table& table = section_.table("findings");
    for (const std::string& line : is) {
      if (std::find(was.begin(), was.end(), line) == was.end()) table.add({"came", line});
    }
    for (const std::string& line : was) {
      if (std::find(is.begin(), is.end(), line) == is.end()) table.add({"went", line});
    }
  }

  void lines(double was_us, double is_us) {
    section_.line("{} and {}", older_.name, newer_.name);
    if (section_.table("changes").rows.empty()) {
      section_.line("nothing that is compared differs");
    } else {
      section_.blank();
      section_.show("changes");
    }
    section_.blank();
    if (section_.table("reach").rows.empty()) {
      section_.line("who reaches whom: no change");
    } else {
      section_.show("reach", kPairsShown);
      std::size_t shown = 0;
      for (const document::Row& row : section_.table("reach").rows) {
        const std::string command = row.cells[5].get<std::string>();
        if (command.empty() || ++shown > kRunsShown) continue;
        section_.line("{} to {} is shown by: {}", row.cells[1].get<std::string>(), row.cells[2].get<std::string>(),
                      command);
      }
    }
    section_.blank();
    if (section_.table("findings").rows.empty()) {
      section_.line("findings: no change");
    } else {
      section_.show("findings");
    }
    if (was_us > 0 && is_us > 0) {
      section_.blank();
      section_.line("lower bound of the workload: {:.1f} us, now {:.1f} us ({:+.1f} %)", was_us, is_us,
                    (is_us / was_us - 1) * 100);
    }
  }

  const Scenario& older_;
  const Scenario& newer_;
  document::Section section_;
};

}  // namespace

document::Document difference_document(const Scenario& older, const Scenario& newer) {
  return Difference(older, newer).document();
}

}  // namespace meshbed::testbed
