// meshbed report: one file that needs nothing beside it, the same bytes for the same run, and clear words about results
// that are not whole.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace report_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;

namespace {

namespace fs = std::filesystem;

CommandResult report(const std::string& arguments) {
  return run_command_line(meshbed_program() + " report " + arguments + " 2>&1");
}

void run_scenario(const std::string& arguments) {
  const CommandResult run = run_command_line(meshbed_program() + " run " + arguments + " 2>&1");
  CHECK_MESSAGE(run.status == 0, run.output);
}

/// The page of results that are whole.
std::string page_of(const std::string& results, const std::string& file) {
  const CommandResult made = report(results + " -o " + file);
  CHECK_MESSAGE(made.status == 0, made.output);
  return read_text_file(file);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// What each page must keep for all results.
void check_page(const std::string& page) {
  CHECK(page.size() < 5'000'000);
  for (const char* outside :
       {"src=", "@import", "fetch(", "url(http", "XMLHttpRequest", "WebSocket", "<link", "<iframe"}) {
    CHECK_MESSAGE(!has(page, outside), outside);
  }
  const std::regex reference(R"re(href="?([^"> ]*))re");
  for (std::sregex_iterator each(page.begin(), page.end(), reference), end; each != end; ++each) {
    const std::string target = (*each)[1];
    CHECK_MESSAGE(target.rfind('#', 0) == 0, target);
    CHECK_MESSAGE(has(page, "id=\"" + target.substr(1) + "\""), target);
  }
  CHECK(has(page, "default-src 'none'"));
  CHECK(count_of(page, "<h1>") == 1);
  // The style sheet's is not one of the page's.
  for (const char* tag : {"table", "section", "article", "svg", "script", "ul", "dl"}) {
    CHECK_MESSAGE(count_of(page, std::string("<") + tag + ">") + count_of(page, std::string("<") + tag + " ") ==
                      count_of(page, std::string("</") + tag + ">"),
                  tag);
  }
  CHECK(count_of(page, "<caption>") == count_of(page, "</table>"));
}

/// What a page is, beside its data: script and style sheet.
constexpr std::size_t kBesideDataMost = 300'000;

/// A run of two ranks whose files a test may change.
std::string small_run(const std::string& folder) {
  run_scenario(scenario_file("pair") + " --no-expect --set workload.bytes=4K --results " + folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) return entry.path().string() + "/sim";
  return "";
}

}  // namespace

TEST_CASE("a run's page shows what ran, how fast, every link and check; the same run, the same bytes") {
  const std::string folder = scratch_folder("report_run");
  for (const char* each : {"/one", "/two"}) {
    run_scenario(scenario_file("spark-triangle") + " --results " + folder + each);
  }
  const std::string page = page_of(folder + "/one/spark-triangle/sim", folder + "/one.html");
  check_page(page);
  CHECK(page == page_of(folder + "/two/spark-triangle/sim", folder + "/two.html"));
  CHECK(page == page_of(folder + "/one/spark-triangle", folder + "/all.html"));  // all its worlds
  for (const char* part :
       {"Passed", "Bus bandwidth", "Over the bound", "Topology and links", "Arrival and time of each rank", "Timeline",
        "Proofs and promises", "Provenance", "bytes in = bytes out", "scenario sha256"}) {
    CHECK_MESSAGE(has(page, part), part);
  }
  CHECK(!has(page, folder));  // no path
  CHECK(!has(page, "cpu"));
  CHECK(page.find("<svg class=\"topology\"") < page.find("data-timeline"));
  const std::string both =
      page_of(folder + "/one/spark-triangle/sim " + folder + "/two/spark-triangle/sim", folder + "/both.html");
  check_page(both);
  CHECK(has(both, "2 results"));
}

TEST_CASE("a lost cable is marked; a run without messages, a megakernel's and a program's have pages") {
  const std::string folder = scratch_folder("report_kinds");
  run_scenario(scenario_file("ring4-degraded") + " --results " + folder + "/degraded");
  std::string page = page_of(folder + "/degraded/ring4-degraded", folder + "/degraded.html");
  check_page(page);
  CHECK(has(page, "cut by a fault"));
  CHECK(has(page, "class=\"alarm\""));  // in the chart of iterations
  run_scenario(scenario_file("pair") + " --no-expect --set workload.bytes=4K --no-trace --results " + folder +
               "/untraced");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder + "/untraced")) {
    page = page_of(entry.path(), folder + "/untraced.html");
  }
  check_page(page);
  CHECK(has(page, "The run kept no messages"));
  CHECK(page.size() < kBesideDataMost);
  run_scenario(scenario_file("megakernel-ring8") + " --results " + folder);
  page = page_of(folder + "/megakernel-ring8/sim", folder + "/megakernel.html");
  check_page(page);
  CHECK(has(page, "Ring slots"));
  CHECK(has(page, "ring of rank 7"));
  const std::string program = folder + "/program";
  fs::create_directories(program);
  const CommandResult compiled = run_command_line(
      "cc -I'" MESHBED_SOURCE_DIR "/plugin/dropin' '" MESHBED_SOURCE_DIR "/tests/dropin/program/four_ranks.c' -o " +
      program + "/four_ranks -L'" MESHBED_BINARY_DIR "/nccl-lib' -lnccl 2>&1");
  REQUIRE_MESSAGE(compiled.status == 0, compiled.output);
  std::ofstream(program + "/four.toml") << "[topology]\nkind = \"ring\"\nnodes = 4\n"
                                           "[workload]\nkind = \"program\"\nprogram = \"four_ranks\"\n";
  run_scenario(program + "/four.toml --results " + folder);
  page = page_of(folder + "/four/sim", folder + "/four.html");
  check_page(page);
  CHECK(has(page, "program four_ranks on 4 ranks"));
  run_scenario(scenario_file("switch16") + " --no-expect --set workload.bytes=4K --results " + folder + "/switch");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder + "/switch")) {
    page = page_of(entry.path(), folder + "/switch.html");
  }
  check_page(page);
  CHECK(has(page, "class=\"switch\""));
}

