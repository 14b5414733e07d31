// The decode step as a user runs it: three initiations beside each other, their parts, and blocks without a place.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_decode_test {

using namespace meshbed::test;

namespace {

nlohmann::json run_decode(const std::string& scenario, const std::string& options, int& status) {
  return summary_of_run(scenario, options, status, scratch_folder("megakernel-decode"));
}

double parts_of(const nlohmann::json& token) {
  double sum = 0;
  for (const char* part : {"launch_ns", "compute_ns", "wire_ns", "queue_ns", "waiting_ns"}) {
    sum += token.at(part).get<double>();
  }
  return sum;
}

bool has_proof(const nlohmann::json& summary, const std::string& name) {
  for (const auto& proof : summary.at("proofs")) {
    if (proof.at("name") == name) return proof.at("ok") == true;
  }
  return false;
}

}  // namespace

TEST_CASE("a token: host proxy, device doorbell and launch per operation beside each other, parts adding up") {
  int status = -1;
  const nlohmann::json summary = run_decode("megakernel-decode", "", status);
  CHECK(status == 0);
  CHECK(summary.at("wrong") == 0);
  CHECK(has_proof(summary, "the serial sum in rank order is the same bits"));
  CHECK(has_proof(summary, "each message: slot claimed, put, signalled, waited for, done, in this order"));
  const auto& tokens = summary.at("rings").at("tokens");
  REQUIRE(tokens.size() == 3);
  CHECK(summary.at("rings").at("layers") == 60);
  const nlohmann::json &host = tokens[0], &device = tokens[1], &launch = tokens[2];
  CHECK(host.at("initiation") == "host");
  CHECK(device.at("initiation") == "device");
  CHECK(launch.at("initiation") == "launch");
  for (const auto& token : tokens)
    CHECK(parts_of(token) == doctest::Approx(token.at("token_ns").get<double>()).epsilon(1e-6));
  // 120 operations of 5.89 us each; a persistent kernel launches none.
  CHECK(launch.at("launch_ns") == 706'800);
  CHECK(host.at("launch_ns") == 0);
  // What lanes compute and add up is the same however messages start.
  CHECK(host.at("compute_ns") == device.at("compute_ns"));
  CHECK(host.at("compute_ns") == launch.at("compute_ns"));
  CHECK(device.at("token_ns") < host.at("token_ns"));
  CHECK(host.at("token_ns") < launch.at("token_ns"));
  CHECK(summary.at("time_ns") == host.at("token_ns"));
  CHECK(run_decode("megakernel-decode", "", status).at("digest") == summary.at("digest"));
}

TEST_CASE("round the ring a layer has the engine's bits; one-shot has the serial sum's, for every kind of element") {
  for (const char* options : {"--set workload.megakernel.exchange=ring", "--set topology.nodes=2",
                              "--set topology.nodes=5 --set workload.bytes=40000 --set workload.op=avg",
                              "--set topology.nodes=3 --set workload.megakernel.mode=strict"}) {
    for (const char* dtype : {"float", "half", "int32"}) {
      CAPTURE(options);
      CAPTURE(dtype);
      int status = -1;
      const nlohmann::json summary = run_decode(
          "megakernel-decode",
          std::string(options) + " --set workload.megakernel.layers=4 --set workload.dtype=" + dtype, status);
      CHECK(status == 0);
      CHECK(summary.at("wrong") == 0);
      const bool by_ring = std::string(options).find("exchange=ring") != std::string::npos;
      CHECK(has_proof(
          summary, by_ring ? "the engine's result is the same bits" : "the serial sum in rank order is the same bits"));
    }
  }
}

TEST_CASE("the proxy's post and a slot's visibility take their time, and a device has no post") {
  const auto tokens_with = [](const std::string& options) {
    int status = -1;
    const nlohmann::json summary =
        run_decode("megakernel-decode", "--set workload.megakernel.layers=4 " + options, status);
    CHECK(status == 0);
    return summary.at("rings").at("tokens");
  };
  const nlohmann::json plain = tokens_with(""), posted = tokens_with("--set workload.megakernel.post=5us"),
                       unseen = tokens_with("--set workload.megakernel.visibility=100us");
  CHECK(posted[0].at("token_ns").get<double>() > plain[0].at("token_ns").get<double>() + 4 * 4'500);
  CHECK(posted[1].at("token_ns") == plain[1].at("token_ns"));
  CHECK(unseen[0].at("token_ns").get<double>() > plain[0].at("token_ns").get<double>() + 90'000);
  CHECK(unseen[2].at("token_ns") == plain[2].at("token_ns"));
}

TEST_CASE("more blocks than places is a deadlock with a name, foretold by lint; with places for all it drains") {
  int status = -1;
  const nlohmann::json stuck = run_decode("megakernel-oversubscribed", "", status);
  CHECK(status == 0);
  const auto& verdict = stuck.at("rings").at("verdicts").at(0);
  CHECK(verdict.at("verdict") == "not-resident");
  CHECK(verdict.at("text") ==
        "16 blocks wait, the GPU has 8 places (4 SMs x 2): slot 8 belongs to block 8, which is not resident");
  run_decode("megakernel-oversubscribed", "--set workload.megakernel.sms=8 --set expect.watchdog=drained", status);
  CHECK(status == 0);
  const CommandResult lint =
      run_command_line(meshbed_program() + " lint " + scenario_file("megakernel-oversubscribed") + " 2>&1");
  CHECK(lint.status == 0);  // as the scenario promises
  CHECK(lint.output.find("16 lanes are blocks, and the GPU has 8 places (4 SMs x 2)") != std::string::npos);
}

}  // namespace megakernel_decode_test
