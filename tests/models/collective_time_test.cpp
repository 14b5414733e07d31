// What collectives take on a machine: each mechanism alone, and what decides between them.
#include "models/time/collective_time.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "models/time/channels.h"
#include "models/time/message_time.h"
#include "tests/models/plain_machine.h"

namespace collective_time_test {

using namespace meshbed::models;
using meshbed::test::plain_ring_machine;

namespace {

CollectiveCall call_of(Collective collective, int ranks, std::uint64_t bytes) {
  return {.collective = collective, .ranks = ranks, .nodes = ranks, .bytes = bytes};
}

double part_of(const CollectiveTime& time, const std::string& name) {
  for (const TimePart& part : time.parts) {
    if (name == part.name) return part.us;
  }
  return 0;
}

}  // namespace

TEST_CASE("a ring takes its launch, its steps and its bytes over the rate: every collective, 2 to 9 ranks") {
  const Machine machine = plain_ring_machine();
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const double n = ranks, bytes = 1 << 20;
    const auto us = [&](Collective collective) { return collective_us(machine, call_of(collective, ranks, 1 << 20)); };
    const auto expected = [](double steps, double sent) { return 5 + 10 * steps + sent / 10e3; };
    CHECK(us(Collective::kAllReduce) == doctest::Approx(expected(2 * (n - 1), 2 * bytes * (n - 1) / n)));
    CHECK(us(Collective::kAllGather) == doctest::Approx(expected(n - 1, bytes * (n - 1) / n)));
    CHECK(us(Collective::kReduceScatter) == doctest::Approx(expected(n - 1, bytes * (n - 1) / n)));
    CHECK(us(Collective::kBroadcast) == doctest::Approx(expected(n - 1, bytes)));
    CHECK(us(Collective::kReduce) == doctest::Approx(expected(n - 1, bytes)));
    CHECK(us(Collective::kSendRecv) == doctest::Approx(expected(1, bytes)));
    CHECK(us(Collective::kAllToAll) == doctest::Approx(expected(1, bytes * (n - 1) / n)));
  }
}

TEST_CASE("the parts of a prediction are the whole, and a mechanism that is switched on adds its own") {
  Machine machine = plain_ring_machine();
  const CollectiveCall call = call_of(Collective::kAllReduce, 4, 64 << 20);
  const double before = collective_us(machine, call);
  for (const auto& [parameter, value] : {std::pair{MachineParameter::kFillStages, 0.5},
                                         {MachineParameter::kRampDepth, 0.3},
                                         {MachineParameter::kReduceGBps, 50.0}}) {
    Machine more = plain_ring_machine();
    more.set(parameter, {value, Basis::kGuess, "this test"});
    CHECK(collective_us(more, call) > before);
    machine.set(parameter, {value, Basis::kGuess, "this test"});
  }
  const CollectiveTime time = collective_time(machine, call);
  double sum = 0;
  for (const TimePart& part : time.parts) sum += part.us;
  CHECK(sum == doctest::Approx(time.us));
  CHECK(time.us == doctest::Approx(collective_us(machine, call)));
  // 6 hops, half of a slice of 1 MiB each, at 10 GB/s.
  CHECK(part_of(time, "fill") == doctest::Approx(6 * 0.5 * 1048576 / 10e3));
  // The ramp's end: 0.3 of its millisecond, all but e^-10 of it.
  CHECK(part_of(time, "ramp") == doctest::Approx(300).epsilon(0.001));
  CHECK(part_of(time, "reduce") == doctest::Approx(3 * (64 << 20) / 4.0 / 50e3));
}

