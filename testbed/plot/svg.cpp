// A plot as SVG: title, panel, axes, series, legend, caption, from the top to the bottom of the page.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "testbed/base/files.h"
#include "testbed/base/xml_text.h"
#include "testbed/plot/axis.h"
#include "testbed/plot/plot.h"

namespace meshbed::testbed {
namespace {

constexpr double kWidth = 840, kLeft = 84, kRight = 24, kTop = 44, kPanelHeight = 380;
constexpr double kPanelWidth = kWidth - kLeft - kRight;
constexpr double kFont = 13, kSmallFont = 11;
constexpr double kLetter = 0.56;  // mean width of a sans-serif letter, in font sizes
constexpr std::size_t kMostLegend = 24;

// Okabe and Ito, "Color Universal Design", 2008, figure 16; without yellow, which white paper hides.
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"};
constexpr std::array kDashes{"", "7 3", "2 3", "9 3 2 3"};
constexpr std::size_t kMarkers = 5;
// Later series are thinner and smaller, so that those that they cover stay visible around them.
constexpr double kWidestLine = 3.2, kThinnestLine = 1.2, kLargestMarker = 1.4, kSmallestMarker = 0.8;

std::string text_at(double x, double y, const std::string& attributes, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes, xml_text(text));
}

/// At most so many letters.
std::string fitted(const std::string& text, std::size_t letters) {
  return text.size() <= letters ? text : text.substr(0, letters - 3) + "...";
}
std::size_t letters_in(double width, double font) { return static_cast<std::size_t>(width / (kLetter * font)); }

/// The lines that a text takes.
std::vector<std::string> wrapped(const std::string& text, std::size_t letters) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > letters) {
    std::size_t at = rest.rfind(' ', letters);
    if (at == std::string::npos || at == 0) at = letters;
    lines.push_back(rest.substr(0, at));
    rest.erase(0, at + (rest[at] == ' ' ? 1 : 0));
  }
  lines.push_back(rest);
  return lines;
}

/// From `first` of the first series to `last` of the last one.
double graded(std::size_t series, std::size_t count, double first, double last) {
  if (count < 2) return (first + last) / 2;
  return first + (last - first) * static_cast<double>(series) / static_cast<double>(count - 1);
}

std::string marker(std::size_t series, std::size_t count, double x, double y) {
  constexpr std::array<const char*, kMarkers> kShapes{"M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
                                                      "M-3.3 -3.3h6.6v6.6h-6.6z", "M0 -4.4L4.2 3.2H-4.2z",
                                                      "M0 -4.8L4.8 0L0 4.8L-4.8 0z", "M0 4.4L4.2 -3.2H-4.2z"};
  return fmt::format("<path class=\"m\" transform=\"translate({:.1f} {:.1f}) scale({:.2f})\" d=\"{}\" fill=\"{}\"/>\n",
                     x, y, graded(series, count, kLargestMarker, kSmallestMarker), kShapes[series % kMarkers],
                     kColours[series % kColours.size()]);
}

