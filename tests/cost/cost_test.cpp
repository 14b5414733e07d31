// What a message costs in the plugin: no memory, and few instructions. Both over the null wire (cli/bench/cost), whose
// device does next to nothing, with the real plugin file connected as NCCL connects it.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/cost/null_pair.h"
#include "tests/cost/allocation_counter.h"
#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace cost_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

const std::string kPlugin = std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so";
constexpr std::size_t kMessageBytes = 4096;

}  // namespace

TEST_CASE("nothing is allocated after connect: 10,000 messages, the first among them") {
  const std::uint64_t before = allocations();
  cost::NullPair pair(kPlugin, kMessageBytes);
  const std::uint64_t connected = allocations();
  CHECK(connected > before + 100);  // to connect takes memory, and it is counted
  for (std::uint64_t number = 0; number < 10'000; ++number) pair.message(number, static_cast<int>(number % 3));
  CHECK(allocations() - connected == 0);
}

TEST_CASE(
    "a message of 4 KiB takes the pair less than 1,500 instructions, one of 128 KiB a relay less than 2,200; the "
    "engine's part") {
  if (!walks_whole()) {
    MESSAGE("skipped: counted by ./meshbed test --stage walks");
    return;
  }
  const CommandResult result = run_command_line(meshbed_program() + " bench cost --json");
  REQUIRE(result.status == 0);
  const auto cost = nlohmann::json::parse(result.output);
  MESSAGE("instructions for the pair: ", cost.at("instructions_per_pair").get<double>(),
          ", for a test in vain: ", cost.at("test_in_vain").get<double>());
  CHECK(cost.at("message_bytes") == kMessageBytes);
  CHECK(cost.at("instructions_per_pair").get<double>() < 1500);
  // 2,160 to 2,250 before it posted the receives of several slots at once and left the clock to those who wait.
  const auto& relay = cost.at("relay");
  MESSAGE("instructions of a relay: ", relay.at("instructions").get<double>());
  CHECK(relay.at("message_bytes") == 128 * 1024);
  CHECK(relay.at("instructions").get<double>() < 2200);
  CHECK(relay.at("instructions").get<double>() > 1000);
  // Time depends on this machine and on its other work: it is printed and measured, and has no bound.
  MESSAGE("CPU of a relay, ns: ", relay.at("cpu_ns").get<double>(), ", alone ", relay.at("cpu_ns_alone").get<double>());
  CHECK(relay.at("cpu_ns_alone").get<double>() > relay.at("cpu_ns").get<double>());
  const auto& engine = cost.at("engine");
  MESSAGE("instructions of the engine at both ends: ", engine.dump());
  CHECK(engine.at("send_recv").get<double>() < 400);
  CHECK(engine.at("send_recv").get<double>() > 100);
  // Half of the messages are added up: 512 elements for each.
  CHECK(engine.at("all_reduce").get<double>() < 900);
  CHECK(engine.at("all_reduce").get<double>() > engine.at("send_recv").get<double>() + 512 / 16);
  // It really counts: each of the four calls is there, and none is free.
  CHECK(cost.at("entries").size() == 4);
  for (const auto& entry : cost.at("entries").items()) {
    CAPTURE(entry.key());
    CHECK(entry.value().get<double>() > 50);
  }
}

TEST_CASE("a message of a replayed ring takes less than 200 instructions") {
  if (!walks_whole()) {
    MESSAGE("skipped: counted by ./meshbed test --stage walks");
    return;
  }
  const CommandResult result = run_command_line(meshbed_program() + " bench scale --most 64 --repetitions 1 --json " +
                                                "--scenarios '" MESHBED_SOURCE_DIR "/scenarios' 2>/dev/null");
  REQUIRE(result.status == 0);
  const auto scale = nlohmann::json::parse(result.output);
  const double instructions = scale.at("instructions_per_message").get<double>();
  MESSAGE("instructions of a replayed message: ", instructions);
  CHECK(instructions > 50);
  CHECK(instructions < 200);  // 183 on 2026-11-30
  for (const auto& point : scale.at("points")) CHECK(point.at("time_us").get<double>() > 0);
  CHECK(scale.at("points").size() > 5);
}

}  // namespace cost_test
