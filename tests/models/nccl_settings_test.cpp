// What the variables of a measurement's set-up do to a collective's choice.
#include "models/time/nccl_settings.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "models/shipped_profiles.h"
#include "models/time/machine_profile.h"

namespace nccl_settings_test {

using namespace meshbed::models;

namespace {

constexpr std::uint8_t bit(CollectiveProtocol protocol) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(protocol));
}

CollectiveCall with(const std::string& set_up, Collective collective = Collective::kAllReduce,
                    std::uint64_t bytes = 1 << 20) {
  CollectiveCall call{.collective = collective, .ranks = 16, .nodes = 16, .bytes = bytes};
  apply_nccl_settings(call, set_up);
  return call;
}

}  // namespace

TEST_CASE("one protocol that is left is forced; of several the others are refused; sends and receives have their own") {
  using enum CollectiveProtocol;
  CHECK(with("NCCL_PROTO=LL").protocol == kLl);
  CHECK(with("mpirun -x NCCL_PROTO=Simple -x NCCL_DEBUG=INFO ./all_reduce_perf").protocol == kSimple);
  CHECK(with("plugin sets NCCL_PROTO=simple, 2 channels").protocol == kSimple);
  CHECK(with("NCCL_PROTO=\"LL128\"").protocol == kLl128);
  CHECK(with("NCCL_PROTO=^LL,LL128").protocol == kSimple);
  CHECK(with("NCCL_ALGO=Tree;NCCL_PROTO=LL").protocol == kLl);
  CHECK(with("NCCL_ALGO=Tree;NCCL_PROTO=LL").algorithm == CollectiveAlgorithm::kTree);
  for (const char* set_up :
       {"NCCL_PROTO=^LL128", "NCCL_PROTO=LL,Simple", "profile tp4-ring: Ring, ^LL128, BUFFSIZE 4 MiB"}) {
    CHECK_FALSE(with(set_up).protocol.has_value());
    CHECK(with(set_up).limits.refused_protocols == bit(kLl128));
  }
  CHECK(with("NCCL_PROTO=LL,LL128").limits.refused_protocols == bit(kSimple));
  CHECK_FALSE(with("NCCL_PROTO=LL", Collective::kSendRecv).protocol.has_value());
  CHECK_FALSE(with("NCCL_PROTO=LL", Collective::kAllToAll).protocol.has_value());
  for (const char* set_up : {"NCCL_PROTO=fast", "NCCL_PROTO=", "MY_PROTO=LL", "protocol LL", ""}) {
    CHECK_FALSE(with(set_up).protocol.has_value());
    CHECK(with(set_up).limits.refused_protocols == 0);
  }
}

TEST_CASE("a list may name functions, as NCCL 2.30 reads it, and algorithms that have no model here") {
  using enum CollectiveAlgorithm;
  CHECK(with("NCCL_ALGO=Ring").algorithm == kRing);
  CHECK(with("NCCL_ALGO=^Ring").algorithm == kTree);
  CHECK(with("NCCL_ALGO=Tree,NVLSTree").algorithm == kTree);
  CHECK_FALSE(with("NCCL_ALGO=Ring,Tree").algorithm.has_value());
  CHECK_FALSE(with("NCCL_ALGO=^NVLS").algorithm.has_value());
  CHECK_FALSE(with("NCCL_ALGO=NVLS").algorithm.has_value());
  const std::string by_function = "NCCL_ALGO=allreduce:Tree;allgather:Ring NCCL_PROTO='^LL128;allreduce:LL128'";
  CHECK(with(by_function).algorithm == kTree);
  CHECK(with(by_function).protocol == CollectiveProtocol::kLl128);
  CHECK(with(by_function, Collective::kAllGather).algorithm == kRing);
  CHECK_FALSE(with(by_function, Collective::kAllGather).protocol.has_value());
  CHECK(with(by_function, Collective::kAllGather).limits.refused_protocols == bit(CollectiveProtocol::kLl128));
  CHECK_FALSE(with(by_function, Collective::kBroadcast).algorithm.has_value());
}

