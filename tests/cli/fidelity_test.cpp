// Profiles of machines and measured files: every value has its provenance, every file its profile, and what cannot be
// read is refused with its place.
#include "testbed/fidelity/fidelity.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "models/algorithm.h"
#include "models/time/collective_time.h"
#include "plugin/base/units.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/fidelity/validated.h"

namespace fidelity_test {

using namespace meshbed::testbed;

namespace {

namespace fs = std::filesystem;

const std::string kRoot = MESHBED_SOURCE_DIR;
const std::string kColumns = "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";

const meshbed::models::Machine* own_of(const std::string& text, const std::vector<meshbed::models::Machine>& profiles) {
  return own_profiles(parse_measured(text, "x.csv", {}), profiles).at(0);
}

}  // namespace

TEST_CASE("every profile is read, says where each value comes from, and some measured file or set-up is its own") {
  const auto profiles = shipped_machines();
  CHECK(profiles.size() >= 40);
  std::set<std::string> names;
  for (const auto& machine : profiles) {
    CHECK_MESSAGE((!machine.classes.empty() || !machine.keywords.empty()), machine.name);
    CHECK_MESSAGE(fs::exists(kRoot + "/models/profiles/" + machine.name + ".toml"), machine.name);
    CHECK_MESSAGE(names.insert(machine.name).second, machine.name);
    for (const std::string& file : machine.fitted_on) {
      const bool exists = fs::exists(kRoot + "/models/data/" + file) ||
                          fs::exists(kRoot + "/models/data/expert_parallel/" + file) ||
                          fs::exists(kRoot + "/models/data/messages/" + file);
      CHECK_MESSAGE(exists, machine.name, " was fitted on ", file);
    }
    for (const auto& value : machine.values) {
      if (!value) continue;
      CHECK_MESSAGE(value->source.size() > 3, machine.name);
      CHECK_MESSAGE((value->basis != meshbed::models::Basis::kGuess || value->range), machine.name);
    }
  }
}

TEST_CASE("what a profile says was held out of its fit is what the fidelity page says of it, and all of that") {
  std::ifstream file(kRoot + "/results/fidelity/README.md", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::size_t told = 0, rows = 0;
  for (const auto& machine : shipped_machines()) {
    for (const auto& [what, errors] : machine.held_out) {
      ++told;
      std::array<char, 200> row{};
      std::snprintf(row.data(), row.size(), "| %s | %s | %.1f %% | %.1f %% |", machine.name.c_str(), what.c_str(),
                    100 * errors.median, 100 * errors.p90);
      CHECK_MESSAGE(page.find(row.data()) != std::string::npos, row.data());
    }
  }
  const std::size_t end = page.find("\n## Where the models fail");
  for (std::size_t at = page.find("\n## Left out"); at < end; at = page.find(" ranks | ", at + 1)) ++rows;
  CHECK(told + 1 == rows);
}

TEST_CASE("every file in models/data has rows and a profile of its class, and no bad row") {
  const auto profiles = shipped_machines();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kRoot + "/models/data")) {
    if (entry.is_directory()) continue;  // models, not measurements
    // Single points of many machines: of no class, and with tests that are neither a stream nor a latency.
    if (entry.path().string().find("perftest_points") != std::string::npos) continue;
    const MeasuredFile file = read_measured_file(entry.path(), {});
    ++files;
    CHECK_MESSAGE(!file.rows.empty(), file.name);
    CHECK_MESSAGE(file.bad.empty(), file.name);
    CHECK_MESSAGE(!file.source.empty(), file.name);
    for (const auto* machine : own_profiles(file, profiles)) CHECK_MESSAGE(machine != nullptr, file.name);
  }
  CHECK(files >= 60);
}

TEST_CASE("a row's variant says which software it is, where a file has several kinds; else the set-up does") {
  const auto profiles = shipped_machines();
  const std::string pair =
      "# topology_class: 2 nodes direct 200G\n# setup: NCCL eager, one-shot host-proxy\n" + kColumns;
  CHECK(own_of(pair + "all_reduce,2,2,8192,28,,,out,nccl_eager\n", profiles)->name == "spark-pair-200g");
  CHECK(own_of(pair + "all_reduce,2,2,8192,43,,,out,oneshot_eager\n", profiles)->name == "spark-pair-oneshot");
  const std::string hdr = "# topology_class: 8gpu/node NVLink, 8x200G IB\n# setup: nccl-tests\n" + kColumns;
  CHECK(own_of(hdr + "all_reduce,16,2,8192,43,,,out,\n", profiles)->name == "dgxa100-hdr");
  CHECK(own_of(hdr + "all_reduce,16,2,8192,43,,,out,mscclpp_k2\n", profiles)->name == "a100-mscclpp");
  const std::string odd = "# topology_class: abacus\n" + kColumns;
  CHECK(own_of(odd + "all_reduce,2,2,8192,28,,,out,\n", profiles) == nullptr);
}

