#include "testbed/page/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "testbed/base/xml_text.h"

namespace meshbed::testbed::page {
namespace {

constexpr double kWidth = 860, kHeight = 320, kLeft = 66, kRight = 16, kTop = 14, kBottom = 46;

std::string tick_text(double value) { return fmt::format("{:g}", value); }

std::string size_text_of(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

/// 1, 2 or 5 times a power of ten: about `ticks` of them make `span`.
double step_of(double span, int ticks) {
  const double raw = span / ticks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

class Drawing {
 public:
  Drawing(const std::string& title, double width, double height) {
    add(R"(<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}">)",
        xml_text(title), width, height, width, height);
  }
  template <typename... Parts>
  void add(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Parts>(parts)...);
    svg_ += '\n';
  }
  void words(double x, double y, const char* anchor, const std::string& text, const char* style = "") {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor, style, xml_text(text));
  }
  std::string take() { return std::move(svg_ += "</svg>\n"); }

 private:
  std::string svg_;
};

/// From 0 to a little above the highest value.
struct Upright {
  double high = 1, step = 1;
  explicit Upright(double most) {
    if (most > 0) {
      step = step_of(most, 5);
      high = std::ceil(most / step * 1.0001) * step;
    }
  }
  double y(double value) const { return kHeight - kBottom - value / high * (kHeight - kTop - kBottom); }
};

void draw_upright(Drawing& drawing, const Upright& axis, const std::string& name) {
  for (int tick = 0; tick * axis.step <= axis.high * 1.0001; ++tick) {
    const double y = axis.y(tick * axis.step);
    drawing.add(R"(<path class="grid" d="M{:.0f} {:.1f}H{:.0f}"/>)", kLeft, y, kWidth - kRight);
    drawing.words(kLeft - 8, y + 4, "end", tick_text(tick * axis.step));
  }
  drawing.add(R"svg(<text transform="translate(15 {:.0f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
              (kTop + kHeight - kBottom) / 2, xml_text(name));
}

class Level {
 public:
  Level(double low, double high, bool is_log) : low_(low), high_(high), is_log_(is_log) {}
  double x(double value) const {
    if (high_ <= low_) return (kLeft + kWidth - kRight) / 2;
    const double part = is_log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return kLeft + 12 + part * (kWidth - kLeft - kRight - 24);
  }

 private:
  double low_, high_;
  bool is_log_;
};

void draw_marker(Drawing& drawing, std::size_t series, double x, double y, const std::string& text) {
  constexpr std::array<const char*, 4> kShapes{"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "M-4 -4h8v8h-8z",
                                               "M0 -5l5 8.5h-10z", "M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"};
  drawing.add(R"svg(<path class="mark" transform="translate({:.1f} {:.1f})" d="{}"><title>{}</title></path>)svg", x, y,
              kShapes[series % kShapes.size()], xml_text(text));
}

}  // namespace

std::string chart_svg(const Chart& chart) {
  double low = 1e300, high = -1e300, most = 0;
  std::vector<double> sizes;
  for (const Series& series : chart.series) {
    for (const double x : series.x) {
      low = std::min(low, x);
      high = std::max(high, x);
      sizes.push_back(x);
    }
    for (const double y : series.y) most = std::max(most, y);
    for (const double y : series.high) most = std::max(most, y);
  }
  if (sizes.empty()) return "";
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const double legend_height = 20 * static_cast<double>(chart.series.size());
  Drawing drawing(chart.title, kWidth, kHeight + legend_height);
  const Upright upright(most);
  const Level level(low, high, chart.x_is_bytes);
  draw_upright(drawing, upright, chart.y_name);
  const std::size_t every = 1 + sizes.size() / 12;
  for (std::size_t index = 0; index < sizes.size(); index += every) {
    const double x = level.x(sizes[index]);
    drawing.add(R"(<path class="grid" d="M{0:.1f} {1:.0f}V{2:.0f}"/>)", x, kTop, kHeight - kBottom);
    drawing.words(x, kHeight - kBottom + 17, "middle",
                  chart.x_is_bytes ? size_text_of(sizes[index]) : tick_text(sizes[index]));
  }
  drawing.words((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", chart.x_name);
  std::size_t number = 0;
  double legend_y = kHeight + 8;
  for (const Series& series : chart.series) {
    if (!series.is_bound) ++number;
    const std::size_t colour = (number == 0 ? 0 : number - 1) % kSeriesMost;
    drawing.add(R"(<g class="s{}{}">)", colour, series.is_bound ? " bound" : "");
    if (!series.low.empty()) {
      std::string band;
      for (std::size_t index = 0; index < series.x.size(); ++index) {
        band += fmt::format("{}{:.1f} {:.1f}", index == 0 ? "M" : "L", level.x(series.x[index]),
                            upright.y(series.high[index]));
      }
      for (std::size_t index = series.x.size(); index-- > 0;) {
        band += fmt::format("L{:.1f} {:.1f}", level.x(series.x[index]), upright.y(series.low[index]));
      }
      drawing.add(R"(<path class="band" d="{}z"/>)", band);
    }
    std::string path;
    for (std::size_t index = 0; index < series.x.size(); ++index) {
      path +=
          fmt::format("{}{:.1f} {:.1f}", index == 0 ? "M" : "L", level.x(series.x[index]), upright.y(series.y[index]));
    }
    drawing.add(R"(<path class="line" d="{}"/>)", path);
    for (std::size_t index = 0; index < series.x.size() && !series.is_bound; ++index) {
      draw_marker(drawing, colour, level.x(series.x[index]), upright.y(series.y[index]),
                  fmt::format("{}: {} at {}", series.name, tick_text(series.y[index]),
                              chart.x_is_bytes ? size_text_of(series.x[index]) : tick_text(series.x[index])));
    }
    drawing.add(R"(<path class="line" d="M{:.0f} {:.0f}h28"/>)", kLeft, legend_y);
    if (!series.is_bound) draw_marker(drawing, colour, kLeft + 14, legend_y, series.name);
    drawing.add("</g>");
    drawing.words(kLeft + 38, legend_y + 4, "start", series.name);
    legend_y += 20;
  }
  return drawing.take();
}

std::string column_svg(const ColumnChart& chart) {
  if (chart.columns.empty()) return "";
  double most = chart.level, low = chart.columns.front().from, high = chart.columns.back().to;
  for (const Column& column : chart.columns) most = std::max(most, column.height);
  for (const Mark& mark : chart.marks) {
    low = std::min(low, mark.at);
    high = std::max(high, mark.at);
  }
  const double marks_height = 20 * static_cast<double>(chart.marks.size() + (chart.level > 0 ? 1 : 0));
  Drawing drawing(chart.title, kWidth, kHeight + marks_height);
  const Upright upright(most);
  const Level level(low, high, false);
  draw_upright(drawing, upright, chart.y_name);
  if (high > low) {
    const double step = step_of(high - low, 8);
    for (double at = std::ceil(low / step) * step; at <= high; at += step) {
      drawing.words(level.x(at), kHeight - kBottom + 17, "middle", tick_text(at));
    }
  } else {
    drawing.words(level.x(low), kHeight - kBottom + 17, "middle", tick_text(low));
  }
  drawing.words((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", chart.x_name);
  drawing.add(R"(<g class="s0">)");
  for (const Column& column : chart.columns) {
    const double wide = std::max(1.5, level.x(column.to) - level.x(column.from) - 1);
    drawing.add(
        R"(<rect class="area" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{} at {}</title></rect>)",
        level.x(column.from), upright.y(column.height), wide, upright.y(0) - upright.y(column.height),
        tick_text(column.height), tick_text(column.from));
  }
  drawing.add("</g>");
  double legend_y = kHeight + 8;
  if (chart.level > 0) {
    drawing.add(R"(<g class="s1 bound"><path class="line" d="M{:.0f} {:.1f}H{:.0f}M{:.0f} {:.0f}h28"/></g>)", kLeft,
                upright.y(chart.level), kWidth - kRight, kLeft, legend_y);
    drawing.words(kLeft + 38, legend_y + 4, "start", chart.level_name);
    legend_y += 20;
  }
  for (std::size_t index = 0; index < chart.marks.size(); ++index) {
    const double x = level.x(chart.marks[index].at);
    drawing.add(R"(<g class="alarm"><path class="line" d="M{0:.1f} {1:.0f}V{2:.0f}"/></g>)", x, kTop,
                kHeight - kBottom);
    drawing.words(x + 4, kTop + 11, "start", std::to_string(index + 1), " class=\"alarm\"");
    drawing.words(kLeft + 14, legend_y + 4, "middle", std::to_string(index + 1), " class=\"alarm\"");
    drawing.words(kLeft + 38, legend_y + 4, "start", chart.marks[index].text);
    legend_y += 20;
  }
  return drawing.take();
}

std::string bar_svg(const std::string& title, const std::vector<Bar>& bars) {
  if (bars.empty()) return "";
  constexpr double kRow = 22, kLetter = 7.2;
  double most = 0, names = 0, texts = 0;
  for (const Bar& bar : bars) {
    most = std::max(most, bar.value);
    names = std::max(names, kLetter * static_cast<double>(std::min<std::size_t>(bar.name.size(), 52)));
    if (bar.value >= 0) texts = std::max(texts, kLetter * static_cast<double>(bar.text.size()));
  }
  const double left = names + 14, room = std::max(120.0, kWidth - left - texts - 20);
  Drawing drawing(title, left + room + texts + 20, kRow * static_cast<double>(bars.size()) + 10);
  double y = 5;
  for (const Bar& bar : bars) {
    drawing.words(left - 8, y + 15, "end", bar.name.substr(0, 52));
    const double length = bar.value >= 0 && most > 0 ? bar.value / most * room : 0;
    drawing.add(R"(<g class="{}"><rect class="area" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.0f}"/></g>)",
                bar.value < 0 ? "alarm" : "s0", left, y + 3, std::max(length, 2.0), kRow - 6);
    drawing.words(left + length + 8, y + 15, "start", bar.text, bar.value < 0 ? " class=\"alarm\"" : "");
    y += kRow;
  }
  return drawing.take();
}

}  // namespace meshbed::testbed::page
