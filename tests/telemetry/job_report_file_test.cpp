// The plugin's own reports against the trace of the same run: every byte of a message is in both.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace job_report_file_test {

using namespace meshbed::testbed;
using namespace meshbed::test;
using nlohmann::json;

namespace {

/// By "node0/rocep1s0f0 node1/rocep1s0f1": the bytes of messages, which end in an immediate value (opcode 1).
using BytesByCable = std::map<std::string, std::uint64_t>;

BytesByCable traced_bytes(const std::string& path) {
  std::istringstream in(read_text_file(path));
  std::string line;
  std::getline(in, line);
  const auto words_of = [](const std::string& text) {
    std::vector<std::string> words(1);
    for (const char letter : text) letter == ',' ? words.emplace_back() : words.back() += letter;
    return words;
  };
  const std::vector<std::string> head = words_of(line);
  const auto column = [&head](const char* name) {
    return static_cast<std::size_t>(std::find(head.begin(), head.end(), name) - head.begin());
  };
  const std::size_t source = column("source"), destination = column("destination"), opcode = column("opcode"),
                    bytes = column("payload_bytes");
  BytesByCable sums;
  while (std::getline(in, line)) {
    const std::vector<std::string> words = words_of(line);
    if (words.at(opcode) == "1") sums[words.at(source) + " " + words.at(destination)] += std::stoull(words.at(bytes));
  }
  std::erase_if(sums, [](const auto& entry) { return entry.second == 0; });
  return sums;
}

}  // namespace

TEST_CASE("each process's report has the bytes of the trace, by cable and in each direction; report shows them") {
  for (const char* scenario : {"pair-striped", "spark-triangle", "ring4"}) {
    const std::string folder = scratch_folder("job-report-file");
    const std::string sim = fmt::format("{}/{}/sim", folder, scenario);
    const CommandResult run = run_command_line(
        fmt::format("{} run {} --results '{}' --no-expect --set environment.NCCL_MESH_REPORT='{}/mesh.json' 2>&1",
                    meshbed_program(), scenario_file(scenario), folder, sim));
    REQUIRE_MESSAGE(run.status == 0, run.output);
    std::map<std::string, std::string> hosts;  // by node number
    std::vector<json> reports;
    for (const auto& entry : std::filesystem::directory_iterator(sim)) {
      if (entry.path().filename().string().rfind("mesh.", 0) != 0) continue;
      reports.push_back(json::parse(read_text_file(entry.path())));
      hosts[reports.back().at("node")] = reports.back().at("host");
    }
    BytesByCable sent, received;
    for (const json& report : reports) {
      const std::string host = report.at("host");
      std::uint64_t all_sent = 0;
      for (const json& cable : report.at("cables")) {
        const std::string own = host + "/" + cable.at("nic").get<std::string>();
        const std::string peer = hosts.at(cable.at("peer_node")) + "/" + cable.at("peer_nic").get<std::string>();
        sent[own + " " + peer] += cable.at("sent_bytes").get<std::uint64_t>();
        received[peer + " " + own] += cable.at("received_bytes").get<std::uint64_t>();
        all_sent += cable.at("sent_bytes").get<std::uint64_t>();
      }
      CHECK(report.at("sent_bytes") == all_sent);
      CHECK(report.at("warnings") == 0);
    }
    const auto without_idle = [](BytesByCable& sums) {
      std::erase_if(sums, [](const auto& entry) { return entry.second == 0; });
    };
    without_idle(sent);
    without_idle(received);
    const BytesByCable traced = traced_bytes(sim + "/messages.csv");
    CHECK(!traced.empty());
    CHECK_MESSAGE(sent == traced, scenario);
    CHECK_MESSAGE(received == traced, scenario);
    const std::string page = folder + "/report.html";
    CHECK(run_command_line(fmt::format("{} report '{}' -o '{}'", meshbed_program(), sim, page)).status == 0);
    CHECK(read_text_file(page).find("What the plugin reports") != std::string::npos);
  }
}

}  // namespace job_report_file_test
