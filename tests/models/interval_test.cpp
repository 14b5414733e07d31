// Intervals: how far a prediction is from what its class was fitted to decides which errors of left-out files hold.
#include "models/time/interval.h"

#include <doctest/doctest.h>

#include <cmath>

#include "models/fit/sweep.h"
#include "models/time/machine_profile.h"

namespace interval_test {

using namespace meshbed::models;

namespace {

CollectiveCall call_of(Collective collective, int ranks, std::uint64_t bytes) {
  return {.collective = collective, .ranks = ranks, .nodes = ranks, .bytes = bytes};
}

/// Fitted to all_reduces of four ranks, 1 KiB to 1.5 MiB.
Machine fitted() {
  Machine machine;
  machine.name = "made";
  machine.transport = MachineTransport::kVerbs;
  machine.measured["all_reduce, 4 ranks on 4 nodes"] = {1024, 1572864, 11};
  return machine;
}

/// One width for each distance: 0.1, 0.2, ...
IntervalTable stairs() {
  std::vector<IntervalCell> cells;
  for (const Distance distance : kDistances) {
    const double width = 0.1 * (1 + static_cast<int>(distance));
    for (const char* sizes : kSizeClasses) {
      cells.push_back({.distance = distance, .gate = kAnyGate, .sizes = sizes, .low = -width, .high = width});
    }
  }
  return IntervalTable(cells);
}

Interval of(const CollectiveCall& call, Standing standing = Standing::kOwnClass) {
  return interval_of(fitted(), call, 100, standing, stairs());
}

}  // namespace

TEST_CASE("the distance is that of what the class was fitted to, and what lies outside of it is named") {
  struct Far {
    CollectiveCall call;
    Distance distance;
    const char* outside;
  };
  CollectiveCall eager = call_of(Collective::kAllReduce, 4, 4096);
  eager.eager = true;
  for (const Far& far :
       {Far{call_of(Collective::kAllReduce, 4, 4096), Distance::kSameKind, ""},
        {call_of(Collective::kAllReduce, 4, 2097152), Distance::kSameKind, "largest size 1.5 MiB"},
        {call_of(Collective::kAllReduce, 4, 16777216), Distance::kOtherSizes, "largest size 1.5 MiB"},
        {call_of(Collective::kAllReduce, 4, 8), Distance::kOtherSizes, "smallest size 1 KiB"},
        {call_of(Collective::kAllGather, 4, 4096), Distance::kOtherOperation, "all_reduce, 4 ranks on 4 nodes"},
        {eager, Distance::kOtherOperation, "all_reduce, 4 ranks on 4 nodes"},
        {call_of(Collective::kAllReduce, 8, 4096), Distance::kOtherRanks, "4 ranks on 4 nodes"}}) {
    const Interval interval = of(far.call);
    CHECK_MESSAGE(interval.distance == far.distance, basis_text(interval));
    CHECK(interval.outside == far.outside);
    CHECK(interval.low_us < 100);
    CHECK(interval.high_us > 100);
  }
  CHECK(basis_text(of(call_of(Collective::kAllReduce, 8, 4096))) ==
        "class made, gate verbs: same class, other ranks; outside what was measured: 4 ranks on 4 nodes");
}

TEST_CASE("an interval is no narrower at a larger distance, and widens with the factor beyond the sizes") {
  const CollectiveCall inside = call_of(Collective::kAllReduce, 4, 4096);
  double width = 0;
  for (const Standing standing :
       {Standing::kOwnClass, Standing::kNearClass, Standing::kUnseen, Standing::kNoClass, Standing::kBare}) {
    const Interval interval = of(inside, standing);
    CHECK(interval.high_us - interval.low_us > width);
    width = interval.high_us - interval.low_us;
  }
  const Interval near = of(call_of(Collective::kAllReduce, 4, 8 << 20)),
                 far = of(call_of(Collective::kAllReduce, 4, 1 << 30));
  CHECK(far.high_us > near.high_us);
  CHECK(far.high_us == doctest::Approx(100 * std::exp(0.2 * (1 + 0.25 * std::log2((1 << 30) / 1572864.0)))));
}

TEST_CASE("what is forced and would be chosen anyway is no other setting") {
  CollectiveCall call = call_of(Collective::kAllReduce, 4, 4096);
  const CollectiveTime own = collective_time(fitted(), call);
  call.protocol = own.protocol;
  call.algorithm = own.algorithm;
  CHECK(of(call).distance == Distance::kSameKind);
  call.protocol = own.protocol == CollectiveProtocol::kSimple ? CollectiveProtocol::kLl : CollectiveProtocol::kSimple;
  CHECK(of(call).distance == Distance::kOtherOperation);
}

TEST_CASE("a profile that does not state what it was fitted to is not of the same kind") {
  Machine machine = fitted();
  machine.measured.clear();
  const Interval interval = interval_of(machine, call_of(Collective::kAllReduce, 4, 4096), 100);
  CHECK(interval.distance == Distance::kOtherRanks);
  CHECK(interval.outside == "the profile does not state what it was fitted to");
}

TEST_CASE("what was measured is written into a profile and read again; another form is refused with its line") {
  Machine machine = fitted();
  machine.description = "for this test";
  machine.library = "sircl";
  const Machine read = *machine_of(*Profile::parse(profile_text(machine, {}), "made.toml"));
  REQUIRE(read.measured.count("all_reduce, 4 ranks on 4 nodes") == 1);
  CHECK(read.measured.at("all_reduce, 4 ranks on 4 nodes").most_bytes == 1572864);
  CHECK(read.library == "sircl");
  const auto wrong = Profile::parse("name = \"made\"\n[measured]\n\"all_reduce\" = \"some\"\n", "made.toml");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().text ==
        "made.toml:3: measured: all_reduce has to be of the form \"8 to 1048576 bytes, 18 points\"");
  for (const char* text : {"9 to 8 bytes, 1 points", "8 to 9 bytes", "8 to 9 bytes, 1 points more", ""}) {
    CHECK_FALSE(parse_sizes(text));
  }
}

