// Dispatch and combine in measured files: what a row says, which class it is of, and how far the classes are off.
#include "testbed/fidelity/expert_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "testbed/fidelity/decode_plan.h"
#include "testbed/fidelity/nearest_expert.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/fidelity/validated.h"

namespace expert_rows_test {

using namespace meshbed::testbed;
using meshbed::models::ExpertCall;
using meshbed::models::ExpertMode;
using meshbed::models::Machine;

namespace {

const std::string kData = std::string(MESHBED_SOURCE_DIR) + "/models/data/";
const std::string kColumns = "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";

ExpertCall call_of(double bytes, const std::string& variant, const std::string& set_up, bool combine = false) {
  return expert_call(
      {.combine = combine, .ranks = 16, .nodes = 2, .bytes = bytes, .variant = variant, .set_up = set_up});
}

}  // namespace

TEST_CASE("a row's mode, tokens, format and experts are in its variant, its set-up and its bytes") {
  const ExpertCall low =
      call_of(474112, "deepep_ll_e288_tok8", "hidden 7168, top-8, 256 and 288 experts, FP8 dispatch");
  CHECK(low.mode == ExpertMode::kLowLatency);
  CHECK(low.tokens == 8);
  CHECK(low.token_bytes == 7408);
  CHECK(low.experts == 288);
  CHECK_FALSE(low.counts_once);
  const ExpertCall untold = call_of(14680064, "x", "low-latency kernels, hidden 7168, top-8", true);
  CHECK(untold.tokens == 128);
  CHECK(untold.token_bytes == 14336);
  const std::string units = "use the bandwidths; time_us = bytes/algbw with bytes = 4096 tokens x 14336";
  const ExpertCall normal =
      call_of(58720256, "hybridep_torch_bf16_sm16", "Hybrid-EP, 8 local experts, uniform router " + units);
  CHECK(normal.mode == ExpertMode::kNormal);
  CHECK(normal.tokens == 4096);
  CHECK(normal.counts_once);
  CHECK(normal.through_call);
  CHECK(normal.multiprocessors == 16);
  CHECK(normal.experts == 128);
  CHECK(normal.most_nodes == 0);
  CHECK(call_of(58720256, "infrawaves_bf16", "DeepEP normal kernels " + units).most_nodes == 4);
  const ExpertCall small = call_of(4 * 128 * 8192, "ll_bf16", "hidden 4096, top-4");
  CHECK(small.top_k == 4);
  CHECK(small.tokens == 128);
  CHECK_THROWS_WITH_AS(call_of(1000, "ll", ""),
                       doctest::Contains("1000 bytes are not a whole number of tokens of 7168 elements"),
                       std::runtime_error);
  CHECK(expert_operation("ep_combine") == true);
  CHECK(expert_operation("Dispatch") == false);
  CHECK_FALSE(expert_operation("all_reduce").has_value());
}

TEST_CASE(
    "every expert-parallel file and every file of messages has a class of its own, and a median error below 20 %") {
  const std::vector<Machine> profiles = shipped_machines();
  std::size_t files = 0, rows = 0;
  for (const char* folder : {"expert_parallel", "messages"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kData + folder)) {
      const MeasuredFile file = read_measured_file(entry.path(), {});
      CHECK_MESSAGE(file.bad.empty(), file.name);
      for (const auto* machine : own_profiles(file, profiles)) CHECK_MESSAGE(machine != nullptr, file.name);
      std::ostringstream notes;
      const Validated validated = validate_file(
          file, profiles,
          []() -> const std::vector<meshbed::models::Peer>& {
            static const std::vector<meshbed::models::Peer> none;
            return none;
          },
          notes);
      MESSAGE(file.name, ": ", file.rows.size(), " rows, median ", 100 * validated.errors.median, " %, p90 ",
              100 * validated.errors.p90, " %");
      CHECK_MESSAGE(validated.errors.median < 0.2, file.name);
      CHECK(notes.str().empty());
      ++files;
      rows += file.rows.size();
    }
  }
  CHECK(files == 12);
  CHECK(rows > 550);
}

