// topology_svg: the layout as SVG 1.1. Colours are those of Okabe and Ito ("Color Universal Design", 2008), which
// colour- blind readers can distinguish; beyond six subnets the colours repeat with another dash pattern.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "testbed/base/units.h"
#include "testbed/base/xml_text.h"
#include "testbed/topology/layout.h"
#include "testbed/topology/report.h"

namespace meshbed::testbed {
namespace {

constexpr std::array<const char*, 6> kPalette = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
constexpr std::array<const char*, 4> kDashes = {"none", "10 5", "3 4", "12 4 3 4"};
constexpr const char* kAlarm = "#b00020";  // a crossed cable; also dotted and labelled
constexpr const char* kFaint = "#8895a1";

const char* colour_text(int colour) {
  return colour < 0 ? kAlarm : kPalette[static_cast<std::size_t>(colour) % kPalette.size()];
}

const char* dash_text(int colour) {
  return colour < 0 ? "2 6" : kDashes[static_cast<std::size_t>(colour) / kPalette.size() % kDashes.size()];
}

class Svg {
 public:
  template <typename... Parts>
  void add(const char* format, const Parts&... parts) {
    fmt::format_to(std::back_inserter(text_), fmt::runtime(format), parts...);
    text_ += '\n';
  }
  void line(Point from, Point to, int colour, double width) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}" stroke-dasharray="{}" stroke-linecap="round"/>)",
        from.x, from.y, to.x, to.y, colour_text(colour), width, dash_text(colour));
  }
  void box(const Box& box, double radius, const char* style) {
    add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}" {}/>)", box.x, box.y, box.width,
        box.height, radius, style);
  }
  /// `style` is a class of the style sheet.
  void words(Point at, const char* style, const std::string& text) {
    add(R"(<text x="{:.1f}" y="{:.1f}" class="{}" xml:space="preserve">{}</text>)", at.x, at.y, style, xml_text(text));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

constexpr const char* kStyle = R"(<style>
text { font-family: "DejaVu Sans", Verdana, Helvetica, sans-serif; fill: #1f2933; }
.name { font-size: 20px; font-weight: bold; }
.about { font-size: 13px; fill: #52606d; }
.node { font-size: 13px; font-weight: bold; fill: #ffffff; }
.row { font-size: 11px; font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.label { font-size: 11px; font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; text-anchor: middle; }
</style>)";

void draw_card(Svg& svg, const Card& card) {
  const Box& box = card.box;
  svg.box(box, 9, R"(fill="#ffffff" stroke="#52606d" stroke-width="1.2")");
  // The head is rounded above and straight below.
  svg.add(R"(<path d="M{:.1f} {:.1f} v-{} q0 -9 9 -9 h{:.1f} q9 0 9 9 v{} z" fill="#334e68"/>)", box.x, box.y + 24, 15,
          box.width - 18, 15);
  svg.words({box.x + 12, box.y + 17}, "node", card.title);
  for (std::size_t i = 0; i < card.rows.size(); ++i) {
    const double y = box.y + kCardTitleHeight + kRowHeight * static_cast<double>(i) + 12;
    const bool cabled = card.colours[i] >= 0;
    svg.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="{}" stroke="{}" stroke-width="1.5"/>)", box.x + 16, y - 4,
            cabled ? colour_text(card.colours[i]) : "#ffffff", cabled ? colour_text(card.colours[i]) : kFaint);
    svg.words({box.x + 28, y}, "row", card.rows[i]);
  }
}

void draw_label(Svg& svg, const DrawnCable& cable) {
  svg.add(
      R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="5" fill="#ffffff" stroke="{}" stroke-width="1"/>)",
      cable.label.x, cable.label.y, cable.label.width, cable.label.height, colour_text(cable.colour));
  for (std::size_t i = 0; i < cable.text.size(); ++i) {
    svg.words({cable.label.centre().x, cable.label.y + kLabelLineHeight * static_cast<double>(i + 1)}, "label",
              cable.text[i]);
  }
}

void draw_switch(Svg& svg, const DrawnSwitch& box) {
  svg.box(box.box, 4, R"(fill="#f0f4f8" stroke="#334e68" stroke-width="2")");
  for (std::size_t i = 0; i < box.text.size(); ++i) {
    svg.words({box.box.centre().x, box.box.y + 9 + kLabelLineHeight * (static_cast<double>(i) + 0.8)}, "label",
              box.text[i]);
  }
}

/// A line may pass behind another switch; the dot marks its end.
void draw_switches(Svg& svg, const Layout& layout) {
  for (const auto& uplink : layout.uplinks) svg.line(uplink.from, uplink.to, uplink.colour, 2);
  for (const auto& box : layout.switches) draw_switch(svg, box);
  for (const auto& uplink : layout.uplinks) {
    svg.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"/>)", uplink.to.x, uplink.to.y,
            colour_text(uplink.colour));
  }
}

/// The file's description, or the overrides if they have changed its cluster.
std::string about(const Scenario& scenario) {
  std::string changes;
  for (const std::string& argument : scenario.overrides) {
    const std::string section = argument.substr(0, argument.find_first_of(".="));
    if (section == "description") return scenario.description;
    if (section == "topology" || section == "node" || section == "cable" || section == "switch" ||
        section == "router") {
      changes += " --set " + argument;
    }
  }
  return changes.empty() ? scenario.description : "changed by" + changes;
}

}  // namespace

std::string topology_svg(const Scenario& scenario) {
  const auto& cluster = scenario.cluster;
  if (cluster.nodes.size() > kDrawnNodesMax) {
    throw ScenarioError(scenario.path, fmt::format("{} nodes are too many for a picture (at most {}); use topo check",
                                                   cluster.nodes.size(), kDrawnNodesMax));
  }
  const models::Topology topology = models::analyse(cluster);
  const Layout layout = lay_out(cluster, topology);
  const std::string shape = models::describe(models::classify(topology), cluster.nodes.size());
  std::string summary = counted(cluster.nodes.size(), "node");
  if (!cluster.cables.empty()) summary += ", " + counted(cluster.cables.size(), "cable");
  if (!cluster.switches.empty()) summary += ", " + counted(cluster.switches.size(), "switch");
  if (!cluster.routers.empty()) summary += ", " + counted(cluster.routers.size(), "router");
  summary += ": " + shape;
  const std::string description = about(scenario);
  // The header's text may be wider than a small picture.
  const auto header_letters = std::max({scenario.name.size() * 3 / 2, description.size(), summary.size()});
  const double width = std::max(layout.width, 60 + 8.0 * static_cast<double>(header_letters));
  Svg svg;
  svg.add(R"(<?xml version="1.0" encoding="UTF-8"?>)");
  svg.add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}">)",
          width, layout.height);
  svg.add("<title>{}</title>\n{}", xml_text(scenario.name), kStyle);
  svg.add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
  svg.words({28, 38}, "name", scenario.name);
  svg.words({28, 60}, "about", description);
  svg.words({28, 79}, "about", summary);
  for (const auto& cable : layout.cables) svg.line(cable.from, cable.to, cable.colour, 3);
  draw_switches(svg, layout);
  for (const auto& card : layout.cards) draw_card(svg, card);
  for (const auto& cable : layout.cables) draw_label(svg, cable);
  for (const auto& line : layout.legend) {
    svg.line({line.place.x, line.place.y - 4}, {line.place.x + 18, line.place.y - 4}, line.colour, 3);
    svg.words({line.place.x + 24, line.place.y}, "row", line.text);
  }
  svg.add("</svg>");
  return svg.take();
}

}  // namespace meshbed::testbed
