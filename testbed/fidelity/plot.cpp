// Measured and predicted times of a file as a plot.

#include "testbed/plot/plot.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>

#include "testbed/fidelity/validated.h"

namespace meshbed::testbed {

Plot plot_of(const Validated& validated) {
  const MeasuredFile& file = validated.file;
  Plot plot{.title = fmt::format("Measured and predicted times: {}", file.name),
            .x = {.title = "message size", .unit = "bytes", .scale = PlotScale::kBytes},
            .y = {.title = "time of one operation", .unit = "us", .scale = PlotScale::kLog},
            .empty_reason = "the file has no row that can be read"};
  // A series for each kind of call; its line goes through the sizes in order.
  std::map<std::string, PlotSeries> kinds;
  std::map<std::string, std::map<std::uint64_t, double>> lines;
  for (std::size_t row = 0; row < file.rows.size(); ++row) {
    const MeasuredRow& own = file.rows[row];
    const models::CollectiveCall& call = own.point.call;
    const std::string name = fmt::format("{}, {} ranks on {} nodes{}{}", own.collective, call.ranks, call.nodes,
                                         own.variant.empty() ? "" : ", ", own.variant);
    kinds[name].marks.push_back({static_cast<double>(call.bytes), own.point.time_us});
    lines[name][call.bytes] = validated.predicted_us[row];
  }
  for (auto& [name, series] : kinds) {
    series.name = name;
    for (const auto& [bytes, us] : lines[name]) series.line.push_back({static_cast<double>(bytes), us});
    plot.series.push_back(std::move(series));
  }
  plot.caption.emplace_back("Markers: measured. Lines: predicted by " + validated.profile_names() + ".");
  if (!file.rows.empty()) {
    plot.caption.push_back(fmt::format("Error of {} points: median {:.1f} %, 90 % of them at most {:.1f} %.",
                                       file.rows.size(), 100 * validated.errors.median, 100 * validated.errors.p90));
  }
  plot.caption.push_back(fmt::format("Measured file {}{}{}.", file.name,
                                     file.topology_class.empty() ? "" : ", class " + file.topology_class,
                                     file.quality.empty() ? "" : ", quality " + file.quality));
  return plot;
}

}  // namespace meshbed::testbed
