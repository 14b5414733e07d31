// The cabling as a graph: SimGrid's platform, Graphviz, InfraGraph.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "models/topology.h"
#include "sim/engine/network.h"
#include "testbed/base/units.h"
#include "testbed/base/xml_text.h"
#include "testbed/export/export.h"

namespace meshbed::testbed {
namespace {

std::string seconds(Picoseconds time_ps) { return fmt::format("{}ps", time_ps); }

/// Inside double quotes of DOT, JSON and YAML.
std::string in_quotes(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out;
}

/// Of formats in which a switch has no boxes.
void refuse_boxes(const models::Cluster& cluster, const char* format) {
  for (const models::Switch& network : cluster.switches) {
    if (network.boxes.empty()) continue;
    throw std::runtime_error(
        fmt::format("--to {}: {} consists of {} boxes that {} trunks join, which is not written "
                    "there; --to graphviz has them",
                    format, network.name, network.boxes.size(), network.trunks.size()));
  }
}

std::string subnets_of(const models::Nic& nic) {
  std::string text;
  for (const models::IpPrefix& address : nic.addresses) text += (text.empty() ? "" : "\\n") + to_text(address);
  return text;
}

/// A link of its own for each direction of the port of a switch.
std::string switch_link(const models::Cluster& cluster, const models::Switch& box, models::PortRef port) {
  return fmt::format("{}-{}", sim::port_name(cluster, port), box.name);
}

std::string platform_route(const std::string& from, const std::string& to, const std::string& link) {
  return fmt::format(
      "    <route src=\"{0}\" dst=\"{1}\" symmetrical=\"NO\"><link_ctn id=\"{2}\" direction=\"UP\"/>"
      "</route>\n    <route src=\"{1}\" dst=\"{0}\" symmetrical=\"NO\"><link_ctn id=\"{2}\" "
      "direction=\"DOWN\"/></route>\n",
      xml_text(from), xml_text(to), xml_text(link));
}

std::string platform_link(const std::string& name, std::uint64_t rate_bps, Picoseconds latency_ps) {
  return fmt::format("    <link id=\"{}\" bandwidth=\"{}bps\" latency=\"{}\" sharing_policy=\"SPLITDUPLEX\"/>\n",
                     xml_text(name), rate_bps, seconds(latency_ps));
}

}  // namespace

/// Floyd routing finds the chains of cables. A pair of nodes has one route, so of parallel cables the first one counts.
std::vector<ExportedFile> simgrid_platform(const Scenario& scenario) {
  refuse_boxes(scenario.cluster, "simgrid");
  const models::Cluster& cluster = scenario.cluster;
  std::string hosts, links, routes;
  for (const models::Node& node : cluster.nodes) {
    hosts += fmt::format("    <host id=\"{}\" speed=\"1Gf\"/>\n", xml_text(node.name));
  }
  for (const models::Switch& box : cluster.switches) {
    hosts += fmt::format("    <router id=\"{}\"/>\n", xml_text(box.name));
  }
  std::set<std::pair<std::string, std::string>> joined;
  const auto join = [&](const std::string& one, const std::string& other, const std::string& link) {
    if (one == other || !joined.insert(std::minmax(one, other)).second) return false;
    routes += platform_route(one, other, link);
    return true;
  };
  for (const models::Cable& cable : cluster.cables) {
    links += platform_link(cable.name, cable.rate_bps, cable.propagation_ps);
    join(cluster.at(cable.a.node).name, cluster.at(cable.b.node).name, cable.name);
  }
  for (const models::Switch& box : cluster.switches) {
    for (const models::PortRef port : box.ports) {
      const std::string link = switch_link(cluster, box, port);
      links += platform_link(link, std::min(box.rate_bps, cluster.nic_of(port).rate_bps),
                             box.propagation_ps + box.latency_ps / 2);
      join(cluster.at(port.node).name, box.name, link);
    }
  }
  return {{"",
           "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
           "<platform version=\"4.1\">\n  <zone id=\"mesh\" routing=\"Floyd\">\n" +
               hosts + links + routes + "  </zone>\n</platform>\n"}};
}

std::vector<ExportedFile> graphviz_graph(const Scenario& scenario) {
  const models::Cluster& cluster = scenario.cluster;
  std::string text = fmt::format("graph \"{}\" {{\n  node [shape=box];\n", in_quotes(scenario.name));
  for (const models::Node& node : cluster.nodes) text += fmt::format("  \"{}\";\n", in_quotes(node.name));
  for (const models::Switch& box : cluster.switches) {
    for (const std::string& name : box.boxes.empty() ? std::vector<std::string>{box.name} : box.boxes) {
      text += fmt::format("  \"{}\" [shape=ellipse];\n", in_quotes(name));
    }
  }
  for (const models::Cable& cable : cluster.cables) {
    const models::Nic &a = cluster.nic_of(cable.a), &b = cluster.nic_of(cable.b);
    text += fmt::format("  \"{}\" -- \"{}\" [label=\"{}\\n{}\", taillabel=\"{}\\n{}\", headlabel=\"{}\\n{}\"];\n",
                        in_quotes(cluster.at(cable.a.node).name), in_quotes(cluster.at(cable.b.node).name),
                        in_quotes(cable.name), rate_text(cable.rate_bps), in_quotes(a.device), subnets_of(a),
                        in_quotes(b.device), subnets_of(b));
  }
  for (const models::Switch& box : cluster.switches) {
    for (const models::Trunk& trunk : box.trunks) {
      text +=
          fmt::format("  \"{}\" -- \"{}\" [label=\"{}\"];\n", in_quotes(box.boxes[static_cast<std::size_t>(trunk.a)]),
                      in_quotes(box.boxes[static_cast<std::size_t>(trunk.b)]), rate_text(trunk.rate_bps));
    }
    for (std::size_t number = 0; number < box.ports.size(); ++number) {
      const models::PortRef port = box.ports[number];
      const models::Nic& nic = cluster.nic_of(port);
      const std::string& its =
          box.boxes.empty() ? box.name : box.boxes[static_cast<std::size_t>(box.box_of_port[number])];
      text += fmt::format("  \"{}\" -- \"{}\" [label=\"{}\", taillabel=\"{}\\n{}\"];\n",
                          in_quotes(cluster.at(port.node).name), in_quotes(its),
                          rate_text(std::min(box.rate_bps, nic.rate_bps)), in_quotes(nic.device), subnets_of(nic));
    }
  }
  return {{"", text + "}\n"}};
}

namespace {

/// The text of an InfraGraph file, part by part.
class InfraGraph {
 public:
  explicit InfraGraph(const Scenario& scenario) : scenario_(scenario), cluster_(scenario.cluster) {}

