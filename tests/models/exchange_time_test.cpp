// Point-to-point matrices: a uniform one is an alltoall, a permutation a sendrecv, and no prediction is below its
// bound.
#include "models/time/exchange_time.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "tests/models/plain_machine.h"

namespace exchange_time_test {

using namespace meshbed::models;

namespace {

Machine plain() {
  Machine machine = meshbed::test::plain_machine({{MachineParameter::kPairsUs, 3},
                                                  {MachineParameter::kPeerUs, 2},
                                                  {MachineParameter::kFillStages, 0.5},
                                                  {MachineParameter::kRampDepth, 0.3}});
  machine.name = "plain";
  return machine;
}

ExchangeMatrix zeros(int ranks) {
  return {.ranks = ranks, .bytes = std::vector<std::uint64_t>(static_cast<std::size_t>(ranks) * ranks)};
}

std::uint64_t& cell(ExchangeMatrix& matrix, int from, int to) {
  return matrix
      .bytes[static_cast<std::size_t>(from) * static_cast<std::size_t>(matrix.ranks) + static_cast<std::size_t>(to)];
}

ExchangeMatrix uniform(int ranks, std::uint64_t bytes) {
  ExchangeMatrix matrix = zeros(ranks);
  matrix.bytes.assign(matrix.bytes.size(), bytes);  // the diagonal, too, which costs nothing
  return matrix;
}

ExchangeMatrix shifted(int ranks, int shift, std::uint64_t bytes) {
  ExchangeMatrix matrix = zeros(ranks);
  for (int rank = 0; rank < ranks; ++rank) cell(matrix, rank, (rank + shift) % ranks) = bytes;
  return matrix;
}

ExchangeTime time_of(const Machine& machine, const ExchangeMatrix& matrix) {
  const auto time =
      exchange_time(machine, matrix, exchange_fabric(machine, machine.cabling, nodes_of(machine, matrix.ranks)));
  REQUIRE_MESSAGE(time, time.error().text);
  return *time;
}

double part_of(const std::vector<TimePart>& parts, const std::string& name) {
  for (const TimePart& part : parts) {
    if (name == part.name) return part.us;
  }
  return 0;
}

CollectiveCall call_of(const Machine& machine, Collective collective, int ranks, std::uint64_t bytes) {
  return {.collective = collective, .ranks = ranks, .nodes = nodes_of(machine, ranks), .bytes = bytes};
}

}  // namespace

TEST_CASE("equal entries take what an alltoall takes, to the last digit, on a switch and with several ranks a node") {
  for (const int each : {1, 2, 8}) {
    Machine machine = plain();
    machine.ranks_per_node = each;
    machine.set(MachineParameter::kNics, {static_cast<double>(each), Basis::kMeasured, "this test"});
    for (const int nodes : {2, 3, 4, 16}) {
      const int ranks = nodes * each;
      if (ranks < 3) continue;  // of two ranks it is a permutation
      for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{3'000'001}}) {
        const ExchangeTime time = time_of(machine, uniform(ranks, bytes));
        const CollectiveCall call = call_of(machine, Collective::kAllToAll, ranks, bytes * ranks);
        CAPTURE(ranks);
        CHECK(time.us == collective_us(machine, call));
        CHECK(time.as.bytes == call.bytes);
        CHECK(time.is_call);
        CHECK(interval_of(machine, time).high_us == interval_of(machine, call, time.us).high_us);
      }
    }
  }
}

TEST_CASE("around a ring, equal entries take an alltoall and its relays; mean hops are those of all pairs") {
  Machine machine = plain();
  machine.cabling = Cabling::kRing;
  machine.set(MachineParameter::kWireUs, {1.5, Basis::kMeasured, "this test"});
  for (int nodes = 3; nodes <= 9; ++nodes) {
    double hops = 0;
    for (int to = 1; to < nodes; ++to) hops += std::min(to, nodes - to);
    CHECK(mean_ring_hops(nodes) == doctest::Approx(hops / (nodes - 1)));
    const ExchangeTime time = time_of(machine, uniform(nodes, 1 << 20));
    const CollectiveCall call = call_of(machine, Collective::kAllToAll, nodes, (1ULL << 20) * nodes);
    const int relays = nodes / 2 - 1;
    CHECK(time.relays == relays);
    CHECK(part_of(time.parts, "relays") == 1.5 * relays);
    // A message has one way, so the pairs across a ring of eight are not split evenly over both.
    const double uneven = nodes < 8 ? 1e-9 : 0.07;
    CHECK(time.us >= (collective_us(machine, call) + 1.5 * relays) * (1 - 1e-9));
    CHECK(time.us <= (collective_us(machine, call) + 1.5 * relays) * (1 + uneven));
    CHECK(part_of(time.parts, "wire") == doctest::Approx((1 << 20) * hops / 10e3).epsilon(uneven));
  }
}

TEST_CASE("a permutation takes what a sendrecv takes, to the last digit, whatever the order of the ranks") {
  Machine machine = plain();
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int shift = 1; shift < ranks; ++shift) {
      const ExchangeTime time = time_of(machine, shifted(ranks, shift, 5'000'000));
      CHECK(time.us == collective_us(machine, call_of(machine, Collective::kSendRecv, ranks, 5'000'000)));
      CHECK(time.is_call);
      CHECK(time.most_peers == 1);
    }
  }
  // Across a ring of four each node forwards one message of another pair beside its own.
  machine.cabling = Cabling::kRing;
  const ExchangeTime across = time_of(machine, shifted(4, 2, 5'000'000));
  CHECK(across.busiest.bytes == 10'000'000);
  CHECK(across.busiest.forwarded == 5'000'000);
  CHECK(part_of(across.parts, "wire") == doctest::Approx(1000));
  CHECK(across.bound_us == doctest::Approx(1000));
}

