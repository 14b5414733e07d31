// [workload.megakernel]: what is read, and what is refused in which words.
#include <doctest/doctest.h>

#include "testbed/scenario/megakernel/names.h"
#include "testbed/scenario/scenario.h"
#include "tests/support/refusal.h"

namespace megakernel_scenario_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

constexpr const char* kRing = "[topology]\nkind = \"ring\"\nnodes = 4\n[workload]\nkind = \"megakernel\"\n";

Scenario parse(const std::vector<std::string>& overrides) { return parse_scenario(kRing, "test.toml", overrides); }

bool refused(const std::vector<std::string>& overrides, const std::string& words) {
  return test::refuses(kRing, overrides, words);
}

const std::string kKernel = "workload.megakernel.";

}  // namespace

TEST_CASE("a megakernel by itself has the dictionary's defaults") {
  const Megakernel kernel = parse({}).workload.megakernel;
  CHECK(kernel.program == "all_reduce");
  CHECK_FALSE(kernel.strict);
  CHECK(kernel.launch_ps == 50 * kPicosecondsPerMicrosecond);
  CHECK(kernel.publish_ps == 200 * kPicosecondsPerNanosecond);
  CHECK(kernel.memory_bps == 0);
  CHECK(kernel.mix.empty());
}

TEST_CASE("a megakernel's rate is kept in bytes, its mix as it was written") {
  CHECK(parse({kKernel + "memory_rate=800Gb/s"}).workload.megakernel.memory_bps == 100'000'000'000);
  const Megakernel kernel =
      parse({kKernel + "program=queue", kKernel + "mix=[\"add:3\", \"nop\"]"}).workload.megakernel;
  CHECK(kernel.mix == std::vector<std::string>{"add:3", "nop"});
  CHECK(ring_weight_of("add:3")->weight == 3);
  CHECK(ring_weight_of("nop")->kind == RingMix::kNop);
  for (const char* wrong : {"adds", "add:0", "add:", "add:3x", ""}) CHECK_FALSE(ring_weight_of(wrong));
}

TEST_CASE("fields of a megakernel that make no sense together are refused in words") {
  CHECK(refused({kKernel + "program=all_reduse"}, "program: 'all_reduse' is unknown (did you mean 'all_reduce'?)"));
  CHECK(refused({"topology.nodes=65"}, "program: all_reduce is for 2 to 64 ranks, and there are 65"));
  CHECK(refused({"workload.dtype=f8e4m3"}, "dtype: f8e4m3 is moved, never reduced, and all_reduce reduces"));
  CHECK(refused({kKernel + "program=pipeline", "workload.dtype=half"}, "half would be rounded at each"));
  CHECK(refused({"workload.bytes=1000"}, "bytes: all_reduce expects a multiple of 16"));
  CHECK(refused({"workload.algorithm=tree"}, "algorithm: a program's slots go round the ring, never by tree"));
  CHECK(refused({"workload.channels=2"}, "channels: a program's slots have one"));
  CHECK(refused({kKernel + "kernel=priority"}, "kernel: a program's slots have an order and no levels"));
  CHECK(refused({kKernel + "mode=strict", kKernel + "lanes=4"}, "lanes: in strict mode"));
  CHECK(refused({kKernel + "program=queue", kKernel + "mix=[\"adds\"]"}, "mix: 'adds' is not a kind with a weight"));
  CHECK(refused({kKernel + "program=queue", kKernel + "priorities=[1]"}, "priorities: 1 weights; there are 5 levels"));
  CHECK(refused({kKernel + "program=queue", kKernel + "arrivals=poisson"}, "arrival_gap: poisson needs one"));
  CHECK(refused({kKernel + "mode=strict", kKernel + "quota=1"}, "quota: quotas are not read in strict mode"));
  CHECK(refused({kKernel + "masked_tenant=1"}, "masked_tenant: there is no tenant 1; there are 1"));
  CHECK(refused({kKernel + "stopped_rank=4"}, "stopped_rank: 4 is not a rank; there are 4 ranks"));
  CHECK(refused({kKernel + "faulty_item=3"}, "faulty_item: goes with program = \"queue\""));
  CHECK(refused({kKernel + "watchdog=0s"}, "watchdog: a watchdog that looks all the time stops time"));
}

TEST_CASE("a field that nothing reads is refused, and says who reads it") {
  for (const char* field : {"tenants=2", "mix=[\"nop\"]", "items=5", "arrivals=constant", "arrival_gap=1us", "quota=3",
                            "priorities=[1,1,1,1,1]", "faulty_item=1"}) {
    CAPTURE(field);
    const std::string key(field, std::string(field).find('='));
    CHECK(refused({kKernel + field}, key + ": goes with program = \"queue\", and this is all_reduce"));
  }
  for (const char* field : {"late_by=1ms", "in_place=false", "root=1", "collective=all_gather", "cases=3", "parts=2"}) {
    CAPTURE(field);
    const std::string key(field, std::string(field).find('='));
    CHECK(refused({std::string("workload.") + field}, key + ": megakernels do not read it"));
  }
  const std::string queue = kKernel + "program=queue";
  CHECK(refused({queue, "workload.bytes=1M"}, "bytes: program = \"queue\" moves no data"));
  CHECK(refused({queue, kKernel + "flag=1us"}, "flag: program = \"queue\" sends no messages"));
  CHECK(refused({queue, kKernel + "parts=2"}, "parts: goes with program = \"fused_all_reduce\", \"pipeline\""));
  CHECK(refused({kKernel + "compute=1us"}, "compute: goes with programs that compute"));
  CHECK(refused({kKernel + "masked_at=1us"}, "masked_at: goes with masked_tenant"));
  CHECK(refused({kKernel + "stopped_after=3"}, "stopped_after: goes with stopped_rank"));
  CHECK(refused({queue, kKernel + "arrival_gap=1us"}, "arrival_gap: goes with arrivals"));
}

TEST_CASE("times, weights, depths and rings that mean nothing are refused") {
  const std::string pipeline = kKernel + "program=pipeline";
  CHECK(refused({pipeline, kKernel + "compute=1ps"}, "compute: 1 ps are not a whole number of nanoseconds"));
  CHECK(refused({pipeline, kKernel + "compute=5s"}, "compute: a slot says at most 4 s"));
  CHECK(refused({kKernel + "program=queue", kKernel + "kernel=priority", kKernel + "priorities=[0,0,0,0,0]"},
                "priorities: all weights are 0"));
  CHECK(refused({kKernel + "queue=gin", kKernel + "queue_depth=96"}, "queue_depth: 96 is not a power of two"));
  CHECK(refused({kKernel + "queue_depth=8"}, "queue_depth: goes with queue = \"gin\", \"fifo\" or \"ibgda\""));
  CHECK(refused({kKernel + "rings=3", "workload.bytes=64K"}, "bytes: all_reduce expects a multiple of 48"));
  CHECK(refused({kKernel + "program=queue", kKernel + "rings=3", kKernel + "items=2"}, "rings: 3 rings, and 2 items"));
  CHECK(parse({kKernel + "queue=gin", kKernel + "queue_depth=8"}).workload.megakernel.queue_depth == 8);
}

TEST_CASE("what only a megakernel has is refused elsewhere") {
  CHECK(refused({"workload.kind=idle", kKernel + "slots=4"}, "megakernel: goes with kind = \"megakernel\""));
  CHECK(refused({"workload.kind=idle", "expect.watchdog=drained"}, "watchdog: goes with kind = \"megakernel\""));
  CHECK(refused({"expect.watchdog=hung"}, "watchdog: 'hung' is unknown"));
}

}  // namespace megakernel_scenario_test
