// What the software of a class costs a run: each part where the run spends it, and nothing twice.
#include "models/time/software.h"

#include <doctest/doctest.h>

#include "models/time/machine_profile.h"
#include "plugin/base/units.h"

namespace software_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

constexpr double kUs = kPicosecondsPerMicrosecond;

Machine made() {
  Machine machine;
  machine.name = "made";
  machine.set(MachineParameter::kLaunchUs, {10, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kNetSimpleUs, {8, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kNetLlUs, {4, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kWireUs, {1.5, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kPacketOverheadBytes, {0, Basis::kMeasured, "this test"});
  return machine;
}

}  // namespace

TEST_CASE("a call's parts are spent once: launch, hops without the wire's own, what bytes cost beyond the wire") {
  Machine machine = made();
  CollectiveCall call{.collective = Collective::kAllReduce, .ranks = 4, .nodes = 4, .bytes = 40'000};
  call.protocol = CollectiveProtocol::kSimple;
  call.algorithm = CollectiveAlgorithm::kRing;
  SoftwareCost cost = software_cost(machine, call);
  CHECK(cost.call_ps == 10 * kUs);
  CHECK(cost.hop_ps == 6.5 * kUs);
  CHECK(cost.bytes_ps == 0);
  // 30 000 bytes of sums at 1 GB/s.
  machine.set(MachineParameter::kReduceGBps, {1, Basis::kMeasured, "this test"});
  cost = software_cost(machine, call);
  CHECK(cost.bytes_ps == doctest::Approx(30 * kUs));
  // All of it again, with the wire's latency in the place of wire_us: the class's own time.
  const double steps = 6, latency_us = 1.5;
  const double wire_us = 60'000 / 12.5e3;
  const double sum_us = static_cast<double>(cost.call_ps + cost.bytes_ps) / kUs +
                        steps * (latency_us + static_cast<double>(cost.hop_ps) / kUs) + wire_us;
  CHECK(sum_us == doctest::Approx(collective_us(machine, call)));
}

TEST_CASE("lines of LL cost their bytes once: by the class where the run sends none, else by the run's own wire") {
  const Machine machine = made();
  CollectiveCall call{.collective = Collective::kAllGather, .ranks = 2, .nodes = 2, .bytes = 1'000'000};
  call.protocol = CollectiveProtocol::kLl;
  const SoftwareCost plain = software_cost(machine, call), lines = software_cost(machine, call, 2);
  CHECK(plain.hop_ps == 2.5 * kUs);
  CHECK(plain.bytes_ps == doctest::Approx(500'000 / 12.5e3 * kUs));  // half of the rate
  CHECK(lines.bytes_ps <= 1);                                        // rounding
}

TEST_CASE("messages of no known collective cost one launch and a hop of their protocol; a hop is never negative") {
  Machine machine = made();
  const SoftwareCost cost = software_cost_of_messages(machine, CollectiveProtocol::kLl);
  CHECK(cost.call_ps == 10 * kUs);
  CHECK(cost.bytes_ps == 0);
  CHECK(cost.hop_ps == 2.5 * kUs);
  machine.set(MachineParameter::kWireUs, {50, Basis::kMeasured, "this test"});
  CHECK(software_cost_of_messages(machine, CollectiveProtocol::kSimple).hop_ps == 0);
}

TEST_CASE("a NIC reaches its share, and all of a node's no more than the host feeds them") {
  Machine machine = made();
  CHECK(reached_bps(machine, 100'000'000'000, 2) == 100'000'000'000);
  machine.set(MachineParameter::kNicFraction, {0.25, Basis::kMeasured, "this test"});
  CHECK(reached_bps(machine, 100'000'000'000, 2) == 25'000'000'000);
  machine.set(MachineParameter::kHostCapGBps, {2, Basis::kMeasured, "this test"});
  CHECK(reached_bps(machine, 100'000'000'000, 2) == 8'000'000'000);
}

TEST_CASE("a class's error bar: what was held out of this kind, else the worst held out, else the worst residual") {
  const std::string text =
      "name = \"made\"\n[topology]\ncabling = \"ring\"\nranks_per_node = 1\n[residuals]\n"
      "\"a.csv\" = \"median 1.0 %, p90 3.0 %, max 9 %\"\n\"b.csv\" = \"median 2.0 %, p90 5.5 %\"\n";
  const auto of = [](const std::string& whole) { return *machine_of(*Profile::parse(whole, "made.toml")); };
  auto bar = error_bar(of(text), "all_reduce, 4 ranks");
  REQUIRE(bar);
  CHECK(bar->errors.p90 == doctest::Approx(0.055));
  CHECK_FALSE(bar->is_held_out);
  const Machine held = of(text +
                          "[held_out]\n\"all_reduce, 4 ranks\" = \"median 13.4 %, p90 21.2 %\"\n"
                          "\"all_gather, 4 ranks\" = \"median 7 %, p90 30 %\"\n");
  CHECK(error_bar(held, "all_reduce, 4 ranks")->errors.p90 == doctest::Approx(0.212));
  CHECK(error_bar(held, "all_reduce, 4 ranks")->errors.median == doctest::Approx(0.134));
  CHECK(error_bar(held, "broadcast, 4 ranks")->errors.p90 == doctest::Approx(0.3));
  CHECK(error_bar(held, "broadcast, 4 ranks")->is_held_out);
  CHECK_FALSE(error_bar(made(), "all_reduce, 4 ranks"));
  const auto wrong = Profile::parse(text + "[held_out]\n\"x\" = \"about 10 %\"\n", "made.toml");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().text == "made.toml:9: held_out: x has to be of the form \"median 13.4 %, p90 21.2 %\"");
}

}  // namespace software_test
