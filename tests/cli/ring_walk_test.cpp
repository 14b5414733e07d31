// fuzz --explore on rings: every order of small programs, what it must find and what it must not, by the shortest way.
#include "testbed/verify/ring_walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace ring_walk_test {

using namespace meshbed::testbed;
using meshbed::ring::Mode;
using meshbed::ring::Word;
namespace opcode = meshbed::ring::opcode;
namespace arg = meshbed::ring::mesh_arg;

namespace {

RingItem nop(Word slot, Word tenant = 0) { return {.slot = slot, .tenant = tenant, .what = {}}; }

/// Needs the slot `after`.
RingItem copy(Word slot, Word after) {
  RingItem item{.slot = slot, .tenant = 0, .what = {.opcode = opcode::kCopy, .args = {}}};
  item.what.args[arg::kId] = slot;
  item.what.args[arg::kAfter] = after;
  item.what.args[arg::kAlsoAfter] = meshbed::ring::kNoId;
  item.what.args[arg::kEpoch] = 1;
  return item;
}

RingExploreProgram program(std::vector<std::vector<RingItem>> ranks, Word slots, Word lanes) {
  return {.name = "own", .about = "", .finds = "", .slots = slots, .lanes = lanes, .ranks = std::move(ranks)};
}

const RingExploreProgram& named(const std::string& name) {
  const auto& all = ring_explore_programs();
  return *std::find_if(all.begin(), all.end(), [&](const RingExploreProgram& one) { return one.name == name; });
}

bool has_step(const RingWalkReport& report, const std::string& step) {
  return std::find(report.schedule.begin(), report.schedule.end(), step) != report.schedule.end();
}

}  // namespace

TEST_CASE("every program keeps its promise in every order, and has a name of its own") {
  std::set<std::string> names;
  for (const RingExploreProgram& one : ring_explore_programs()) {
    CAPTURE(one.name);
    const RingWalkReport report = walk_rings(one);
    CHECK(broken_promise(one, report).empty());
    CHECK(report.whole);
    CHECK(report.orders > 1);
    CHECK(report.finding.empty() == std::string(one.finds).empty());
    CHECK(report.schedule.empty() == report.finding.empty());
    CHECK(names.insert(one.name).second);
  }
  CHECK(names.size() >= 12);
}

TEST_CASE("orders are counted: one lane has one, two ranks that do not meet have all mixtures of theirs") {
  // Host: words, STATUS; lane: candidate, claim, re-check, run, finish.
  const RingWalkReport one = walk_rings(program({{nop(0)}}, 1, 1));
  CHECK(one.finding.empty());
  CHECK(one.states == 8);
  CHECK(one.steps == 7);
  CHECK(one.orders == 1);
  CHECK(one.ends == 1);
  CHECK(one.longest == 7);
  const RingWalkReport two = walk_rings(program({{nop(0)}, {nop(0)}}, 1, 1));
  CHECK(two.states == 64);
  CHECK(two.orders == 3432);  // 14 over 7
}

TEST_CASE("slots that need each other stop every order, and the shortest way there leaves out what it does not need") {
  const RingWalkReport report = walk_rings(program({{copy(0, 1), copy(1, 0)}}, 2, 2));
  CHECK(report.finding.find("waiting: rank 0 ring 0 slot 0 (COPY, block 0) waits for slot 1") != std::string::npos);
  CHECK(report.finding.find(": a cycle") != std::string::npos);
  CHECK(report.ends == 1);
  CHECK(report.schedule.size() == 10);  // two publishes, two claims with what goes before and after them
}

TEST_CASE("a mask that stays leaves a masked tenant's slot, and one item too many is reported as such") {
  RingExploreProgram masked = program({{nop(0, 1)}}, 1, 1);
  masked.masks = 1;
  const RingWalkReport report = walk_rings(masked);
  CHECK(report.finding == "rank 0: tenant-masked: rank 0 ring 0 slot 0 (NOP) is not claimed: its tenant 1 is masked");
  CHECK(report.schedule.size() == 3);
  CHECK(has_step(report, "tenant 1 is masked"));
  masked.finds = "livelock";
  CHECK(broken_promise(masked, report).find("'livelock' should have been found, and was not: ") == 0);
  masked.masks = 0;
  CHECK(broken_promise(masked, walk_rings(masked)) == "nothing was found, and 'livelock' should have been");
}

TEST_CASE("the schedules say what has to happen: who has no place, whose flag overtakes, whose words are late") {
  const RingWalkReport places = walk_rings(named("ring-oversubscribed"));
  CHECK(places.finding.find("slot 0 (PUT) is not claimed: its block 0 has no place on the GPU") != std::string::npos);
  CHECK(has_step(places, "rank 0 block 1 gets a place"));
  CHECK_FALSE(has_step(places, "rank 0 block 0 gets a place"));
  const RingWalkReport flags = walk_rings(named("ring-unordered"));
  CHECK(flags.finding.find("rank 1 ring 0 slot 1 (REDUCE, block 1) reads message 0") == 0);
  CHECK(has_step(flags, "the flag of message 0 is raised at rank 1"));
  CHECK_FALSE(has_step(flags, "the data of message 0 lands at rank 1"));
  const RingWalkReport torn = walk_rings(named("ring-torn"));
  CHECK(has_step(torn, "rank 0's host publishes slot 0 (NOP)"));
  CHECK_FALSE(has_step(torn, "rank 0's host writes the words of slot 0 (NOP)"));
  // The sixteenth claim of CRITICAL work is the last one.
  const RingWalkReport livelock = walk_rings(named("ring-livelock"));
  CHECK(std::count(livelock.schedule.begin(), livelock.schedule.end(), "rank 0's host publishes slot 0 (NOP)") == 17);
}

TEST_CASE("a walk that is too large says so, and promises nothing of what it has not seen") {
  const RingWalkReport report = walk_rings(named("ring-oversubscribed"), 100);
  CHECK_FALSE(report.whole);
  CHECK(report.orders == 0);
  CHECK(broken_promise(named("ring-oversubscribed"), report).empty());
}

}  // namespace ring_walk_test