TEST_CASE(
    "the cost table chooses what is cheapest by latency and rate; a threshold overrules it; force overrules both") {
  Machine machine = plain_ring_machine();
  for (const MachineParameter each :
       {MachineParameter::kLlMaxBytes, MachineParameter::kLl128MaxBytes, MachineParameter::kTreeMaxBytes}) {
    machine.clear(each);
  }
  const CollectiveTime small = collective_time(machine, call_of(Collective::kAllReduce, 16, 64));
  CHECK(small.protocol == CollectiveProtocol::kLl);
  CHECK(small.algorithm == CollectiveAlgorithm::kTree);  // 8 hops, not 30
  const CollectiveTime large = collective_time(machine, call_of(Collective::kAllReduce, 16, 1 << 30));
  CHECK(large.protocol == CollectiveProtocol::kSimple);
  CHECK(large.algorithm == CollectiveAlgorithm::kRing);
  machine.set(MachineParameter::kLlMaxBytes, {1e8, Basis::kCalibrated, "this test"});
  // By the threshold it takes LL, which is slower; but then no call takes longer than a larger one, here of Simple.
  CHECK(collective_us_of_size(machine, call_of(Collective::kAllReduce, 16, 1 << 30)) > 1.5 * large.us);
  const CollectiveTime bounded = collective_time(machine, call_of(Collective::kAllReduce, 16, 1 << 30));
  CHECK(bounded.protocol == CollectiveProtocol::kSimple);
  CHECK(bounded.us == doctest::Approx(collective_us(machine, call_of(Collective::kAllReduce, 16, 1'600'000'001))));
  CollectiveCall forced = call_of(Collective::kAllReduce, 16, 1 << 30);
  forced.protocol = CollectiveProtocol::kLl128;
  forced.algorithm = CollectiveAlgorithm::kTree;
  CHECK(collective_time(machine, forced).protocol == CollectiveProtocol::kLl128);
  CHECK(collective_time(machine, forced).algorithm == CollectiveAlgorithm::kTree);
}

TEST_CASE("time never falls with size or with ranks, whatever is chosen") {
  Machine machine = plain_ring_machine();
  for (const MachineParameter each :
       {MachineParameter::kLlMaxBytes, MachineParameter::kLl128MaxBytes, MachineParameter::kTreeMaxBytes}) {
    machine.clear(each);
  }
  for (const std::string& name : collective_names()) {
    const Collective collective = *parse_collective(name);
    for (int ranks = 2; ranks <= 33; ++ranks) {
      double before = 0;
      for (std::uint64_t bytes = 4; bytes <= std::uint64_t{1} << 34; bytes *= 2) {
        const double now = collective_us(machine, call_of(collective, ranks, bytes));
        CHECK_MESSAGE(now >= before, name, " ", ranks, " ", bytes);
        before = now;
      }
    }
  }
}

TEST_CASE(
    "sends and receives are set up for all peers at once: alltoall, gather and scatter, and no other collective") {
  Machine machine = plain_ring_machine();
  machine.set(MachineParameter::kPairsUs, {3, Basis::kMeasured, "this test"});
  for (const int ranks : {2, 8, 64}) {
    for (const Collective collective : {Collective::kAllToAll, Collective::kGather, Collective::kScatter})
      CHECK(part_of(collective_time(machine, call_of(collective, ranks, 4096)), "pairs") == doctest::Approx(3));
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast})
      CHECK(part_of(collective_time(machine, call_of(collective, ranks, 4096)), "pairs") == 0);
  }
}

TEST_CASE("where each message is a kernel of its own each peer costs one: an exchange one, an alltoall all others") {
  // libsircl's README, point-to-point channels: "A message of n bytes is one launch of the point-to-point pack".
  Machine machine = plain_ring_machine();
  machine.set(MachineParameter::kPeerUs, {15, Basis::kMeasured, "this test"});
  const auto peers_us = [&](CollectiveCall call) { return part_of(collective_time(machine, call), "peers"); };
  for (const int ranks : {2, 4, 8}) {
    CHECK(peers_us(call_of(Collective::kSendRecv, ranks, 4096)) == doctest::Approx(15));
    CHECK(peers_us(call_of(Collective::kAllToAll, ranks, 4096)) == doctest::Approx(15 * (ranks - 1)));
    CHECK(peers_us(call_of(Collective::kAllReduce, ranks, 4096)) == 0);
  }
  CollectiveCall one_kernel = call_of(Collective::kAllToAll, 8, 4096);
  one_kernel.algorithm = CollectiveAlgorithm::kDirect;
  CHECK(peers_us(one_kernel) == 0);
}

TEST_CASE("channels are taken by size, as NCCL v2.30.7 does, and a class that has them moves no more than they do") {
  const auto used = [](Collective collective, int ranks, std::uint64_t bytes, CollectiveProtocol protocol,
                       int most = 32) {
    return channels_used(call_of(collective, ranks, bytes), CollectiveAlgorithm::kRing, protocol, most);
  };
  using enum CollectiveProtocol;
  // Simple: 512 threads times 64 bytes. LL128: cells of 32 KiB of traffic, of which an all_reduce has twice its bytes.
  CHECK(used(Collective::kAllReduce, 4, 1024, kSimple) == 1);
  CHECK(used(Collective::kAllReduce, 4, 65536, kSimple) == 2);
  CHECK(used(Collective::kAllReduce, 4, 1 << 20, kSimple) == 32);
  CHECK(used(Collective::kAllReduce, 4, 1 << 30, kSimple) == 32);
  CHECK(used(Collective::kAllReduce, 4, 1 << 30, kSimple, 4) == 4);
  CHECK(used(Collective::kAllReduce, 4, 65536, kLl128) == 4);
  CHECK(used(Collective::kAllGather, 4, 65536, kLl128) == 2);
  // LL: 4 KiB a rank for the threads, and cells of a fourth, each channel as many as its share of the traffic has.
  CHECK(used(Collective::kAllReduce, 2, 65536, kLl) == 16);
  CHECK(used(Collective::kAllReduce, 16, 65536, kLl) == 4);
  CHECK(used(Collective::kAllToAll, 8, 64, kSimple) == 32);
  Machine machine = plain_ring_machine();
  CollectiveCall call = call_of(Collective::kBroadcast, 2, 65536);
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx(65536 / 10e3));
  machine.set(MachineParameter::kChannels, {8, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kChannelGBps, {2, Basis::kMeasured, "this test"});
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx(65536 / 4e3));  // two channels
  call.bytes = 1 << 20;
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx((1 << 20) / 10e3));  // the adapter's
}

