// Several rings, descriptor queues, places for blocks, decode and the order of slots: what goes together, and how.
#include <doctest/doctest.h>

#include <algorithm>

#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/megakernel/programs.h"
#include "tests/support/refusal.h"

namespace ring_combination_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

constexpr const char* kPair =
    "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nkind = \"megakernel\"\nbytes = \"64K\"\n";
const std::string kKernel = "workload.megakernel.";

Scenario parse(const std::vector<std::string>& overrides) { return parse_scenario(kPair, "test.toml", overrides); }

bool refused(const std::vector<std::string>& overrides, const std::string& words) {
  return test::refuses(kPair, overrides, words);
}

}  // namespace

TEST_CASE("what does not go together is refused in words") {
  const std::string decode = kKernel + "program=decode";
  CHECK(refused({decode, kKernel + "rings=2"}, "rings: goes with the other programs"));
  CHECK(refused({decode, kKernel + "queue=gin", kKernel + "initiation=all"}, "queue: gin leads to a proxy"));
  CHECK(parse({decode, kKernel + "queue=gin"}).workload.megakernel.queue == "gin");
  CHECK(
      refused({kKernel + "put_and_signal=apart"}, "put_and_signal: goes with queue = \"gin\", \"fifo\" or \"ibgda\""));
  CHECK(refused({kKernel + "queue=ibgda", kKernel + "queue_depth=65536"},
                "queue_depth: 65536: a WQE's index has 16 bits, so that a send queue has at most 32768"));
  CHECK(refused({kKernel + "queue=ibgda", kKernel + "doorbell_every=129"},
                "doorbell_every: 129 WQEs do not fit a queue of 128: its lanes would wait for ever"));
  CHECK(refused({kKernel + "queue=gin", kKernel + "doorbell_every=2"}, "doorbell_every: goes with queue = \"ibgda\""));
  CHECK(refused({kKernel + "queue=ibgda", kKernel + "proxies=2"}, "proxies: queue = \"ibgda\" leads to the NIC"));
  CHECK(
      refused({kKernel + "proxies=2", kKernel + "initiation=device"}, "proxies: initiation = \"device\" has no proxy"));
  CHECK(refused({decode, kKernel + "proxies=2", kKernel + "initiation=device"}, "proxies: initiation = \"device\""));
  CHECK(parse({kKernel + "proxies=2", kKernel + "initiation=launch"}).workload.megakernel.proxies == 2);
  CHECK(refused({kKernel + "proxies=17"}, "proxies: 17 is out of range; accepted: 1 to 16"));
  CHECK(refused({decode, kKernel + "queue=ibgda", kKernel + "initiation=all"},
                "queue: ibgda: say initiation = \"device\""));
  CHECK(parse({kKernel + "queue=ibgda"}).workload.megakernel.initiation == "device");
  CHECK_FALSE(parse({kKernel + "queue=ibgda"}).workload.megakernel.fuses);
  CHECK(parse({kKernel + "queue=ibgda", kKernel + "put_and_signal=fused"}).workload.megakernel.fuses);
  CHECK(refused({decode, kKernel + "parts=2"}, "parts: goes with program = \"fused_all_reduce\", \"pipeline\""));
  CHECK(refused({kKernel + "queue=fifo", kKernel + "initiation=device"}, "queue: fifo leads to a proxy"));
  CHECK(refused({kKernel + "exchange=one-shot", "workload.slice_bytes=4K"}, "slice_bytes: exchange = \"one-shot\""));
  CHECK(refused({kKernel + "blocks_per_sm=2"}, "blocks_per_sm: goes with sms"));
  CHECK(parse({decode, kKernel + "compute=20us"}).workload.megakernel.compute_ps == 20'000'000);
  CHECK(
      parse({kKernel + "exchange=one-shot", kKernel + "rings=2", kKernel + "queue=gin"}).workload.megakernel.one_shot);
}

TEST_CASE("a rank's rings share the GPU's places, the first ones before the others") {
  Megakernel settings;
  settings.rings = 3;
  settings.sms = 10;
  CHECK(resident_of(settings, 4, 0) == 4);
  CHECK(resident_of(settings, 4, 1) == 4);
  CHECK(resident_of(settings, 4, 2) == 2);
  settings.sms = 3;
  CHECK(resident_of(settings, 4, 1) == 0);

  settings.rings = 2;
  settings.sms = 6;
  const RingBuffers ring(settings, 8, 4, {});
  ring::slot_at(ring.kernel, 3)[ring::slot_word::kStatus] = ring::status::kPublished;
  CHECK_FALSE(not_resident(settings, ring.kernel, 0));
  const auto verdict = not_resident(settings, ring.kernel, 1);
  REQUIRE(verdict);
  CHECK(verdict->text ==
        "8 (2 rings x 4) blocks wait, the GPU has 6 places (6 SMs x 1): slot 3 of ring 1 belongs to block 3, which is "
        "not resident");
  std::string finding;
  for (const std::string& one : finding_lines(parse({kKernel + "rings=2", kKernel + "sms=6", kKernel + "lanes=4"}))) {
    if (one.find("blocks") != std::string::npos) finding += one;
  }
  CHECK(finding ==
        "error: workload.megakernel: the megakernel's 8 (2 rings x 4) lanes are blocks, and the GPU has 6 places (6 "
        "SMs x 1): slot 2 of ring 1 and "
        "what else blocks from 2 on own is never claimed, since no persistent block ends; use fewer lanes, or more SMs "
        "[not-resident]");
}

TEST_CASE("in strict mode slot i is block i's alone: one that no block owns is no matter of places") {
  Megakernel settings;
  settings.strict = true;
  settings.sms = 2;
  const RingBuffers ring(settings, 8, 4, {});
  ring::slot_at(ring.kernel, 6)[ring::slot_word::kStatus] = ring::status::kPublished;
  CHECK_FALSE(not_resident(settings, ring.kernel));
  ring::slot_at(ring.kernel, 2)[ring::slot_word::kStatus] = ring::status::kPublished;
  REQUIRE(not_resident(settings, ring.kernel));
  CHECK(not_resident(settings, ring.kernel)->slot == 2);
}

TEST_CASE("slots of a ring: as many as are asked for, the program's with its fence, 64 of a queue") {
  const Workload workload = parse({}).workload;
  const auto program = ring_program(workload, 0, 2);
  REQUIRE(program);
  Megakernel settings = workload.megakernel;
  CHECK(ring_slots_of(settings, &*program) == program->slots.slots.size() + 1);
  CHECK(ring_slots_of(settings, nullptr) == 64);
  settings.slots = 500;
  CHECK(ring_slots_of(settings, &*program) == 500);
}

TEST_CASE("waits-first moves slots, and what begins an operation goes with its slot") {
  const Workload workload =
      parse({kKernel + "program=decode", kKernel + "layers=3", kKernel + "exchange=one-shot"}).workload;
  const auto before = ring_program(workload, 0, 2);
  REQUIRE(before);
  RingProgram after = *before;
  put_waits_first(after);
  REQUIRE(after.slots.slots.size() == before->slots.slots.size());
  // Kept by the slot's id, wherever the slot is.
  CHECK(after.begins == before->begins);
  CHECK(std::count(after.begins.begin(), after.begins.end(), true) == 6);
  std::size_t waits = 0;
  while (after.slots.slots[waits].opcode == ring::opcode::kWait) ++waits;
  CHECK(waits == 3);  // one a layer
  for (std::size_t slot = waits; slot < after.slots.slots.size(); ++slot) {
    CHECK(after.slots.slots[slot].opcode != ring::opcode::kWait);
  }
}

}  // namespace ring_combination_test