TEST_CASE("NCCL_TREE_THRESHOLD is of 2.4 alone: a tree up to it, else a ring") {
  using enum CollectiveAlgorithm;
  const std::string tree = "NCCL 2.4.7, NCCL_TREE_THRESHOLD=600000000 => TREE";
  CHECK(with(tree).algorithm == kTree);
  CHECK(with(tree, Collective::kAllReduce, 600'000'000).algorithm == kTree);
  CHECK(with(tree, Collective::kAllReduce, 600'000'001).algorithm == kRing);
  CHECK(with("NCCL_TREE_THRESHOLD=0").algorithm == kRing);
  CHECK_FALSE(with(tree, Collective::kAllGather).algorithm.has_value());
  CHECK_FALSE(with("NCCL 2.6.4, NCCL_TREE_THRESHOLD=0").algorithm.has_value());
  CHECK_FALSE(with("NCCL 2.4.7+cuda10.1, NCCL_TREE_THRESHOLD unset (in 2.4 default = ring)").algorithm.has_value());
  CHECK(with("NCCL 2.4.7 NCCL_ALGO=Tree NCCL_TREE_THRESHOLD=0").algorithm == kTree);
}

TEST_CASE("channels at most, and a channel's buffer in every way that people write it") {
  CHECK(with("NCCL_MAX_NCHANNELS=4").limits.most_channels == 4);
  CHECK(with("-x NCCL_MAX_CTAS=8").limits.most_channels == 8);
  CHECK(with("NCCL_MIN_NCHANNELS=4").limits.most_channels == 0);
  CHECK(with("NCCL_BUFFSIZE=8388608").limits.buffer_bytes == 8 << 20);
  CHECK(with("MERGE_NICS=0, BUFFSIZE 8M, torch").limits.buffer_bytes == 8 << 20);
  CHECK(with("BUFFSIZE 1 MiB, 4 clockwise channels").limits.buffer_bytes == 1 << 20);
  CHECK(with("BUFFSIZE of the default").limits.buffer_bytes == 0);
  CHECK(with("NCCL_BUFFSIZE=99999999999999999999").limits.buffer_bytes == 0);
}

TEST_CASE("what is refused is not chosen, and fewer channels and a larger buffer cost what they cost") {
  Machine machine;
  machine.transport = MachineTransport::kVerbs;
  machine.set(MachineParameter::kChannels, {16, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kChannelGBps, {2, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kFillStages, {1, Basis::kMeasured, "this test"});
  for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 32; bytes *= 4) {
    const CollectiveTime without =
        collective_time(machine, with("NCCL_PROTO=^LL128 NCCL_ALGO=^Tree", Collective::kAllReduce, bytes));
    CHECK(without.protocol != CollectiveProtocol::kLl128);
    CHECK(without.algorithm == CollectiveAlgorithm::kRing);
  }
  const double all_us = collective_us(machine, with("", Collective::kAllReduce, 1 << 30));
  CHECK(collective_us(machine, with("NCCL_MAX_NCHANNELS=2", Collective::kAllReduce, 1 << 30)) > 2 * all_us);
  CHECK(collective_us(machine, with("NCCL_MAX_NCHANNELS=64", Collective::kAllReduce, 1 << 30)) ==
        doctest::Approx(all_us));
  CHECK(collective_us(machine, with("NCCL_BUFFSIZE=33554432", Collective::kAllReduce, 1 << 30)) > all_us);
  machine.set(MachineParameter::kSliceBytes, {1 << 19, Basis::kCalibrated, "this test"});
  CHECK(collective_us(machine, with("NCCL_BUFFSIZE=33554432", Collective::kAllReduce, 1 << 30)) ==
        doctest::Approx(collective_us(machine, with("", Collective::kAllReduce, 1 << 30))));
}

TEST_CASE("no shipped class predicts less for more bytes, at any number of ranks") {
  int classes = 0;
  for (const std::string& name : shipped_profile_names()) {
    const auto profile = Profile::parse(*shipped_profile(name), name);
    REQUIRE(profile);
    auto machine = machine_of(*profile);
    if (!machine || machine->transport == MachineTransport::kExpert ||
        machine->transport == MachineTransport::kMessage) {
      continue;
    }
    ++classes;
    machine->measured.clear();  // else it may fall within what was measured, as the measurements do
    for (const std::string& collective : collective_names()) {
      for (const auto& [ranks, nodes] : {std::pair{2, 2}, {8, 8}, {8, 1}, {16, 2}, {64, 8}}) {
        double before_us = 0;
        for (double bytes = 8; bytes < 4e9; bytes *= 1.37) {
          const double us = collective_us(*machine, {.collective = *parse_collective(collective),
                                                     .ranks = ranks,
                                                     .nodes = nodes,
                                                     .bytes = static_cast<std::uint64_t>(bytes)});
          CHECK_MESSAGE(us >= before_us * 0.999, name, " ", collective, " ", ranks, " ranks, ", bytes, " bytes");
          before_us = us;
        }
      }
    }
  }
  CHECK(classes > 20);
}

}  // namespace nccl_settings_test
