#pragma once
// Layout: the positions of all parts of a picture of a cluster. Pure geometry, so that a test can prove that no label
// covers another. Units are pixels, x to the right, y down.

#include <span>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/topology.h"

namespace meshbed::testbed {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;

  Point centre() const { return {x + width / 2, y + height / 2}; }
  bool overlaps(const Box& other, double gap) const {
    return x < other.x + other.width + gap && other.x < x + width + gap && y < other.y + other.height + gap &&
           other.y < y + height + gap;
  }
};

/// A node: its name, and a row a NIC.
struct Card {
  Box box;
  std::string title;
  std::vector<std::string> rows;  // "rocep1s0f0  192.168.100.1/24"
  std::vector<int> colours;       // a row: index of its subnet's colour; -1: no cable
};

struct DrawnCable {
  Point from, to;
  int colour = -1;  // -1: crossed
  Box label;
  std::vector<std::string> text;  // of the label; in a crowded picture only a number that the legend explains
};

/// Or a router: those stand behind the switches.
struct DrawnSwitch {
  Box box;
  std::vector<std::string> text;
};

/// From a card to a switch, from a switch to a router.
struct DrawnUplink {
  Point from, to;
  int colour = -1;
};

struct LegendLine {
  Point place;  // of its text's start
  int colour = -1;
  std::string text;
};

struct Layout {
  double width = 0, height = 0;
  std::vector<Card> cards;  // in node order
  std::vector<DrawnCable> cables;
  std::vector<DrawnSwitch> switches;
  std::vector<DrawnUplink> uplinks;
  std::vector<LegendLine> legend;  // empty where every cable carries its own label
};

inline constexpr double kHeaderHeight = 84;  // title, description, summary
inline constexpr double kCardTitleHeight = 30;
inline constexpr double kRowHeight = 18;
inline constexpr double kLabelLineHeight = 15;

/// Nodes on a circle, clockwise; a star's hub and the switches in its middle. The circle grows until nothing overlaps.
/// `more`: lines for the label of each cable, behind its own.
Layout lay_out(const models::Cluster& cluster, const models::Topology& topology,
               std::span<const std::vector<std::string>> more = {});

}  // namespace meshbed::testbed
