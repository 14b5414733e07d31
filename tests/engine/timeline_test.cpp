// A fabric on a timeline of its own: no World, no processes, no SimGrid.
#include <doctest/doctest.h>

#include <vector>

#include "plugin/base/prng.h"
#include "sim/engine/event_timeline.h"
#include "sim/engine/fabric.h"
#include "sim/engine/world.h"
#include "tests/support/run_world.h"

namespace timeline_test {

using namespace meshbed;
using models::PortRef;

namespace {

struct Flow {
  PortRef source, destination;
  std::uint64_t bytes;
  Picoseconds start_ps;
  std::uint64_t number;
  Picoseconds end_ps = -1;
  sim::Timeline* timeline = nullptr;
  sim::Network* network = nullptr;
  sim::Fabric* fabric = nullptr;
};

void ends(void* self, std::uint64_t) {
  auto& flow = *static_cast<Flow*>(self);
  flow.end_ps = flow.timeline->now();
}

void begins(void* self, std::uint64_t) {
  auto& flow = *static_cast<Flow*>(self);
  flow.fabric->transfer(*flow.network->path(flow.source, flow.destination), flow.bytes, flow.number, ends, self, 0);
}

void start(std::vector<Flow>& flows, sim::Timeline& timeline, sim::Network& network, sim::Fabric& fabric) {
  for (Flow& flow : flows) {
    flow.timeline = &timeline;
    flow.network = &network;
    flow.fabric = &fabric;
    timeline.at(flow.start_ps, flow.source.node, begins, &flow, 0);
  }
}

/// Flows that meet at ports of one switch.
std::vector<Flow> contended(int nodes) {
  Prng prng(7);
  std::vector<Flow> flows;
  for (int flow = 0; flow < 40; ++flow) {
    const int source = static_cast<int>(prng.below(static_cast<std::uint64_t>(nodes)));
    const int hop = 1 + static_cast<int>(prng.below(static_cast<std::uint64_t>(nodes - 1)));
    flows.push_back({{source, 0},
                     {(source + hop) % nodes, 0},
                     1 + prng.below(2 * kMiB),
                     static_cast<Picoseconds>(prng.below(100'000'000)),
                     static_cast<std::uint64_t>(flow)});
  }
  return flows;
}

std::string ends_of(const std::vector<Flow>& flows) {
  std::string text;
  for (const Flow& flow : flows) text += std::to_string(flow.end_ps) + " ";
  return text;
}

}  // namespace

TEST_CASE("a fabric runs on a timeline without a World, to the picosecond as in one") {
  const auto cluster = test::switch_cluster(6);
  std::vector<Flow> alone = contended(6);
  {
    sim::EventTimeline timeline;
    sim::Network network(cluster);
    const auto fabric = sim::make_chunk_fabric(timeline, network);
    start(alone, timeline, network, *fabric);
    CHECK(timeline.run() > alone.size());
    CHECK_FALSE(sim::World::exists());
    for (const sim::Link& link : network.links()) CHECK(link.bytes_in == link.bytes_out);
  }
  for (const Flow& flow : alone) CHECK(flow.end_ps > flow.start_ps);

  const auto inside = test::run_world({.cluster = cluster}, [](sim::World& world) {
    auto flows = std::make_shared<std::vector<Flow>>(contended(6));
    start(*flows, world, world.network(), world.fabric());
    world.spawn(world.add_process(0, 0, "test"), "main", [&world, flows] {
      world.sleep(kPicosecondsPerSecond);
      test::report(ends_of(*flows));
    });
  });
  CHECK(inside.value == ends_of(alone));
}

TEST_CASE("events of a bare timeline come in order of time, host and scheduling; time stands where they are") {
  struct Note {
    sim::EventTimeline timeline;
    std::string text;
  } note;
  const auto write = [](void* self, std::uint64_t letter) {
    auto& into = *static_cast<Note*>(self);
    into.text += static_cast<char>(letter);
    into.text += std::to_string(into.timeline.now());
    if (letter == 'a')
      into.timeline.after(
          5, 0, [](void* again, std::uint64_t) { static_cast<Note*>(again)->text += "!"; }, self, 0);
  };
  note.timeline.at(20, 1, write, &note, 'c');
  note.timeline.at(20, 0, write, &note, 'b');
  note.timeline.at(10, 3, write, &note, 'a');
  CHECK(note.timeline.run() == 4);
  CHECK(note.text == "a10!b20c20");
  CHECK(note.timeline.run() == 0);
}

}  // namespace timeline_test
