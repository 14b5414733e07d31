// Measured and predicted times of a file as a picture: SVG, both axes logarithmic, a panel as wide as a page.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "testbed/base/xml_text.h"
#include "testbed/fidelity/validated.h"

namespace meshbed::testbed {
namespace {

constexpr double kWidth = 640, kHeight = 400, kLeft = 70, kRight = 20, kTop = 34, kBottom = 44;

struct LogAxis {
  double low = 1e300, high = 0;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double part(double value) const { return high <= low ? 0.5 : std::log(value / low) / std::log(high / low); }
};

double x_of(const LogAxis& sizes, double bytes) { return kLeft + sizes.part(bytes) * (kWidth - kLeft - kRight); }
double y_of(const LogAxis& times, double us) { return kHeight - kBottom - times.part(us) * (kHeight - kTop - kBottom); }

std::string bytes_label(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string time_label(double us) {
  if (us >= 1e6) return fmt::format("{:g} s", us / 1e6);
  if (us >= 1e3) return fmt::format("{:g} ms", us / 1e3);
  return fmt::format("{:g} us", us);
}

std::string grid(const LogAxis& sizes, const LogAxis& times) {
  std::string text;
  constexpr double kSizeStep = 16, kTimeStep = 10;
  for (double bytes = 1; bytes <= sizes.high; bytes *= kSizeStep) {
    if (bytes < sizes.low) continue;
    const double x = x_of(sizes, bytes);
    text += fmt::format(
        "<path class=\"g\" d=\"M{0:.0f} {1:.0f}V{2:.0f}\"/><text x=\"{0:.0f}\" y=\"{3:.0f}\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x, kTop, kHeight - kBottom, kHeight - kBottom + 16, bytes_label(bytes));
  }
  for (double us = 1e-3; us <= times.high; us *= kTimeStep) {
    if (us < times.low) continue;
    const double y = y_of(times, us);
    text += fmt::format(
        "<path class=\"g\" d=\"M{0:.0f} {1:.0f}H{2:.0f}\"/><text x=\"{3:.0f}\" y=\"{4:.0f}\" "
        "text-anchor=\"end\">{5}</text>\n",
        kLeft, y, kWidth - kRight, kLeft - 6, y + 4, time_label(us));
  }
  return text;
}

}  // namespace

std::string plot_svg(const Validated& validated) {
  LogAxis sizes, times;
  // A line for each kind of call, through its sizes in order.
  std::map<std::string, std::map<std::uint64_t, double>> lines;
  std::string dots;
  const std::vector<MeasuredRow>& rows = validated.file.rows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    sizes.take(static_cast<double>(rows[row].point.call.bytes));
    times.take(rows[row].point.time_us);
    times.take(validated.predicted_us[row]);
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const models::CollectiveCall& call = rows[row].point.call;
    lines[fmt::format("{} {} {} {}", rows[row].collective, call.ranks, call.nodes, rows[row].variant)][call.bytes] =
        validated.predicted_us[row];
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>\n", x_of(sizes, static_cast<double>(call.bytes)),
                        y_of(times, rows[row].point.time_us));
  }
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<style>.g{{stroke:#ddd}}.p{{stroke:#c40;fill:none}}circle{{fill:#06c}}</style>\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n<text x=\"{2:.0f}\" y=\"14\">{3}</text>\n"
      "<text x=\"{2:.0f}\" y=\"28\">dots: measured; lines: predicted by {4}; median {5:.1f} %, p90 {6:.1f} %</text>\n",
      kWidth, kHeight, kLeft, xml_text(validated.file.name), xml_text(validated.profile_names()),
      100 * validated.errors.median, 100 * validated.errors.p90);
  text += grid(sizes, times);
  for (const auto& [name, points] : lines) {
    std::string path;
    for (const auto& [bytes, us] : points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(sizes, static_cast<double>(bytes)),
                          y_of(times, us));
    }
    text += fmt::format("<path class=\"p\" d=\"{}\"><title>{}</title></path>\n", path, xml_text(name));
  }
  return text + dots + "</svg>\n";
}

}  // namespace meshbed::testbed
