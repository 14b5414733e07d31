#include "testbed/page/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "models/lan/bond.h"
#include "models/topology.h"
#include "testbed/base/units.h"
#include "testbed/topology/layout.h"

namespace meshbed::testbed::page {
namespace {

using document::Row;
using document::Table;

constexpr std::size_t kClasses = 5;  // of shares: the style sheet's u0 to u4

std::string percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 1 : 0); }

/// A place in Cluster::nodes for each row of the table of NICs.
std::vector<models::PortRef> add_nics(models::Cluster& cluster, const Table& nics) {
  std::vector<models::PortRef> ports;
  for (const Row& row : nics.rows) {
    models::PortRef port{.node = row.cells[0].get<int>()};
    models::Node& node = cluster.at(port.node);
    models::Nic nic;
    nic.device = row.cells[1];
    nic.rate_bps = row.cells[4];
    nic.link_up = row.cells[5];
    if (row.cells[2] != row.cells[1]) nic.function = row.cells[2];
    for (const Value& address : row.cells[3]) {
      if (const auto prefix = models::read_prefix(address)) nic.addresses.push_back(*prefix);
    }
    nic.vlan = row.cells[6];
    port.nic = static_cast<int>(node.nics.size());
    node.nics.push_back(std::move(nic));
    ports.push_back(port);
  }
  return ports;
}

void add_bonds(models::Cluster& cluster, const Table& nics, const Table& bonds,
               const std::vector<models::PortRef>& ports) {
  for (std::size_t index = 0; index < nics.rows.size(); ++index) {
    const std::string name = nics.rows[index].cells[7];
    if (name.empty()) continue;
    models::Node& node = cluster.at(ports[index].node);
    auto bond =
        std::find_if(node.bonds.begin(), node.bonds.end(), [&](const models::Bond& one) { return one.name == name; });
    if (bond == node.bonds.end()) {
      const auto about = std::find_if(bonds.rows.begin(), bonds.rows.end(), [&](const Row& row) {
        return row.cells[0] == node.name && row.cells[1] == name;
      });
      models::Bond made{.name = name};
      for (const auto mode :
           {models::BondMode::kActiveBackup, models::BondMode::kBalanceXor, models::BondMode::k8023ad}) {
        if (about != bonds.rows.end() && about->cells[2] == std::string(models::to_string(mode))) made.mode = mode;
      }
      made.lag = about != bonds.rows.end() && about->cells[3].get<bool>();
      bond = node.bonds.insert(node.bonds.end(), std::move(made));
    }
    bond->functions.push_back(ports[index].nic);
    node.nic(ports[index].nic).bond = static_cast<int>(bond - node.bonds.begin());
  }
}

/// Both directions of what a line stands for.
struct TwoWays {
  const LinkUse* there = nullptr;
  const LinkUse* back = nullptr;
};

