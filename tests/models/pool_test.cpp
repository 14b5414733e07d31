// What classes of one transport tell of another: found where there is something to find, never from the class itself.
#include "models/fit/pool.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "models/fit/search.h"

namespace pool_test {

using namespace meshbed::models;

namespace {

/// A class of one adapter of `nic_GBps`, with nothing fitted.
Machine sheet(const std::string& name, double nic_GBps) {
  Machine machine;
  machine.name = name;
  machine.classes = {"class " + name};
  machine.transport = MachineTransport::kVerbs;
  machine.set(MachineParameter::kNicGBps, {nic_GBps, Basis::kDataSheet, "this test"});
  machine.set(MachineParameter::kLlMaxBytes, {1, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kLl128MaxBytes, {1, Basis::kMeasured, "this test"});
  return machine;
}

/// As its measured files would have it, if its library reached 0.7 of its rate and took 30 us more for a hop.
Peer peer_of(const std::string& name, double nic_GBps) {
  Machine truth = sheet(name, nic_GBps);
  truth.set(MachineParameter::kNicFraction, {0.7, Basis::kMeasured, "this test"});
  truth.set(MachineParameter::kNetLatencyUs, {30, Basis::kMeasured, "this test"});
  Sweep sweep{.name = name + ".csv", .points = {}};
  for (std::uint64_t bytes = 1024; bytes <= std::uint64_t{1} << 30; bytes *= 4) {
    SweepPoint point;
    point.call = {.collective = Collective::kAllGather, .ranks = 4, .nodes = 4, .bytes = bytes};
    point.time_us = collective_us(truth, point.call);
    sweep.points.push_back(point);
  }
  return {sheet(name, nic_GBps), {sweep}};
}

}  // namespace

TEST_CASE("what two classes have in common predicts a third of another rate without a measurement") {
  const Peer third = peer_of("third", 50);
  const Machine bare = sheet("third", 50);
  const Machine told = with_pool(bare, {peer_of("one", 12.5), peer_of("two", 25), third});
  const double median = summarise(errors_of(told, third.sweeps.front().points)).median;
  CHECK(median < 0.1);
  CHECK(median < 0.5 * summarise(errors_of(bare, third.sweeps.front().points)).median);
  CHECK(told[MachineParameter::kNicGBps] == 50);
  // The rate that is reached, given as a share of the wire or as the time of the first part.
  const SweepPoint& largest = third.sweeps.front().points.back();
  CHECK(predicted_us(told, largest) == doctest::Approx(largest.time_us).epsilon(0.1));
  CHECK(told.value_of(MachineParameter::kNicFraction).basis == Basis::kPooled);
  CHECK(told.value_of(MachineParameter::kNicFraction).source == "one value for all of one, two");
}

TEST_CASE("how much of LL goes at once is learnt from classes that were forced to use it, and by no other") {
  const auto peer = [](const std::string& name, bool forced) {
    Machine truth = sheet(name, 25);
    truth.clear(MachineParameter::kLlMaxBytes);
    const Machine known = truth;
    truth.set(MachineParameter::kLlWindowBytes, {16384, Basis::kMeasured, "this test"});
    truth.set(MachineParameter::kLlSpillGBps, {1, Basis::kMeasured, "this test"});
    Sweep sweep{.name = name + ".csv", .points = {}};
    for (std::uint64_t bytes = 4096; bytes <= std::uint64_t{1} << 24; bytes *= 2) {
      SweepPoint point;
      point.call = {.collective = Collective::kAllGather, .ranks = 4, .nodes = 4, .bytes = bytes};
      if (forced) point.call.protocol = CollectiveProtocol::kLl;
      point.time_us = collective_us(truth, point.call);
      sweep.points.push_back(point);
    }
    return Peer{known, {sweep}};
  };
  Machine asks = sheet("third", 50);
  const Machine told = with_pool(asks, {peer("one", true), peer("two", true)});
  CHECK(told[MachineParameter::kLlWindowBytes] == doctest::Approx(16384).epsilon(0.5));
  CHECK(told[MachineParameter::kLlSpillGBps] == doctest::Approx(1).epsilon(0.3));
  CHECK(told.value_of(MachineParameter::kLlWindowBytes).basis == Basis::kPooled);
  const Machine untold = with_pool(asks, {peer("one", false), peer("two", false)});
  CHECK(untold.value_of(MachineParameter::kLlWindowBytes).basis != Basis::kPooled);
}

TEST_CASE("a class predicts nothing of itself, of one that shares its topology, or of another transport") {
  const Machine machine = sheet("third", 50);
  Peer same_name = peer_of("third", 50), same_class = peer_of("other", 50), sockets = peer_of("sockets", 50);
  same_name.machine.classes = {"another"};
  same_class.machine.classes.push_back("class third");
  sockets.machine.transport = MachineTransport::kTcp;
  CHECK(peers_of(machine, {same_name, same_class, sockets}).empty());
  const Machine told = with_pool(machine, {same_name, same_class, sockets});
  for (std::size_t index = 0; index < kParameters; ++index) {
    const auto parameter = static_cast<MachineParameter>(index);
    CHECK_MESSAGE(told[parameter] == machine[parameter], info_of(parameter).name);
  }
  CHECK(peers_of(machine, {peer_of("one", 12.5)}).size() == 1);
}

TEST_CASE("a peer is asked as its data sheet has it, and what a machine knows of itself stays") {
  Peer fitted = peer_of("one", 12.5);
  fitted.machine.set(MachineParameter::kNicFraction, {0.2, Basis::kCalibrated, "one.csv"});
  CHECK(peers_of(sheet("third", 50), {fitted}).front().machine[MachineParameter::kNicFraction] == 1);
  Machine known = sheet("third", 50);
  known.set(MachineParameter::kLaunchUs, {42, Basis::kMeasured, "this test"});
  CHECK(with_pool(known, {fitted})[MachineParameter::kLaunchUs] == 42);
}

TEST_CASE("one odd class of three does not speak for all") {
  Peer odd = peer_of("odd", 12.5);
  for (SweepPoint& point : odd.sweeps.front().points) point.time_us *= 20;
  const Peer wanted = peer_of("third", 50);
  const Machine told = with_pool(sheet("third", 50), {peer_of("one", 12.5), peer_of("two", 25), odd});
  CHECK(summarise(errors_of(told, wanted.sweeps.front().points)).median < 0.2);
}

TEST_CASE("the same peers tell the same, to the last bit; without fits nothing of it is left") {
  const std::vector<Peer> peers{peer_of("one", 12.5), peer_of("two", 25)};
  const Machine one = with_pool(sheet("third", 50), peers), two = with_pool(sheet("third", 50), peers);
  const Machine bare = without_fits(one);
  for (std::size_t index = 0; index < kParameters; ++index) {
    const auto parameter = static_cast<MachineParameter>(index);
    CHECK(one[parameter] == two[parameter]);
    CHECK(bare[parameter] == sheet("third", 50)[parameter]);
  }
}

TEST_CASE("a ridge costs one for a spread, nothing for what no limit or nothing is expected of") {
  Machine machine, expected;
  CHECK(ridge_squares(machine, expected, {MachineParameter::kLaunchUs}) == 0);
  machine.set(MachineParameter::kLaunchUs,
              {expected[MachineParameter::kLaunchUs] * std::exp(0.8), Basis::kCalibrated, "x"});
  CHECK(ridge_squares(machine, expected, {MachineParameter::kLaunchUs}) == doctest::Approx(1));
  machine.set(MachineParameter::kCopyGBps, {5, Basis::kCalibrated, "x"});
  machine.set(MachineParameter::kSliceBytes, {5e6, Basis::kCalibrated, "x"});
  CHECK(ridge_squares(machine, expected, {MachineParameter::kCopyGBps, MachineParameter::kSliceBytes}) == 0);
}

}  // namespace pool_test
