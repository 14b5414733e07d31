#pragma once
// Charts as SVG: lines over an axis of sizes, and columns in time. Values in, text out; colours come from the style
// sheet (s0 to s7), and each series has a dash pattern and a mark of its own beside its colour.

#include <cstddef>
#include <string>
#include <vector>

namespace meshbed::testbed::page {

struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> low{}, high{};  // of a band around y; empty: none
  bool is_bound = false;              // dashed, without marks, in the colour of the series before it
};

struct Chart {
  std::string title;             // for readers without the picture
  std::string x_name, y_name;    // with units
  std::vector<Series> series{};  // at most kSeriesMost that are no bounds
  bool x_is_bytes = false;       // logarithmic
};
inline constexpr std::size_t kSeriesMost = 8;

std::string chart_svg(const Chart& chart);

struct Column {
  double from = 0, to = 0, height = 0;
};
struct Mark {
  double at = 0;
  std::string text;
};
/// Columns as wide as they last, marks as vertical lines, and a level to compare with (0: none).
struct ColumnChart {
  std::string title, x_name, y_name;
  std::vector<Column> columns{};
  std::vector<Mark> marks{};
  double level = 0;
  std::string level_name{};
};
std::string column_svg(const ColumnChart& chart);

/// A bar for each; negative: there is no value, and `note` says why.
struct Bar {
  std::string name;
  double value = -1;
  std::string text;  // behind the bar
};
std::string bar_svg(const std::string& title, const std::vector<Bar>& bars);

}  // namespace meshbed::testbed::page
