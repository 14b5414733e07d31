#pragma once
// Plot: values over values as a picture, the same for every command that draws one: title, axes with units, a legend, a
// caption with the picture's provenance. Values that cannot be drawn are listed in the picture.
//
// Colours are Okabe and Ito's (Color Universal Design, 2008), which colour-blind readers can distinguish; each series
// also has its own marker and dash. The same plot gives the same bytes.

#include <string>
#include <vector>

namespace meshbed::testbed {

struct PlotPoint {
  double x = 0, y = 0;
};

enum class PlotScale {
  kLinear,
  kLog,    // of positive values
  kBytes,  // logarithmic, labels in KiB and MiB
  kNames,  // x is an index into `names`
};

struct PlotAxis {
  std::string title{};  // "time"
  std::string unit{};   // "us"; empty: a number, or names
  PlotScale scale = PlotScale::kLinear;
  std::vector<std::string> names{};
  bool from_zero = false;  // of a linear one: also where all values are far from it
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> marks{};  // with the series' marker
  std::vector<PlotPoint> line{};   // through these, in their order
};

struct Plot {
  std::string title;
  PlotAxis x, y;
  std::vector<PlotSeries> series{};
  std::string empty_reason = "no values";  // shown where there is no point
  std::vector<std::string> caption{};      // lines; one with Meshbed's version comes behind them
};

/// Points that an axis cannot hold (not finite, or not positive on a logarithmic one) are left out, and counted in the
/// caption.
std::string svg_of(const Plot& plot);

/// Throws std::runtime_error unless a plot can be written to `path`: its name ends in .svg, or in .png and rsvg-convert
/// is installed. `option`: what the user gave, as "--plot".
void require_plot_file(const std::string& option, const std::string& path);
/// As SVG, or by rsvg-convert as PNG, by the end of its name. Throws std::runtime_error.
void write_plot(const std::string& option, const std::string& path, const Plot& plot);

}  // namespace meshbed::testbed
