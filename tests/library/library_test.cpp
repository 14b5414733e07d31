// libmeshbed as a program uses it: the shared library and its public headers alone.
#include <doctest/doctest.h>
#include <meshbed/compare.h>
#include <meshbed/predict.h>
#include <meshbed/run.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace library_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

std::string path_of(const std::string& scenario) {
  return std::string(MESHBED_SOURCE_DIR) + "/scenarios/" + scenario + ".toml";
}

/// Two nodes, one cable, little data: some tenths of a second.
Scenario small() {
  Scenario scenario = Scenario::load(path_of("pair"));
  scenario.set("workload.bytes", "64K");
  return scenario;
}

std::string json_value(const std::string& json, const std::string& key) {
  const std::string before = "\"" + key + "\": \"";
  const std::size_t from = json.find(before);
  REQUIRE(from != std::string::npos);
  return json.substr(from + before.size(), json.find('"', from + before.size()) - from - before.size());
}

/// The processes whose parent this one is.
std::vector<int> children() {
  std::ifstream file("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  return {std::istream_iterator<int>(file), std::istream_iterator<int>()};
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

template <typename Element>
std::vector<Element> column(const RunResult& result, const std::string& name) {
  for (const MessageColumn& each : result.messages()) {
    if (each.name != name) continue;
    const auto* data = static_cast<const Element*>(each.data);
    return {data, data + each.count};
  }
  FAIL("there is no column ", name);
  return {};
}

}  // namespace

TEST_CASE("a run has the command's digest, figures, proofs and messages") {
  const std::string folder = scratch_folder("library");
  const CommandResult command = run_command_line(meshbed_program() + " run " + scenario_file("spark-triangle") +
                                                 " --set workload.bytes=1M --fault loss,target=node0-node1,amount=0.01 "
                                                 "--json --results '" +
                                                 folder + "' 2>/dev/null");
  Scenario scenario = Scenario::load(path_of("spark-triangle"));
  scenario.set("workload.bytes", "1M").fault("loss,target=node0-node1,amount=0.01");
  const RunResult result = run(scenario);
  CHECK(result.digest() == json_value(command.output, "digest"));
  CHECK(result.passed() == (command.status == 0));
  CHECK(result.time_s() > 0);
  CHECK(result.busbw_GBps() > result.algbw_GBps());
  CHECK(result.wrong() == 0);
  CHECK(result.checked() > 0);
  CHECK(result.proofs().size() >= 5);

  std::ifstream csv(folder + "/spark-triangle/sim/messages.csv");
  std::string line;
  std::getline(csv, line);
  std::int64_t completed_ps = 0;
  std::uint64_t tries = 0, lines = 0;
  while (std::getline(csv, line)) {
    std::vector<std::string> fields;
    std::istringstream words(line);
    for (std::string word; std::getline(words, word, ',');) fields.push_back(word);
    completed_ps += std::stoll(fields.at(3));
    tries += std::stoull(fields.at(17));
    ++lines;
  }
  REQUIRE(lines > 0);
  CHECK(lines == result.message_count());
  const auto completed = column<std::int64_t>(result, "completed_ps");
  const auto all_tries = column<std::uint32_t>(result, "tries");
  CHECK(std::accumulate(completed.begin(), completed.end(), std::int64_t{0}) == completed_ps);
  CHECK(std::accumulate(all_tries.begin(), all_tries.end(), std::uint64_t{0}) == tries);
}

TEST_CASE("what cannot be set is refused with its place, and leaves the scenario as it was") {
  Scenario scenario = small();
  try {
    scenario.set("workload.byte", "64M");
    FAIL("it was taken");
  } catch (const InvalidScenario& error) {
    REQUIRE(error.findings().size() == 1);
    CHECK(error.findings()[0].severity == "error");
    CHECK(error.findings()[0].place == "--set workload.byte=64M");
    CHECK(error.findings()[0].cause.find("did you mean 'bytes'?") != std::string::npos);
  }
  CHECK(scenario.get("workload.bytes") == "64K");
  CHECK(scenario.overrides() == std::vector<std::string>{"workload.bytes=64K"});
  for (const char* missing : {"workload.root", "workload.bytes.0", "cable.0.rate", "cable.x.rate", ""}) {
    CHECK_THROWS_AS((void)scenario.get(missing), std::out_of_range);
  }
  Scenario slow = scenario;
  slow.set("cable.node0-node1.rate", "50Gb/s");
  CHECK(slow.get("cable.node0-node1.rate") == "50Gb/s");
  CHECK(slow.get("cable.0.rate") == "50Gb/s");
  CHECK_THROWS_AS((void)Scenario::load("/no/such.toml"), InvalidScenario);
  CHECK_THROWS_AS((void)Scenario::load("/"), InvalidScenario);
  CHECK_THROWS_AS((void)Scenario::parse("nonsense = ", "mine.toml"), InvalidScenario);
  CHECK_THROWS_AS(scenario.fault("nothing,at=1ms"), InvalidScenario);
  CHECK_THROWS_AS(scenario.fail("node7"), InvalidScenario);

  // Each for itself is refused; both together are one change.
  CHECK_THROWS_AS(scenario.set("workload.root", "2"), InvalidScenario);
  Scenario ring = Scenario::parse("[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nbytes = \"64K\"\n");
  ring.set({{"topology.nodes", "5"}, {"workload.collective", "broadcast"}, {"workload.root", "4"}});
  CHECK(ring.ranks() == 5);
  CHECK(run(ring).passed());
}

TEST_CASE("a copy goes its own way; what fails says why") {
  const Scenario whole = Scenario::load(path_of("spark-triangle"));
  Scenario cut = whole;
  cut.set("workload.bytes", "1M").fail("node0-node1");
  CHECK(whole.overrides().empty());
  const RunResult result = run(cut);
  CHECK(result.wrong() == 0);
  CHECK(result.passed() == result.failure().empty());

  Scenario switched = Scenario::load(path_of("ring4"));
  switched.set({{"topology.kind", "switch"}, {"workload.bytes", "64K"}, {"expect", "{}"}}).fail("node0-switch0");
  CHECK_FALSE(run(switched).passed());

  Scenario dead = small();
  dead.fail("node1");
  const RunResult lost = run(dead);
  CHECK_FALSE(lost.passed());
  REQUIRE(!lost.errors().empty());
  CHECK(lost.failure().find("rank") != std::string::npos);
}

TEST_CASE("a scenario that a check refuses is not run") {
  Scenario scenario = Scenario::load(path_of("ring4"));
  scenario.set("environment.NCCL_IB_HCA", "=nothing0");
  bool refused = false;
  try {
    (void)run(scenario);
  } catch (const InvalidScenario& error) {
    refused = true;
    CHECK(error.findings().front().severity == "error");
  }
  const auto findings = scenario.check();
  const bool has_error =
      std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.severity == "error"; });
  CHECK(has_error);
  CHECK(refused);
}

