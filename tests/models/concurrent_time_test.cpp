// Calls at once: between perfect sharing and one behind the other. Computing beside a call: what stays exposed.
#include "models/time/concurrent_time.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "models/fit/sweep.h"
#include "plugin/base/prng.h"
#include "tests/models/plain_machine.h"

namespace concurrent_time_test {

using namespace meshbed::models;
using meshbed::test::plain_ring_machine;

namespace {

CollectiveCall call_of(Collective collective, std::uint64_t bytes) {
  return {.collective = collective, .ranks = 4, .nodes = 4, .bytes = bytes};
}

}  // namespace

TEST_CASE("one call at once is the call alone, with its interval") {
  const Machine machine = plain_ring_machine();
  const CollectiveCall call = call_of(Collective::kAllReduce, 1 << 20);
  const ConcurrentTime time = concurrent_time(machine, {call});
  const double us = collective_us(machine, call);
  const Interval interval = interval_of(machine, call, us);
  CHECK(time.us == us);
  CHECK(time.sharing_us == us);
  CHECK(time.serial_us == us);
  CHECK(time.low_us == doctest::Approx(interval.low_us));
  CHECK(time.high_us == doctest::Approx(interval.high_us));
}

TEST_CASE("equal calls overlap their starts and share the wire; a short one ends before a long one") {
  const Machine machine = plain_ring_machine();
  const CollectiveCall call = call_of(Collective::kAllGather, 40'000'000);
  // Launch and three hops, then 3 ms of wire each.
  const ConcurrentTime three = concurrent_time(machine, {call, call, call});
  CHECK(three.us == doctest::Approx(35 + 3 * 3000));
  CHECK(three.sharing_us == doctest::Approx(three.us));
  CHECK(three.serial_us == doctest::Approx(3 * 3035));
  for (const ConcurrentCall& each : three.calls) CHECK(each.us == doctest::Approx(three.us));
  // 30 us of wire beside 3000: at half the rate each until the short one ends.
  const ConcurrentTime two = concurrent_time(machine, {call, call_of(Collective::kAllGather, 400'000)});
  CHECK(two.calls[1].us == doctest::Approx(35 + 2 * 30));
  CHECK(two.calls[0].us == doctest::Approx(35 + 3030));
  CHECK(two.us == two.calls[0].us);
}

TEST_CASE("a call whose channels fill half of the wire leaves the rest to another one") {
  Machine machine = plain_ring_machine();
  machine.set(MachineParameter::kChannels, {1, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kChannelGBps, {5, Basis::kMeasured, "this test"});
  const CollectiveCall call = call_of(Collective::kAllGather, 40'000'000);
  const double alone = collective_us(machine, call);
  CHECK(alone == doctest::Approx(35 + 6000));
  CHECK(concurrent_time(machine, {call, call}).us == doctest::Approx(alone));
  CHECK(concurrent_time(machine, {call, call, call, call}).us == doctest::Approx(35 + 12000));
}

TEST_CASE("random lists: sharing <= at once <= serial, both inside the interval, and more calls never take less") {
  meshbed::Prng prng(53);
  for (int round = 0; round < 200; ++round) {
    Machine machine = plain_ring_machine();
    machine.set(MachineParameter::kReduceGBps,
                {5 + static_cast<double>(prng.below(100)), Basis::kMeasured, "this test"});
    machine.set(MachineParameter::kChannels, {1.0 + static_cast<double>(prng.below(8)), Basis::kMeasured, "this test"});
    machine.set(MachineParameter::kChannelGBps, {3, Basis::kMeasured, "this test"});
    std::vector<CollectiveCall> calls;
    double before = 0;
    for (int count = 0; count < 6; ++count) {
      const auto collective = std::vector{Collective::kAllReduce, Collective::kAllGather, Collective::kAllToAll,
                                          Collective::kBroadcast}[prng.below(4)];
      calls.push_back(call_of(collective, 1 + prng.below(1 << 24)));
      const ConcurrentTime time = concurrent_time(machine, calls);
      CHECK(time.sharing_us <= time.us);
      CHECK(time.us <= time.serial_us);
      CHECK(time.low_us <= time.sharing_us);
      CHECK(time.high_us >= time.serial_us);
      CHECK(time.us >= before * (1 - 1e-9));
      for (const ConcurrentCall& each : time.calls) {
        CHECK(each.us >= each.alone.us);
        CHECK(each.us <= time.us);
        CHECK(each.low_us <= each.us);
        CHECK(each.high_us >= each.us);
      }
      before = time.us;
    }
  }
}

TEST_CASE("a measured point of several calls is predicted as such, and its interval holds both ends") {
  const Machine machine = plain_ring_machine();
  SweepPoint point;
  point.call = call_of(Collective::kAllReduce, 8 << 20);
  const Interval alone = interval_of(machine, point, Standing::kOwnClass);
  point.at_once = 2;
  const ConcurrentTime time = concurrent_time(machine, {point.call, point.call});
  CHECK(predicted_us(machine, point) == time.us);
  CHECK(fitted_us(machine, point) == time.us);
  CHECK(measured_kind(point) == "all_reduce, 4 ranks on 4 nodes, 2 at once");
  const Interval both = interval_of(machine, point, Standing::kOwnClass);
  CHECK(both.low_us == doctest::Approx(time.low_us));
  CHECK(both.high_us == doctest::Approx(2 * alone.high_us));
  CHECK(both.outside.find("calls at once") != std::string::npos);
}

TEST_CASE("exposed communication: all without overlap, what computing does not cover, and what held SMs slow") {
  CHECK(exposed_us(100, {.compute_us = 1000, .share = 0, .held = 0.1}) == 100);
  CHECK(exposed_us(100, {.compute_us = 1000, .share = 1, .held = 0.1}) == doctest::Approx(10));
  CHECK(exposed_us(100, {.compute_us = 60, .share = 1, .held = 0.1}) == doctest::Approx(40));
  CHECK(exposed_us(100, {.compute_us = 60, .share = 0.5, .held = 0.1}) == doctest::Approx(70));
  CHECK(exposed_us(100, {.compute_us = 1000, .share = 1, .held = 1}) == 100);
  double before = 100;
  for (int percent = 1; percent <= 100; ++percent) {
    const double us = exposed_us(100, {.compute_us = 80, .share = percent / 100.0, .held = 0.25});
    CHECK(us <= before);
    before = us;
  }
}

TEST_CASE("held SMs: the class's channels by size; without them two for each adapter, from 1 to NCCL's most by size") {
  Machine machine = plain_ring_machine();
  const CollectiveCall large = call_of(Collective::kAllReduce, 256 << 20),
                       small = call_of(Collective::kAllReduce, 1024);
  CHECK(held_sms(machine, large).expected == 2);
  CHECK(held_sms(machine, large).least == 1);
  CHECK(held_sms(machine, large).most == 64);
  CHECK(held_sms(machine, small).expected == 1);
  CHECK(held_sms(machine, small).most == 1);
  machine.set(MachineParameter::kChannels, {16, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kChannelGBps, {3, Basis::kMeasured, "this test"});
  CHECK(held_sms(machine, large).least == 16);
  CHECK(held_sms(machine, large).most == 16);
  Machine kernel = plain_ring_machine();
  kernel.transport = MachineTransport::kKernel;
  CHECK(held_sms(kernel, small).expected == 2);
  CHECK(held_sms(kernel, small).most == 64);
  CollectiveCall limited = large;
  limited.limits.most_channels = 4;
  CHECK(held_sms(machine, limited).expected == 4);
}

}  // namespace concurrent_time_test
