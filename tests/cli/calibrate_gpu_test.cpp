// meshbed calibrate gpu measures a GPU whose model is known exactly, the simulated one: what comes out is that model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "models/gpu_fields.h"
#include "models/gpu_profile.h"
#include "sim/cuda/world/world_cuda.h"
#include "sim/host/host.h"
#include "testbed/fidelity/gpu/report.h"
#include "tests/support/run_world.h"

namespace calibrate_gpu_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// What the simulated CUDA has no time of, or the command does not measure: the base's value stands there.
const std::set<std::string> kNotMeasured{"graph_call_us", "grid_sync_us", "contended_atomic_us", "float32_per_second"};
/// A look at a word takes 5 ns there (testbed::kLookPs), and a difference has two of them.
constexpr double kTimePs = 10'000, kShare = 1e-5;

/// The file that `calibrate gpu` would write of a simulated node with that GPU, in its virtual time.
std::string calibrated(const models::GpuModel& model, const testbed::GpuMeasureOptions& options) {
  models::Cluster cluster = ring_cluster(2);
  cluster.nodes[0].gpus = {{models::gpu_word(model)}};
  const WorldResult result = run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {});
    static std::unique_ptr<sim::WorldCuda> gpus;
    gpus = std::make_unique<sim::WorldCuda>(world, sim::cuda_files_in(MESHBED_BINARY_DIR "/cuda-lib"));
    world.spawn(world.add_process(0, 0, "rank0"), "main", [options] {
      const testbed::GpuMeasurement measured = testbed::measure_gpu(options);
      CHECK(measured.gpu.is_simulated);
      const testbed::GpuBase base = testbed::find_gpu_base("", measured.gpu.name);
      const testbed::GpuReport made = testbed::report_of(measured, base, "2026-11-26");
      CHECK(testbed::gpu_table(measured, made).find("simulated GPU") != std::string::npos);
      report(models::gpu_profile_text("again", measured.gpu.name, made.values));
    });
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
  return result.value;
}

/// So small an L2 that copies of 2 MiB go past it.
models::GpuModel with_small_cache(const std::string& name) {
  models::GpuModel model = *models::find_gpu(name);
  model.l2_bytes = 1 * kMiB;
  return model;
}

void check_same(const std::string& text, const models::GpuModel& model, const models::GpuModel& base) {
  const auto profile = models::Profile::parse(text, "profile");
  REQUIRE_MESSAGE(profile.has_value(), (profile ? "" : profile.error().text));
  const auto read = models::gpu_of_profile(*profile);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().text));
  for (const models::GpuField& field : models::gpu_fields()) {
    const bool is_measured = kNotMeasured.count(field.name) == 0;
    const auto expected = static_cast<double>(models::get(is_measured ? model : base, field));
    const auto got = static_cast<double>(models::get(*read, field));
    const bool is_time = std::string(field.unit) == "us";
    const double bound = std::max(is_time ? kTimePs : 0, kShare * expected);
    CHECK_MESSAGE(std::abs(got - expected) <= bound, model.name, ": ", field.name, " is ", got, ", not ", expected);
    const models::Parameter& parameter = profile->parameters().at(field.name);
    if (is_measured) {
      CHECK_MESSAGE(parameter.basis != models::Basis::kGuess, field.name, ": ", parameter.source);
      CHECK_MESSAGE(parameter.source.find("Meshbed simulated " + model.name) != std::string::npos, parameter.source);
    } else {
      CHECK_MESSAGE(parameter.source.find("not measured") == 0, parameter.source);
    }
  }
  CHECK(profile->parameters().at("blocks_per_sm").basis == models::Basis::kMeasured);
  CHECK(profile->parameters().at("threads_per_sm").basis == models::Basis::kMeasured);
}

}  // namespace

TEST_CASE("what is measured of a simulated GPU is its model: times to 10 ns, all else to 1 in 100,000") {
  for (const char* name : {"H100", "GB10"}) {
    const models::GpuModel model = with_small_cache(name);
    check_same(calibrated(model, {.repeats = 5, .copy_bytes = 2 * kMiB}), model, *models::find_gpu(name));
  }
}

TEST_CASE("each value follows the model's, wherever that is planted") {
  models::GpuModel model = with_small_cache("A100");
  using M = models::GpuModel;
  Picoseconds another_ps = 1'700'000;
  for (Picoseconds M::*time :
       {&M::copy_start_ps, &M::launch_call_ps, &M::launch_delay_ps, &M::kernel_gap_ps, &M::wake_ps, &M::host_flag_ps}) {
    model.*time = another_ps += 900'000;
  }
  model.sms = 17;
  model.threads_per_sm = 1280;
  model.blocks_per_sm = 13;
  model.registers_per_sm = 48 * 1024;
  model.shared_bytes_per_sm = 77 * kKiB;
  model.memory_bytes = 11 * kGiB;
  model.memory_bytes_per_second = 777'000'000'000;
  model.link_bytes_per_second = 31'000'000'000;
  model.pageable_bytes_per_second = 5'000'000'000;
  model.integrated = true;
  model.compute_minor = 6;
  check_same(calibrated(model, {.repeats = 3, .copy_bytes = 2 * kMiB}), model, *models::find_gpu("A100"));
}

TEST_CASE("copies that stay in the L2 say nothing of the memory, and are not taken for it") {
  const models::GpuModel& model = *models::find_gpu("GB10");
  const std::string text = calibrated(model, {.repeats = 3, .copy_bytes = 1 * kMiB});
  const auto profile = models::Profile::parse(text, "profile");
  REQUIRE(profile.has_value());
  const models::Parameter& memory = profile->parameters().at("memory_GBps");
  CHECK(memory.source.find("stay in the L2 of 25165824 B") != std::string::npos);
  CHECK(memory.source.find("not measured") == 0);
}

TEST_CASE("median and spread: the middle, and what a tenth lies beyond") {
  std::vector<double> values;
  for (int value = 100; value >= 0; --value) values.push_back(value);
  const testbed::Spread spread = testbed::spread_of(values);
  CHECK(spread.value == 50);
  CHECK(spread.low == 10);
  CHECK(spread.high == 90);
  CHECK(testbed::spread_of({7}).value == 7);
}

TEST_CASE("the base is the model that the GPU's name has in it, or what is asked for") {
  CHECK(testbed::find_gpu_base("", "NVIDIA H100 80GB HBM3").model.name == "H100");
  CHECK(testbed::find_gpu_base("", "NVIDIA GB10").is_this);
  CHECK(testbed::find_gpu_base("", "NVIDIA L4").model.name == "H100");
  CHECK_FALSE(testbed::find_gpu_base("", "NVIDIA L4").is_this);
  CHECK(testbed::find_gpu_base("gb10", "NVIDIA L4").model.name == "GB10");
  CHECK_THROWS_WITH_AS(testbed::find_gpu_base("Voodoo2", ""), doctest::Contains("there are GB10, H100, A100"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(testbed::find_gpu_base("/no/such.toml", ""), doctest::Contains("cannot be read"),
                       std::runtime_error);
}

}  // namespace calibrate_gpu_test
