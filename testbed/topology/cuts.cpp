// The single failures that partition a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "models/topology.h"
#include "sim/engine/network.h"
#include "testbed/scenario/findings/reach.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/questions.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

/// One thing that may fail, and the ports that go with it.
struct Failing {
  const char* kind;  // "cable", "switch", "nic", "node"
  std::string name;
  std::vector<models::PortRef> ports;
  int node = -1;  // of a node: it does not count as cut off
};

std::vector<Failing> all_failing(const models::Cluster& cluster) {
  std::vector<Failing> all;
  for (const models::Cable& cable : cluster.cables) all.push_back({"cable", cable.name, {cable.a, cable.b}});
  for (const models::Switch& box : cluster.switches) all.push_back({"switch", box.name, box.ports});
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < cluster.nodes[node].nics.size(); ++nic) {
      const models::PortRef port{static_cast<int>(node), static_cast<int>(nic)};
      all.push_back({"nic", sim::port_name(cluster, port), {port}});
    }
  }
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    Failing one{"node", cluster.nodes[node].name, {}, static_cast<int>(node)};
    for (std::size_t nic = 0; nic < cluster.nodes[node].nics.size(); ++nic) {
      one.ports.push_back({static_cast<int>(node), static_cast<int>(nic)});
    }
    all.push_back(std::move(one));
  }
  return all;
}

/// The nodes that still reach one another, by cables and relays; without `lost`.
std::vector<std::vector<int>> parts_of(const models::Cluster& cluster, int nodes, int lost) {
  const models::Topology topology = models::analyse(as_plugin_takes_it(cluster));
  std::vector<std::vector<int>> parts;
  std::vector<bool> seen(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    if (node == lost || seen[static_cast<std::size_t>(node)]) continue;
    const std::vector<int> hops = models::hop_counts(topology, node);
    std::vector<int> part;
    for (int other = node; other < nodes; ++other) {
      if (other == lost || hops[static_cast<std::size_t>(other)] < 0) continue;
      seen[static_cast<std::size_t>(other)] = true;
      part.push_back(other);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// The first pair that Mesh's rules do not join, although a chain of cables does: too long, or relays are off.
std::pair<int, int> first_unreached(const models::Cluster& cluster, int nodes, int lost) {
  const models::Topology topology = models::analyse(cluster);
  const MeshRules mesh(cluster, topology, nodes);
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (from == to || from == lost || to == lost) continue;
      if (mesh.aim(from, to, 0, -1, false).aim != models::Aim::kReached) return {from, to};
    }
  }
  return {-1, -1};
}

std::string parts_text(const models::Cluster& cluster, const std::vector<std::vector<int>>& parts) {
  std::string text;
  for (const std::vector<int>& part : parts) {
    text += text.empty() ? "" : " | ";
    for (std::size_t at = 0; at < part.size(); ++at) text += (at == 0 ? "" : ", ") + cluster.at(part[at]).name;
  }
  return text;
}

document::Section cuts_shape() {
  using document::flag, document::integer, document::text;
  document::Section section{.title = "Cuts"};
  section.with({integer("looked_at", "", "cables, switches, NICs and nodes, each out alone"),
                integer("partition", "", "of those, whose loss partitions the nodes that are left"),
                flag("whole", "all nodes reach each other with nothing out")});
  section.with(document::Table{
      .key = "cuts",
      .meaning = "what partitions the nodes that are left, alone",
      .columns = {text("kind", "cable, switch, nic or node").shown("", 7, "  ").left(),
                  text("name", "as faults name it").shown("lost", 24).left(),
                  text("parts", "nodes that reach one another, parts divided by |").shown("what is left", 30).left(),
                  text("why", "no-path: no cables lead across; out-of-reach: relays are off or a chain is too long"),
                  text("command", "a run that shows it")}});
  return section;
}

}  // namespace

document::Document cuts_document(const Scenario& scenario) {
  const models::Cluster& cluster = scenario.cluster;
  const int nodes = static_cast<int>(cluster.nodes.size());
  if (cluster.nodes.size() > kCutNodesMost) {
    throw std::runtime_error(
        fmt::format("topo cuts: not above {} nodes, and there are {}; cut the scenario down", kCutNodesMost, nodes));
  }
  document::Section section = cuts_shape();
  const bool whole = parts_of(cluster, nodes, -1).size() <= 1 && first_unreached(cluster, nodes, -1).first < 0;
  const std::vector<Failing> all = all_failing(cluster);
  document::Table& table = section.table("cuts");
  for (const Failing& failing : all) {
    models::Cluster left = cluster;
    std::vector<std::string> settings;
    for (const models::PortRef port : failing.ports) {
      models::Nic& nic = left.nic_of(port);
      if (nic.link_up) {
        settings.push_back(fmt::format("node.{}.nic.{}.link=down", cluster.at(port.node).name, nic.device));
      }
      nic.link_up = false;
    }
    if (settings.empty()) continue;  // it carries nothing anyway
    const auto parts = parts_of(left, nodes, failing.node);
    std::pair<int, int> pair{-1, -1};
    if (parts.size() > 1) {
      pair = {parts[0].front(), parts[1].front()};
    } else if (whole) {
      pair = first_unreached(left, nodes, failing.node);
    }
    if (pair.first < 0) continue;
    table.add({failing.kind, failing.name,
               parts.size() > 1
                   ? parts_text(cluster, parts)
                   : fmt::format("{} does not reach {}", cluster.at(pair.first).name, cluster.at(pair.second).name),
               parts.size() > 1 ? "no-path" : "out-of-reach",
               failing_send_command(scenario, pair.first, pair.second, "no path", settings, failing.node)});
  }
  section.set("looked_at", all.size());
  section.set("partition", table.rows.size());
  section.set("whole", whole);
  if (!whole) section.line("{}: not all nodes reach each other with nothing lost (topo check)", scenario.name);
  section.line("{}: each of {} alone: the loss of {} partitions the others", scenario.name,
               fmt::format("{} cables, switches, NICs and nodes", all.size()),
               table.rows.empty() ? "none" : std::to_string(table.rows.size()));
  if (!table.rows.empty()) {
    section.blank();
    section.show("cuts");
    section.blank();
    for (const document::Row& row : table.rows) {
      section.line("{} {} is shown by: {}", row.cells[0].get<std::string>(), row.cells[1].get<std::string>(),
                   row.cells[4].get<std::string>());
    }
  }
  return {.title = "topo cuts", .sections = {std::move(section)}};
}

}  // namespace meshbed::testbed