TEST_CASE("one-shot, two-shot, eager and barrier are what a row's variant says, not NCCL's beside them") {
  using meshbed::models::CollectiveAlgorithm;
  const MeasuredFile file =
      parse_measured("# setup: NCCL vs one-shot writes\n" + kColumns +
                         "all_reduce,4,4,64,5,,,out,nccl\nall_reduce,4,4,64,5,,,out,oneshot_eager\n"
                         "all_reduce,4,4,64,5,,,out,twoshot_multimem_barrier\n",
                     "x.csv", {});
  CHECK_FALSE(file.rows.at(0).point.call.algorithm);
  CHECK(file.rows.at(1).point.call.algorithm == CollectiveAlgorithm::kDirect);
  CHECK(file.rows.at(1).point.call.eager);
  CHECK(file.rows.at(2).point.call.algorithm == CollectiveAlgorithm::kTwoShot);
  CHECK(file.rows.at(2).point.call.barrier);
}

TEST_CASE("a list of protocols forces none, sends and receives hear none, and columns of bits are refused") {
  const auto forced = [](const std::string& set_up, const std::string& collective) {
    return parse_measured("# setup: " + set_up + "\n" + kColumns + collective + ",4,4,64,5,,,out,\n", "x.csv", {})
        .rows.at(0)
        .point.call;
  };
  using meshbed::models::CollectiveProtocol;
  CHECK(forced("NCCL_PROTO=LL, NCCL_ALGO=Ring", "all_reduce").protocol == CollectiveProtocol::kLl);
  CHECK(forced("NCCL_PROTO=LL, NCCL_ALGO=Ring", "all_reduce").algorithm.has_value());
  CHECK_FALSE(forced("NCCL_PROTO=LL,LL128", "all_reduce").protocol);
  CHECK_FALSE(forced("NCCL_ALGO=Ring,Tree", "all_reduce").algorithm);
  CHECK_FALSE(forced("NCCL_PROTO=LL", "alltoall").protocol);
  CHECK_THROWS_WITH(parse_measured("collective,ranks,nodes,bytes,busbw_Gbps\nall_reduce,2,2,64,9\n", "x.csv", {}),
                    "x.csv:1: column \"busbw_Gbps\" counts bits; algbw_GBps and busbw_GBps are bytes");
}

TEST_CASE("a row is of as many iterations as the set-up says of nccl-tests, and of none in a project's own sweep") {
  const auto iterations = [](const std::string& set_up, const std::string& variant = "off") {
    return parse_measured("# setup: " + set_up + "\n" + kColumns + "all_reduce,4,4,64,5,,," + variant + "\n", "x.csv",
                          {})
        .rows.at(0)
        .point.call.iterations;
  };
  CHECK(iterations("nccl-tests bf16 -n 50 -w 5, rank 0 mean") == 50);
  CHECK(iterations("NCCL 2.31.2, all_reduce_perf n=100 w=10") == 100);
  CHECK(iterations("ran=7; all_reduce_perf, warmup iters: 5 iters: 30") == 30);
  CHECK(iterations("mpirun -n 4 all_reduce_perf -n 100") == 100);
  CHECK(iterations("n=4 nodes; all_reduce_perf --iters 1000") == 1000);
  CHECK(iterations("all_reduce_perf -n20 -m 10") == 200);
  CHECK(iterations("all_reduce_perf -n 1000000 -m 1000000") == std::numeric_limits<int>::max());
  CHECK(iterations("nccl-tests") == 20);  // nccl-tests' own default
  CHECK(iterations("nccl-tests -n 50", "out,own_ring_graph") == 0);
  CHECK(iterations("torch.distributed, n=50") == 0);
}

TEST_CASE("files of other forms are read: names of columns, marks of comments, missing columns, no time") {
  const MeasuredFile other = parse_measured(
      "; source = somewhere\n// setup: NCCL_PROTO=LL\n# Topology class: mine\nsize;nranks;busbw\n1024;4;0.5\n2048;4;\n",
      "x_all-reduce.csv", {});
  REQUIRE(other.rows.size() == 1);
  CHECK(other.topology_class == "mine");
  CHECK(other.rows[0].point.call.ranks == 4);
  CHECK(other.rows[0].point.call.nodes == 4);
  CHECK(other.rows[0].point.call.protocol == meshbed::models::CollectiveProtocol::kLl);
  CHECK(other.rows[0].point.time_us == doctest::Approx(1024 / 0.5e3 * 1.5));
  REQUIRE(other.bad.size() == 1);
  CHECK(other.bad[0].line == 6);
  const MeasuredFile wider =
      parse_measured(kColumns + "AllGather,2,2,64,5,,,out,\n", "x.csv", {.ranks = 8, .ranks_per_node = 4});
  CHECK(wider.rows.at(0).point.call.ranks == 8);
  CHECK(wider.rows.at(0).point.call.nodes == 2);
}