TEST_CASE("eight threads run at once, beside one that starts and ends processes of its own") {
  const Scenario scenario = small();
  const std::string digest = run(scenario).digest();
  std::vector<std::string> digests(8);
  {
    std::vector<std::thread> threads;
    for (std::string& each : digests) threads.emplace_back([&] { each = run(scenario).digest(); });
    threads.emplace_back([] {
      for (int count = 0; count < 50; ++count) CHECK(std::system("true") == 0);
    });
    for (std::thread& thread : threads) thread.join();
  }
  for (const std::string& each : digests) CHECK(each == digest);
  CHECK(children().empty());
}

TEST_CASE("a run ends where the program says so, at its time limit, and where the program throws; nothing stays") {
  Scenario scenario = Scenario::load(path_of("pair"));
  scenario.set({{"workload.iterations", "100000"}, {"workload.bytes", "1M"}});
  RunOptions options;
  int calls = 0;
  options.on_progress = [&](const RunProgress& now) {
    CHECK(now.done <= std::max(now.total, 0));
    CHECK(children().size() == 1);
    return ++calls < 3;
  };
  CHECK_THROWS_AS((void)run(scenario, options), RunCancelled);
  CHECK(calls == 3);
  CHECK(children().empty());
  CHECK_THROWS_WITH_AS((void)run(scenario, {.time_limit_s = 0.3}), doctest::Contains("time limit of 0.3 s"),
                       RunCancelled);
  options.on_progress = [](const RunProgress&) -> bool { throw std::logic_error("mine"); };
  CHECK_THROWS_AS((void)run(scenario, options), std::logic_error);
  CHECK(children().empty());
}

