#include "testbed/base/progress.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/common/progress_bar.h"

namespace progress_test {

using namespace meshbed::testbed;

/// What a bar writes to a file in a computation of three steps.
std::string lines_of_three_steps(int line_every_ms) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    ProgressBar bar(file, line_every_ms);
    set_progress_viewer(&bar);
    Progress progress("all_reduce", 3);
    for (int step = 0; step < 3; ++step) progress.step();
  }
  set_progress_viewer(nullptr);
  std::rewind(file);
  std::string text;
  for (int byte = std::fgetc(file); byte != EOF; byte = std::fgetc(file)) text += static_cast<char>(byte);
  std::fclose(file);
  return text;
}

TEST_CASE("without a terminal progress is a line every ten seconds, and none of a computation that is shorter") {
  CHECK(lines_of_three_steps(ProgressBar::kLineEvery_ms).empty());
  CHECK(
      lines_of_three_steps(0) ==
      "meshbed: all_reduce: 1 of 3, 0 s gone, about 0 s left\nmeshbed: all_reduce: 2 of 3, 0 s gone, about 0 s left\n");
}

TEST_CASE("a viewer sees the beginning, each step and the end; without one nothing happens") {
  class Kept final : public ProgressViewer {
   public:
    void begin(const std::string& label, int total, int /*done*/) override {
      seen.push_back(label + " of " + std::to_string(total));
    }
    void show(int done) override { seen.push_back(std::to_string(done)); }
    void end() override { seen.emplace_back("end"); }
    std::vector<std::string> seen;
  } kept;
  set_progress_viewer(&kept);
  {
    Progress progress("all_reduce", 2);
    progress.step();
    progress.step();
  }
  set_progress_viewer(nullptr);
  { Progress unseen("broadcast", 1); }
  CHECK(kept.seen == std::vector<std::string>{"all_reduce of 2", "1", "2", "end"});
}

}  // namespace progress_test
