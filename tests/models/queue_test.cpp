// The queue model: its equations, the shipped profile, and the one-shot model held against what was published.
#include "models/queue.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "models/gpu.h"

namespace queue_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

constexpr Picoseconds kUs = kPicosecondsPerMicrosecond;
constexpr std::uint64_t kLeastBytes = 8 * kKiB, kMostBytes = 60 * kKiB;
const std::string kModels = std::string(MESHBED_SOURCE_DIR) + "/models/";

Profile spark() {
  const auto profile = Profile::read(kModels + "profiles/dgx-spark-ring.toml");
  REQUIRE_MESSAGE(profile, profile.error().text);
  return *profile;
}

std::vector<MeasuredRow> rows_of(const std::string& name) {
  std::ifstream file(kModels + "data/" + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // Where its rows come from stays with them.
  CHECK(text.rfind("# source: ", 0) == 0);
  const auto rows = measured_rows(text, name);
  REQUIRE_MESSAGE(rows, rows.error().text);
  return *rows;
}

}  // namespace

TEST_CASE("a slot's way is the sum of its steps, and a ring gives as many slots as its depth or its producer allows") {
  const QueueModel queue{.publish_ps = 200,
                         .visibility_ps = 1000,
                         .claim_ps = 300,
                         .poll_ps = 500,
                         .doorbell_ps = 700,
                         .post_ps = 400,
                         .flag_ps = 50,
                         .credit_ps = 900};
  const Wire wire{.latency_ps = 2000, .bytes_per_second = 1e12};  // a byte a picosecond
  CHECK(slot_ps(queue) == 1800);
  CHECK(message_ps(queue, wire, 100) == 700 + 400 + 2000 + 100 + 50 + 500);
  CHECK(round_ps(queue, wire, 100) == 200 + 1800 + 3750 + 900);
  CHECK(slots_per_second(queue, wire, 100, 1) == doctest::Approx(1e12 / 6650));
  CHECK(slots_per_second(queue, wire, 100, 1000) == doctest::Approx(1e12 / 200));
  CHECK(passing_ps(1000, 0) == 0);
}

TEST_CASE("the shipped profile has every parameter of both models, and the hop is what its steps leave for the wire") {
  const Profile profile = spark();
  const auto queue = queue_model(profile);
  REQUIRE(queue);
  const auto one_shot = one_shot_model(profile);
  REQUIRE(one_shot);
  // scenarios/megakernel-decode.toml has these 1.8 us as its cables' latency.
  CHECK(one_shot->half_round_trip_ps - message_ps(*queue, {}, 1) == 1'800'000);
  CHECK(*profile.value("blocks_per_sm", "1") == resident_blocks(*find_gpu("GB10"), 512, 0, 40));
  CHECK(*profile.value("sms", "1") == find_gpu("GB10")->sms);
  CHECK(*profile.value("memory_rate", "GB/s") * 1e9 ==
        doctest::Approx(static_cast<double>(find_gpu("GB10")->memory_bytes_per_second)));
  const auto none = Profile::parse("name = \"none\"\n", "none.toml");
  REQUIRE(none);
  CHECK(queue_model(*none).error().text == "the profile none says nothing of publish");
  CHECK(one_shot_model(*none).error().text == "the profile none says nothing of operation_launch");
}

TEST_CASE("a one-shot exchange: what is staged, posted and combined, by hand") {
  const OneShotModel model{.launch_ps = 1,
                           .fence_ps = 10,
                           .grid_sync_ps = 100,
                           .half_round_trip_ps = 1000,
                           .rest_ps = 10'000,
                           .nic_bytes_per_second = 1e12,
                           .memory_bytes_per_second = 1e12};
  // A pair's all-gather: 2 b staged, 4 b combined, b posted, one hop.
  CHECK(one_shot_time(model, {.reduces = false, .ranks = 2, .buffer_bytes = 100'000}).total_ps() ==
        1 + 600'000 + 10 + 200 + 1000 + 100'000 + 10'000);
  // A ring's all-reduce: 2 b staged, 5 b combined, 3 b posted, two hops.
  CHECK(one_shot_time(model, {.ranks = 4, .relayed = true, .buffer_bytes = 100'000}).total_ps() ==
        1 + 700'000 + 10 + 200 + 2000 + 300'000 + 10'000);
}

TEST_CASE("rows of measurements: comments left out, bytes as nccl-tests counts them, a bad line by its place") {
  const auto rows = measured_rows("# source: x\nhead\nall_gather,2,2,20480,10.86,1,1,out,a\n", "x.csv");
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  CHECK(shape_of(rows->front()).buffer_bytes == 10'240);
  CHECK_FALSE(shape_of(rows->front()).relayed);
  const std::string columns = ": expected collective,ranks,nodes,bytes,time_us,algbw,busbw,placement,variant";
  CHECK(measured_rows("head\nall_gather,2,2,x,1,1,1,out,a\n", "x.csv").error().text == "x.csv:2" + columns);
  CHECK(measured_rows("head\nall_gather,2\n", "x.csv").error().text == "x.csv:2" + columns);
  CHECK(measured_rows("", "x.csv")->empty());
}

TEST_CASE("the one-shot model against the published rows, 8 to 60 KiB a rank: docs/megakernel.md has these errors") {
  std::ifstream file(std::string(MESHBED_SOURCE_DIR) + "/docs/megakernel.md", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto model = one_shot_model(spark());
  REQUIRE(model);
  const auto expect_line = [&page](const char* format, auto... values) {
    std::array<char, 200> line{};
    std::snprintf(line.data(), line.size(), format, values...);
    const std::string wanted = line.data();
    CHECK_MESSAGE(page.find(wanted) != std::string::npos, "docs/megakernel.md should have: ", wanted);
  };
  // The pair's rows calibrated one parameter; the ring's calibrated none.
  for (const std::string name : {"cal_spark2_oneshot_allgather.csv", "cal_spark4ring_oneshot_allreduce.csv",
                                 "cal_spark4ring_oneshot_repeats.csv"}) {
    const std::vector<MeasuredRow> rows = rows_of(name);
    for (const MeasuredRow& row : rows) {
      const OneShotShape shape = shape_of(row);
      if (shape.buffer_bytes < kLeastBytes || shape.buffer_bytes > kMostBytes) continue;
      const double predicted_us =
          static_cast<double>(one_shot_time(*model, shape).total_ps()) / static_cast<double>(kUs);
      expect_line("| `%s` | %s | %llu KiB | %.2f | %.2f | %+.1f %% |", name.c_str(), row.variant.c_str(),
                  static_cast<unsigned long long>(shape.buffer_bytes / kKiB), row.time_us, predicted_us,
                  (predicted_us / row.time_us - 1) * 100);
    }
    const ModelError error = one_shot_error(*model, rows, kLeastBytes, kMostBytes);
    expect_line("| `%s` | %zu | %.1f %% | %.1f %% |", name.c_str(), error.rows, error.median * 100, error.p90 * 100);
    // The measurements' own spread from day to day is up to 13 % at 10 KiB.
    CHECK(error.median < 0.12);
    CHECK(error.p90 < 0.18);
  }
}

}  // namespace queue_test
