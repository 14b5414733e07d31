// [workload.megakernel] profile, exchange, initiation and places: what is read, what comes of it, what is refused.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "models/shipped_profiles.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/megakernel/rank.h"
#include "testbed/workload/megakernel/times.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace megakernel_profile_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

constexpr const char* kFour =
    "[topology]\nkind = \"ring\"\nnodes = 4\n[workload]\nkind = \"megakernel\"\nbytes = \"48K\"\n";
const std::string kKernel = "workload.megakernel.";
const std::string kProfile = kKernel + "profile=dgx-spark-ring";

Scenario parse(const std::vector<std::string>& overrides) { return parse_scenario(kFour, "test.toml", overrides); }

bool refused(const std::vector<std::string>& overrides, const std::string& words) {
  return test::refuses(kFour, overrides, words);
}

std::string source_of(const Megakernel& settings, const std::string& name) {
  for (const RingTime& time : ring_times(settings)) {
    if (name == time.name) return time.source;
  }
  return "";
}

}  // namespace

TEST_CASE("a profile that travels in the program is the file of the tree") {
  const std::string folder = std::string(MESHBED_SOURCE_DIR) + "/models/profiles";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto shipped = models::shipped_profile(entry.path().stem().string());
    REQUIRE(shipped);
    CHECK(std::string(*shipped) == text);
    ++files;
  }
  CHECK(models::shipped_profile_names().size() == files);
  CHECK_FALSE(models::shipped_profile("unknown"));
}

