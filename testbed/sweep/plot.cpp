// A sweep's times as a plot: over the first varied key, a series for each combination of the others.

#include "testbed/plot/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "models/time/machine.h"
#include "testbed/base/units.h"
#include "testbed/render/render.h"
#include "testbed/scenario/scenario.h"
#include "testbed/sweep/table.h"

namespace meshbed::testbed::sweep {
namespace {

constexpr const char* kIntact = "intact";

std::optional<double> plain_number(const std::string& text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> size_number(const std::string& text) {
  const auto bytes = parse_size_bytes(text);
  return bytes ? std::optional<double>(static_cast<double>(*bytes)) : std::nullopt;
}

/// All of them by `read`; nothing where one is none.
template <typename Read>
std::vector<double> all_numbers(const std::vector<std::string>& texts, Read read) {
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    const std::optional<double> value = read(text);
    if (!value) return {};
    numbers.push_back(*value);
  }
  return numbers;
}

/// The axis of these values, and where each is on it.
PlotAxis axis_of(const std::string& key, const std::vector<std::string>& values, std::vector<double>& places) {
  const bool is_size = key == "workload.bytes" || key.ends_with("_bytes");
  if (is_size) places = all_numbers(values, size_number);
  if (!places.empty()) return {.title = key, .unit = "bytes", .scale = PlotScale::kBytes};
  places = all_numbers(values, plain_number);
  if (!places.empty()) {
    const auto [least, most] = std::minmax_element(places.begin(), places.end());
    const bool is_wide = *least > 0 && *most / *least > 20;
    return {.title = key, .unit = "", .scale = is_wide ? PlotScale::kLog : PlotScale::kLinear};
  }
  std::vector<std::string> names;
  for (const std::string& value : values) {
    const auto at = std::find(names.begin(), names.end(), value);
    places.push_back(static_cast<double>(at - names.begin()));
    if (at == names.end()) names.push_back(value);
  }
  return {.title = key, .unit = "", .scale = PlotScale::kNames, .names = names};
}

}  // namespace

Plot plot_of(const Options& options, const document::Table& table) {
  Plot plot{.title = fmt::format("Sweep of {}", options.scenario_path.substr(options.scenario_path.rfind('/') + 1)),
            .x = {.title = ""},
            .y = {.title = "time of one iteration", .unit = "us"},
            .empty_reason = "no point has a time"};
  const bool fails = options.fail != Fail::kNothing;
  const std::string first = options.axes.empty() ? "failed" : options.axes.front().key;
  std::vector<std::string> values, names;
  std::vector<std::optional<double>> times;
  std::size_t without = 0;
  for (const document::Value& row : json_of(table)) {
    const auto failed = row.at("failed").get<std::string>();
    const std::string what_failed = failed.empty() ? kIntact : failed;
    values.push_back(options.axes.empty() ? what_failed : row.at(first).get<std::string>());
    std::string name;
    for (std::size_t axis = 1; axis < options.axes.size(); ++axis) {
      const std::string& key = options.axes[axis].key;
      name += fmt::format("{}{}={}", name.empty() ? "" : ", ", key, row.at(key).get<std::string>());
    }
    if (fails && !options.axes.empty()) {
      name += (name.empty() ? "" : ", ") + (failed.empty() ? kIntact : "without " + failed);
    }
    names.push_back(name.empty() ? "time" : name);
    const document::Value& time = row.at("time_us");
    times.push_back(time.is_number() ? std::optional<double>(time.get<double>()) : std::nullopt);
    without += !times.back();
  }
  std::vector<double> places;
  plot.x = axis_of(first, values, places);
  if (options.axes.empty()) plot.x.title = "what is taken away";

  std::map<std::string, std::size_t> known;
  double least = 0, most = 0;
  for (std::size_t index = 0; index < times.size(); ++index) {
    const auto found = known.try_emplace(names[index], plot.series.size()).first;
    if (found->second == plot.series.size()) plot.series.push_back({.name = names[index]});
    if (!times[index]) continue;
    plot.series[found->second].marks.push_back({places[index], *times[index]});
    least = least == 0 ? *times[index] : std::min(least, *times[index]);
    most = std::max(most, *times[index]);
  }
  if (least > 0 && most / least > 20) plot.y.scale = PlotScale::kLog;
  plot.y.from_zero = plot.x.scale == PlotScale::kNames;  // there heights are compared
  if (plot.x.scale != PlotScale::kNames) {
    for (PlotSeries& series : plot.series) {
      series.line = series.marks;
      std::stable_sort(series.line.begin(), series.line.end(),
                       [](const PlotPoint& left, const PlotPoint& right) { return left.x < right.x; });
    }
  }
  const auto machine = read_scenario(options.scenario_path, options.overrides).software.machine;
  plot.caption.push_back(fmt::format("Scenario {}, simulated, profile {} where it is not varied; {} points.",
                                     options.scenario_path, machine != nullptr ? machine->name : "ideal",
                                     times.size()));
  if (!options.overrides.empty()) {
    std::string settings;
    for (const std::string& each : options.overrides) settings += (settings.empty() ? "" : ", ") + each;
    plot.caption.push_back("Set in all points: " + settings + ".");
  }
  if (without > 0) {
    plot.caption.push_back(fmt::format("{} points have no time (their status in the table says why).", without));
  }
  return plot;
}

}  // namespace meshbed::testbed::sweep
