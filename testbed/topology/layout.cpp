// The circle's radius is found by trial: place cards, cables and labels; where two overlap, take a larger circle.
// Nomenclature: lane - one of several parallel cables between the same two nodes.

#include "testbed/topology/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numbers>
#include <optional>
#include <span>

#include "models/lan/bond.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

constexpr double kMonospaceWidth = 6.7;  // of one letter at 11 px, DejaVu Sans Mono
constexpr double kTitleLetterWidth = 8.6;
constexpr double kMargin = 28;
constexpr double kGap = 16;             // between any two things that carry text
constexpr double kLaneDistance = 54;    // so that the labels of two level lanes can stand above one another
constexpr std::size_t kLabelsMax = 24;  // more cables than that carry a number, and the legend the text

std::string subnet_key(const models::Nic& nic) {
  return nic.addresses.empty() ? "" : subnet_text(nic.addresses.front());
}

/// Colours in order of the subnets' first appearance on cables and switches.
class Colours {
 public:
  int of(const std::string& subnet) {
    return subnet.empty() ? -1 : index_.emplace(subnet, static_cast<int>(index_.size())).first->second;
  }

 private:
  std::map<std::string, int> index_;
};

double widest(const std::vector<std::string>& lines) {
  std::size_t letters = 0;
  for (const auto& line : lines) letters = std::max(letters, line.size());
  return static_cast<double>(letters) * kMonospaceWidth;
}

/// Where the line from a box's inner point towards `target` leaves the box.
Point leave(const Box& box, Point inner, Point target) {
  const double dx = target.x - inner.x;
  const double dy = target.y - inner.y;
  double share = 1;
  if (dx > 0) share = std::min(share, (box.x + box.width - inner.x) / dx);
  if (dx < 0) share = std::min(share, (box.x - inner.x) / dx);
  if (dy > 0) share = std::min(share, (box.y + box.height - inner.y) / dy);
  if (dy < 0) share = std::min(share, (box.y - inner.y) / dy);
  return {inner.x + share * dx, inner.y + share * dy};
}