TEST_CASE("within a node no call is free, NVLink's domain is one node, and a message goes over one adapter") {
  Machine machine = plain_ring_machine();
  CollectiveCall call = call_of(Collective::kBroadcast, 8, 1 << 30);
  call.nodes = 1;
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx((1 << 30) / 13.1e3));  // PCIe 3.0 x16
  machine.set(MachineParameter::kIntraGBps, {100, Basis::kMeasured, "this test"});
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx((1 << 30) / 100e3));
  machine.transport = MachineTransport::kWithin;
  const double one_us = collective_us(machine, call);
  call.nodes = 4;
  CHECK(collective_us(machine, call) == one_us);
  machine.transport = MachineTransport::kVerbs;
  machine.set(MachineParameter::kNics, {8, Basis::kMeasured, "this test"});
  machine.ranks_per_node = 8;
  const double message = message_us(machine, {.latency = false, .read = false}, 1 << 23);
  CHECK(message == doctest::Approx((1 << 23) / 10e3).epsilon(0.01));
}

TEST_CASE("never is of a call of one byte, too") {
  Machine machine = plain_ring_machine();  // thresholds of 1: never
  CollectiveCall call{.collective = Collective::kAllReduce, .ranks = 64, .nodes = 8, .bytes = 1};
  CHECK(collective_time(machine, call).algorithm == CollectiveAlgorithm::kRing);
  CHECK(collective_time(machine, call).protocol == CollectiveProtocol::kSimple);
}

TEST_CASE("iterations of one test share what its ranks begin apart; a call that is of no test has none of it") {
  Machine machine = plain_ring_machine();
  machine.set(MachineParameter::kSkewUs, {160, Basis::kMeasured, "this test"});
  CollectiveCall call = call_of(Collective::kAllReduce, 4, 4096);
  const double alone_us = collective_us(machine, call);
  for (const int iterations : {1, 20, 100}) {
    call.iterations = iterations;
    CHECK(collective_us(machine, call) == doctest::Approx(alone_us + 160.0 / iterations));
  }
}

