#include "testbed/render/perfetto.h"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "testbed/scenario/scenario.h"
#include "testbed/workload/megakernel/outcome.h"

namespace perfetto_test {

using namespace meshbed;
using namespace meshbed::testbed;
using nlohmann::json;

namespace {

Scenario pair_of_nodes() {
  return parse_scenario("[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nbytes = 4096\n", "pair", {});
}

std::vector<json> of_category(const json& trace, const std::string& category) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == category) found.push_back(event);
  }
  return found;
}

}  // namespace

TEST_CASE("messages are pairs of their rank, to the picosecond; one whose end is not known is left out") {
  std::vector<TracedMessage> messages(3);
  messages[0].posted_ps = 1;
  messages[0].started_ps = 2;
  messages[0].delivered_ps = 2'000'000;
  messages[0].completed_ps = 3'000'004;
  messages[0].source_rank = 1;
  messages[0].destination_rank = 0;
  messages[0].source = "node1/mlx \"a\"";
  messages[0].payload_bytes = 4096;
  messages[1].posted_ps = 5;  // never came
  messages[2].posted_ps = 7'000'000;
  messages[2].delivered_ps = 8'500'000;  // unsignalled: no completion reports its end
  messages[2].opcode = 2;
  messages[2].source_rank = 0;
  messages[2].destination_rank = 1;
  const json trace = json::parse(perfetto_trace(pair_of_nodes(), {}, messages));
  CHECK(trace.at("displayTimeUnit") == "ns");
  const auto wire = of_category(trace, "wire");
  REQUIRE(wire.size() == 4);
  CHECK(wire[0].at("ph") == "b");
  CHECK(wire[0].at("name") == "RDMA_WRITE to rank 0");
  CHECK(wire[0].at("pid") == 1);
  CHECK(wire[0].at("ts") == 0.000001);
  CHECK(wire[0].at("args").at("source") == "node1/mlx \"a\"");
  CHECK(wire[0].at("args").at("payload_bytes") == 4096);
  CHECK(wire[1].at("ph") == "e");
  CHECK(wire[1].at("ts") == 3.000004);
  CHECK(wire[1].at("id") == wire[0].at("id"));
  CHECK(wire[2].at("name") == "SEND to rank 1");
  CHECK(wire[3].at("ts") == 8.5);
  CHECK(wire[2].at("id") != wire[0].at("id"));
}

TEST_CASE("a slot is there from its claim to what its lane leaves it as, once for each claim; ranks have names") {
  RunResult result;
  auto rings = std::make_shared<RingOutcome>();
  const auto event = [&](Picoseconds at_ps, RingEventKind kind) {
    rings->trace.add({.at_ps = at_ps, .rank = 1, .slot = 4, .opcode = 2, .kind = kind});
  };
  event(1'000'000, RingEventKind::kPublish);
  event(2'000'000, RingEventKind::kClaim);
  event(3'000'000, RingEventKind::kYield);
  event(4'000'000, RingEventKind::kClaim);
  event(5'000'000, RingEventKind::kRun);
  event(6'000'000, RingEventKind::kDone);
  event(7'000'000, RingEventKind::kClaim);  // nothing comes of it any more
  result.rings = rings;
  const json trace = json::parse(perfetto_trace(pair_of_nodes(), result, {}));
  const auto slots = of_category(trace, "slot");
  REQUIRE(slots.size() == 4);
  CHECK(slots[0].at("ts") == 2);
  CHECK(slots[1].at("ts") == 3);
  CHECK(slots[0].at("args").at("steps") == "yield");
  CHECK(slots[2].at("args").at("steps") == "run done");
  CHECK(slots[2].at("pid") == 1);
  int named = 0;
  for (const json& one : trace.at("traceEvents")) named += one.at("ph") == "M";
  CHECK(named == 2);
}

}  // namespace perfetto_test