TEST_CASE("a file without a class is predicted as the nearest library, mode and kind of node, with its own rates") {
  const std::vector<Machine> profiles = shipped_machines();
  const auto nearest = [&](const std::string& header, const std::string& row) {
    const auto found = nearest_expert(parse_measured(header + kColumns + row, "x.csv", {}), profiles);
    REQUIRE(found);
    return *found;
  };
  const NearestExpert ll = nearest(
      "# topology_class: 8gpu/node, 8x200G RoCE, GPU-initiated\n# setup: DeepEP low-latency, H100, hidden 7168, "
      "top-8\n",
      "ep_dispatch,16,2,7585792,200,,,na,deepep_ll_tok128\n");
  CHECK(ll.machine.name == "ep-h100-deepep-ll");
  CHECK(ll.machine[meshbed::models::MachineParameter::kNicGBps] == 25);
  CHECK(ll.why.find("ep-h100-deepep-ll") != std::string::npos);
  const NearestExpert amd = nearest("# topology_class: one node of 8 MI355X\n# setup: MoRI, xGMI, hidden 7168, top-8\n",
                                    "ep_combine,8,1,14680064,41,,,na,mori_intranode_tok128\n");
  CHECK(amd.machine.name == "ep-mi350x-mori");
  const NearestExpert proxy =
      nearest("# topology_class: p5en, EFA\n# setup: UCCL-EP normal kernels, CPU proxy, 4096 tokens, hidden 7168\n",
              "ep_dispatch,16,2,58720256,900,,,na,uccl_bf16\n");
  CHECK(proxy.machine.name == "ep-p5-uccl");
  const auto own =
      std::find_if(profiles.begin(), profiles.end(), [](const Machine& each) { return each.name == "b200-ib400"; });
  REQUIRE(own != profiles.end());
  const Machine pooled = as_expert(*own, profiles);
  CHECK(pooled.value_of(meshbed::models::MachineParameter::kNicFraction).basis == meshbed::models::Basis::kPooled);
  CHECK(pooled.value_of(meshbed::models::MachineParameter::kNicFraction).range.has_value());
}

TEST_CASE(
    "ratios of tokens per second on 2 and 4 nodes to one are within 12 % in the median, each model left out too") {
  const std::vector<Machine> profiles = shipped_machines();
  const std::string spark = decode_ratio_table(kData + "decode/cal_decode_spark.csv", profiles);
  MESSAGE(spark);
  const auto percent_behind = [](const std::string& text, const std::string& words) {
    const auto at = text.find(words);
    REQUIRE(at != std::string::npos);
    return std::stod(text.substr(at + words.size()));
  };
  CHECK(percent_behind(spark, "ratios: median error ") < 12);
  CHECK(percent_behind(spark, "left out of the fit of the two shares: ") < 20);
  CHECK(spark.find("22 ratios") != std::string::npos);
  const std::string strix = decode_ratio_table(kData + "decode/cal_decode_strixhalo.csv", profiles);
  MESSAGE(strix);
  CHECK(percent_behind(strix, "ratios: median error ") < 12);
  CHECK(strix.find("have no row of the same engine on one node") != std::string::npos);
}

TEST_CASE("a decode step: weights are split, the rest is not, and each split has its own communication") {
  const std::vector<Machine> profiles = shipped_machines();
  const auto pair = std::find_if(profiles.begin(), profiles.end(),
                                 [](const Machine& each) { return each.name == "spark-pair-200g"; });
  REQUIRE(pair != profiles.end());
  DecodePlan plan{.layers = 10, .hidden = 4096, .batch = 1, .tensor = 1, .compute_us = 10000, .weights_us = 8000};
  CHECK(decode_time(plan, *pair, profiles).step_us() == 10000);
  plan.tensor = 2;
  const DecodeTime two = decode_time(plan, *pair, profiles, {.weights_repeated = 0, .rest_repeated = 1});
  CHECK(two.compute_us == doctest::Approx(4000 + 2000));
  CHECK(two.reduces_us > 0);
  CHECK(two.pipeline_us == 0);
  plan.tensor = 1;
  plan.pipeline = 2;
  const DecodeTime stages = decode_time(plan, *pair, profiles);
  CHECK(stages.compute_us == 10000);
  CHECK(stages.pipeline_us > 0);
  plan.expert = 2;
  CHECK(decode_time(plan, *pair, profiles).experts_us > 0);
  CHECK(weights_us(8, 8, 8, 1, 8e9) == doctest::Approx(1e6));
  CHECK(weights_us(8, 2, 8, 1, 8e9) == doctest::Approx(0.25e6));
  CHECK(weights_us(8, 2, 8, 1000, 8e9) == doctest::Approx(1e6));
}

}  // namespace expert_rows_test
