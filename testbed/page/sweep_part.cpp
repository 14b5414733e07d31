#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "testbed/base/units.h"
#include "testbed/page/chart.h"
#include "testbed/page/parts.h"

namespace meshbed::testbed::page {
namespace {

using document::Row;
using document::Table;

/// A row of the sweep by names.
class Point {
 public:
  Point(const SweepSource& source, const Row& row)
      : row_(&row), varied_(source.varied()), columns_(&source.points().columns) {}

  std::string text(std::size_t column) const { return row_->cells[column].get<std::string>(); }
  std::string failed() const { return text(varied_); }
  std::string status() const { return text(varied_ + 1); }
  bool is_ok() const { return status() == "ok"; }
  std::optional<double> number(std::size_t behind_status) const {
    const Value& value = row_->cells[varied_ + 1 + behind_status];
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
  }
  std::optional<double> time_us() const { return number(1); }
  std::optional<double> busbw_GBps() const { return number(2); }
  std::optional<double> ratio() const { return number(3); }
  std::optional<double> over_bound() const { return number(4); }
  std::optional<double> low_us() const { return number(7); }
  std::optional<double> high_us() const { return number(8); }

  /// "64K, ring"; without the column `but`.
  std::string values(std::size_t but = ~std::size_t{0}) const {
    std::string all;
    for (std::size_t column = 0; column < varied_; ++column) {
      if (column == but) continue;
      all += (all.empty() ? "" : ", ") + text(column);
    }
    return all;
  }
  std::string name() const {
    std::string all = values();
    if (!failed().empty()) all += (all.empty() ? "without " : ", without ") + failed();
    return all.empty() ? "intact" : all;
  }

