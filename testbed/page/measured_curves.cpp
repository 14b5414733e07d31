#include "testbed/page/measured_curves.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed::page {
namespace {

std::string name_of(const MeasuredRow& row) {
  std::string name = fmt::format("measured: {}, {} ranks", row.collective, row.point.call.ranks);
  for (const std::string& word : {row.placement, row.variant}) {
    if (!word.empty()) name += ", " + word;
  }
  return name;
}

void add_curves_of(const std::string& path, std::vector<MeasuredCurve>& curves) {
  const MeasuredFile file = read_measured_file(path, {});
  std::vector<std::string> order;
  std::map<std::string, std::map<double, std::vector<double>>> rows;  // by name, then by bytes
  for (const MeasuredRow& row : file.rows) {
    if (row.point.is_message || row.point.time_us <= 0) continue;
    const std::string name = name_of(row);
    if (!rows.contains(name)) order.push_back(name);
    const auto bytes = static_cast<double>(row.point.call.bytes);
    rows[name][bytes].push_back(bytes / (row.point.time_us * 1e3) *
                                models::bus_factor(row.point.call.collective, row.point.call.ranks));
  }
  if (order.empty()) {
    throw std::runtime_error(path + ": no row is of a collective, so there is no bus bandwidth to draw");
  }
  for (const std::string& name : order) {
    MeasuredCurve curve{.name = name, .busbw_GBps = {}, .source = file.name + ": " + file.source};
    for (const auto& [bytes, values] : rows[name]) {
      double sum = 0;
      for (const double value : values) sum += value;
      curve.busbw_GBps.emplace(bytes, sum / static_cast<double>(values.size()));
    }
    curves.push_back(std::move(curve));
  }
}

}  // namespace

std::vector<MeasuredCurve> read_measured_curves(const std::vector<std::string>& paths) {
  std::vector<MeasuredCurve> curves;
  for (const std::string& path : paths) add_curves_of(path, curves);
  return curves;
}

}  // namespace meshbed::testbed::page