TEST_CASE("a profile gives what the scenario does not say, and each time names its source") {
  const Megakernel kernel = parse({kProfile, kKernel + "doorbell=3us"}).workload.megakernel;
  CHECK(kernel.launch_ps == 5'890'000);
  CHECK(kernel.post_ps == 500'000);
  CHECK(kernel.doorbell_ps == 3'000'000);
  CHECK(kernel.device_doorbell_ps == 1'000'000);
  CHECK(kernel.memory_bps == 245'000'000'000);
  CHECK(kernel.sms == 48);
  CHECK(kernel.blocks_per_sm == 3);
  CHECK(source_of(kernel, "launch").find("measured in profile dgx-spark-ring: makslevental") == 0);
  CHECK(source_of(kernel, "post").find("(range 0.2 to 1 us)") != std::string::npos);
  CHECK(source_of(kernel, "memory_rate_bps").find("calibrated in profile") == 0);
  CHECK(source_of(kernel, "doorbell") == "scenario");
}

TEST_CASE("without a profile nothing is new: no time of its own, as many places as lanes") {
  const Megakernel kernel = parse({kKernel + "doorbell=2us"}).workload.megakernel;
  CHECK(kernel.device_doorbell_ps == 2'000'000);
  CHECK(kernel.operation_launch_ps == kernel.launch_ps);
  CHECK(kernel.sms == 0);
  CHECK(kernel.sources.empty());
  CHECK(ring_times(kernel).size() == 7);
  CHECK(doorbell_of(kernel) == 2'000'000);
}

TEST_CASE("a profile may be a file beside the scenario, and one that is wrong is refused at its key") {
  const std::filesystem::path folder = test::scratch_folder("megakernel-profile");
  const auto with = [&](const std::string& text) {
    std::ofstream(folder / "own.toml") << "name = \"own\"\n" << text;
    return parse_scenario(kFour, (folder / "test.toml").string(), {kKernel + "profile=own.toml"}).workload.megakernel;
  };
  CHECK(with("[poll]\nvalue = 250\nunit = \"ns\"\nbasis = \"measured\"\nsource = \"a bench\"\n").poll_ps == 250'000);
  const auto words_of = [&](const std::string& text) -> std::string {
    try {
      (void)with(text);
    } catch (const ScenarioError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(words_of("[poll]\nvalue = 250\nunit = \"ns\"\n").find("source is missing") != std::string::npos);
  CHECK(words_of("[poll]\nvalue = 1\nunit = \"GB/s\"\nbasis = \"measured\"\nsource = \"x\"\n")
            .find("the profile own has poll in GB/s, which is no time") != std::string::npos);
  CHECK(
      words_of("[poll]\nvalue = -1\nunit = \"ns\"\nbasis = \"measured\"\nsource = \"x\"\n").find("poll is negative") !=
      std::string::npos);
  CHECK(words_of("[sms]\nvalue = 0\nunit = \"1\"\nbasis = \"measured\"\nsource = \"x\"\n")
            .find("sms has to be 1 to 4096") != std::string::npos);
  CHECK(refused({kKernel + "profile=unknown"},
                "profile: 'unknown' is neither a shipped profile of megakernels (dgx-spark-ring) nor a "
                "file beside the scenario"));
}

TEST_CASE("a profile of what whole collectives take is none of a megakernel's") {
  CHECK(refused({kKernel + "profile=spark-pair-200g"},
                "profile: spark-pair-200g has no time of a megakernel; those that have: dgx-spark-ring"));
}

TEST_CASE("fields of the decode step that make no sense elsewhere are refused in words") {
  CHECK(refused({kKernel + "initiation=launch", kKernel + "program=moe"},
                "initiation: launch goes with program = \"decode\", \"all_reduce\" or \"all_gather\""));
  CHECK(refused({kKernel + "initiation=all"}, "initiation: all goes with program = \"decode\""));
  CHECK(refused({kKernel + "layers=3"}, "layers: goes with program = \"decode\" or \"task_graph\""));
  CHECK(refused({kKernel + "program=moe", kKernel + "exchange=one-shot"},
                "one-shot is for all_reduce, all_gather and decode"));
  CHECK(refused({kKernel + "initiation=launch", kKernel + "queue=gin"}, "queue: gin is a persistent kernel's"));
  CHECK(refused({kKernel + "forward=ranks"}, "forward: goes with exchange = \"one-shot\""));
  CHECK(refused({kKernel + "exchange=one-shot", kKernel + "forward=ranks", "topology.nodes=3"},
                "forward: ranks pass on to the one before and the one after them"));
  CHECK(refused({kKernel + "held_sms=1"}, "held_sms: goes with sms"));
  CHECK(refused({kKernel + "sms=4", kKernel + "held_sms=5"}, "held_sms: 5 of 4 SMs"));
  CHECK(refused({kKernel + "program=decode", "workload.bytes=512M"}, "bytes: decode expects a multiple of 16"));
  CHECK(refused({kKernel + "program=decode", "workload.dtype=f8e4m3"}, "is moved, never reduced"));
}

TEST_CASE("blocks beyond the places never run, but where each operation has a kernel of its own") {
  Megakernel settings;
  CHECK(resident_of(settings, 500) == 500);
  settings.sms = 4;
  settings.blocks_per_sm = 2;
  CHECK(resident_of(settings, 5) == 5);
  CHECK(resident_of(settings, 16) == 8);
  CHECK(places_text(settings) == "8 places (4 SMs x 2)");
  settings.held_sms = 3;
  CHECK(resident_of(settings, 16) == 2);
  CHECK(places_text(settings) == "2 places (4 SMs, 3 held, x 2)");
  settings.initiation = "launch";
  CHECK(resident_of(settings, 16) == 16);
}

TEST_CASE("lint says beforehand that blocks have no place, and nothing where they have, or have nothing to do") {
  const auto finding = [](const std::vector<std::string>& overrides, const std::string& text = kFour) {
    for (const std::string& one : finding_lines(parse_scenario(text, "test.toml", overrides))) {
      if (one.find("blocks") != std::string::npos) return one;
    }
    return std::string();
  };
  const std::vector<std::string> four{kKernel + "sms=4", kKernel + "lanes=16"};
  CHECK(finding(four) ==
        "error: workload.megakernel: the megakernel's 16 lanes are blocks, and the GPU has 4 places (4 SMs x 1): slot "
        "4 and what else blocks from "
        "4 on own is never claimed, since no persistent block ends; use fewer lanes, or more SMs [not-resident]");
  CHECK(finding({kKernel + "sms=16", kKernel + "lanes=16"}).empty());
  // A queue has no bytes.
  const std::string queue = std::string(kFour).substr(0, std::string(kFour).find("bytes"));
  CHECK(finding({kKernel + "sms=4", kKernel + "lanes=16", kKernel + "program=queue", kKernel + "slots=4"}, queue)
            .empty());
}

TEST_CASE("a slot whose block has no place is named, others are not") {
  Megakernel settings;
  settings.sms = 2;
  const RingBuffers ring(settings, 6, 4, {});
  CHECK_FALSE(not_resident(settings, ring.kernel));
  ring::slot_at(ring.kernel, 1)[ring::slot_word::kStatus] = ring::status::kPublished;
  CHECK_FALSE(not_resident(settings, ring.kernel));
  ring::slot_at(ring.kernel, 3)[ring::slot_word::kStatus] = ring::status::kPublished;
  const auto verdict = not_resident(settings, ring.kernel);
  REQUIRE(verdict);
  CHECK(verdict->slot == 3);
  CHECK(std::string(ring::name_of(verdict->cause)) == "not-resident");
  CHECK(verdict->text ==
        "4 blocks wait, the GPU has 2 places (2 SMs x 1): slot 3 belongs to block 3, which is not resident");
  settings.sms = 4;
  CHECK_FALSE(not_resident(settings, ring.kernel));
}

}  // namespace megakernel_profile_test
