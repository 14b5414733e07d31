// meshbed compare of two results folders: how much more time, which operations and links, and a tolerance for CI.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace compare_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;
using nlohmann::json;

namespace {

std::string run_of(const std::string& folder, const std::string& name, const std::string& options) {
  const std::string results = folder + "/" + name;
  const CommandResult result = run_command_line(meshbed_program() + " run " + scenario_file("ring4") + " --results " +
                                                results + " --no-expect " + options + " 2>&1");
  CHECK_MESSAGE(result.status == 0, result.output);
  return results + "/ring4/sim";
}

CommandResult compare(const std::string& left, const std::string& right, const std::string& options = "") {
  return run_command_line(meshbed_program() + " compare " + left + " " + right + " " + options + " 2>&1");
}

bool has(const CommandResult& result, const std::string& words) {
  return result.output.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("two runs: time, operations and links first, then the first message that differs") {
  const std::string folder = scratch_folder("compare_runs");
  const std::string small = " --set workload.bytes=256K";
  const std::string one = run_of(folder, "one", small),
                    other = run_of(folder, "other", small + " --set topology.rate=50Gb/s");
  const CommandResult compared = compare(one, other);
  CHECK(compared.status == 1);
  CHECK(compared.output.rfind("time ", 0) == 0);
  const json left = json::parse(read_text_file(one + "/summary.json")),
             right = json::parse(read_text_file(other + "/summary.json"));
  const double change = right.at("time_ns").get<double>() / left.at("time_ns").get<double>() - 1;
  CHECK_MESSAGE(has(compared, fmt::format("{:+.1f} %", 100 * change)), compared.output);
  CHECK(has(compared, "operation"));
  CHECK(has(compared, "node0/rocep1s0f1>node1/rocep1s0f0"));
  CHECK(has(compared, "differs: overrides: "));

  const json object = json::parse(compare(one, other, "--json").output);
  CHECK(object.at("change_percent").get<double>() == doctest::Approx(100 * change));
  CHECK(object.at("operations")[0].at("operation") == "all_reduce");
  CHECK(object.at("links").size() == 8);
  CHECK(object.at("agree") == false);
}

TEST_CASE("one message more: the first one is shown, and all of them with --messages") {
  const std::string folder = scratch_folder("compare_messages");
  const std::string one = run_of(folder, "one", "--set workload.bytes=64K");
  const std::string other = run_of(folder, "other", "--set workload.bytes=128K");
  const CommandResult brief = compare(one, other), full = compare(one, other, "--messages");
  CHECK(has(brief, "--messages lists them"));
  CHECK(!has(full, "--messages lists them"));
  CHECK(full.output.size() > brief.output.size());
  CHECK(brief.status == 1);
  CHECK(full.status == 1);
}

TEST_CASE("the same run twice agrees; without messages.csv the rest is compared") {
  const std::string folder = scratch_folder("compare_same");
  const std::string one = run_of(folder, "one", ""), other = run_of(folder, "other", "");
  const CommandResult same = compare(one, other);
  CHECK_MESSAGE(same.status == 0, same.output);
  CHECK(has(same, "+0.0 %"));
  CHECK(has(same, " agree: same files"));
  std::filesystem::remove(other + "/messages.csv");
  const CommandResult without = compare(one, other);
  CHECK(without.status == 0);
  CHECK(has(without, "messages are not compared: there is no " + other + "/messages.csv"));
  CHECK(compare(one, other, "--messages").status == 2);
}

TEST_CASE("--tolerance decides by the times, and never forgives wrong data or a broken proof") {
  const std::string folder = scratch_folder("compare_tolerance");
  const std::string one = run_of(folder, "one", ""), other = run_of(folder, "other", "--set topology.latency=2us");
  CHECK(compare(one, other, "--tolerance 50%").status == 0);
  const CommandResult outside = compare(one, other, "--tolerance 0.0001");
  CHECK(outside.status == 1);
  CHECK(has(outside, "not within 0.0001: times differ by "));
  json summary = json::parse(read_text_file(other + "/summary.json"));
  summary["wrong"] = 3;
  std::ofstream(other + "/summary.json") << summary.dump();
  const CommandResult wrong = compare(one, other, "--tolerance 50%");
  CHECK(wrong.status == 1);
  CHECK(has(wrong, "3 elements are wrong"));
  for (const char* text : {"some", "-1%", "5%%", "nan", "%"}) {
    CAPTURE(text);
    const CommandResult refused = compare(one, other, std::string("--tolerance ") + text);
    CHECK(refused.status == 2);
    CHECK(has(refused, "expects a percentage or fraction"));
  }
}

TEST_CASE("two sweeps: point by point; a point that one of them lacks is never within a tolerance") {
  const std::string folder = scratch_folder("compare_sweeps");
  const auto sweep = [&](const std::string& name, const std::string& options) {
    const CommandResult result = run_command_line(meshbed_program() + " sweep " + scenario_file("ring4") +
                                                  " --results " + folder + "/" + name + " " + options + " 2>&1");
    CHECK_MESSAGE(result.status == 0, result.output);
    return folder + "/" + name;
  };
  const std::string one = sweep("one", "--vary workload.bytes=64K,256K");
  const std::string slow = sweep("slow", "--vary workload.bytes=64K,256K --set topology.rate=50Gb/s");
  const std::string more = sweep("more", "--vary workload.bytes=64K,256K,1M");
  CHECK(compare(one, one).status == 0);
  const CommandResult slower = compare(one, slow);
  CHECK(slower.status == 1);
  CHECK(has(slower, "0 points the same, 0 faster, 2 slower"));
  CHECK(has(slower, "workload.bytes=64K"));
  CHECK(compare(one, slow, "--tolerance 300%").status == 0);
  const CommandResult lacks = compare(one, more, "--tolerance 300%");
  CHECK(lacks.status == 1);
  CHECK(has(lacks, "workload.bytes=1M: no such point and ok"));
  const CommandResult mixed = compare(one, run_of(folder, "run", ""));
  CHECK(mixed.status == 2);
  CHECK(has(mixed, "name two sweeps or two runs"));
  std::ofstream(slow + "/sweep.json") << "{\"points\": [";
  CHECK(compare(one, slow).status == 2);
}

}  // namespace compare_command_test
