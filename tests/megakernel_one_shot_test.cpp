// Runs of the one-shot exchange beside every published row of it on DGX Sparks; docs/megakernel.md has the table.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_one_shot_test {

using namespace meshbed::test;

namespace {

constexpr const char* kInitiations[] = {"launch", "host", "device"};
const std::string kKernel = " --set workload.megakernel.";

struct Cabling {
  const char* name;
  std::vector<const char*> files;
  std::string options;          // of scenarios/megakernel-one-shot.toml
  std::uint64_t ranks_counted;  // whose bytes a row's size is
};

const std::vector<Cabling>& cablings() {
  static const std::vector<Cabling> all{
      {"ring of four", {"cal_spark4ring_oneshot_allreduce.csv", "cal_spark4ring_oneshot_repeats.csv"}, "", 1},
      {"pair",
       {"cal_spark2_oneshot_allgather.csv"},
       " --set topology.nodes=2 --set topology.rate=196Gb/s" + kKernel + "program=all_gather",
       2}};
  return all;
}

/// us, by bytes as nccl-tests count them, ascending.
std::map<std::uint64_t, std::vector<double>> measured_by_size(const Cabling& cabling) {
  std::map<std::uint64_t, std::vector<double>> result;
  for (const char* name : cabling.files) {
    std::ifstream file(std::string(MESHBED_SOURCE_DIR) + "/models/data/" + name);
    REQUIRE(file.is_open());
    for (std::string line; std::getline(file, line);) {
      std::array<char, 16> collective{};
      unsigned long long bytes = 0;
      double us = 0;
      // collective, ranks, nodes, bytes, time_us
      if (std::sscanf(line.c_str(), "%15[a-z_],%*d,%*d,%llu,%lf", collective.data(), &bytes, &us) == 3) {
        result[bytes].push_back(us);
      }
    }
  }
  for (auto& [bytes, times] : result) std::sort(times.begin(), times.end());
  return result;
}

double run_us(const std::string& options) {
  int status = -1;
  const nlohmann::json summary =
      summary_of_run("megakernel-one-shot", options, status, scratch_folder("megakernel-one-shot"));
  REQUIRE(status == 0);
  return summary.at("time_ns").get<double>() / 1e3;
}

void expect_line(const std::string& page, const std::string& line) {
  CHECK_MESSAGE(page.find(line) != std::string::npos,
                "docs/megakernel.md or docs/reference/one-shot-rows.md should have: ", line);
}

}  // namespace

TEST_CASE("runs of the one-shot exchange beside every published row: docs has them") {
  using meshbed::testbed::read_text_file;
  const std::string page = read_text_file(MESHBED_SOURCE_DIR "/docs/megakernel.md") +
                           read_text_file(MESHBED_SOURCE_DIR "/docs/reference/one-shot-rows.md");
  std::map<std::string, std::vector<double>> errors;
  for (const Cabling& cabling : cablings()) {
    for (const auto& [bytes, times] : measured_by_size(cabling)) {
      std::string line = fmt::format("| {} | {} KiB | {} | {:.1f}", cabling.name, bytes / cabling.ranks_counted / 1024,
                                     times.size(), times.front());
      if (times.size() > 1) line += fmt::format(" to {:.1f}", times.back());
      for (const char* initiation : kInitiations) {
        const double us = run_us(cabling.options + kKernel + "initiation=" + initiation +
                                 fmt::format(" --set workload.bytes={}", bytes));
        for (const double time : times) errors[initiation].push_back(std::abs(us / time - 1));
        line += fmt::format(" | {:.1f}", us);
      }
      expect_line(page, line + " |");
    }
  }
  for (const char* initiation : kInitiations) {
    std::vector<double>& all = errors[initiation];
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == 64);
    const double median = (all[31] + all[32]) / 2, p90 = all[57];
    expect_line(page,
                fmt::format("| {} | {} | {:.1f} % | {:.1f} % |", initiation, all.size(), median * 100, p90 * 100));
    CHECK(median < 0.08);
    // The rows are of a host proxy, which a device's doorbell is faster than.
    CHECK(p90 < (initiation == std::string("device") ? 0.21 : 0.20));
  }
}

TEST_CASE(
    "neighbours pass messages on where ranks are cabled as a ring, and 1.5 inputs go over each cable's direction") {
  const auto bytes_of = [](const std::string& options) {
    int status = -1;
    const std::string folder = scratch_folder("megakernel-one-shot-forward");
    const nlohmann::json summary = summary_of_run("megakernel-one-shot", options, status, folder);
    REQUIRE(status == 0);
    CHECK(summary.at("wrong") == 0);
    return summary;
  };
  // Of five iterations, one of which compares bits.
  const double inputs = 5 * 491'520.0;
  const auto busiest = [](const nlohmann::json& summary) {
    double most = 0;
    for (const auto& link : summary.at("links")) most = std::max(most, link.at("wire_bytes").get<double>());
    return most;
  };
  const nlohmann::json by_ranks = bytes_of(""), by_plugin = bytes_of(kKernel + "forward=plugin");
  CHECK(busiest(by_ranks) == doctest::Approx(1.5 * inputs).epsilon(0.03));
  CHECK(busiest(by_plugin) == doctest::Approx(2 * inputs).epsilon(0.03));
  CHECK(by_ranks.at("time_ns") < by_plugin.at("time_ns"));
  // More ranks, odd counts, an input of one element, few lanes; not only sums.
  for (const char* options :
       {" --set topology.nodes=5 --set workload.bytes=6000", " --set topology.nodes=6 --set workload.bytes=60000",
        " --set workload.bytes=8 --set workload.megakernel.program=all_gather", " --set workload.megakernel.lanes=1",
        " --set topology.nodes=7 --set workload.bytes=14000 --set workload.megakernel.program=all_gather",
        " --set workload.bytes=8K --set workload.op=max --set workload.megakernel.initiation=host"}) {
    CAPTURE(options);
    const nlohmann::json summary = bytes_of(options);
    for (const auto& proof : summary.at("proofs")) CHECK_MESSAGE(proof.at("ok") == true, proof.dump());
  }
}

}  // namespace megakernel_one_shot_test