class Planner {
 public:
  Planner(const models::Cluster& cluster, const models::Topology& topology,
          std::span<const std::vector<std::string>> more)
      : cluster_(cluster), topology_(topology), more_(more) {
    const models::Shape shape = models::classify(topology);
    if (shape.star && cluster.nodes.size() > 3) {
      for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        if (models::neighbours(topology, static_cast<int>(i)).size() > 1) hub_ = i;
      }
    }
    colour_cables();
    make_cards();
    make_switches();
  }

  Layout run() {
    constexpr double kGrowth = 1.06;
    constexpr int kTriesMax = 120;  // a factor of 1000: no cluster that may be drawn needs that
    double radius = 150;
    for (int tries = 0; tries < kTriesMax; ++tries, radius *= kGrowth) {
      if (place(radius)) break;
    }
    finish();
    return std::move(layout_);
  }

 private:
  const models::Nic& nic(models::PortRef port) const { return cluster_.nic_of(port); }
  /// The one that has the port's addresses.
  const models::Nic& device(models::PortRef port) const { return nic(models::device_of(cluster_, port)); }
  bool numbered() const { return cluster_.cables.size() > kLabelsMax; }

  void colour_cables() {
    std::vector<bool> crossed(cluster_.cables.size(), false);
    for (const auto& one : topology_.crossed) crossed[static_cast<std::size_t>(one.cable)] = true;
    for (std::size_t i = 0; i < cluster_.cables.size(); ++i) {
      const auto& cable = cluster_.cables[i];
      const int colour_a = colours_.of(subnet_key(device(cable.a)));
      const int colour_b = colours_.of(subnet_key(device(cable.b)));
      colour_of_[cable.a] = colour_a;
      colour_of_[cable.b] = colour_b;
      DrawnCable drawn;
      drawn.colour = crossed[i] ? -1 : colour_a;
      if (crossed[i]) drawn.text = {"crossed!", subnet_key(device(cable.a)), subnet_key(device(cable.b))};
      if (!crossed[i]) drawn.text = {subnet_key(device(cable.a)), rate_text(cable.rate_bps)};
      if (i < more_.size()) drawn.text.insert(drawn.text.end(), more_[i].begin(), more_[i].end());
      layout_.cables.push_back(std::move(drawn));
    }
    for (const auto& box : cluster_.switches) {
      for (const auto& port : box.ports) colour_of_[port] = colours_.of(subnet_key(device(port)));
    }
  }

  void make_cards() {
    for (std::size_t n = 0; n < cluster_.nodes.size(); ++n) {
      const auto& node = cluster_.nodes[n];
      Card card;
      card.title = node.name;
      std::size_t device_letters = 0;
      for (const auto& one : node.nics) device_letters = std::max(device_letters, one.device.size());
      for (std::size_t i = 0; i < node.nics.size(); ++i) {
        const auto& one = node.nics[i];
        const bool is_function = one.bond >= 0 && one.addresses.empty();
        const std::string address = !one.link_up  ? "down"
                                    : is_function ? "in " + node.bonds[static_cast<std::size_t>(one.bond)].name
                                    : one.addresses.empty() ? "no address"
                                                            : to_text(one.addresses.front());
        card.rows.push_back(fmt::format("{:<{}}  {}", one.device, device_letters, address));
        const auto found = colour_of_.find({static_cast<int>(n), static_cast<int>(i)});
        card.colours.push_back(found == colour_of_.end() ? -1 : found->second);
      }
      card.box.width =
          std::max(widest(card.rows) + 42, static_cast<double>(card.title.size()) * kTitleLetterWidth + 24);
      card.box.height = kCardTitleHeight + kRowHeight * static_cast<double>(card.rows.size()) + 8;
      layout_.cards.push_back(std::move(card));
    }
  }

  void make_switches() {
    for (const auto& box : cluster_.switches) {
      DrawnSwitch drawn;
      std::string subnet = box.ports.empty() ? "no ports" : subnet_key(device(box.ports.front()));
      drawn.text = {box.name, subnet,
                    fmt::format("{}, {}", counted(box.ports.size(), "port"), rate_text(box.rate_bps))};
      add_box(std::move(drawn));
    }
    for (const auto& router : cluster_.routers) {
      add_box({.box = {},
               .text = {router.name, "router",
                        fmt::format("{}, {}", counted(router.switches.size(), "port"), rate_text(router.rate_bps))}});
    }
  }

  void add_box(DrawnSwitch drawn) {
    drawn.box.width = widest(drawn.text) + 36;
    drawn.box.height = kLabelLineHeight * static_cast<double>(drawn.text.size()) + 18;
    layout_.switches.push_back(std::move(drawn));
  }

  /// Everything on a circle of this radius around the origin; false where something overlaps.
  bool place(double radius) {
    taken_.clear();
    return place_switches() && place_cards(radius) && place_cables();
  }

  bool take(const Box& box) {
    for (const auto& other : taken_) {
      if (box.overlaps(other, kGap)) return false;
    }
    taken_.push_back(box);
    return true;
  }

  /// One below the other, routers to the right of the switches.
  bool place_switches() {
    const auto first_router = layout_.switches.begin() + static_cast<std::ptrdiff_t>(cluster_.switches.size());
    double widest_switch = 0;
    for (auto box = layout_.switches.begin(); box != first_router; ++box) {
      widest_switch = std::max(widest_switch, box->box.width);
    }
    constexpr double kUplinkLength = 90;
    return place_column({layout_.switches.begin(), first_router}, 0) &&
           place_column({first_router, layout_.switches.end()}, widest_switch + kUplinkLength);
  }

  bool place_column(std::span<DrawnSwitch> column, double centre) {
    double total = 0;
    for (const auto& box : column) total += box.box.height + 2 * kGap;
    double y = -total / 2;
    for (auto& box : column) {
      box.box.x = centre - box.box.width / 2;
      box.box.y = y + kGap;
      y += box.box.height + 2 * kGap;
      if (!take(box.box)) return false;
    }
    return true;
  }

  bool place_cards(double radius) {
    const std::size_t on_circle = layout_.cards.size() - (hub_ ? 1 : 0);
    const double step = 2 * std::numbers::pi / static_cast<double>(on_circle);
    // Even counts begin half a step early, which puts two side by side at the top: a pair lies level, four make a
    // square.
    double angle = -std::numbers::pi / 2 - (on_circle % 2 == 0 ? step / 2 : 0);
    if (on_circle == 2) angle = -std::numbers::pi;
    for (std::size_t i = 0; i < layout_.cards.size(); ++i) {
      Box& box = layout_.cards[i].box;
      Point centre;
      if (layout_.cards.size() > 1 && !(hub_ && *hub_ == i)) {
        // A little wider than high, because cards are.
        centre = {1.25 * radius * std::cos(angle), radius * std::sin(angle)};
        angle += step;
      }
      box.x = centre.x - box.width / 2;
      box.y = centre.y - box.height / 2;
      if (!take(box)) return false;
    }
    return true;
  }

  bool place_cables() {
    std::map<std::pair<int, int>, int> lanes_of;
    for (const auto& cable : cluster_.cables) ++lanes_of[std::minmax(cable.a.node, cable.b.node)];
    std::map<std::pair<int, int>, int> next_lane;
    for (std::size_t i = 0; i < cluster_.cables.size(); ++i) {
      const auto& cable = cluster_.cables[i];
      const std::pair<int, int> ends = std::minmax(cable.a.node, cable.b.node);
      draw_lane(layout_.cables[i], ends, next_lane[ends]++, lanes_of[ends]);
      if (!place_label(layout_.cables[i], i)) return false;
    }
    return true;
  }

  void draw_lane(DrawnCable& drawn, std::pair<int, int> ends, int lane, int lanes) {
    const Box& a = layout_.cards[static_cast<std::size_t>(ends.first)].box;
    const Box& b = layout_.cards[static_cast<std::size_t>(ends.second)].box;
    const double dx = b.centre().x - a.centre().x;
    const double dy = b.centre().y - a.centre().y;
    const double length = std::max(1.0, std::hypot(dx, dy));
    // ChannelRuns stay within the lower card, or they would begin in the air.
    const double room = 0.8 * std::min({a.height, b.height, a.width, b.width});
    const double distance = std::min(kLaneDistance, lanes > 1 ? room / (lanes - 1) : 0.0);
    const double shift = (lane - (lanes - 1) / 2.0) * distance;
    const Point from{a.centre().x - shift * dy / length, a.centre().y + shift * dx / length};
    const Point to{b.centre().x - shift * dy / length, b.centre().y + shift * dx / length};
    drawn.from = leave(a, from, to);
    drawn.to = leave(b, to, from);
  }

  /// The label stands on its cable: in the middle, or as near to it as is free.
  bool place_label(DrawnCable& drawn, std::size_t number) {
    std::vector<std::string> text = drawn.text;
    if (numbered()) text = {fmt::format("{}", number + 1)};
    drawn.label.width = widest(text) + 14;
    drawn.label.height = kLabelLineHeight * static_cast<double>(text.size()) + 6;
    constexpr double kStep = 0.02;
    for (int i = 0; i < 40; ++i) {
      const double share = 0.5 + (i % 2 == 0 ? 1 : -1) * ((i + 1) / 2) * kStep;
      drawn.label.x = drawn.from.x + share * (drawn.to.x - drawn.from.x) - drawn.label.width / 2;
      drawn.label.y = drawn.from.y + share * (drawn.to.y - drawn.from.y) - drawn.label.height / 2;
      if (take(drawn.label)) return true;
    }
    return false;
  }

  void finish() {
    draw_uplinks();
    Box all = taken_.front();
    for (const auto& box : taken_) {
      const double right = std::max(all.x + all.width, box.x + box.width);
      const double bottom = std::max(all.y + all.height, box.y + box.height);
      all.x = std::min(all.x, box.x);
      all.y = std::min(all.y, box.y);
      all.width = right - all.x;
      all.height = bottom - all.y;
    }
    move_all(kMargin - all.x, kMargin + kHeaderHeight - all.y);
    layout_.width = all.width + 2 * kMargin;
    layout_.height = all.height + 2 * kMargin + kHeaderHeight;
    if (numbered()) add_legend();
  }

  void draw_uplinks() {
    for (std::size_t i = 0; i < cluster_.switches.size(); ++i) {
      for (const auto& port : cluster_.switches[i].ports) {
        const Box& card = layout_.cards[static_cast<std::size_t>(port.node)].box;
        const Box& box = layout_.switches[i].box;
        layout_.uplinks.push_back(
            {leave(card, card.centre(), box.centre()), leave(box, box.centre(), card.centre()), colour_of_[port]});
      }
    }
    for (std::size_t i = 0; i < cluster_.routers.size(); ++i) {
      for (const int index : cluster_.routers[i].switches) {
        const auto& ports = cluster_.switches[static_cast<std::size_t>(index)].ports;
        const Box& box = layout_.switches[static_cast<std::size_t>(index)].box;
        const Box& router = layout_.switches[cluster_.switches.size() + i].box;
        layout_.uplinks.push_back({leave(box, box.centre(), router.centre()),
                                   leave(router, router.centre(), box.centre()),
                                   ports.empty() ? 0 : colour_of_[ports.front()]});
      }
    }
  }

  void move_all(double dx, double dy) {
    const auto move = [&](auto& thing) {
      thing.x += dx;
      thing.y += dy;
    };
    for (auto& card : layout_.cards) move(card.box);
    for (auto& box : layout_.switches) move(box.box);
    for (auto& cable : layout_.cables) {
      move(cable.from);
      move(cable.to);
      move(cable.label);
    }
    for (auto& uplink : layout_.uplinks) {
      move(uplink.from);
      move(uplink.to);
    }
  }

  /// To the right of the picture, in as many columns as its height needs.
  void add_legend() {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < layout_.cables.size(); ++i) {
      auto& cable = layout_.cables[i];
      std::string line = fmt::format("{:>3}  {}", i + 1, cluster_.cables[i].name);
      for (const auto& part : cable.text) line += "  " + part;
      lines.push_back(std::move(line));
      cable.text = {fmt::format("{}", i + 1)};
    }
    const double column_width = widest(lines) + 44;
    const double top = kHeaderHeight + kMargin + kRowHeight;
    const auto rows = std::max<std::size_t>(1, static_cast<std::size_t>((layout_.height - kMargin - top) / kRowHeight));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const double x = layout_.width + static_cast<double>(i / rows) * column_width;
      const double y = top + static_cast<double>(i % rows) * kRowHeight;
      layout_.legend.push_back({{x, y}, layout_.cables[i].colour, std::move(lines[i])});
    }
    layout_.width += static_cast<double>((lines.size() + rows - 1) / rows) * column_width;
  }

  const models::Cluster& cluster_;
  const models::Topology& topology_;
  std::span<const std::vector<std::string>> more_;  // by cable
  Colours colours_;
  std::map<models::PortRef, int> colour_of_;
  std::optional<std::size_t> hub_;
  Layout layout_;
  std::vector<Box> taken_;  // boxes with text, in the order in which they were placed
};

}  // namespace

Layout lay_out(const models::Cluster& cluster, const models::Topology& topology,
               std::span<const std::vector<std::string>> more) {
  return Planner(cluster, topology, more).run();
}

}  // namespace meshbed::testbed
