// The queue model: its equations and the shipped profile.
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

TEST_CASE("the shipped profile has every parameter, and the hop is what its steps leave for the wire") {
  const Profile profile = spark();
  const auto queue = queue_model(profile);
  REQUIRE(queue);
  // scenarios/megakernel-decode.toml has these 1.8 us as its cables' latency.
  CHECK(*profile.time_ps("half_round_trip") - message_ps(*queue, {}, 1) == 1'800'000);
  CHECK(*profile.value("blocks_per_sm", "1") == resident_blocks(*find_gpu("GB10"), 512, 0, 40));
  CHECK(*profile.value("sms", "1") == find_gpu("GB10")->sms);
  CHECK(*profile.value("memory_rate", "GB/s") * 1e9 < static_cast<double>(find_gpu("GB10")->memory_bytes_per_second));
  const auto none = Profile::parse("name = \"none\"\n", "none.toml");
  REQUIRE(none);
  CHECK(queue_model(*none).error().text == "the profile none says nothing of publish");
}

}  // namespace queue_test
