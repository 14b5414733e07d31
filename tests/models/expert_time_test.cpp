// Dispatch and combine of experts: closed forms against counting, and each mechanism where it alone decides.
#include "models/time/expert_time.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <set>

#include "models/fit/calibrate.h"
#include "models/time/message_time.h"

namespace expert_time_test {

using namespace meshbed::models;

namespace {

Machine machine_with(std::initializer_list<std::pair<MachineParameter, double>> values) {
  Machine machine;
  machine.transport = MachineTransport::kExpert;
  machine.ranks_per_node = 8;
  machine.set(MachineParameter::kPacketOverheadBytes, {0, Basis::kMeasured, "this test"});
  for (const auto& [parameter, value] : values) machine.set(parameter, {value, Basis::kMeasured, "this test"});
  return machine;
}

const Machine kPlain = machine_with({{MachineParameter::kLaunchUs, 10},
                                     {MachineParameter::kNetSimpleUs, 5},
                                     {MachineParameter::kNics, 8},
                                     {MachineParameter::kNicGBps, 50},
                                     {MachineParameter::kIntraGBps, 400}});

/// Groups that all choices of 3 of 8 experts reach, on the average.
double counted_groups(int groups) {
  double sum = 0;
  int choices = 0;
  for (int one = 0; one < 8; ++one) {
    for (int two = one + 1; two < 8; ++two) {
      for (int three = two + 1; three < 8; ++three) {
        const int each = 8 / groups;
        sum += static_cast<double>(std::set<int>{one / each, two / each, three / each}.size());
        ++choices;
      }
    }
  }
  return sum / choices;
}

}  // namespace

TEST_CASE("distinct groups of random experts are those that counting all choices gives") {
  for (const int groups : {1, 2, 4, 8}) {
    CHECK(distinct_groups(groups, 8, 3) == doctest::Approx(counted_groups(groups)));
  }
  CHECK(distinct_groups(8, 256, 8) == doctest::Approx(5.29).epsilon(0.01));  // 5.25 of 8 ranks where experts may repeat
  CHECK(distinct_groups(8, 256, 8, 4) < 4);
  CHECK(distinct_groups(8, 256, 8, 4) > 3.5);
}

TEST_CASE("low latency: each token's experts of other nodes cross the adapters") {
  const ExpertCall call{.ranks = 16, .nodes = 2, .tokens = 128, .token_bytes = 7408, .top_k = 8};
  const double wire_us = 128 * 8 * 0.5 * 7408 / 50e3;
  CHECK(expert_time(kPlain, call).us == doctest::Approx(15 + wire_us).epsilon(0.001));
  ExpertCall more = call;
  more.nodes = 8;
  more.ranks = 64;
  CHECK(expert_time(kPlain, more).us == doctest::Approx(15 + wire_us * 0.875 / 0.5).epsilon(0.001));
  ExpertCall one = call;
  one.nodes = 1;
  one.ranks = 8;
  CHECK(expert_time(kPlain, one).us == doctest::Approx(10 + 128 * 8 * 0.875 * 7408 / 400e3).epsilon(0.001));
  double sum = 0;
  for (const TimePart& part : expert_time(kPlain, more).parts) sum += part.us;
  CHECK(sum == doctest::Approx(expert_time(kPlain, more).us));
}

TEST_CASE("normal: a token crosses once for each node, so that fewer bytes than in low latency do") {
  ExpertCall call{.mode = ExpertMode::kNormal, .ranks = 16, .nodes = 2, .tokens = 4096, .token_bytes = 14336};
  Machine wide = kPlain;  // links within a node that are never the longest
  wide.set(MachineParameter::kIntraGBps, {1e6, Basis::kMeasured, "this test"});
  const ExpertTime time = expert_time(wide, call);
  CHECK(time.nodes_of_token == doctest::Approx(distinct_groups(2, 256, 8)));
  const double wire_us = 4096 * time.nodes_of_token * 0.5 * 14336 / 50e3;
  CHECK(time.us == doctest::Approx(15 + wire_us).epsilon(0.001));
  ExpertCall low = call;
  low.mode = ExpertMode::kLowLatency;
  CHECK(expert_time(wide, low).us > 3 * time.us);
  // A bandwidth that counts each copy to a node is that of so much more bytes.
  call.counts_once = true;
  CHECK(expert_time(wide, call).us == doctest::Approx(time.us / time.nodes_of_token));
}

TEST_CASE("a proxy's messages, remote ranks, connections and multiprocessors each bound a call; combine has factors") {
  const ExpertCall call{.ranks = 16, .nodes = 2, .tokens = 128, .token_bytes = 1024, .top_k = 8};
  Machine proxy = kPlain;
  proxy.set(MachineParameter::kEpMessageUs, {2, Basis::kMeasured, "this test"});
  CHECK(expert_time(proxy, call).us == doctest::Approx(15 + 128 * 8 * 0.5 * 2).epsilon(0.001));
  ExpertCall normal = call;
  normal.mode = ExpertMode::kNormal;
  CHECK(expert_time(proxy, normal).us == expert_time(kPlain, normal).us);
  Machine peers = kPlain;
  peers.set(MachineParameter::kEpPeerUs, {3, Basis::kMeasured, "this test"});
  CHECK(expert_time(peers, call).us == doctest::Approx(expert_time(kPlain, call).us + 8 * 3));
  Machine connection = kPlain;
  connection.set(MachineParameter::kEpPeerGBps, {0.1, Basis::kMeasured, "this test"});
  CHECK(expert_time(connection, call).us == doctest::Approx(15 + 512 * 1024 / 8 / 0.1e3).epsilon(0.001));
  Machine copies = kPlain;
  copies.set(MachineParameter::kEpSmTokenUs, {24, Basis::kMeasured, "this test"});
  CHECK(expert_time(copies, call).us == doctest::Approx(15 + 1024).epsilon(0.001));
  ExpertCall wide = call;
  wide.multiprocessors = 48;
  CHECK(expert_time(copies, wide).us == doctest::Approx(15 + 512).epsilon(0.001));
  Machine factor = proxy;
  factor.set(MachineParameter::kEpCombineCost, {0.5, Basis::kMeasured, "this test"});
  ExpertCall combine = call;
  combine.combine = true;
  CHECK(expert_time(factor, combine).us == doctest::Approx((15 + 1024) / 2.0).epsilon(0.001));
}

TEST_CASE("without links within a node all of a token's messages go by the adapters") {
  Machine machine = kPlain;
  machine.set(MachineParameter::kEpByNic, {1, Basis::kMeasured, "this test"});
  const ExpertCall call{.ranks = 8, .nodes = 1, .tokens = 128, .token_bytes = 7408, .top_k = 8};
  CHECK(expert_time(machine, call).us == doctest::Approx(15 + 128 * 8 * 0.875 * 7408 / 50e3).epsilon(0.001));
}

TEST_CASE("calibrate recovers launch, hop, share of the adapters and of the links from times of one and more nodes") {
  Machine truth = kPlain;
  truth.set(MachineParameter::kNicFraction, {0.8, Basis::kMeasured, "this test"});
  truth.set(MachineParameter::kDuplexFraction, {0.55, Basis::kMeasured, "this test"});
  Sweep sweep{.name = "x", .points = {}};
  for (const int nodes : {1, 2, 4}) {
    for (double tokens = 1; tokens <= 1024; tokens *= 2) {
      SweepPoint point;
      point.is_message = true;
      point.expert = ExpertCall{.ranks = 8 * nodes, .nodes = nodes, .tokens = tokens, .token_bytes = 7408};
      point.call = {.ranks = 8 * nodes, .nodes = nodes, .bytes = static_cast<std::uint64_t>(tokens * 8 * 7408)};
      point.time_us = expert_time(truth, *point.expert).us;
      sweep.points.push_back(point);
    }
  }
  Machine bare = kPlain;
  bare.clear(MachineParameter::kLaunchUs);
  bare.clear(MachineParameter::kNetSimpleUs);
  const auto fit = calibrate(bare, {sweep}, "this test");
  REQUIRE(fit);
  CHECK(fit->machine[MachineParameter::kLaunchUs] == doctest::Approx(10).epsilon(0.1));
  CHECK(fit->machine[MachineParameter::kNetSimpleUs] == doctest::Approx(5).epsilon(0.2));
  CHECK(fit->machine[MachineParameter::kNicFraction] == doctest::Approx(0.8).epsilon(0.05));
  CHECK(fit->machine[MachineParameter::kDuplexFraction] == doctest::Approx(0.55).epsilon(0.05));
  CHECK(summarise(errors_of(fit->machine, sweep.points)).median < 0.02);
}

TEST_CASE("messages: both directions add their rates, and a batch is posted and waited for") {
  Machine nic;
  nic.transport = MachineTransport::kMessage;
  nic.set(MachineParameter::kNicGBps, {50, Basis::kMeasured, "this test"});
  nic.set(MachineParameter::kPacketOverheadBytes, {0, Basis::kMeasured, "this test"});
  nic.set(MachineParameter::kLaunchUs, {5, Basis::kMeasured, "this test"});
  const std::uint64_t bytes = 1 << 20;
  CHECK(message_us(nic, {.both_ways = true}, bytes) == doctest::Approx(message_us(nic, {}, bytes) / 2));
  CHECK(message_us(nic, {.batch = 1}, bytes) == doctest::Approx(5 + bytes / 50e3).epsilon(0.001));
  CHECK(message_us(nic, {.batch = 1000}, 1000) == doctest::Approx(5 + 300).epsilon(0.001));
  CHECK(parse_message_test("rdma_write")->batch == 1);
  CHECK(parse_message_test("osu_bibw")->both_ways);
  CHECK(parse_message_test("ib_atomic_bw")->read);
}

}  // namespace expert_time_test
