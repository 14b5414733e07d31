// NCCL_MESH_REPORT: what a process writes at its end, against what its connections carried.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "plugin/net/report/report_text.h"
#include "tests/net/failover_streams.h"
#include "tests/net/state_ranks.h"
#include "tests/support/command.h"

namespace job_report_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

Json read_report(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  Json report = Json::parse(text.str(), nullptr, false);
  CHECK_MESSAGE(report.is_object(), path, ": ", text.str());
  return report;
}

/// The reports in a folder, by name.
std::vector<Json> reports_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Json> reports;
  for (const std::string& path : paths) reports.push_back(read_report(path));
  return reports;
}

models::Cluster reporting(models::Cluster cluster, const std::string& file) {
  return with(std::move(cluster), "NCCL_MESH_REPORT", file);
}

std::uint64_t sum_of(const Json& list, const char* key) {
  std::uint64_t sum = 0;
  for (const Json& each : list) sum += each.at(key).get<std::uint64_t>();
  return sum;
}

}  // namespace

TEST_CASE("a report's name has its host and process, once") {
  const net::ReportName name{.name = "a/report.json", .folder = "", .host = "node0", .pid = 17};
  CHECK(net::report_path(name, 1) == "a/report.node0-17.json");
  CHECK(net::report_path(name, 2) == "a/report.node0-17-2.json");
  const auto called = [](const std::string& text, const std::string& folder = "") {
    return net::report_path({.name = text, .folder = folder, .host = "node0", .pid = 17}, 1);
  };
  CHECK(called("report") == "report.node0-17");
  CHECK(called("a.b/report") == "a.b/report.node0-17");
  CHECK(called(".hidden") == ".hidden.node0-17");
  CHECK(called("r-%p.json") == "r-17.json");
  CHECK(called("%h/%p%p") == "node0/1717");
  CHECK(called("report.json", "/results/rank-0") == "/results/rank-0/report.node0-17.json");
  CHECK(called("/tmp/report.json", "/results") == "/tmp/report.node0-17.json");
}

TEST_CASE("a report counts what each end sent and received, whole and by cable") {
  const std::string folder = scratch_folder("job-report");
  const auto result = run_mesh(reporting(pair_cluster(2), folder + "/report.json"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer out = rank.buffer(comms.send, 3000, 1), in = rank.buffer(comms.receive, 4096, 2);
    exchange_three(rank, comms, out, in);
    rank.meet("end", 2);
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
  const std::vector<Json> reports = reports_in(folder);
  REQUIRE(reports.size() == 2);
  for (const Json& report : reports) {
    CHECK(report.at("report") == "mesh");
    CHECK(report.at("format") == net::kReportFormat);
    CHECK(report.at("sends") == 3);
    CHECK(report.at("receives") == 3);
    CHECK(report.at("sent_bytes") == 9000);
    CHECK(report.at("received_bytes") == 9000);
    CHECK(report.at("connections") == 2);
    CHECK(report.at("still_open") == 0);
    CHECK(report.at("failovers") == 0);
    CHECK(report.at("warnings") == 0);
    CHECK(sum_of(report.at("cables"), "sent_bytes") == 9000);
    CHECK(sum_of(report.at("cables"), "received_bytes") == 9000);
    CHECK(sum_of(report.at("nics"), "sent_bytes") == 9000);
    REQUIRE(report.at("peers").size() == 1);
    CHECK(report.at("peers")[0].at("sent_bytes") == 9000);
  }
  CHECK(reports[0].at("peers")[0].at("node") == reports[1].at("node"));
}

TEST_CASE("a report counts a failover, its failback, and each cable's part") {
  const std::string folder = scratch_folder("job-report-failover");
  constexpr int kMessages = 400;
  const auto result = run_mesh(reporting(with(pair_cluster(2), "NCCL_MESH_STRIPE_BYTES", "0"), folder + "/report.json"),
                               [](MeshRank& rank) {
                                 const Comms comms = rank.connect_both(1 - rank.rank(), 0);
                                 Stream stream{.messages = kMessages};
                                 stream.before = [](int message) {
                                   if (message == 100) {
                                     set_cable(0, false);
                                     set_cable(0, true, 500 * kMs);
                                   }
                                   // Until the first cable is in use again.
                                   if (message == 300) sim::World::get().sleep(5000 * kMs);
                                 };
                                 rank.rank() == 0 ? stream.send(rank, comms) : stream.receive(rank, comms);
                                 rank.meet("end", 2);
                                 rank.forget_warnings();
                                 rank.close(comms);
                               });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
  const std::vector<Json> reports = reports_in(folder);
  REQUIRE(reports.size() == 2);
  const Json &sender = reports[0], &receiver = reports[1];
  std::uint64_t bytes = 0;
  for (int message = 0; message < kMessages; ++message) bytes += Stream::size_of(message);
  CHECK(sender.at("sent_bytes") == bytes);
  CHECK(receiver.at("received_bytes") == bytes);
  CHECK(sender.at("failovers") >= 1);
  CHECK(sender.at("failbacks") == 1);
  CHECK(receiver.at("failovers") == 0);
  CHECK(receiver.at("resumed").get<int>() >= 2);
  CHECK(sender.at("warnings").get<int>() > 0);
  REQUIRE(sender.at("cables").size() == 2);
  for (const Json& cable : sender.at("cables")) CHECK(cable.at("sent_bytes").get<std::uint64_t>() > 0);
  CHECK(sum_of(sender.at("cables"), "sent_bytes") == bytes);
  CHECK(sum_of(receiver.at("cables"), "received_bytes") == bytes);
}

TEST_CASE("a report that cannot be written is one warning, and the job goes on") {
  const auto result = run_mesh(reporting(pair_cluster(1), "/nowhere/at/all/report.json"), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("end", 2);
    rank.close(comms);
    CHECK(count(rank.warnings(), "NCCL_MESH_REPORT: /nowhere/at/all/report.node") == 1);
    CHECK(count(rank.warnings(), "\n") == 1);
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

TEST_CASE("without the variable nothing is written") {
  const std::string folder = scratch_folder("job-report-none");
  run_mesh(pair_cluster(1), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("end", 2);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("a report replaces the one before it as a whole, and leaves nothing beside it") {
  const std::string folder = scratch_folder("job-report-replace");
  const std::string path = folder + "/report.json";
  CHECK(net::write_report_file(path, "first, and longer\n"));
  CHECK(net::write_report_file(path, "second\n"));
  std::ifstream in(path);
  std::string line;
  CHECK(std::getline(in, line));
  CHECK(line == "second");
  CHECK(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{}) == 1);
  const auto refused = net::write_report_file(folder + "/no/such/folder/report.json", "x");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text.find("name a file in a folder that exists") != std::string::npos);
}

}  // namespace job_report_test
