// The queue model: its equations and the shipped profile. tests/cli/one_shot_rows_test.cpp holds the one-shot model
// against what was published.
#include "models/queue.h"

#include <doctest/doctest.h>

#include <string>

#include "models/gpu.h"

namespace queue_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

const std::string kModels = std::string(MESHBED_SOURCE_DIR) + "/models/";

Profile spark() {
  const auto profile = Profile::read(kModels + "profiles/dgx-spark-ring.toml");
  REQUIRE_MESSAGE(profile, profile.error().text);
  return *profile;
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

}  // namespace queue_test
