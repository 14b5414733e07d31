#include "testbed/base/progress.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "cli/common/progress_bar.h"

namespace progress_test {

using namespace meshbed::testbed;

/// What a bar writes to a file meanwhile.
std::string lines_of(int line_every_ms, const std::function<void()>& computation) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    ProgressBar bar(file, line_every_ms);
    set_progress_viewer(&bar);
    computation();
  }
  set_progress_viewer(nullptr);
  std::rewind(file);
  std::string text;
  for (int byte = std::fgetc(file); byte != EOF; byte = std::fgetc(file)) text += static_cast<char>(byte);
  std::fclose(file);
  return text;
}

std::string lines_of_three_steps(int line_every_ms) {
  return lines_of(line_every_ms, [] {
    Progress progress("all_reduce", 3);
    for (int step = 0; step < 3; ++step) progress.step();
  });
}

TEST_CASE("without a terminal progress is a line every ten seconds, and none of a computation that is shorter") {
  CHECK(lines_of_three_steps(ProgressBar::kLineEvery_ms).empty());
  CHECK(
      lines_of_three_steps(0) ==
      "meshbed: all_reduce: 1 of 3, 0 s gone, about 0 s left\nmeshbed: all_reduce: 2 of 3, 0 s gone, about 0 s left\n");
}

TEST_CASE("a simulation shows its virtual time and its messages, with and without steps") {
  const std::string with_steps = lines_of(0, [] {
    Progress progress("all_reduce", 2);
    progress.step();
    SimulationProgress simulation;
    for (int message = 1; message <= 300; ++message) simulation.message_ended(message * 1'000'000);
  });
  CHECK(with_steps.find("meshbed: all_reduce: 1 of 2, at 256.000 us, 256 messages") != std::string::npos);
  const std::string without = lines_of(0, [] {
    SimulationProgress simulation;
    for (int message = 1; message <= 600; ++message) simulation.message_ended(message * 1'000'000);
  });
  CHECK(without.rfind("meshbed: at 256.000 us, 256 messages", 0) == 0);
  CHECK(without.find("meshbed: at 512.000 us, 512 messages") != std::string::npos);
}

TEST_CASE("a viewer sees the beginning, each step and the end; without one nothing happens") {
  class Kept final : public ProgressViewer {
   public:
    void begin(const std::string& label, int total, int /*done*/) override {
      seen.push_back(label + " of " + std::to_string(total));
    }
    void show(int done) override { seen.push_back(std::to_string(done)); }
    void simulated(std::uint64_t messages, std::int64_t at_ps) override {
      seen.push_back(std::to_string(messages) + " at " + std::to_string(at_ps));
    }
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