  std::string write() {
    for (const models::Node& node : cluster_.nodes) add_node(node);
    for (const models::Switch& box : cluster_.switches) add_switch(box);
    for (const models::Cable& cable : cluster_.cables) {
      add_edge(end_of(cable.a), end_of(cable.b), cable.rate_bps);
    }
    for (const models::Switch& box : cluster_.switches) {
      for (std::size_t port = 0; port < box.ports.size(); ++port) {
        add_edge(end_of(box.ports[port]), {box.name, fmt::format("port[{}]", port)},
                 std::min(box.rate_bps, cluster_.nic_of(box.ports[port]).rate_bps));
      }
    }
    std::string links;
    for (const auto& [rate, name] : links_) {
      links += fmt::format(
          "- name: {}\n  physical:\n    bandwidth:\n      choice: gigabits_per_second\n"
          "      gigabits_per_second: {}\n",
          name, static_cast<double>(rate) / 1e9);
    }
    return fmt::format(
        "name: \"{}\"\ndescription: \"{}\"\ndevices:\n{}instances:\n{}links:\n{}edges:\n{}"
        "annotations:\n  nodes:\n{}",
        in_quotes(scenario_.name), in_quotes(scenario_.description), devices_, instances_, links, edges_, annotations_);
  }

 private:
  struct End {
    std::string instance, component;
  };