TEST_CASE("of every profile, time grows with bytes by any one way, and none beats what must cross its adapters") {
  using namespace meshbed::models;
  for (const auto& machine : shipped_machines()) {
    if (machine.transport == MachineTransport::kMessage || machine.transport == MachineTransport::kWithin) continue;
    // With one channel more each moves less: NCCL's own steps (models/time/channels.h).
    const double kept = machine[MachineParameter::kChannels] > 0 ? 0.75 : 1;
    const double node_bps = 8e9 * machine[MachineParameter::kNics] * machine[MachineParameter::kNicGBps];
    const NodePort port{.rate_bps = static_cast<std::uint64_t>(node_bps), .ranks = machine.ranks_per_node};
    for (const std::string& name : collective_names()) {
      for (const int nodes : {2, 3, 4, 8, 16}) {
        CollectiveCall call{
            .collective = *parse_collective(name), .ranks = nodes * machine.ranks_per_node, .nodes = nodes};
        for (const auto protocol : {CollectiveProtocol::kLl, CollectiveProtocol::kLl128, CollectiveProtocol::kSimple}) {
          for (const auto algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree}) {
            call.protocol = protocol;
            call.algorithm = algorithm;
            double before = 0;
            for (std::uint64_t bytes = 64; bytes <= std::uint64_t{1} << 34; bytes += bytes / 2) {
              call.bytes = bytes;
              const double us = collective_us(machine, call);
              CHECK_MESSAGE(us > kept * before, machine.name, " ", name, " ", bytes);
              before = us;
            }
          }
        }
        call.protocol.reset();
        call.algorithm.reset();
        const std::vector<NodePort> ports(static_cast<std::size_t>(nodes), port);
        for (std::uint64_t bytes = 64; bytes <= std::uint64_t{1} << 34; bytes *= 4) {
          call.bytes = bytes;
          const double bound_us = static_cast<double>(any_algorithm_bound_ps(call.collective, bytes, ports)) /
                                  meshbed::kPicosecondsPerMicrosecond;
          CHECK_MESSAGE(collective_us(machine, call) >= bound_us, machine.name, " ", name, " ", nodes, " ", bytes);
        }
      }
    }
  }
}

TEST_CASE("a plot has a dot for each measured point and a line for each kind of call") {
  const std::string svg = svg_of(plot_of(validate_file(
      parse_measured(
          kColumns + "all_reduce,2,2,64,5,,,out,a\nall_reduce,2,2,1024,6,,,out,a\nall_reduce,2,2,64,7,,,out,<b>\n",
          "x.csv", {}),
      meshbed::models::Machine{})));
  const auto count = [&](const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
    return found;
  };
  CHECK(count("class=\"m\"") == 3 + 2);  // and the legend's
  CHECK(count("<path class=\"p\"") == 2 + 2);
  CHECK(svg.find("&lt;b&gt;") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("left out: a class of one kind has nothing to predict it from; of two, each is predicted from the other") {
  using namespace meshbed::models;
  Machine machine;
  machine.name = "made";
  machine.set(MachineParameter::kNetSimpleUs, {30, Basis::kCalibrated, "this test"});
  const auto sweep_of = [&](Collective collective) {
    Sweep sweep{.name = name_of(collective), .points = {}};
    for (std::uint64_t bytes = 1024; bytes <= 1 << 26; bytes *= 2) {
      SweepPoint point;
      point.call = {.collective = collective, .ranks = 4, .nodes = 4, .bytes = bytes};
      point.call.protocol = CollectiveProtocol::kSimple;
      point.call.algorithm = CollectiveAlgorithm::kRing;
      point.time_us = collective_us(machine, point.call);
      sweep.points.push_back(point);
    }
    return sweep;
  };
  CHECK(leave_one_out(machine, {sweep_of(Collective::kAllGather)}, {}).empty());
  const auto left =
      leave_one_out(machine, {sweep_of(Collective::kAllGather), sweep_of(Collective::kReduceScatter)}, {});
  REQUIRE(left.size() == 2);
  for (const LeftOut& each : left) CHECK(summarise(each.model).max < 0.05);
}

TEST_CASE("which of two set-ups is faster is asked of files of good quality alone") {
  const auto profiles = shipped_machines();
  const auto judged = [&](const std::string& name, char quality, int time_us) {
    std::ostringstream notes;
    const std::string text = std::string("# topology_class: 1gpu/node, EFA\n# quality: ") + quality + "\n" + kColumns +
                             "all_reduce,2,2,8192," + std::to_string(time_us) + ",,,out,\n";
    const std::vector<meshbed::models::Peer> none;
    return validate_file(
        parse_measured(text, name, {}), profiles, [&]() -> const std::vector<meshbed::models::Peer>& { return none; },
        notes);
  };
  CHECK(count_order({judged("a.csv", 'A', 20), judged("b.csv", 'B', 40)}).pairs == 1);
  CHECK(count_order({judged("a.csv", 'A', 20), judged("c.csv", 'C', 40)}).pairs == 0);
  // Both are predicted alike: a tie.
  CHECK(count_order({judged("a.csv", 'A', 20), judged("b.csv", 'B', 40)}).decided == 0);
}

}  // namespace fidelity_test
