#include "testbed/base/progress.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/common/progress_bar.h"

namespace progress_test {

using namespace meshbed::testbed;

TEST_CASE("progress writes nothing where no terminal shows it") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    ProgressBar bar(file);
    set_progress_viewer(&bar);
    Progress progress("all_reduce", 3);
    for (int step = 0; step < 3; ++step) progress.step();
  }
  set_progress_viewer(nullptr);
  std::fseek(file, 0, SEEK_END);
  CHECK(std::ftell(file) == 0);
  std::fclose(file);
}

TEST_CASE("a viewer sees the beginning, each step and the end; without one nothing happens") {
  class Kept final : public ProgressViewer {
   public:
    void begin(const std::string& label, int total) override { seen.push_back(label + " of " + std::to_string(total)); }
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