TEST_CASE("a sweep's page has its curves, what each loss costs, and a table to sort") {
  const std::string folder = scratch_folder("report_sweep");
  const CommandResult swept = run_command_line(
      meshbed_program() + " sweep " + scenario_file("ring4") +
      " --vary workload.bytes=4K,64K --vary topology.kind=ring,switch --fail each-cable --results " + folder + " 2>&1");
  REQUIRE_MESSAGE(swept.status == 0, swept.output);
  const std::string page = page_of(folder, folder + "/sweep.html");
  check_page(page);
  for (const char* part :
       {"ring4: sweep of workload.bytes, topology.kind", "12 of 20 ok", "Bandwidth over size", "What each loss costs",
        "data-table", "64 KiB", "ring: bound", "unreachable", "node0-switch0"}) {
    CHECK_MESSAGE(has(page, part), part);
  }
  CHECK(count_of(page, "<tr>") >= 21);
}

TEST_CASE("text of others stays text: in a heading, a table and the data of the script") {
  const std::string folder = scratch_folder("report_hostile");
  const std::string run = small_run(folder + "/run");
  const std::string hostile = "</script><script>alert(1)</script><img onerror=x>";
  std::string summary = read_text_file(run + "/summary.json");
  for (const char* key : {"scenario", "collective"}) {
    const std::regex value("\"" + std::string(key) + R"(": "[^"]*")");
    summary = std::regex_replace(summary, value, "\"" + std::string(key) + "\": \"" + hostile + "\"");
  }
  std::ofstream(run + "/summary.json") << summary;
  const std::string page = page_of(run, folder + "/page.html");
  check_page(page);
  CHECK(!has(page, "<script>alert"));
  CHECK(!has(page, "<img"));
  CHECK(has(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  CHECK(has(page, "\\u003c/script>"));  // in the data
}

TEST_CASE("results that are not whole are refused in one line with place, cause and fix") {
  const std::string folder = scratch_folder("report_broken");
  const std::string run = small_run(folder + "/run");
  const std::string summary = read_text_file(run + "/summary.json"), messages = read_text_file(run + "/messages.csv");
  const auto refused = [&](const std::string& results, const std::string& why) {
    const CommandResult made = report(results + " -o " + folder + "/no.html");
    CHECK(made.status == 2);
    CHECK_MESSAGE(has(made.output, why), made.output);
    CHECK_MESSAGE(count_of(made.output, "\n") == 1, made.output);
    CHECK(!fs::exists(folder + "/no.html"));
  };
  const auto with = [&](const char* name, const std::string& text, const std::string& why) {
    const std::string path = run + "/" + name, kept = read_text_file(path);
    std::ofstream(path) << text;
    refused(run, why);
    std::ofstream(path) << kept;
  };
  refused(folder + "/nothing", "nothing: is not a folder; name the results of a run or a sweep");
  refused(folder, "holds neither summary.json nor sweep.json");
  with("summary.json", summary.substr(0, summary.size() / 2), "summary.json: is not whole JSON: the run was cut off");
  with("summary.json", "[]", "summary.json: is not whole JSON");
  with("summary.json", std::regex_replace(summary, std::regex("\"topology\""), "\"topologie\""),
       "summary.json: has no topology as this version of Meshbed writes it: another version wrote the file; run the "
       "scenario "
       "again");
  with("summary.json", std::regex_replace(summary, std::regex("\"b_nic\": [0-9]+"), "\"b_nic\": 99"),
       "summary.json contradicts itself");
  with("messages.csv", messages.substr(0, messages.size() - 9),
       "the file is cut off, or of another version; run the scenario");
  const std::size_t last_line = messages.rfind('\n', messages.size() - 2) + 1;
  with("messages.csv", messages.substr(0, last_line), "where summary.json counts");
  with("messages.csv", "a,b\n1,2\n", "messages.csv:1: there is no column");
  const CommandResult none = report("");
  CHECK(none.status == 2);
}

TEST_CASE(
    "measured times stand beside the curves of a sweep, with their source; without such a sweep they are refused") {
  const std::string folder = scratch_folder("report_measured");
  const std::string sweep = folder + "/sweep";
  CHECK(run_command_line(meshbed_program() + " sweep " + scenario_file("pair") +
                         " --vary workload.bytes=4K,64K --results " + sweep + " 2>&1")
            .status == 0);
  const std::string measured = folder + "/measured.csv";
  std::ofstream(measured)
      << "# source: a lab\ncollective,ranks,nodes,bytes,time_us,placement,variant\n"
         "all_reduce,2,2,4096,20,out,\nall_reduce,2,2,4096,30,out,\nall_reduce,2,2,65536,65.536,out,\n";
  const std::string page = page_of(sweep + " --measured " + measured, folder + "/p.html");
  check_page(page);
  CHECK(has(page, "measured: all_reduce, 2 ranks, out"));
  CHECK(has(page, "Measured: measured.csv: a lab."));
  CHECK(has(page, "measured: all_reduce, 2 ranks, out: 1 at 64 KiB"));
  const CommandResult none =
      report(small_run(folder + "/run") + " --measured " + measured + " -o " + folder + "/q.html");
  CHECK(none.status == 2);
  CHECK(has(none.output, "no results are of a sweep over sizes"));
  CHECK(report(sweep + " --measured " + folder + "/none.csv -o " + folder + "/q.html").status == 2);
}

}  // namespace report_command_test