TEST_CASE("the busiest carrier is named: adapters out and in, a relay, a rank's own part, links within a node") {
  Machine machine = plain();
  ExchangeMatrix matrix = uniform(4, 1000);
  cell(matrix, 2, 1) = 100'000;
  CHECK(time_of(machine, matrix).busiest.what == "adapters of rank 1, in");
  cell(matrix, 2, 3) = 100'000;
  const ExchangeTime out = time_of(machine, matrix);
  CHECK(out.busiest.what == "adapters of rank 2, out");
  CHECK(out.busiest.bytes == 201'000);
  CHECK(part_of(out.parts, "wire") == doctest::Approx(20.1));
  CHECK_FALSE(out.is_call);
  CHECK(interval_of(machine, out).distance >= Distance::kOtherRanks);
  CHECK(part_of(out.parts, "peers") == 6);
  // Two ranks a node with an adapter each: one of them sends all.
  machine.ranks_per_node = 2;
  machine.set(MachineParameter::kNics, {2, Basis::kMeasured, "this test"});
  ExchangeMatrix one = zeros(4);
  cell(one, 1, 2) = cell(one, 1, 3) = 100'000;
  const ExchangeTime uneven = time_of(machine, one);
  CHECK(uneven.busiest.what == "adapters, out, that rank 1");
  CHECK(part_of(uneven.parts, "wire") == doctest::Approx(20));
  CHECK(uneven.bound_us == doctest::Approx(10));
  // Within a node: as a call of one node, by its links.
  machine.set(MachineParameter::kIntraGBps, {50, Basis::kMeasured, "this test"});
  ExchangeMatrix within = zeros(4);
  cell(within, 0, 1) = 1'000'000;
  const ExchangeTime local = time_of(machine, within);
  CHECK(local.as.nodes == 1);
  CHECK(local.between_nodes == 0);
  CHECK(local.busiest.what == "links within the node, out of rank 0");
  CHECK(part_of(local.parts, "wire") == doctest::Approx(20));
  CHECK(local.bound_us == 0);
  // Beside them a byte that leaves the node: the links are still the longest.
  cell(within, 1, 2) = 1;
  CHECK(time_of(machine, within).busiest.what == "links within the node, out of rank 0");
}

TEST_CASE("random matrices: never below the bound, never less for a larger message, and the same twice") {
  meshbed::Prng prng(53);
  for (int round = 0; round < 200; ++round) {
    Machine machine = plain();
    machine.cabling = static_cast<Cabling>(prng.below(3));
    machine.set(MachineParameter::kPacketOverheadBytes, {82, Basis::kMeasured, "this test"});
    const int ranks = 2 + static_cast<int>(prng.below(9));
    ExchangeMatrix matrix = zeros(ranks);
    for (std::uint64_t& bytes : matrix.bytes) bytes = prng.below(4) == 0 ? 0 : prng.below(1 << 22);
    cell(matrix, 0, 1) += 1;
    const ExchangeTime time = time_of(machine, matrix);
    CHECK(time.us >= time.bound_us);
    CHECK(time.us == time_of(machine, matrix).us);
    double sum = 0;
    for (const TimePart& part : time.parts) sum += part.us;
    CHECK(sum == doctest::Approx(time.us));
    if (machine.cabling == Cabling::kRing) continue;  // a longer message may take another way
    ExchangeMatrix more = matrix;
    cell(more, 1, 0) += 1'000'000;
    CHECK(time_of(machine, more).us >= time.us * (1 - 1e-12));
  }
}

TEST_CASE(
    "what cannot be predicted is refused: no byte, single messages, a fabric without a way or with too few nodes") {
  Machine machine = plain();
  const auto error_of = [&](const ExchangeMatrix& matrix, const ExchangeFabric& fabric) {
    const auto time = exchange_time(machine, matrix, fabric);
    REQUIRE_FALSE(time);
    return time.error().text;
  };
  const ExchangeFabric all = exchange_fabric(machine, Cabling::kSwitch, 4);
  ExchangeMatrix matrix = zeros(4);
  cell(matrix, 2, 2) = 4096;
  CHECK(error_of(matrix, all) == "the matrix has no byte for another rank");
  ExchangeFabric parted = exchange_fabric(machine, Cabling::kRing, 4);
  parted.hops = {
      {{1, parted.adapters[0]}}, {{0, parted.adapters[0]}}, {{3, parted.adapters[0]}}, {{2, parted.adapters[0]}}};
  cell(matrix, 1, 2) = 1;
  CHECK(error_of(matrix, parted) == "no cables lead from node 1 to node 2");
  Cluster two;
  two.nodes.resize(2);
  const auto fabric = exchange_fabric(machine, two, 4);
  REQUIRE_FALSE(fabric);
  CHECK(fabric.error().text == "the topology has 2 nodes, and the ranks are on 4; give one with as many");
  machine.transport = MachineTransport::kMessage;
  CHECK(error_of(matrix, all) == "plain is of messages; a matrix needs a class with collectives");
}

}  // namespace exchange_time_test
