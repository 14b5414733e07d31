// Every plot has a title, axes with units, a legend and a caption, for all values.
#include "testbed/plot/plot.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "testbed/plot/axis.h"

namespace plot_test {

using namespace meshbed::testbed;

namespace {

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

Plot plot_with(const std::vector<PlotPoint>& points) {
  return {.title = "times of <this>",
          .x = {.title = "message size", .unit = "bytes", .scale = PlotScale::kBytes},
          .y = {.title = "time", .unit = "us", .scale = PlotScale::kLog},
          .series = {{.name = "measured", .marks = points, .line = points}},
          .empty_reason = "no row was read",
          .caption = {"Scenario pair.toml, profile ideal."}};
}

void check_parts(const Plot& plot) {
  const std::string svg = svg_of(plot);
  CHECK(svg.find("times of &lt;this&gt;") != std::string::npos);
  CHECK(svg.find(">message size (bytes)</text>") != std::string::npos);
  CHECK(svg.find(">time (us)</text>") != std::string::npos);
  const std::string legend = svg.substr(svg.find("class=\"legend\""));
  CHECK(legend.find(plot.series.front().marks.empty() ? ">measured: no values</text>" : ">measured</text>") !=
        std::string::npos);
  CHECK(legend.find("Scenario pair.toml, profile ideal.") != std::string::npos);
  CHECK(legend.find(std::string("meshbed ") + kVersion) != std::string::npos);
  const std::string x =
      svg.substr(svg.find("class=\"axis-x\""), svg.find("class=\"x-title\"") - svg.find("class=\"axis-x\""));
  const std::string y =
      svg.substr(svg.find("class=\"axis-y\""), svg.find("class=\"axis-x\"") - svg.find("class=\"axis-y\""));
  CHECK(count_of(x, "<text") >= 2);
  CHECK(count_of(y, "<text") >= 2);
  for (const char* wrong : {"nan", "inf"}) CHECK(svg.find(wrong) == std::string::npos);
}

}  // namespace

TEST_CASE("a plot of several values, of one, of equal ones and of none has all its parts") {
  for (const std::vector<PlotPoint>& points :
       {std::vector<PlotPoint>{{1024, 5}, {65536, 50}, {1048576, 700}}, std::vector<PlotPoint>{{8192, 27.9}},
        std::vector<PlotPoint>{{8192, 27.9}, {8192, 27.9}, {8192, 27.9}},
        std::vector<PlotPoint>{{8192, 27.9}, {32768, 37.2}, {49152, 45.4}}}) {
    const Plot plot = plot_with(points);
    check_parts(plot);
    CHECK(count_of(svg_of(plot), "class=\"m\"") == points.size() + 1);  // and the legend's
    CHECK(svg_of(plot).find("Nothing to draw") == std::string::npos);
  }
  check_parts(plot_with({}));
  CHECK(svg_of(plot_with({})).find("Nothing to draw: no row was read") != std::string::npos);
}

TEST_CASE("values that a logarithmic axis cannot hold are left out and counted") {
  const std::string svg =
      svg_of(plot_with({{1024, 5}, {2048, 0}, {4096, std::numeric_limits<double>::quiet_NaN()}, {8192, -1}}));
  CHECK(svg.find("Left out: 6 points") != std::string::npos);  // of the marks and of the line
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("series differ by colour, marker and dash; more than the legend holds are counted") {
  Plot plot = plot_with({{1024, 5}, {4096, 6}});
  plot.series.clear();
  for (int index = 0; index < 30; ++index) {
    plot.series.push_back(
        {.name = "series " + std::to_string(index), .marks = {{1024, 5.0 + index}}, .line = {{1024, 5.0 + index}}});
  }
  const std::string svg = svg_of(plot);
  CHECK(svg.find(">series 23</text>") != std::string::npos);
  CHECK(svg.find(">series 24</text>") == std::string::npos);
  CHECK(svg.find("and 6 more") != std::string::npos);
  for (const char* colour : {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"}) {
    CHECK_MESSAGE(svg.find(std::string("stroke=\"") + colour) != std::string::npos, colour);
  }
  CHECK(svg.find("stroke-dasharray") != std::string::npos);
}

TEST_CASE("ticks are round, at least two and at most a dozen, for any range") {
  for (const PlotScale scale : {PlotScale::kLinear, PlotScale::kLog, PlotScale::kBytes}) {
    const PlotAxis axis{.title = "", .unit = "", .scale = scale};
    for (const double low : {1.0, 27.9, 8192.0, 1e9}) {
      for (const double factor : {1.0, 1.01, 1.5, 3.0, 6.0, 100.0, 1e6}) {
        PlotRange range(axis);
        range.take(low);
        range.take(low * factor);
        range.close();
        const std::vector<PlotTick> ticks = range.ticks();
        CAPTURE(low);
        CAPTURE(factor);
        CHECK(ticks.size() >= 2);
        CHECK(ticks.size() <= 14);
        for (const PlotTick& tick : ticks) {
          CHECK(range.part(tick.value) >= -1e-9);
          CHECK(range.part(tick.value) <= 1 + 1e-9);
        }
      }
    }
  }
}

TEST_CASE("names are ticks in their order") {
  Plot plot = plot_with({});
  plot.x = {.title = "what is taken away", .unit = "", .scale = PlotScale::kNames, .names = {"intact", "node0-node1"}};
  plot.series.front().marks = {{0, 5}, {1, 9}};
  plot.series.front().line.clear();
  const std::string svg = svg_of(plot);
  CHECK(svg.find(">intact</text>") < svg.find(">node0-node1</text>"));
  CHECK(svg.find(">what is taken away</text>") != std::string::npos);
}

TEST_CASE("a file of another kind is refused by its name") {
  CHECK_THROWS_WITH_AS(require_plot_file("--plot", "x.pdf"), "--plot x.pdf: the name must end in .svg or .png",
                       std::runtime_error);
  CHECK_THROWS_AS(require_plot_file("--plot", ""), std::runtime_error);
  CHECK_NOTHROW(require_plot_file("--plot", "x.svg"));
}

}  // namespace plot_test
