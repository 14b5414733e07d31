#include "testbed/sweep/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "testbed/base/files.h"

namespace meshbed::testbed::sweep {
namespace {

using document::Value;

/// For a line of text; the whole is in CSV and JSON.
std::string shortened(const std::string& reason) {
  constexpr std::size_t kMost = 72;
  return reason.size() <= kMost ? reason : reason.substr(0, kMost) + "...";
}

int width_of(const std::string& title, const std::vector<std::string>& texts) {
  std::size_t width = title.size();
  for (const std::string& each : texts) width = std::max(width, each.size());
  return static_cast<int>(std::min<std::size_t>(width, 48));
}

document::Table table_of(const Options& options, const std::vector<Point>& points) {
  using document::number, document::text;
  document::Table table{.key = "points", .meaning = "the points of the sweep, in order", .columns = {}};
  for (const Axis& axis : options.axes) {
    const bool is_first = table.columns.empty();
    table.columns.push_back(
        text(axis.key, "as varied").shown(axis.key, width_of(axis.key, axis.values), is_first ? "" : "  ").left());
  }
  std::vector<std::string> names;
  for (const Point& point : points) names.push_back(point.failed);
  const int failed_width = options.fail == Fail::kNothing ? 0 : width_of("failed", names);
  auto failed = text("failed", "what was taken away; empty: nothing");
  table.columns.push_back(
      failed_width == 0 ? std::move(failed)
                        : std::move(failed).shown("failed", failed_width, table.columns.empty() ? "" : "  ").left());
  for (document::Field& field : std::vector<document::Field>{
           text("status", "ok, failed, unreachable, refused, time limit or error")
               .shown("status", 11, table.columns.size() == 1 && failed_width == 0 ? "" : "  ")
               .left(),
           number("time_us", "us", "of one iteration").or_null().shown("time (us)", 12).rounded(3),
           number("busbw_GBps", "GB/s", "as nccl-tests defines it").or_null().shown("busbw GB/s", 11).rounded(3),
           number("ratio_baseline", "", "time over the baseline's").or_null().shown("x base", 8).rounded(3),
           number("over_bound", "", "time over the lower bound of this cabling")
               .or_null()
               .shown("x bound", 8)
               .rounded(3),
           text("algorithm", "algorithm, protocol and channels of the engine").shown("algorithm", 20, "  ").left(),
           text("busiest_link", "carried something for the longest time").shown("busiest link", 28).left(),
           number("low_us", "us", "9 of 10 measurements of such a call are between this").or_null(),
           number("high_us", "us", "and this").or_null(), text("reason", "why the status is not ok")}) {
    table.columns.push_back(std::move(field));
  }
  return table;
}

}  // namespace

std::vector<std::size_t> baselines_of(const Options& options, const std::vector<Point>& points) {
  std::vector<std::size_t> baselines(points.size(), 0);
  std::size_t axis = options.axes.size();
  std::string value;
  if (!options.baseline.empty()) {
    const std::size_t equals = options.baseline.find('=');
    const std::string key = options.baseline.substr(0, equals);
    value = equals == std::string::npos ? "" : options.baseline.substr(equals + 1);
    for (axis = 0; axis < options.axes.size() && options.axes[axis].key != key; ++axis) {
    }
    const bool is_there = axis < options.axes.size() &&
                          std::find(options.axes[axis].values.begin(), options.axes[axis].values.end(), value) !=
                              options.axes[axis].values.end();
    if (!is_there) {
      throw std::runtime_error("--baseline " + options.baseline + ": is not a KEY=VALUE of --vary");
    }
  }
  std::map<std::pair<Values, std::string>, std::size_t> places;
  for (std::size_t index = 0; index < points.size(); ++index) {
    places.emplace(std::pair{points[index].values, points[index].failed}, index);
  }
  for (std::size_t index = 0; index < points.size(); ++index) {
    std::pair<Values, std::string> wanted{points[index].values, points[index].failed};
    if (axis < options.axes.size()) {
      wanted.first[axis] = value;
    } else if (options.fail != Fail::kNothing) {
      wanted.second.clear();
    } else {
      continue;  // the first point
    }
    const auto found = places.find(wanted);
    baselines[index] = found == places.end() ? index : found->second;
  }
  return baselines;
}

document::Document document_of(const Options& options, const std::vector<Point>& points,
                               const std::vector<Measured>& measured) {
  const std::vector<std::size_t> baselines = baselines_of(options, points);
  document::Section section{.title = "Sweep"};
  section.with({document::text("scenario", "the name of its file"),
                document::text("scenario_sha256", "of the scenario's file"),
                document::texts("overrides", "of all points"), document::integer("count", "", "of the points")});
  section.set("scenario", std::filesystem::path(options.scenario_path).stem().string());
  section.set("scenario_sha256", sha256_of_file(options.scenario_path));
  section.set("overrides", options.overrides);
  section.set("count", points.size());
  section.with(table_of(options, points));
  document::Table& table = section.table("points");
  for (std::size_t index = 0; index < points.size(); ++index) {
    const Measured& one = measured[index];
    const std::optional<double>& base_us = measured[baselines[index]].time_us;
    std::vector<Value> cells;
    for (const std::string& value : points[index].values) cells.emplace_back(value);
    cells.emplace_back(points[index].failed);
    cells.emplace_back(one.status);
    cells.push_back(optional_value(one.time_us));
    cells.push_back(optional_value(one.busbw_GBps));
    cells.push_back(one.time_us && base_us && *base_us > 0 ? Value(*one.time_us / *base_us) : Value(nullptr));
    cells.push_back(optional_value(one.over_bound));
    cells.emplace_back(one.algorithm);
    cells.emplace_back(one.busiest_link);
    cells.push_back(optional_value(one.low_us));
    cells.push_back(optional_value(one.high_us));
    cells.emplace_back(one.reason);
    table.add(std::move(cells), shortened(one.reason));
  }
  section.show("points");
  return {.title = "sweep", .sections = {std::move(section)}};
}

}  // namespace meshbed::testbed::sweep
