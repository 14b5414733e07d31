// One-shot exchanges (models/time/collective_time.h, kDirect) held against what was published.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "models/time/collective_time.h"
#include "testbed/base/files.h"
#include "testbed/fidelity/measured_file.h"
#include "testbed/fidelity/profiles.h"

namespace one_shot_rows_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

constexpr std::uint64_t kLeastBytes = 8 * kKiB, kMostBytes = 60 * kKiB;
const std::string kRoot = MESHBED_SOURCE_DIR;

/// all_gather counts the bytes of all ranks, all_reduce those of one.
std::uint64_t buffer_bytes(const models::CollectiveCall& call) {
  return models::reduces(call.collective) ? call.bytes : call.bytes / static_cast<std::uint64_t>(call.ranks);
}

}  // namespace

TEST_CASE("the one-shot model against the published rows, 8 to 60 KiB a rank: docs has these errors") {
  const std::string page =
      read_text_file(kRoot + "/docs/megakernel.md") + read_text_file(kRoot + "/docs/reference/one-shot-rows.md");
  const auto profiles = shipped_machines();
  const auto expect_line = [&page](const char* format, auto... values) {
    std::array<char, 200> line{};
    std::snprintf(line.data(), line.size(), format, values...);
    const std::string wanted = line.data();
    CHECK_MESSAGE(page.find(wanted) != std::string::npos,
                  "docs/megakernel.md or docs/reference/one-shot-rows.md should have: ", wanted);
  };
  for (const std::string name : {"cal_spark2_oneshot_allgather.csv", "cal_spark4ring_oneshot_allreduce.csv",
                                 "cal_spark4ring_oneshot_repeats.csv"}) {
    const MeasuredFile measured = read_measured_file(kRoot + "/models/data/" + name, {});
    // Where its rows come from stays with them.
    CHECK_FALSE(measured.source.empty());
    CHECK(measured.bad.empty());
    const auto own = own_profiles(measured, profiles);
    std::vector<double> errors;
    for (std::size_t index = 0; index < measured.rows.size(); ++index) {
      const MeasuredRow& row = measured.rows[index];
      const std::uint64_t bytes = buffer_bytes(row.point.call);
      if (bytes < kLeastBytes || bytes > kMostBytes) continue;
      REQUIRE(own.at(index) != nullptr);
      CHECK(own[index]->transport == models::MachineTransport::kKernel);
      const double predicted_us = models::collective_us(*own[index], row.point.call);
      const double error = predicted_us / row.point.time_us - 1;
      errors.push_back(std::abs(error));
      expect_line("| `%s` | %s | %llu KiB | %.2f | %.2f | %+.1f %% |", name.c_str(), row.variant.c_str(),
                  static_cast<unsigned long long>(bytes / kKiB), row.point.time_us, predicted_us, error * 100);
    }
    const models::ErrorSummary summary = models::summarise(errors);
    expect_line("| `%s` | %zu | %.1f %% | %.1f %% |", name.c_str(), errors.size(), summary.median * 100,
                summary.p90 * 100);
    // The measurements' own spread from day to day is up to 13 % at 10 KiB.
    CHECK(summary.median < 0.07);
    CHECK(summary.p90 < 0.15);
  }
}

}  // namespace one_shot_rows_test
