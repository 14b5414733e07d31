// A results folder never holds files of two runs.
#include "testbed/result/results_folder.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace results_folder_test {

using namespace meshbed::testbed;
using meshbed::test::scratch_folder;

namespace {

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void run_once(const std::string& results, const std::string& mark, bool with_trace) {
  ResultsFolder folder(results, "pair", "sim");
  if (with_trace) write_text_file(folder.aside("messages.csv"), mark);
  write_text_file(folder.aside("summary.json"), mark);
  write_text_file(folder.aside("provenance.json"), mark);
  folder.publish();
}

/// The number of a process that has ended.
pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

const std::set<std::string> kAll{"messages.csv", "provenance.json", "summary.json"};

}  // namespace

TEST_CASE("what a run wrote aside replaces the previous run's files all at once") {
  const std::string results = scratch_folder("results_replaced");
  const std::string folder = results + "/pair/sim";
  run_once(results, "first", true);
  {
    ResultsFolder second(results, "pair", "sim");
    CHECK(second.path() == folder);
    for (const auto& name : kAll) write_text_file(second.aside(name), "second");
    for (const auto& name : kAll) CHECK(read_text_file(folder + "/" + name) == "first");
    second.publish();
  }
  CHECK(names_in(folder) == kAll);
  for (const auto& name : kAll) CHECK(read_text_file(folder + "/" + name) == "second");
}

TEST_CASE("a run without a trace removes the previous run's") {
  const std::string results = scratch_folder("results_no_trace");
  run_once(results, "first", true);
  run_once(results, "second", false);
  CHECK(names_in(results + "/pair/sim") == std::set<std::string>{"provenance.json", "summary.json"});
}

TEST_CASE("a run that ends early leaves the previous results alone") {
  const std::string results = scratch_folder("results_early");
  run_once(results, "first", true);
  {
    ResultsFolder second(results, "pair", "sim");
    write_text_file(second.aside("messages.csv"), "half");
  }
  CHECK(names_in(results + "/pair/sim") == kAll);
  CHECK(read_text_file(results + "/pair/sim/messages.csv") == "first");
}

TEST_CASE("partial files of dead runs are removed; those of a living one, and files of others, stay") {
  const std::string results = scratch_folder("results_left_over");
  const std::string folder = results + "/pair/sim/";
  const std::string dead = std::to_string(dead_process());
  const std::string alive = "summary.json.partial-" + std::to_string(getppid());
  for (const auto& name : {"messages.csv.partial-" + dead, "summary.json.partial-" + dead, alive,
                           "mine.csv.partial-" + dead, std::string("messages.csv.partial-x")}) {
    write_text_file(folder + name, "left over");
  }
  const ResultsFolder next(results, "pair", "sim");
  CHECK(names_in(folder) == std::set<std::string>{alive, "mine.csv.partial-" + dead, "messages.csv.partial-x"});
}

TEST_CASE("a folder that cannot be made is refused with what to do") {
  CHECK_THROWS_WITH_AS(ResultsFolder("", "pair", "sim"), "--results is empty; name a folder, as in --results results",
                       std::runtime_error);
  CHECK_THROWS_AS(ResultsFolder("/proc/nowhere", "pair", "sim"), std::runtime_error);
}

}  // namespace results_folder_test