  static std::string component(const std::string& choice, const std::string& name, std::size_t count) {
    return fmt::format("  - choice: {}\n    name: \"{}\"\n    count: {}\n", choice, in_quotes(name), count);
  }

  void add_node(const models::Node& node) {
    std::string components = component("cpu", "cpu", 1), edges;
    if (!node.gpus.empty()) components += component("xpu", "xpu", node.gpus.size());
    for (const models::Nic& nic : node.nics) {
      components += component("nic", nic.device, 1);
      edges += fmt::format(
          "  - ep1: {{component: \"{}\"}}\n    ep2: {{component: cpu}}\n    link: pcie\n"
          "    scheme: one2one\n",
          in_quotes(nic.device));
      annotate(node, nic);
    }
    devices_ += fmt::format("- name: \"{}-device\"\n  components:\n{}  links:\n  - name: pcie\n  edges:\n{}",
                            in_quotes(node.name), components, edges.empty() ? "  []\n" : edges);
    add_instance(node.name);
  }

  void add_switch(const models::Switch& box) {
    devices_ += fmt::format(
        "- name: \"{}-device\"\n  components:\n{}{}  links:\n  - name: ic\n  edges:\n"
        "  - ep1: {{component: asic}}\n    ep2: {{component: port}}\n    link: ic\n"
        "    scheme: many2many\n",
        in_quotes(box.name), component("cpu", "asic", 1), component("port", "port", box.ports.size()));
    add_instance(box.name);
  }

  void add_instance(const std::string& name) {
    instances_ += fmt::format("- name: \"{0}\"\n  device: \"{0}-device\"\n  count: 1\n", in_quotes(name));
  }

  void annotate(const models::Node& node, const models::Nic& nic) {
    annotations_ +=
        fmt::format("  - name: \"{}.0.{}.0\"\n    attributes:\n", in_quotes(node.name), in_quotes(nic.device));
    for (const models::IpPrefix& address : nic.addresses) {
      annotations_ += fmt::format("    - {{attribute: ipaddress, value: \"{}\"}}\n", to_text(address));
    }
    annotations_ += fmt::format("    - {{attribute: mtu, value: \"{}\"}}\n    - {{attribute: netdev, value: \"{}\"}}\n",
                                nic.mtu_bytes, in_quotes(nic.netdev));
  }

  End end_of(models::PortRef port) const { return {cluster_.at(port.node).name, cluster_.nic_of(port).device + "[0]"}; }

  void add_edge(const End& one, const End& other, std::uint64_t rate_bps) {
    std::string& link = links_[rate_bps];
    if (link.empty()) link = fmt::format("cable-{}", links_.size());
    edges_ += fmt::format(
        "- ep1: {{instance: \"{}[0]\", component: \"{}\"}}\n  ep2: {{instance: \"{}[0]\", component: "
        "\"{}\"}}\n  link: {}\n  scheme: one2one\n",
        in_quotes(one.instance), in_quotes(one.component), in_quotes(other.instance), in_quotes(other.component), link);
  }

  const Scenario& scenario_;
  const models::Cluster& cluster_;
  std::string devices_, instances_, edges_, annotations_;
  std::map<std::uint64_t, std::string> links_;
};

}  // namespace

std::vector<ExportedFile> infragraph_file(const Scenario& scenario) {
  refuse_boxes(scenario.cluster, "infragraph");
  return {{"", InfraGraph(scenario).write()}};
}

const std::vector<ExportFormat>& export_formats() {
  static const std::vector<ExportFormat> all{
      {"netplan", "NODE/etc/netplan/60-meshbed.yaml for each node", true, netplan_files},
      {"ip", "NODE/ip.sh for each node: the same by calls of ip", true, ip_scripts},
      {"nccl-xml", "NODE/nccl-topology.xml for each node, for NCCL_TOPO_FILE", true, nccl_topologies},
      {"simgrid", "a platform file of SimGrid", false, simgrid_platform},
      {"graphviz", "a graph for dot", false, graphviz_graph},
      {"infragraph", "an InfraGraph in YAML", false, infragraph_file},
  };
  return all;
}

}  // namespace meshbed::testbed