 private:
  const Row* row_;
  std::size_t varied_;
  const std::vector<document::Field>* columns_;
};

std::vector<Point> points_of(const SweepSource& source) {
  std::vector<Point> points;
  for (const Row& row : source.points().rows) points.emplace_back(source, row);
  return points;
}

/// The varied key that counts bytes, with two values or more that are sizes.
std::optional<std::size_t> size_column(const SweepSource& source, const std::vector<Point>& points) {
  for (std::size_t column = 0; column < source.varied(); ++column) {
    const std::string& key = source.points().columns[column].key;
    if (key.size() < 5 || key.compare(key.size() - 5, 5, "bytes") != 0) continue;
    std::set<std::string> values;
    bool all = true;
    for (const Point& point : points) {
      values.insert(point.text(column));
      all = all && parse_size_bytes(point.text(column)).has_value();
    }
    if (all && values.size() > 1) return column;
  }
  return std::nullopt;
}

/// Of what is intact: a curve for each combination of the other values, with its bound behind it.
std::string curves_html(const SweepSource& source, const std::vector<Point>& points) {
  const std::optional<std::size_t> sizes = size_column(source, points);
  if (!sizes) return "";
  struct Curve {
    std::map<double, double> busbw, bound, low, high;
  };
  std::vector<std::string> order;
  std::map<std::string, Curve> curves;
  for (const Point& point : points) {
    if (!point.is_ok() || !point.failed().empty() || !point.busbw_GBps()) continue;
    const std::string name = point.values(*sizes);
    if (!curves.contains(name)) order.push_back(name);
    const auto bytes = static_cast<double>(*parse_size_bytes(point.text(*sizes)));
    curves[name].busbw.emplace(bytes, *point.busbw_GBps());
    if (point.over_bound()) curves[name].bound.emplace(bytes, *point.busbw_GBps() * *point.over_bound());
    if (point.low_us() && point.high_us() && *point.low_us() > 0) {
      curves[name].low.emplace(bytes, *point.busbw_GBps() * *point.time_us() / *point.high_us());
      curves[name].high.emplace(bytes, *point.busbw_GBps() * *point.time_us() / *point.low_us());
    }
  }
  Chart chart{.title = "Bus bandwidth over size, beside the bound",
              .x_name = source.points().columns[*sizes].key,
              .y_name = "bus bandwidth, GB/s",
              .series = {},
              .x_is_bytes = true};
  const auto add = [&](std::string name, const std::map<double, double>& values, bool is_bound) {
    if (values.empty()) return;
    Series series{.name = std::move(name), .x = {}, .y = {}, .is_bound = is_bound};
    for (const auto& [x, y] : values) {
      series.x.push_back(x);
      series.y.push_back(y);
    }
    chart.series.push_back(std::move(series));
  };
  bool bands = false;
  for (std::size_t index = 0; index < std::min(order.size(), kSeriesMost); ++index) {
    const std::string name = order[index].empty() ? "predicted" : order[index];
    add(name, curves[order[index]].busbw, false);
    const Curve& curve = curves[order[index]];
    if (curve.low.size() == curve.busbw.size() && !curve.low.empty()) {
      bands = true;
      for (const auto& [bytes, busbw] : curve.low) chart.series.back().low.push_back(busbw);
      for (const auto& [bytes, busbw] : curve.high) chart.series.back().high.push_back(busbw);
    }
    add(name + ": bound", curves[order[index]].bound, true);
  }
  if (chart.series.empty()) return "";
  const std::size_t left = kSeriesMost - std::min(order.size(), kSeriesMost);
  std::set<std::string> sources;
  for (std::size_t index = 0; index < std::min(source.measured.size(), left); ++index) {
    add(source.measured[index].name, source.measured[index].busbw_GBps, false);
    sources.insert(source.measured[index].source);
  }
  std::string html =
      "<div class=\"scroll figure\" tabindex=\"0\" role=\"region\" aria-label=\"Chart of bandwidth over size\">" +
      chart_svg(chart) + "</div>\n";
  if (order.size() > kSeriesMost)
    html += note_html(fmt::format("The first {} of {} curves.", kSeriesMost, order.size()));
  if (source.measured.size() > left) {
    html += note_html(
        fmt::format("{} of {} measured curves; a chart has {} at most.", left, source.measured.size(), kSeriesMost));
  }
  if (!sources.empty()) html += note_html(fmt::format("Measured: {}.", fmt::join(sources, "; ")));
  return html +
         note_html(std::string("Points that end well, with nothing taken away. The figures are in the table below.") +
                   (bands ? " The band is the error of the class of machines: 9 of 10 measured points." : ""));
}

bool takes_away(const std::vector<Point>& points) {
  return std::any_of(points.begin(), points.end(), [](const Point& point) { return !point.failed().empty(); });
}

std::string figure_of(const std::string& title, const std::vector<Bar>& bars) {
  return "<div class=\"scroll figure\" tabindex=\"0\" role=\"region\" aria-label=\"" + title + "\">" +
         bar_svg(title, bars) + "</div>\n";
}

constexpr std::size_t kBarsMost = 40;

/// What each loss costs at worst over all sizes, the costliest first.
std::string losses_html(const SweepSource& source, const std::vector<Point>& points) {
  const std::size_t sizes = size_column(source, points).value_or(~std::size_t{0});
  struct Loss {
    Bar bar;
    bool is_down = false;
  };
  std::vector<Loss> losses;
  std::map<std::string, std::size_t> index_of;
  for (const Point& point : points) {
    if (point.failed().empty()) continue;
    const std::string values = point.values(sizes);
    const std::string name = (values.empty() ? "" : values + ", ") + "without " + point.failed();
    const auto [found, is_new] = index_of.emplace(name, losses.size());
    if (is_new) losses.push_back({.bar = {.name = name, .value = -1, .text = ""}});
    Loss& loss = losses[found->second];
    const std::optional<double> ratio = point.ratio();
    if (loss.is_down || (ratio && *ratio <= loss.bar.value)) continue;
    loss.is_down = !ratio;
    loss.bar.value = ratio.value_or(-1);
    loss.bar.text = ratio ? fmt::format("{:.3f} ×", *ratio) : point.status();
    if (sizes < source.varied()) loss.bar.text += " at " + point.text(sizes);
  }
  // What does not run at all is the worst.
  std::stable_sort(losses.begin(), losses.end(), [](const Loss& left, const Loss& right) {
    return std::pair(left.is_down, left.bar.value) > std::pair(right.is_down, right.bar.value);
  });
  std::vector<Bar> bars;
  for (const Loss& loss : losses) {
    if (bars.size() < kBarsMost) bars.push_back(loss.bar);
  }
  std::string html = note_html("The time over the baseline's; of several sizes the one where the loss costs most.");
  html += figure_of("Time without each part, over the time of the baseline", bars);
  if (losses.size() > kBarsMost) html += note_html(fmt::format("The first {} of {}.", kBarsMost, losses.size()));
  return html;
}

std::string times_html(const std::vector<Point>& points) {
  std::vector<Bar> bars;
  for (const Point& point : points) {
    if (bars.size() == kBarsMost) break;
    const std::optional<double> time_us = point.time_us();
    bars.push_back({point.name(), time_us.value_or(-1), time_us ? short_time(*time_us * 1e3) : point.status()});
  }
  std::string html = figure_of("Time of each point", bars);
  if (points.size() > kBarsMost) html += note_html(fmt::format("The first {} of {}.", kBarsMost, points.size()));
  return html;
}

std::string sweep_lead(const SweepSource& source, const std::vector<Point>& points) {
  std::string keys;
  for (std::size_t column = 0; column < source.varied(); ++column) {
    std::set<std::string> values;
    for (const Point& point : points) values.insert(point.text(column));
    keys += fmt::format("{}{} ({})", column == 0 ? "" : " × ", source.points().columns[column].key,
                        counted(values.size(), "value"));
  }
  std::set<std::string> parts;
  for (const Point& point : points) parts.insert(point.failed());
  parts.erase("");
  std::string lead = counted(points.size(), "point") + (keys.empty() ? "" : " of " + keys);
  if (!parts.empty()) lead += fmt::format(", intact and without each of {}", counted(parts.size(), "part"));
  lead += ".";
  const Point* fastest = nullptr;
  const Point* widest = nullptr;
  const Point* worst = nullptr;
  for (const Point& point : points) {
    if (!point.is_ok() || !point.time_us()) continue;
    if (point.failed().empty() && (fastest == nullptr || *point.time_us() < *fastest->time_us())) fastest = &point;
    if (point.failed().empty() && point.busbw_GBps() &&
        (widest == nullptr || *point.busbw_GBps() > *widest->busbw_GBps()))
      widest = &point;
    if (!point.failed().empty() && point.ratio() && (worst == nullptr || *point.ratio() > *worst->ratio()))
      worst = &point;
  }
  if (fastest != nullptr)
    lead += fmt::format(" Fastest: {}, {}.", fastest->name(), short_time(*fastest->time_us() * 1e3));
  if (widest != nullptr)
    lead += fmt::format(" Highest bus bandwidth: {}, {:.2f} GB/s.", widest->name(), *widest->busbw_GBps());
  if (worst != nullptr)
    lead += fmt::format(" The costliest loss that still runs: {}, {:.2f} times the baseline.", worst->name(),
                        *worst->ratio());
  std::map<std::string, std::size_t> not_ok;
  for (const Point& point : points) {
    if (!point.is_ok()) ++not_ok[point.status()];
  }
  for (const auto& [status, count] : not_ok) lead += fmt::format(" {}: {}.", counted(count, "point"), status);
  return lead;
}

}  // namespace

bool has_curves(const SweepSource& source) { return size_column(source, points_of(source)).has_value(); }

Part sweep_part(const SweepSource& source, const std::string& prefix, const Budget& budget) {
  const std::vector<Point> points = points_of(source);
  const auto ok = static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [](const Point& point) { return point.is_ok(); }));
  Part part{.title = source.sweep.at("scenario").get<std::string>() + ": sweep",
            .good = ok == points.size(),
            .verdict = fmt::format("{} of {} ok", ok, points.size()),
            .lead = sweep_lead(source, points),
            .contents = "",
            .html = ""};
  std::string keys;
  for (std::size_t column = 0; column < source.varied(); ++column)
    keys += (column == 0 ? " of " : ", ") + source.points().columns[column].key;
  part.title += keys;
  Sections sections(prefix);
  sections.add("curves", "Bandwidth over size", curves_html(source, points));
  if (takes_away(points)) {
    sections.add("losses", "What each loss costs", losses_html(source, points));
  } else if (!points.empty()) {
    sections.add("times", "Time of each point", times_html(points));
  }
  sections.add("points", "All points",
               note_html("A click on a heading sorts, once more in the other direction. The filter keeps the rows that "
                         "contain all its words.") +
                   table_html(source.points(), {.caption = "The points of the sweep.",
                                                .hidden = {},
                                                .rows_max = budget.rows,
                                                .sorted_and_filtered = true,
                                                .source = "sweep.csv"}));
  std::string overrides;
  for (const Value& each : source.sweep.at("overrides"))
    overrides += (overrides.empty() ? "" : ", ") + each.get<std::string>();
  sections.add("provenance", "Provenance",
               fmt::format("<dl class=\"facts\"><div><dt>scenario sha256</dt><dd>{}</dd></div><div><dt>overrides of "
                           "all points</dt><dd>{}</dd></div></dl>\n",
                           xml_text(source.sweep.at("scenario_sha256").get<std::string>()),
                           overrides.empty() ? "none" : xml_text(overrides)));
  sections.move_into(part);
  return part;
}

}  // namespace meshbed::testbed::page