class Picture {
 public:
  Picture(const RunSource& source, const models::Cluster& cluster, const std::vector<LinkUse>& links)
      : cluster_(cluster), topology_(models::analyse(cluster)) {
    for (const LinkUse& link : links) {
      use_.emplace(link.name, &link);
      most_ = std::max(most_, link.share);
    }
    for (const Row& fault : source.table("Faults", "faults").rows) {
      for (const Value& port : fault.cells[6]) cut_.insert(port.get<std::string>());
    }
    const Value& rank_nodes = source.summary.at("topology").at("rank_nodes");
    for (std::size_t rank = 0; rank < rank_nodes.size(); ++rank) {
      std::string& ranks = ranks_on_[rank_nodes[rank].get<std::string>()];
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
  }

  std::string svg(const std::string& title) {
    std::vector<std::vector<std::string>> labels;
    for (const models::Cable& cable : cluster_.cables) labels.push_back(label_of(cable));
    const Layout layout = lay_out(cluster_, topology_, labels);
    constexpr double kPageWidth = 1100;  // a wider picture is scaled down to it, and its legend up
    const double scale = std::max(1.0, layout.width / kPageWidth);
    const double top = kHeaderHeight - 10;  // this page has a heading of its own
    const double height = layout.height - top + 44 * scale;
    const double width = std::max(layout.width, 520.0);
    add(R"(<svg class="topology" role="img" aria-label="{}" viewBox="0 {:.0f} {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}" font-family="inherit">)",
        xml_text(title), top, width, height, width, height);
    for (std::size_t index = 0; index < layout.cables.size(); ++index) {
      const models::Cable& cable = cluster_.cables[index];
      ways(layout.cables[index].from, layout.cables[index].to, use_of(cable), is_cut(cable));
    }
    draw_uplinks(layout);
    for (const DrawnSwitch& box : layout.switches) {
      rectangle(box.box, 6, "switch");
      for (std::size_t line = 0; line < box.text.size(); ++line) {
        words({box.box.centre().x, box.box.y + 9 + kLabelLineHeight * (static_cast<double>(line) + 0.8)}, "label",
              box.text[line]);
      }
    }
    for (std::size_t index = 0; index < layout.cards.size(); ++index) draw_card(layout.cards[index]);
    for (std::size_t index = 0; index < layout.cables.size(); ++index) {
      const DrawnCable& drawn = layout.cables[index];
      rectangle(drawn.label, 5, is_cut(cluster_.cables[index]) || drawn.colour < 0 ? "tag cut" : "tag");
      for (std::size_t line = 0; line < drawn.text.size(); ++line) {
        words({drawn.label.centre().x, drawn.label.y + kLabelLineHeight * static_cast<double>(line + 1)}, "label",
              drawn.text[line]);
      }
    }
    for (const LegendLine& line : layout.legend) words(line.place, "row", line.text);
    draw_legend(layout.height + 12 * scale, scale);
    svg_ += "</svg>";
    return std::move(svg_);
  }

 private:
  template <typename... Parts>
  void add(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Parts>(parts)...);
    svg_ += '\n';
  }
  void rectangle(const Box& box, double radius, const char* style) {
    add(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}"/>)", style, box.x, box.y,
        box.width, box.height, radius);
  }
  void words(Point at, const char* style, const std::string& text) {
    add(R"(<text class="{}" x="{:.1f}" y="{:.1f}" xml:space="preserve">{}</text>)", style, at.x, at.y, xml_text(text));
  }

  const LinkUse* use(const std::string& name) const {
    const auto found = use_.find(name);
    return found == use_.end() ? nullptr : found->second;
  }
  std::string end_of(models::PortRef port) const {
    return cluster_.at(port.node).name + "/" + models::function_name(cluster_.nic_of(port));
  }
  /// As the picture has the cable: from the node that is listed first.
  TwoWays use_of(const models::Cable& cable) const {
    const std::string a = end_of(cable.a), b = end_of(cable.b);
    TwoWays ways{.there = use(a + ">" + b), .back = use(b + ">" + a)};
    if (cable.b.node < cable.a.node) std::swap(ways.there, ways.back);
    return ways;
  }
  bool is_cut(const models::Cable& cable) const {
    return cut_.contains(end_of(cable.a)) && cut_.contains(end_of(cable.b));
  }

  std::vector<std::string> label_of(const models::Cable& cable) const {
    const TwoWays ways = use_of(cable);
    const int low = std::min(cable.a.node, cable.b.node), high = std::max(cable.a.node, cable.b.node);
    std::vector<std::string> lines;
    const auto line = [&](int from, int to, const LinkUse* use) {
      if (use != nullptr)
        lines.push_back(fmt::format("{} to {}: {}", cluster_.at(from).name, cluster_.at(to).name, percent(use->share)));
    };
    line(low, high, ways.there);
    line(high, low, ways.back);
    if (is_cut(cable)) lines.emplace_back("cut by a fault");
    return lines;
  }

  std::size_t class_of(double share) const {
    if (share <= 0 || most_ <= 0) return 0;
    return 1 + std::min(kClasses - 2, static_cast<std::size_t>(share / most_ * (kClasses - 1)));
  }

  /// Two arrows beside each other.
  void ways(Point from, Point to, const TwoWays& use, bool is_cut) {
    one_way(from, to, use.there, is_cut);
    one_way(to, from, use.back, is_cut);
  }
  void one_way(Point from, Point to, const LinkUse* use, bool is_cut) {
    constexpr double kAside = 4.5, kHead = 9, kHalfHead = 5;
    const double length = std::max(1.0, std::hypot(to.x - from.x, to.y - from.y));
    const double dx = (to.x - from.x) / length, dy = (to.y - from.y) / length;
    const Point start{from.x - kAside * dy, from.y + kAside * dx}, end{to.x - kAside * dy, to.y + kAside * dx};
    const Point neck{end.x - kHead * dx, end.y - kHead * dy};
    const std::size_t level = use == nullptr ? 0 : class_of(use->share);
    add(R"(<g class="u{}{}"><title>{}</title><path class="way" d="M{:.1f} {:.1f}L{:.1f} {:.1f}" stroke-width="{}"/><path class="tip" d="M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}z"/></g>)",
        level, is_cut ? " cut" : "", use == nullptr ? "" : xml_text(use->name + ": " + percent(use->share)), start.x,
        start.y, neck.x, neck.y, 1.5 + static_cast<double>(level), end.x, end.y, neck.x - kHalfHead * dy,
        neck.y + kHalfHead * dx, neck.x + kHalfHead * dy, neck.y - kHalfHead * dx);
  }

  void draw_uplinks(const Layout& layout) {
    std::size_t index = 0;
    for (const models::Switch& box : cluster_.switches) {
      for (const models::PortRef port : box.ports) {
        const DrawnUplink& drawn = layout.uplinks.at(index++);
        const std::string end = end_of(port);
        ways(drawn.from, drawn.to, {.there = use(end + ">" + box.name), .back = use(box.name + ">" + end)},
             cut_.contains(end));
      }
    }
    for (const models::Router& router : cluster_.routers) {
      for (const int box : router.switches) {
        const DrawnUplink& drawn = layout.uplinks.at(index++);
        const std::string& name = cluster_.switches.at(static_cast<std::size_t>(box)).name;
        ways(drawn.from, drawn.to, {.there = use(name + ">" + router.name), .back = use(router.name + ">" + name)},
             false);
      }
    }
  }

  void draw_card(const Card& card) {
    const Box& box = card.box;
    rectangle(box, 9, "card");
    add(R"(<path class="head" d="M{:.1f} {:.1f} v-15 q0 -9 9 -9 h{:.1f} q9 0 9 9 v15 z"/>)", box.x, box.y + 24,
        box.width - 18);
    words({box.x + 12, box.y + 17}, "node", card.title);
    if (const auto ranks = ranks_on_.find(card.title); ranks != ranks_on_.end() && ranks->second.size() <= 12) {
      add(R"(<text class="node ranks" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", box.x + box.width - 10,
          box.y + 17, "rank " + ranks->second);
    }
    for (std::size_t row = 0; row < card.rows.size(); ++row) {
      const double y = box.y + kCardTitleHeight + kRowHeight * static_cast<double>(row) + 12;
      add(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/>)", card.colours[row] >= 0 ? "port" : "port none",
          box.x + 16, y - 4);
      words({box.x + 28, y}, "row", card.rows[row]);
    }
  }

  void draw_legend(double at, double scale) {
    constexpr double kY = 4;
    add(R"svg(<g transform="translate(0 {:.1f}) scale({:.3f})">)svg", at, scale);
    words({28, kY + 4}, "row", "idle");
    double x = 66;
    for (std::size_t level = 0; level < kClasses; ++level, x += 44) {
      add(R"(<g class="u{}"><path class="way" d="M{:.1f} {:.1f}h36" stroke-width="{}"/></g>)", level, x, kY,
          1.5 + static_cast<double>(level));
    }
    words({x + 6, kY + 4}, "row", most_ > 0 ? "busiest: " + percent(most_) : "busiest");
    add("</g>");
  }

  const models::Cluster& cluster_;
  models::Topology topology_;
  std::map<std::string, const LinkUse*> use_;
  std::set<std::string> cut_;                    // ports
  std::map<std::string, std::string> ranks_on_;  // by node
  double most_ = 0;
  std::string svg_;
};

