// --plot of validate, perf, sweep and tune: one look, and refused before anything runs where it cannot be drawn.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace plot_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;

namespace {

CommandResult meshbed(const std::string& arguments) {
  return run_command_line("cd '" MESHBED_SOURCE_DIR "' && " + meshbed_program() + " " + arguments + " 2>&1");
}

/// Command lines that take --plot, and need a folder for what else they write.
struct Plotted {
  std::string name, arguments, x_title, y_title, legend, caption;
};
std::vector<Plotted> plotted(const std::string& folder) {
  return {
      {"validate", "validate models/data/cal_spark2_latbench_allreduce.csv", "message size (bytes)",
       "time of one operation (us)", "all_reduce, 2 ranks on 2 nodes, oneshot_eager",
       "predicted by spark-pair-200g + spark-pair-oneshot"},
      {"perf", "perf all_reduce --scenario scenarios/pair.toml -b 1K -e 64K -f 4", "message size (bytes)",
       "bus bandwidth, as nccl-tests defines it (GB/s)", "in place", "Scenario scenarios/pair.toml, world sim, seed 1"},
      {"sweep",
       "sweep scenarios/pair.toml --vary workload.bytes=1K,64K --vary workload.in_place=true,false --results " + folder,
       "workload.bytes (bytes)", "time of one iteration (us)", "workload.in_place=false",
       "Scenario scenarios/pair.toml"},
      {"tune", "tune scenarios/pair.toml --collective all_reduce -b 1K -e 16K -f 16 --out " + folder + "/table.csv",
       "message size (bytes)", "time of one operation (us)", "all_reduce: ring, simple",
       "Scenario scenarios/pair.toml, 2 ranks"}};
}

bool has_converter() { return run_command_line("command -v rsvg-convert").status == 0; }

}  // namespace

TEST_CASE("validate, perf, sweep and tune draw title, axes with units, legend and provenance") {
  const std::string folder = scratch_folder("plots");
  for (const Plotted& one : plotted(folder)) {
    CAPTURE(one.name);
    const std::string file = folder + "/" + one.name + ".svg";
    const CommandResult run = meshbed(one.arguments + " --plot " + file);
    CAPTURE(run.output);
    REQUIRE(run.status == 0);
    const std::string svg = read_text_file(file);
    for (const std::string& text : {one.x_title, one.y_title, one.legend, one.caption}) {
      CHECK_MESSAGE(svg.find(text) != std::string::npos, text);
    }
    CHECK(svg.find("class=\"axis-x\"") != std::string::npos);
    CHECK(svg.find("class=\"p\"") != std::string::npos);
    CHECK(svg.find("Nothing to draw") == std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
  }
}

TEST_CASE("a plot's name that ends otherwise is refused before anything runs") {
  const std::string folder = scratch_folder("plots-refused");
  for (const Plotted& one : plotted(folder)) {
    const CommandResult run = meshbed(one.arguments + " --plot " + folder + "/plot.pdf");
    CHECK(run.status == 2);
    CHECK(run.output == "meshbed: --plot " + folder + "/plot.pdf: the name must end in .svg or .png\n");
  }
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("a PNG is drawn by rsvg-convert; where it is missing, the error names the package") {
  const std::string folder = scratch_folder("plots-png");
  const std::string arguments = "validate models/data/cal_spark2_latbench_allreduce.csv --plot " + folder + "/plot.png";
  const CommandResult refused =
      run_command_line("cd '" MESHBED_SOURCE_DIR "' && PATH=/nowhere " + meshbed_program() + " " + arguments + " 2>&1");
  CHECK(refused.status == 2);
  CHECK(refused.output.find("install librsvg2-bin") != std::string::npos);
  CHECK(std::filesystem::is_empty(folder));
  if (!has_converter()) {
    MESSAGE("skipped: a PNG file; rsvg-convert is not installed (librsvg2-bin)");
    return;
  }
  CHECK(meshbed(arguments).status == 0);
  CHECK(read_text_file(folder + "/plot.png").substr(1, 3) == "PNG");
}

}  // namespace plot_command_test