TEST_CASE("the table that travels in the program is read, holds every distance, and is written as it is read") {
  const IntervalTable& table = shipped_interval_table();
  for (const Distance distance : kDistances) {
    for (const char* sizes : kSizeClasses) {
      const IntervalCell& cell = table.at(distance, "a gate that no file has", sizes);
      CHECK(cell.gate == std::string(kAnyGate));
      CHECK(cell.high - cell.low > 0.05);
      CHECK(cell.half > 0);
    }
  }
  const auto again = IntervalTable::parse(table.text(), "again.toml");
  REQUIRE(again);
  CHECK(again->text() == table.text());
  // A prediction of what was fitted is surer than one of a class that was not.
  for (const char* sizes : kSizeClasses) {
    CHECK(table.at(Distance::kSameKind, kAnyGate, sizes).half < table.at(Distance::kNoClass, kAnyGate, sizes).half);
  }
  for (const auto& [text, problem] :
       {std::pair{"interval = 3", "x.toml: there is no list \"interval\""},
        {"interval = [{ distance = \"far\" }]", "x.toml:1: distance is not one of those that there are"},
        {"interval = [{ distance = \"bare\", gate = \"any\", sizes = \"small\", low = 0.1, high = 1.0 }]",
         "x.toml:1: low has to be at most 0, and high at least 0"},
        {"interval = [{ distance = \"bare\", gate = \"any\", sizes = \"small\", low = -0.1, high = 1.0 }]",
         "x.toml: no interval of any gate for \"same kind\", small sizes"}}) {
    const auto wrong = IntervalTable::parse(text, "x.toml");
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().text == problem);
  }
}

TEST_CASE("what a fit states as measured is what its sweeps hold") {
  SweepPoint small, large;
  small.call = call_of(Collective::kAllReduce, 4, 64);
  large.call = call_of(Collective::kAllReduce, 4, 4096);
  SweepPoint message;
  message.is_message = true;
  message.message.latency = true;
  message.call.bytes = 8;
  const auto measured =
      measured_of({{.name = "a", .points = {small, large}}, {.name = "b", .points = {large, message}}});
  REQUIRE(measured.size() == 2);
  CHECK(sizes_text(measured.at("all_reduce, 4 ranks on 4 nodes")) == "64 to 4096 bytes, 3 points");
  CHECK(sizes_text(measured.at("latency")) == "8 to 8 bytes, 1 points");
}

}  // namespace interval_test