TEST_CASE("a library without plans for calls with a root has everyone send its broadcast, and all have its reduce") {
  // libsircl's STATUS.md: ncclBroadcast is "an all-gather of the root's tiles", ncclReduce "the all-reduce, kept on the
  // root".
  Machine machine = plain_ring_machine();
  const std::uint64_t bytes = 1 << 20;
  const auto us = [&](Collective collective, int ranks) {
    return collective_us(machine, call_of(collective, ranks, bytes));
  };
  const double pipelined_us = us(Collective::kBroadcast, 8);
  machine.set(MachineParameter::kRootedAsAll, {1, Basis::kConstant, "this test"});
  CHECK(us(Collective::kReduce, 8) == us(Collective::kAllReduce, 8));
  CHECK(us(Collective::kBroadcast, 8) == doctest::Approx(5 + 10 + 7.0 * bytes / 10e3));  // one step of seven messages
  CHECK(us(Collective::kBroadcast, 8) > 3 * pipelined_us);
  CHECK(collective_us(machine, call_of(Collective::kBroadcast, 8, std::uint64_t{1} << 61)) > 1e12);  // no 0 bytes
  // Around a ring of eight a message goes over two cables in the mean, around one of four over one.
  machine.cabling = Cabling::kRing;
  CHECK(us(Collective::kBroadcast, 8) == doctest::Approx(5 + 10 + 14.0 * bytes / 10e3));
  CHECK(us(Collective::kBroadcast, 4) == doctest::Approx(5 + 10 + 3.0 * bytes / 10e3));
  CHECK(us(Collective::kAllGather, 8) == doctest::Approx(5 + 70 + 7.0 / 8 * bytes / 10e3));
}

TEST_CASE("GPUs of one node on PCIe share it both ways, unless a profile says that they reach one another") {
  Machine machine = plain_ring_machine();
  machine.transport = MachineTransport::kWithin;
  CollectiveCall both = call_of(Collective::kAllReduce, 2, 64 << 20),
                 one = call_of(Collective::kBroadcast, 2, 64 << 20);
  both.nodes = one.nodes = 1;
  const auto wire = [&](const CollectiveCall& call) { return part_of(collective_time(machine, call), "wire"); };
  CHECK(wire(both) == doctest::Approx(wire(one) / 0.55));
  machine.set(MachineParameter::kDuplexFraction, {1, Basis::kDataSheet, "this test"});
  CHECK(wire(both) == doctest::Approx(wire(one)));
}

TEST_CASE("LL between nodes moves what NCCL says at most, unless a share of its own was fitted") {
  Machine machine;
  machine.set(MachineParameter::kNicGBps, {200, Basis::kDataSheet, "this test"});
  machine.set(MachineParameter::kPacketOverheadBytes, {0, Basis::kMeasured, "this test"});
  CollectiveCall call = call_of(Collective::kAllGather, 2, 1 << 20);
  call.protocol = CollectiveProtocol::kLl;
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx((1 << 19) / 39e3));
  call.ranks = call.nodes = 4;
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx(3 * (1 << 18) / 20.4e3));
  machine.set(MachineParameter::kLlFraction, {0.4, Basis::kCalibrated, "this test"});
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx(3 * (1 << 18) / 80e3));
  // Within a node the limit is another's.
  machine.clear(MachineParameter::kLlFraction);
  machine.set(MachineParameter::kIntraGBps, {400, Basis::kDataSheet, "this test"});
  call.nodes = 1;
  CHECK(part_of(collective_time(machine, call), "wire") == doctest::Approx(3 * (1 << 18) / 200e3));
}

TEST_CASE("around a ring between nodes a step within one takes what the host takes to post it, at least") {
  Machine machine;
  machine.set(MachineParameter::kTreeMaxBytes, {1, Basis::kMeasured, "this test"});
  CollectiveCall call{.collective = Collective::kAllReduce, .ranks = 16, .nodes = 2, .bytes = 64};
  call.protocol = CollectiveProtocol::kLl;
  const auto within_us = [&] { return part_of(collective_time(machine, call), "hops within nodes"); };
  CHECK(within_us() == doctest::Approx(28 * 1.0));
  call.algorithm = CollectiveAlgorithm::kTree;
  CHECK(within_us() == doctest::Approx(14 * 0.6));
  call.algorithm = CollectiveAlgorithm::kRing;
  call.protocol = CollectiveProtocol::kSimple;
  CHECK(within_us() == doctest::Approx(28 * 3.4));
  machine.set(MachineParameter::kIntraSimpleUs, {2, Basis::kMeasured, "this test"});
  CHECK(within_us() == doctest::Approx(28 * 3.0));
  call.nodes = 1;
  CHECK(within_us() == doctest::Approx(30 * 2.0));
}