TEST_CASE("a process of a run that is killed is an error that says so") {
  Scenario scenario = Scenario::load(path_of("pair"));
  scenario.set({{"workload.iterations", "100000"}, {"workload.bytes", "1M"}});
  RunOptions options;
  options.on_progress = [](const RunProgress&) {
    for (const int child : children()) ::kill(child, SIGKILL);
    return true;
  };
  CHECK_THROWS_WITH_AS((void)run(scenario, options), doctest::Contains("was ended by signal 9"), RunError);
}

TEST_CASE("a program that ignores ended children, and has low descriptors closed, gets its result") {
  const RunResult expected = run(small());
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  CHECK(run(small()).digest() == expected.digest());
  ::signal(SIGCHLD, before);
  // Standard input closed: memory files would take its number.
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  CHECK(run(small()).digest() == expected.digest());
  if (kept >= 0) {
    ::dup2(kept, STDIN_FILENO);
    ::close(kept);
  }
}

TEST_CASE("run after run leaves memory, descriptors and processes as they were") {
  const Scenario scenario = small();
  const std::string digest = run(scenario).digest();
  for (int count = 0; count < 10; ++count) (void)run(scenario);
  const std::ptrdiff_t descriptors = open_descriptors();
  const std::uint64_t resident = resident_bytes();
  const int runs = walks_whole() ? 2000 : 40;
  for (int count = 0; count < runs; ++count) CHECK(run(scenario).digest() == digest);
  CHECK(open_descriptors() == descriptors);
  CHECK(children().empty());
  CHECK(resident_bytes() < resident + (std::uint64_t{8} << 20U));
}

TEST_CASE("a result outlives its scenario and other results, and its messages are not copied") {
  std::vector<MessageColumn> columns;
  std::vector<RunResult> kept;
  {
    const Scenario scenario = small();
    kept.push_back(run(scenario));
    columns = kept.front().messages();
    const RunResult other = run(scenario);
    CHECK(other.messages().front().data != columns.front().data);
  }
  REQUIRE(columns.size() == 20);
  CHECK(columns.front().data == kept.front().messages().front().data);
  CHECK(static_cast<const std::int64_t*>(columns.front().data)[columns.front().count - 1] > 0);
  CHECK(run(small(), {.messages = false}).messages().empty());
}

TEST_CASE("two runs beside each other: what differs, and by how much") {
  const Scenario scenario = small();
  const RunResult left = run(scenario);
  const Comparison same = compare(left, run(scenario));
  CHECK(same.identical);
  CHECK(same.same_data);
  CHECK(same.time_ratio == doctest::Approx(1));
  CHECK(same.differences.empty());

  Scenario slower = scenario;
  const Comparison slow = compare(left, run(slower.set("topology.rate", "50Gb/s")));
  CHECK_FALSE(slow.identical);
  CHECK(slow.same_data);
  CHECK(slow.time_ratio > 1.1);
  CHECK(slow.busbw_ratio == doctest::Approx(1 / slow.time_ratio));

  Scenario seeded = scenario;
  const Comparison other = compare(left, run(seeded.set("seed", "9")));
  CHECK_FALSE(other.same_data);
  CHECK(other.differences == std::vector<std::string>{"seed: 1 and 9"});
}

TEST_CASE("a prediction is the command's, and names what there is where it knows none") {
  const Prediction guess = predict("spark-pair-200g", "all_reduce", 1U << 20U);
  double parts_s = 0;
  for (const PredictedPart& part : guess.parts) parts_s += part.time_s;
  CHECK(parts_s == doctest::Approx(guess.time_s));
  const CommandResult command = run_command_line(meshbed_program() + " models --explain spark-pair-200g --bytes 1M");
  char text[64];
  std::snprintf(text, sizeof text, "%d ranks on %d nodes: %.2f us, %s %s", guess.ranks, guess.nodes, guess.time_s * 1e6,
                guess.algorithm.c_str(), guess.protocol.c_str());
  CHECK_MESSAGE(command.output.find(text) != std::string::npos, text, command.output);
  CHECK_THROWS_WITH_AS((void)predict("spark-par-200g", "all_reduce", 1), doctest::Contains("spark-pair-200g"),
                       std::invalid_argument);
  CHECK_THROWS_AS((void)predict("spark-pair-200g", "all_reduces", 1), std::invalid_argument);
  CHECK_THROWS_AS((void)predict("spark-pair-200g", "all_reduce", 1, 1), std::invalid_argument);
}

}  // namespace library_test
