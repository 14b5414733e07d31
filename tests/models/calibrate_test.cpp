// A fit finds what a machine was made of, says no where it cannot, and is the same each time.
#include "models/fit/calibrate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/fit/between.h"

namespace calibrate_test {

using namespace meshbed::models;

namespace {

Machine sheet() {
  Machine machine;
  machine.set(MachineParameter::kNicGBps, {12.5, Basis::kDataSheet, "100 Gb/s"});
  return machine;
}

/// What a machine of 5 GB/s and hops of 30 us would be measured to take.
Sweep sweep_of(const Machine& machine, Collective collective, int ranks, std::uint64_t from, std::uint64_t to) {
  Sweep sweep{.name = "made.csv", .points = {}};
  for (std::uint64_t bytes = from; bytes <= to; bytes *= 2) {
    SweepPoint point;
    point.call = {.collective = collective, .ranks = ranks, .nodes = ranks, .bytes = bytes};
    point.time_us = collective_us(machine, point.call);
    sweep.points.push_back(point);
  }
  return sweep;
}

/// A library that has Simple around a ring only, and is known for it.
Machine one_way(Machine machine) {
  for (const MachineParameter each :
       {MachineParameter::kLlMaxBytes, MachineParameter::kLl128MaxBytes, MachineParameter::kTreeMaxBytes}) {
    machine.set(each, {1, Basis::kMeasured, "this test"});
  }
  return machine;
}

Machine truth() {
  Machine machine = sheet();
  machine.set(MachineParameter::kHostCapGBps, {5, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kNetSimpleUs, {30, Basis::kMeasured, "this test"});
  return one_way(machine);
}

}  // namespace

TEST_CASE("rate and hop that made the times are found again, and predict another collective") {
  const auto fit =
      calibrate(one_way(sheet()), {sweep_of(truth(), Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(fit.has_value());
  CHECK(node_GBps(fit->machine) == doctest::Approx(5).epsilon(0.02));
  CHECK(fit->machine[MachineParameter::kNetSimpleUs] == doctest::Approx(30).epsilon(0.04));
  CHECK(fit->machine.value_of(MachineParameter::kNicFraction).basis == Basis::kCalibrated);
  CHECK(fit->machine.value_of(MachineParameter::kNicFraction).source == "made.csv");
  // Around a ring: where no all_reduce was measured, whether trees are chosen is the cost table's matter.
  Sweep other = sweep_of(truth(), Collective::kAllReduce, 8, 1024, 1 << 28);
  for (SweepPoint& point : other.points) point.call.algorithm = CollectiveAlgorithm::kRing;
  CHECK(summarise(errors_of(fit->machine, other.points)).max < 0.03);
}

TEST_CASE("what is known from elsewhere is never fitted, and no value leaves its plausible range") {
  Machine machine = sheet();
  machine.set(MachineParameter::kNetSimpleUs, {7, Basis::kMeasured, "perftest"});
  const auto fit = calibrate(machine, {sweep_of(truth(), Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(fit.has_value());
  CHECK(fit->machine[MachineParameter::kNetSimpleUs] == 7);
  CHECK(fit->machine[MachineParameter::kNicGBps] == 12.5);
  for (std::size_t index = 0; index < kParameters; ++index) {
    const auto parameter = static_cast<MachineParameter>(index);
    CHECK(fit->machine[parameter] >= info_of(parameter).low);
    CHECK(fit->machine[parameter] <= info_of(parameter).high);
  }
}

TEST_CASE("on one count of steps launch and hop are one sum: each stays near what was expected of it") {
  Machine start = one_way(sheet());
  start.set(MachineParameter::kNetLatencyUs, {16, Basis::kPooled, "one value for all of a, b"});
  const auto fit = calibrate(start, {sweep_of(truth(), Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(fit.has_value());
  const double launch_us = fit->machine[MachineParameter::kLaunchUs],
               hop_us = fit->machine[MachineParameter::kNetSimpleUs];
  CHECK(launch_us + 3 * hop_us ==
        doctest::Approx(info_of(MachineParameter::kLaunchUs).fallback + 3 * 30).epsilon(0.02));
  CHECK(launch_us == doctest::Approx(info_of(MachineParameter::kLaunchUs).fallback).epsilon(0.3));
  // What other classes show of every hop is added to each protocol's hop, which is then fitted.
  CHECK(fit->machine[MachineParameter::kNetLatencyUs] == 0);
  CHECK(fit->machine[MachineParameter::kNetLlUs] ==
        doctest::Approx(info_of(MachineParameter::kNetLlUs).fallback + 16).epsilon(0.05));
}

TEST_CASE("what a hop between nodes takes more than expected, hops of protocols that are not fitted take too") {
  Machine start = one_way(sheet());
  start.set(MachineParameter::kNetLl128Us, {8, Basis::kMeasured, "perftest"});
  const auto fit = calibrate(start, {sweep_of(truth(), Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(fit.has_value());
  const auto more_us = [&](MachineParameter parameter) {
    return fit->machine[parameter] - info_of(parameter).fallback;
  };
  CHECK(more_us(MachineParameter::kNetSimpleUs) > 10);
  CHECK(more_us(MachineParameter::kNetLlUs) == doctest::Approx(more_us(MachineParameter::kNetSimpleUs)).epsilon(0.002));
  CHECK(fit->machine[MachineParameter::kNetLl128Us] == 8);  // known
  // Shorter ones are shorter in proportion.
  Machine quick = truth();
  quick.set(MachineParameter::kLaunchUs, {6.6, Basis::kMeasured, "this test"});
  quick.set(MachineParameter::kNetSimpleUs, {7, Basis::kMeasured, "this test"});
  start.set(MachineParameter::kLaunchUs, {6.6, Basis::kMeasured, "this test"});
  const auto shorter = calibrate(start, {sweep_of(quick, Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(shorter.has_value());
  CHECK(shorter->machine[MachineParameter::kNetSimpleUs] == doctest::Approx(7).epsilon(0.05));
  CHECK(shorter->machine[MachineParameter::kNetLlUs] ==
        doctest::Approx(5 * shorter->machine[MachineParameter::kNetSimpleUs] / 14).epsilon(0.002));
}

TEST_CASE("hops within a node are PCIe's where its links are no faster than PCIe, else NVLink's") {
  Machine machine = sheet();
  CHECK(machine[MachineParameter::kIntraSimpleUs] == 3.4);
  machine.set(MachineParameter::kIntraGBps, {300, Basis::kDataSheet, "this test"});
  CHECK(machine[MachineParameter::kIntraLlUs] == 0.6);
  machine.set(MachineParameter::kIntraGBps, {26.2, Basis::kDataSheet, "this test"});
  CHECK(machine[MachineParameter::kIntraLlUs] == 1.0);
  CHECK(machine[MachineParameter::kIntraLl128Us] == 2.5);
  CHECK(machine[MachineParameter::kIntraSimpleUs] == 5.7);
  CHECK(machine.value_of(MachineParameter::kIntraSimpleUs).basis == Basis::kConstant);
  machine.set(MachineParameter::kIntraSimpleUs, {4, Basis::kMeasured, "this test"});
  CHECK(machine[MachineParameter::kIntraSimpleUs] == 4);
}

TEST_CASE("where NCCL chooses, its cost table says how small sizes go though only large ones were measured") {
  Machine nccl = sheet();
  nccl.set(MachineParameter::kLaunchUs, {6.6, Basis::kMeasured, "this test"});
  const auto fit = calibrate(sheet(), {sweep_of(nccl, Collective::kAllGather, 4, 1 << 20, 1 << 28)}, "made.csv");
  REQUIRE(fit.has_value());
  CHECK(collective_time(fit->machine, {.collective = Collective::kAllGather, .ranks = 4, .nodes = 4, .bytes = 64})
            .protocol == CollectiveProtocol::kLl);
  // Of a library's own kernels nothing of that kind is known.
  Machine own = sheet();
  own.transport = MachineTransport::kKernel;
  const auto kernel = calibrate(own, {sweep_of(nccl, Collective::kAllGather, 4, 1 << 20, 1 << 28)}, "made.csv");
  REQUIRE(kernel.has_value());
  CHECK(collective_time(kernel->machine, {.collective = Collective::kAllGather, .ranks = 4, .nodes = 4, .bytes = 64})
            .protocol == CollectiveProtocol::kSimple);
}

TEST_CASE("what a host feeds at most and what a transport adds are where a fit begins, and no limit to it") {
  Machine staged;
  staged.transport = MachineTransport::kStaged;
  staged.set(MachineParameter::kNicGBps, {50, Basis::kDataSheet, "400 Gb/s"});
  CHECK(node_GBps(staged) == 16);  // not half of 50
  Machine fast = truth();
  fast.set(MachineParameter::kNicGBps, {50, Basis::kDataSheet, "400 Gb/s"});
  fast.set(MachineParameter::kHostCapGBps, {22, Basis::kMeasured, "this test"});
  const auto fit = calibrate(staged, {sweep_of(fast, Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(fit.has_value());
  CHECK(node_GBps(fit->machine) == doctest::Approx(22).epsilon(0.03));
  CHECK(node_GBps(without_calibration(fit->machine)) == 16);
  Machine efa = one_way(sheet());
  efa.transport = MachineTransport::kEfa;
  CHECK(efa[MachineParameter::kNetLatencyUs] == 35);
  const auto quick = calibrate(efa, {sweep_of(truth(), Collective::kAllGather, 4, 1024, 1 << 28)}, "made.csv");
  REQUIRE(quick.has_value());
  CHECK(quick->machine[MachineParameter::kNetLatencyUs] == 0);
  CHECK(quick->machine[MachineParameter::kNetSimpleUs] == doctest::Approx(30).epsilon(0.1));
  CHECK(without_calibration(quick->machine)[MachineParameter::kNetLatencyUs] == 35);
}

TEST_CASE("a transport has its own defaults, each with a source; a profile's value goes before them") {
  Machine staged = sheet();
  staged.transport = MachineTransport::kStaged;
  CHECK(staged[MachineParameter::kNicFraction] == 0.5);
  CHECK(staged[MachineParameter::kLl128MaxBytes] == 1);
  CHECK(std::string(staged.value_of(MachineParameter::kNicFraction).source).size() > 3);
  CHECK(sheet()[MachineParameter::kNicFraction] == 1);
  staged.set(MachineParameter::kNicFraction, {0.9, Basis::kMeasured, "this test"});
  CHECK(staged[MachineParameter::kNicFraction] == 0.9);
  for (std::size_t index = 0; index <= static_cast<std::size_t>(MachineTransport::kMessage); ++index) {
    const auto transport = static_cast<MachineTransport>(index);
    CHECK(parse_transport(name_of(transport)) == transport);
  }
  CHECK_FALSE(parse_transport("pigeon").has_value());
}

TEST_CASE(
    "what a harness adds is fitted separately where calls without it were measured, too; a message's own kernel as "
    "well") {
  Machine kernels = truth(), start = one_way(sheet());
  kernels.set(MachineParameter::kNetSimpleUs, {3, Basis::kMeasured, "this test"});
  kernels.set(MachineParameter::kSkewUs, {600, Basis::kMeasured, "this test"});
  kernels.set(MachineParameter::kPeerUs, {40, Basis::kMeasured, "this test"});
  kernels.transport = start.transport = MachineTransport::kKernel;
  const auto measured = [&](Collective collective, int iterations) {
    Sweep sweep = sweep_of(kernels, collective, 4, 1024, 1 << 28);
    for (SweepPoint& point : sweep.points) {
      point.call.iterations = iterations;
      point.time_us = collective_us(kernels, point.call);
    }
    return sweep;
  };
  const Sweep own = measured(Collective::kAllReduce, 0), tests = measured(Collective::kAllReduce, 20),
              gathers = measured(Collective::kAllGather, 20), messages = measured(Collective::kSendRecv, 20);
  const auto fit = calibrate(start, {own, tests, gathers, messages}, "made.csv");
  REQUIRE(fit.has_value());
  CHECK(fit->machine[MachineParameter::kSkewUs] == doctest::Approx(600).epsilon(0.1));
  CHECK(fit->machine[MachineParameter::kPeerUs] == doctest::Approx(40).epsilon(0.2));
  CHECK(summarise(errors_of(fit->machine, measured(Collective::kReduceScatter, 20).points)).max < 0.1);
  // From tests alone the two cannot be separated: neither is fitted. Nor is a message's kernel where NCCL's cost table
  // holds.
  const auto without = calibrate(start, {tests, gathers}, "made.csv");
  REQUIRE(without.has_value());
  CHECK(without->machine[MachineParameter::kSkewUs] == 0);
  CHECK(without->machine[MachineParameter::kPeerUs] == 0);
  start.transport = MachineTransport::kVerbs;
  const auto library = calibrate(start, {tests, gathers, messages}, "made.csv");
  REQUIRE(library.has_value());
  CHECK(library->machine[MachineParameter::kPeerUs] == 0);
}

TEST_CASE("between two measured sizes a machine's time has no peak that neither of them has") {
  // LL that stops after 16 KiB of a share and is chosen up to 23 KiB: what such a fit hid between 64 and 128 KiB.
  Machine peak = sheet();
  for (const auto& [parameter, value] : {std::pair{MachineParameter::kLlMaxBytes, 23180.0},
                                         {MachineParameter::kLl128MaxBytes, 1.0},
                                         {MachineParameter::kTreeMaxBytes, 1.0},
                                         {MachineParameter::kLlWindowBytes, 16384.0},
                                         {MachineParameter::kLlSpillGBps, 0.02}}) {
    peak.set(parameter, {value, Basis::kMeasured, "this test"});
  }
  const Sweep measured = sweep_of(peak, Collective::kAllReduce, 4, 1024, 1 << 24);  // powers of two alone
  CHECK(summarise(errors_of(peak, measured.points)).max < 1e-9);
  CHECK(excursions(peak, sizes_by_kind({measured})) > 1);
  Machine flat = peak;
  flat.clear(MachineParameter::kLlSpillGBps);
  CHECK(excursions(flat, sizes_by_kind({measured})) < 0.02);
  const auto fit = calibrate(sheet(), {measured}, "made.csv");
  REQUIRE(fit.has_value());
  CHECK(excursions(fit->machine, sizes_by_kind({measured})) < 0.1);
}

TEST_CASE("the same files give the same profile, to the last bit") {
  const std::vector<Sweep> sweeps{sweep_of(truth(), Collective::kAllReduce, 4, 256, 1 << 26)};
  const auto one = calibrate(sheet(), sweeps, "made.csv"), two = calibrate(sheet(), sweeps, "made.csv");
  REQUIRE(one.has_value());
  REQUIRE(two.has_value());
  for (std::size_t index = 0; index < kParameters; ++index) {
    CHECK(one->machine[static_cast<MachineParameter>(index)] == two->machine[static_cast<MachineParameter>(index)]);
  }
}

TEST_CASE("too few points are refused, with how many are needed; messages and collectives are not mixed") {
  const auto few = calibrate(sheet(), {sweep_of(truth(), Collective::kAllReduce, 4, 1024, 4096)}, "made.csv");
  REQUIRE_FALSE(few.has_value());
  CHECK(few.error().text.find("under-determined: 3 different points") == 0);
  // The same ranks on fewer nodes are another job.
  Sweep on_two_nodes = sweep_of(truth(), Collective::kAllReduce, 4, 1024, 4096);
  for (SweepPoint& point : on_two_nodes.points) point.call.nodes = 2;
  const Sweep on_four = sweep_of(truth(), Collective::kAllReduce, 4, 1024, 4096);
  CHECK(calibrate(sheet(), {on_four, on_two_nodes}, "made.csv").has_value());
  // Points that repeat one another add nothing.
  Sweep twice = sweep_of(truth(), Collective::kAllReduce, 4, 1024, 4096);
  twice.points.insert(twice.points.end(), twice.points.begin(), twice.points.end());
  CHECK_FALSE(calibrate(sheet(), {twice}, "made.csv").has_value());
  Sweep mixed = sweep_of(truth(), Collective::kAllReduce, 4, 1024, 1 << 20);
  mixed.points.front().is_message = true;
  CHECK_FALSE(calibrate(sheet(), {mixed}, "made.csv").has_value());
}

TEST_CASE("small messages do not show a rate: the adapter's stays; sizes that show one give it") {
  // models/data/cal_perftest_cx7_400G_write_bw_host.csv, ib_write_bw: all but the three largest sizes.
  Sweep sweep{.name = "ib_write_bw", .points = {}};
  for (const auto& [bytes, time_us] : std::vector<std::pair<std::uint64_t, double>>{
           {128, 0.322013}, {256, 0.325596}, {512, 0.315077}, {1024, 0.319376}, {2048, 0.331794}, {4096, 0.406097}}) {
    SweepPoint point{.is_message = true, .time_us = time_us};
    point.call = {.ranks = 2, .nodes = 2, .bytes = bytes};
    sweep.points.push_back(point);
  }
  Machine adapter;
  adapter.transport = MachineTransport::kMessage;
  adapter.set(MachineParameter::kNicGBps, {50, Basis::kDataSheet, "400 Gb/s"});
  const auto small = calibrate(adapter, {sweep}, "made.csv");
  REQUIRE(small.has_value());
  CHECK(message_us(small->machine, {}, 65536) == doctest::Approx(1.3746).epsilon(0.1));
  // Half of the adapter's rate, as a slot of fewer lanes has it.
  for (std::uint64_t bytes = 8192; bytes <= 65536; bytes *= 2) {
    SweepPoint point{.is_message = true, .time_us = static_cast<double>(bytes) / 24e3};
    point.call = {.ranks = 2, .nodes = 2, .bytes = bytes};
    sweep.points.push_back(point);
  }
  const auto large = calibrate(adapter, {sweep}, "made.csv");
  REQUIRE(large.has_value());
  CHECK(message_us(large->machine, {}, 1 << 20) == doctest::Approx((1 << 20) / 24e3).epsilon(0.06));
}

TEST_CASE("a rate is found where no size is half of the largest, and where there is one size") {
  const auto sweep_at = [](const std::vector<std::uint64_t>& mib, int ranks) {
    Sweep sweep{.name = "made.csv", .points = {}};
    for (const std::uint64_t each : mib) {
      SweepPoint point;
      point.call = {.collective = Collective::kAllGather, .ranks = ranks, .nodes = ranks, .bytes = each << 20U};
      point.time_us = collective_us(truth(), point.call);
      sweep.points.push_back(point);
    }
    return sweep;
  };
  const auto rate_of = [](const std::vector<Sweep>& sweeps) {
    const auto fit = calibrate(one_way(sheet()), sweeps, "made.csv");
    REQUIRE(fit.has_value());
    return node_GBps(fit->machine);
  };
  CHECK(rate_of({sweep_at({64, 72, 80, 96, 104, 120}, 4)}) == doctest::Approx(5).epsilon(0.03));
  CHECK(rate_of({sweep_at({64}, 2), sweep_at({64}, 3), sweep_at({64}, 4), sweep_at({64}, 8)}) ==
        doctest::Approx(5).epsilon(0.05));
  CHECK(rate_of({sweep_at({64}, 4), sweep_at({8}, 4), sweep_at({1}, 4), sweep_at({32}, 4)}) ==
        doctest::Approx(5).epsilon(0.05));
}

TEST_CASE("without calibration, what was fitted is gone and what was not is there") {
  Machine machine = truth();
  machine.set(MachineParameter::kHostCapGBps, {5, Basis::kCalibrated, "made.csv"});
  const Machine bare = without_calibration(machine);
  CHECK(bare[MachineParameter::kHostCapGBps] == info_of(MachineParameter::kHostCapGBps).fallback);
  CHECK(bare[MachineParameter::kNetSimpleUs] == 30);
}

TEST_CASE("a line that made the times has no error, two lines are never worse on the squares, and all are reported") {
  Sweep sweep = sweep_of(truth(), Collective::kAllReduce, 4, 1024, 1 << 26);
  for (SweepPoint& point : sweep.points) {
    point.time_us = 6 * 11 + 2.0 * static_cast<double>(point.call.bytes) * 3 / 4 / 8e3;
  }
  const Line line = fit_line(sweep.points);
  CHECK(line.step_us == doctest::Approx(11));
  CHECK(line.us_per_byte == doctest::Approx(1 / 8e3));
  CHECK(summarise(line_errors(line, sweep.points)).max < 1e-9);
  CHECK(summarise(naive_errors(sheet(), sweep.points).two_regime).max < 1e-6);
  CHECK(summarise({0.5, 0.1, 0.3}).median == 0.3);
  CHECK(summarise({}).max == 0);
}

TEST_CASE("every fallback has a plausible value, a source and a meaning, and every name is read back") {
  for (std::size_t index = 0; index < kParameters; ++index) {
    const auto parameter = static_cast<MachineParameter>(index);
    const ParameterInfo& info = info_of(parameter);
    CHECK_MESSAGE((info.fallback >= info.low && info.fallback <= info.high), info.name);
    CHECK(std::string(info.source).size() > 3);
    CHECK(std::string(info.meaning).size() > 3);
    CHECK(parse_parameter(info.name) == parameter);
  }
}

}  // namespace calibrate_test