TEST_CASE(
    "sends and receives between nodes are Simple; within one, forced, or by a library's own kernels they are not") {
  Machine machine;
  for (const Collective collective :
       {Collective::kSendRecv, Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    machine.transport = MachineTransport::kVerbs;
    CollectiveCall call = call_of(collective, 4, 64);
    CHECK(collective_time(machine, call).protocol == CollectiveProtocol::kSimple);
    machine.set(MachineParameter::kLlMaxBytes, {1e6, Basis::kCalibrated, "this test"});
    CHECK(collective_time(machine, call).protocol == CollectiveProtocol::kSimple);
    machine.clear(MachineParameter::kLlMaxBytes);
    call.protocol = CollectiveProtocol::kLl;
    CHECK(collective_time(machine, call).protocol == CollectiveProtocol::kLl);
    call.protocol.reset();
    call.nodes = 1;
    CHECK(collective_time(machine, call).protocol == CollectiveProtocol::kLl);
    call.nodes = 4;
    machine.transport = MachineTransport::kKernel;
    CHECK(collective_time(machine, call).protocol == CollectiveProtocol::kLl);
  }
  machine.transport = MachineTransport::kVerbs;
  CHECK(collective_time(machine, call_of(Collective::kAllGather, 4, 64)).protocol == CollectiveProtocol::kLl);
}

TEST_CASE("headers take their share of the wire, and a host that feeds less is what counts") {
  Machine machine = plain_ring_machine();
  machine.set(MachineParameter::kPacketOverheadBytes, {82, Basis::kDataSheet, "models/link.h"});
  CHECK(node_GBps(machine) == doctest::Approx(10.0 * 4096 / (4096 + 82)));
  machine.set(MachineParameter::kHostCapGBps, {3, Basis::kMeasured, "this test"});
  CHECK(node_GBps(machine) == doctest::Approx(3));
}

TEST_CASE("GPUs use the NICs nearest to them: one of eight GPUs one of eight NICs, and two of thirty-two four each") {
  // NCCL v2.30.7 src/graph/topo.cc, ncclTopoGetLocalNet: NICs of a GPU are DIVUP(near NICs, GPUs near to them).
  Machine machine = plain_ring_machine();
  machine.ranks_per_node = 8;
  const auto used = [&](double nics, int ranks) {
    machine.set(MachineParameter::kNics, {nics, Basis::kMeasured, "this test"});
    return nics_used(machine, ranks);
  };
  for (const int ranks : {1, 2, 5, 8}) CHECK(used(8, ranks) == ranks);
  CHECK(used(32, 1) == 4);
  CHECK(used(32, 2) == 8);
  CHECK(used(2, 1) == 1);
  CHECK(used(2, 2) == 2);
  CHECK(used(2, 5) == 2);
  CHECK(used(8, 0) == 8);
  CHECK(used(8, 16) == 8);  // more GPUs than the class has use what there is
  used(8, 0);
  constexpr std::uint64_t kBytes = 1 << 30;
  const auto wire_us = [&](int ranks) {
    const CollectiveCall call{
        .collective = Collective::kBroadcast, .ranks = ranks, .nodes = 2, .bytes = kBytes, .protocol = {}};
    return part_of(collective_time(machine, call), "wire");
  };
  CHECK(wire_us(2) == doctest::Approx(kBytes / 10e3));
  CHECK(wire_us(6) == doctest::Approx(kBytes / 30e3));
  CHECK(wire_us(16) == doctest::Approx(kBytes / 80e3));
  machine.set(MachineParameter::kHostCapGBps, {25, Basis::kMeasured, "this test"});
  CHECK(wire_us(6) == doctest::Approx(kBytes / 25e3));
  machine.ranks_per_node = 1;  // both functions of a port serve the one GPU
  CHECK(used(2, 1) == 2);
}

TEST_CASE("a message alone takes wire, fetch and bytes; in a stream it takes the slower of NIC and wire") {
  Machine machine = plain_ring_machine();
  for (const auto& [parameter, value] : {std::pair{MachineParameter::kWireUs, 1.0},
                                         {MachineParameter::kDmaUs, 0.5},
                                         {MachineParameter::kMessageUs, 0.25}}) {
    machine.set(parameter, {value, Basis::kMeasured, "this test"});
  }
  CHECK(message_us(machine, {.latency = true}, 220) == doctest::Approx(1.022));
  CHECK(message_us(machine, {.latency = true}, 1000) == doctest::Approx(1.6));
  CHECK(message_us(machine, {.latency = false}, 8) == doctest::Approx(0.25).epsilon(1e-6));
  CHECK(message_us(machine, {.latency = false}, 1 << 20) == doctest::Approx(104.8576).epsilon(1e-6));
  CHECK(parse_message_test("ib_read_bw")->read);
  CHECK(parse_message_test("osu_latency")->latency);
  CHECK_FALSE(parse_message_test("all_reduce").has_value());
}

namespace {

/// Every mechanism on at once, on two adapters of 12.5 GB/s and eight ranks a node.
Machine all_on() {
  Machine machine = plain_ring_machine();
  machine.ranks_per_node = 8;
  for (const auto& [parameter, value] : {std::pair{MachineParameter::kNics, 2.0},
                                         {MachineParameter::kNicGBps, 12.5},
                                         {MachineParameter::kPacketOverheadBytes, 82.0},
                                         {MachineParameter::kTreeFraction, 1.2},
                                         {MachineParameter::kLl128Fraction, 1.2},
                                         {MachineParameter::kFillStages, 0.7},
                                         {MachineParameter::kRampDepth, 0.5},
                                         {MachineParameter::kReduceGBps, 100.0},
                                         {MachineParameter::kCopyGBps, 136.0},
                                         {MachineParameter::kIntraGBps, 300.0},
                                         {MachineParameter::kNetLatencyUs, 20.0}}) {
    machine.set(parameter, {value, Basis::kGuess, "this test"});
  }
  return machine;
}

constexpr CollectiveProtocol kProtocols[] = {CollectiveProtocol::kLl, CollectiveProtocol::kLl128,
                                             CollectiveProtocol::kSimple};
constexpr CollectiveAlgorithm kAlgorithms[] = {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree};

}  // namespace

TEST_CASE("within one algorithm and protocol time grows with bytes and with nodes, a byte and a node at a time") {
  const Machine machine = all_on();
  for (const std::string& name : collective_names()) {
    for (const CollectiveProtocol protocol : kProtocols) {
      for (const CollectiveAlgorithm algorithm : kAlgorithms) {
        CollectiveCall call{.collective = *parse_collective(name), .protocol = protocol, .algorithm = algorithm};
        std::vector<double> smaller(10, 0.0);
        for (double bytes = 64; bytes < 1e10; bytes *= 1.07) {
          call.bytes = static_cast<std::uint64_t>(bytes);
          double fewer = 0;
          for (int nodes = 2; nodes < 10; ++nodes) {
            call.nodes = nodes;
            call.ranks = 8 * nodes;
            const double us = collective_us(machine, call);
            CHECK_MESSAGE(us > smaller.at(nodes), name, " ", name_of(protocol), " ", call.bytes, " bytes");
            CHECK_MESSAGE(us >= fewer * (1 - 1e-12), name, " ", name_of(protocol), " ", nodes, " nodes");
            smaller.at(nodes) = us;
            fewer = us;
          }
        }
      }
    }
  }
}

TEST_CASE("no choice and no share of a rate is faster than what must cross the adapters") {
  const Machine machine = all_on();
  const auto rate_bps = static_cast<std::uint64_t>(2 * 12.5e9 * 8);
  for (const std::string& name : collective_names()) {
    for (int nodes = 2; nodes < 10; ++nodes) {
      const std::vector<NodePort> ports(static_cast<std::size_t>(nodes), NodePort{.rate_bps = rate_bps, .ranks = 8});
      for (std::uint64_t bytes = 1024; bytes <= std::uint64_t{1} << 34; bytes *= 4) {
        CollectiveCall call{.collective = *parse_collective(name), .ranks = 8 * nodes, .nodes = nodes, .bytes = bytes};
        const double bound_us = static_cast<double>(any_algorithm_bound_ps(call.collective, bytes, ports)) /
                                meshbed::kPicosecondsPerMicrosecond;
        CHECK_MESSAGE(collective_us(machine, call) >= bound_us, name, " ", nodes, " nodes, ", bytes, " bytes");
        for (const CollectiveProtocol protocol : kProtocols) {
          for (const CollectiveAlgorithm algorithm : kAlgorithms) {
            call.protocol = protocol;
            call.algorithm = algorithm;
            CHECK_MESSAGE(collective_us(machine, call) >= bound_us, name, " ", name_of(protocol), " ", bytes);
          }
        }
      }
    }
  }
}

}  // namespace collective_time_test