/// Pairs of nodes that share no subnet, with a shortest way between them.
Table relays_of(const models::Cluster& cluster) {
  constexpr std::size_t kPairsMost = 200;
  Table table{
      .key = "relays",
      .meaning = "pairs without a direct path",
      .columns = {document::text("from", "one node"), document::text("to", "the other"),
                  document::text("by way of", "a shortest chain of nodes; a run may take another of that length"),
                  document::integer("hops", "", "cables on the way")}};
  const models::Topology topology = models::analyse(cluster);
  const auto name = [&](int node) { return cluster.at(node).name; };
  for (const auto& [from, to] : models::pairs_without_direct_path(topology, kPairsMost).first) {
    const std::vector<int> path = models::shortest_path(topology, from, to);
    if (path.empty()) {
      table.add({name(from), name(to), "no way", nullptr});
      continue;
    }
    std::string between;
    for (std::size_t hop = 1; hop + 1 < path.size(); ++hop) between += (between.empty() ? "" : ", ") + name(path[hop]);
    table.add({name(from), name(to), between, path.size() - 1});
  }
  return table;
}

Table link_table(std::vector<LinkUse> links) {
  std::stable_sort(links.begin(), links.end(),
                   [](const LinkUse& left, const LinkUse& right) { return left.share > right.share; });
  Table table{.key = "links",
              .meaning = "links",
              .columns = {document::text("direction", "the port that sends, and where it leads"),
                          document::number("utilisation", "%", "of what it could carry in the run's whole time"),
                          document::number("busy", "%", "of the run's time in which it carried something"),
                          document::integer("rate_bps", "bit/s", "rate"),
                          document::integer("wire_bytes", "B", "with headers and repetitions")}};
  for (const LinkUse& link : links) {
    std::string name = link.name;
    if (const std::size_t arrow = name.find('>'); arrow != std::string::npos) name.replace(arrow, 1, " → ");
    table.add({name, 100 * link.share, 100 * link.busy, link.rate_bps, link.wire_bytes});
  }
  return table;
}

}  // namespace