std::string stroke_of(std::size_t series, std::size_t count) {
  const char* dash = kDashes[series / kColours.size() % kDashes.size()];
  return fmt::format(" stroke=\"{}\" stroke-width=\"{:.2f}\"{}", kColours[series % kColours.size()],
                     graded(series, count, kWidestLine, kThinnestLine),
                     *dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

std::string title_of(const PlotAxis& axis) {
  return axis.unit.empty() ? axis.title : axis.title + " (" + axis.unit + ")";
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), x_(plot.x), y_(plot.y) {
    for (const PlotSeries& series : plot.series) {
      for (const auto* points : {&series.marks, &series.line}) {
        for (const PlotPoint& point : *points) take(point);
      }
    }
    x_.close();
    y_.close();
  }

  std::string svg() {
    std::string body =
        text_at(kLeft, 26, " font-size=\"16\" font-weight=\"bold\"", fitted(plot_.title, letters_in(kPanelWidth, 16)));
    body += axes();
    for (std::size_t index = 0; index < plot_.series.size(); ++index) body += series(index);
    if (drawn_ == 0) {
      body +=
          text_at(kLeft + kPanelWidth / 2, kTop + kPanelHeight / 2,
                  " class=\"empty\" text-anchor=\"middle\" font-size=\"15\"", "Nothing to draw: " + plot_.empty_reason);
    }
    body += legend();
    body += caption();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
               "{1:.0f}\" font-family=\"DejaVu Sans,Verdana,sans-serif\" font-size=\"{2:.0f}\" fill=\"#222\" "
               "role=\"img\">\n<title>{3}</title>\n"
               "<style>.g{{stroke:#ddd}}.a{{stroke:#444;fill:none}}.p{{fill:none}}"
               ".m{{stroke:#fff;stroke-width:.6}}</style>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "fill=\"#fff\"/>\n",
               kWidth, bottom_, kFont, xml_text(plot_.title)) +
           body + "</svg>\n";
  }

 private:
  bool holds(const PlotPoint& point) const { return x_.holds(point.x) && y_.holds(point.y); }
  void take(const PlotPoint& point) {
    if (!holds(point)) {
      ++left_out_;
      return;
    }
    ++drawn_;
    x_.take(point.x);
    y_.take(point.y);
  }
  double x_at(double value) const { return kLeft + x_.part(value) * kPanelWidth; }
  double y_at(double value) const { return kTop + (1 - y_.part(value)) * kPanelHeight; }

  std::string axes() {
    const double low = kTop + kPanelHeight;
    std::string text = "<g class=\"axis-y\">\n";
    for (const PlotTick& tick : y_.ticks()) {
      const double y = y_at(tick.value);
      text += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>", kLeft, y, kPanelWidth);
      text += text_at(kLeft - 8, y + 4, " text-anchor=\"end\" font-size=\"12\"", tick.label);
    }
    text += "</g>\n<g class=\"axis-x\">\n";
    double below = 20;  // of the panel: what the labels take
    const std::vector<PlotTick> ticks = x_.ticks();
    // Labels that are wider than their place are turned.
    std::size_t longest = 0;
    for (const PlotTick& tick : ticks) longest = std::max(longest, tick.label.size());
    const double place = kPanelWidth / static_cast<double>(std::max<std::size_t>(ticks.size(), 1));
    const bool turned = static_cast<double>(longest) * kLetter * 12 > place - 6;
    constexpr std::size_t kMostTurned = 30;
    const std::size_t every = std::max<std::size_t>(1, (ticks.size() + kMostTurned * 2 - 1) / (kMostTurned * 2));
    for (std::size_t index = 0; index < ticks.size(); ++index) {
      const double x = x_at(ticks[index].value);
      text += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>", x, kTop, kPanelHeight);
      if (index % every != 0) continue;
      if (!turned) {
        text += text_at(x, low + 18, " text-anchor=\"middle\" font-size=\"12\"", ticks[index].label);
        continue;
      }
      const std::string label = fitted(ticks[index].label, kMostTurned);
      text += text_at(
          x, low + 14,
          fmt::format(" text-anchor=\"end\" font-size=\"12\" transform=\"rotate(-40 {:.1f} {:.1f})\"", x, low + 14),
          label);
      below = std::max(below, 22 + 0.64 * kLetter * 12 * static_cast<double>(label.size()));
    }
    text += "</g>\n";
    text +=
        fmt::format("<path class=\"a\" d=\"M{:.1f} {:.1f}v{:.1f}h{:.1f}\"/>\n", kLeft, kTop, kPanelHeight, kPanelWidth);
    bottom_ = low + below + 20;
    text += text_at(kLeft + kPanelWidth / 2, bottom_, " class=\"x-title\" text-anchor=\"middle\"", title_of(plot_.x));
    const double middle = kTop + kPanelHeight / 2;
    text +=
        text_at(20, middle,
                fmt::format(" class=\"y-title\" text-anchor=\"middle\" transform=\"rotate(-90 20 {:.1f})\"", middle),
                title_of(plot_.y));
    return text;
  }

  std::string series(std::size_t index) const {
    const PlotSeries& own = plot_.series[index];
    std::string text = fmt::format("<g class=\"series\"><title>{}</title>\n", xml_text(own.name));
    std::string path;
    for (const PlotPoint& point : own.line) {
      if (!holds(point)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_at(point.x), y_at(point.y));
    }
    if (!path.empty())
      text += fmt::format("<path class=\"p\"{} d=\"{}\"/>\n", stroke_of(index, plot_.series.size()), path);
    for (const PlotPoint& point : own.marks) {
      if (holds(point)) text += marker(index, plot_.series.size(), x_at(point.x), y_at(point.y));
    }
    return text + "</g>\n";
  }

  std::string legend() {
    if (plot_.series.empty()) return "";
    const std::size_t shown = std::min(plot_.series.size(), kMostLegend);
    std::size_t longest = 0;
    for (std::size_t index = 0; index < shown; ++index) longest = std::max(longest, plot_.series[index].name.size());
    const double wanted = 48 + static_cast<double>(longest) * kLetter * 12;
    const auto columns = static_cast<std::size_t>(std::clamp(kPanelWidth / wanted, 1.0, 4.0));
    const double width = kPanelWidth / static_cast<double>(columns);
    std::string text = "<g class=\"legend\" font-size=\"12\">\n";
    const double top = bottom_ + 26;
    for (std::size_t index = 0; index < shown; ++index) {
      const double x = kLeft + width * static_cast<double>(index % columns);
      const double y = top + 19 * static_cast<double>(index / columns);
      const PlotSeries& own = plot_.series[index];
      if (!own.line.empty()) {
        text += fmt::format("<path class=\"p\"{} d=\"M{:.1f} {:.1f}h28\"/>\n", stroke_of(index, plot_.series.size()), x,
                            y - 4);
      }
      if (!own.marks.empty()) text += marker(index, plot_.series.size(), x + 14, y - 4);
      const bool is_empty = own.line.empty() && own.marks.empty();
      text += text_at(x + 36, y, "", fitted(own.name + (is_empty ? ": no values" : ""), letters_in(width - 40, 12)));
    }
    bottom_ = top + 19 * static_cast<double>((shown - 1) / columns);
    if (shown < plot_.series.size()) {
      bottom_ += 19;
      text += text_at(kLeft, bottom_, "", fmt::format("and {} more", plot_.series.size() - shown));
    }
    return text + "</g>\n";
  }

  std::string caption() {
    std::vector<std::string> lines = plot_.caption;
    if (left_out_ > 0) lines.push_back(fmt::format("Left out: {} points that the axes cannot hold.", left_out_));
    lines.push_back(fmt::format("Drawn by meshbed {}.", kVersion));
    std::string text = fmt::format("<g class=\"caption\" font-size=\"{:.0f}\" fill=\"#555\">\n", kSmallFont);
    bottom_ += 28;
    for (const std::string& line : lines) {
      for (const std::string& part : wrapped(line, letters_in(kPanelWidth, kSmallFont))) {
        text += text_at(kLeft, bottom_, "", part);
        bottom_ += 15;
      }
    }
    return text + "</g>\n";
  }

  const Plot& plot_;
  PlotRange x_, y_;
  std::size_t drawn_ = 0, left_out_ = 0;
  double bottom_ = 0;  // of what is drawn so far
};

}  // namespace

std::string svg_of(const Plot& plot) { return Drawing(plot).svg(); }

}  // namespace meshbed::testbed