models::Cluster cluster_of(const RunSource& source) {
  models::Cluster cluster;
  const Table& nics = source.table("Topology", "nics");
  for (const Row& row : source.table("Topology", "nodes").rows)
    cluster.nodes.push_back(
        {.name = row.cells[0], .nics = {}, .gpus = {}, .pcie = {}, .management = {}, .environment = {}});
  const std::vector<models::PortRef> ports = add_nics(cluster, nics);
  add_bonds(cluster, nics, source.table("Scenario", "bonds"), ports);
  for (const Row& row : source.table("Topology", "cables").rows) {
    cluster.cables.push_back(
        {.name = row.cells[0], .a = ports.at(row.cells[1]), .b = ports.at(row.cells[2]), .rate_bps = row.cells[3]});
  }
  for (const Row& row : source.table("Topology", "switches").rows) {
    models::Switch box{.name = row.cells[0], .ports = {}, .rate_bps = row.cells[1]};
    for (const Value& nic : row.cells[2]) box.ports.push_back(ports.at(nic.get<std::size_t>()));
    cluster.switches.push_back(std::move(box));
  }
  for (const Row& row : source.table("Topology", "routers").rows) {
    models::Router router{
        .name = row.cells[0], .switches = row.cells[2].get<std::vector<int>>(), .rate_bps = row.cells[1]};
    for (const int box : router.switches) static_cast<void>(cluster.switches.at(static_cast<std::size_t>(box)));
    cluster.routers.push_back(std::move(router));
  }
  return cluster;
}

std::vector<LinkUse> links_of(const RunSource& source) {
  const double elapsed_ps = source.summary.at("simulated_ns").get<double>() * 1e3;
  std::vector<LinkUse> links;
  for (const Row& row : source.table("Paths", "links").rows) {
    LinkUse link{.name = row.cells[0], .rate_bps = row.cells[1], .wire_bytes = row.cells[2]};
    const double could_ps = elapsed_ps * static_cast<double>(link.rate_bps);
    if (could_ps > 0) link.share = static_cast<double>(link.wire_bytes) * 8 * 1e12 / could_ps;
    if (elapsed_ps > 0) link.busy = row.cells[3].get<double>() / elapsed_ps;
    links.push_back(std::move(link));
  }
  return links;
}

std::string topology_html(const RunSource& source) {
  const models::Cluster cluster = cluster_of(source);
  const std::vector<LinkUse> links = links_of(source);
  const std::string shape = source.summary.at("topology").at("shape");
  const auto nodes = source.summary.at("topology").at("node_count").get<std::uint64_t>();
  std::string html;
  if (cluster.nodes.empty()) {
    html += note_html(fmt::format("{} are too many for a picture.", counted(nodes, "node")));
  } else {
    const std::string title =
        fmt::format("{}, {}: which port leads where, and what each direction carried", counted(nodes, "node"), shape);
    html += note_html(fmt::format(
        "{}: {}. Each arrow is one direction; the thicker and the stronger in colour, the more it carried, beside the "
        "busiest. Percentages are of what a link could carry in the run's {}.",
        counted(nodes, "node"), shape, short_time(source.summary.at("simulated_ns").get<double>())));
    html += "<div class=\"scroll figure\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the cluster\">" +
            Picture(source, cluster, links).svg(title) + "</div>\n";
  }
  html += table_html(link_table(links), {.caption = "Links, each direction by itself, the busiest first."});
  html += table_html(relays_of(cluster),
                     {.caption = "Nodes without a cable or switch in common: messages between them need a relay."});
  return html;
}

}  // namespace meshbed::testbed::page
