// The megakernel as PTX and as C++: the same words (program/ring_twins.h).
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "models/gpu.h"
#include "plugin/ring/gpu/gpu_ring.h"
#include "plugin/ring/queue/wait.h"
#include "tests/cuda/gpus.h"
#include "tests/support/taken.h"

using namespace meshbed;
using namespace meshbed::test;

namespace ring_twin_test {
namespace {

/// Calls body(driver) with the simulated GPU's context current; what was logged.
template <typename Body>
std::string on_a_gpu(const Body& body) {
  return run_gpus({}, [&] {
    const auto driver = taken(cuda::Driver::open());
    const cuda::Current current(driver, taken(driver.retain_primary(0)));
    well(current.outcome());
    body(driver);
  });
}

struct Said {
  int status = -1;
  std::string text;  // standard error, too
};
Said said_by(const std::string& command) {
  std::FILE* const program = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(program != nullptr);
  Said said;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), program) != nullptr) said.text += part.data();
  const int status = ::pclose(program);
  REQUIRE(WIFEXITED(status));
  said.status = WEXITSTATUS(status);
  return said;
}

}  // namespace

TEST_CASE("the megakernel's PTX on the interpreter leaves the words that the C++ machine leaves, quirk by quirk") {
  const Said said = said_by(MESHBED_BINARY_DIR "/bin/meshbed cuda run --virtual --gpu H100 " MESHBED_BINARY_DIR
                                               "/bin/cuda-ring-twin");
  CHECK_MESSAGE(said.status == 0, said.text);
  // One line: no difference, and no warning of the simulated CUDA's.
  CHECK_MESSAGE(said.text == "Meshbed simulated H100, CUDA 13.0: 254 buffers compared, 0 differences\n", said.text);
}

TEST_CASE("the same on a real GPU, where one is at hand") {
  const Said said = said_by(MESHBED_BINARY_DIR "/bin/cuda-ring-twin");
  constexpr int kNoGpu = 77;
  if (said.status == kNoGpu) {
    MESSAGE("not looked at: " << said.text);
    return;
  }
  CHECK_MESSAGE(said.status == 0, said.text);
  MESSAGE(said.text);
}

TEST_CASE("ring bench --gpu times a launch and a slot in one harness, by the GPU that it finds") {
  const std::string program = MESHBED_BINARY_DIR "/bin/meshbed";
  const Said said =
      said_by(program + " cuda run --virtual --gpu H100 " + program + " ring bench --gpu --repeats 11 --json");
  REQUIRE_MESSAGE(said.status == 0, said.text);
  const auto result = nlohmann::json::parse(said.text).at("gpu");
  CHECK(result.at("is_simulated") == true);
  CHECK(result.at("times_from").get<std::string>().find("model") != std::string::npos);
  const models::GpuModel& model = *models::find_gpu("H100");
  // A program whose thread has to wait for a processor loses virtual time, too: of many times a short one.
  const auto short_us = [&](std::size_t row) { return result.at("rows").at(row).at("p10_us").get<double>(); };
  const auto us = [](Picoseconds time_ps) { return static_cast<double>(time_ps) / kPicosecondsPerMicrosecond; };
  CHECK(result.at("rows").at(0).at("what") == "launch an empty kernel, and synchronize");
  CHECK(short_us(0) ==
        doctest::Approx(us(model.launch_call_ps + model.launch_delay_ps + model.kernel_gap_ps + model.wake_ps))
            .epsilon(0.01));
  CHECK(short_us(1) < short_us(0));
  // From publish to DONE a lane makes about ten accesses of pinned memory, one after the other.
  CHECK(short_us(4) > 6 * us(model.host_flag_ps));
  CHECK(short_us(4) < 16 * us(model.host_flag_ps));
  CHECK(short_us(8) < short_us(4));

  const Said none = said_by(program + " ring bench --gpu --repeats 1");
  if (none.status == 0) return;  // there is a GPU
  CHECK(none.status == 2);
  CHECK_MESSAGE(none.text.find("ring bench --gpu: ") != std::string::npos, none.text);
}

TEST_CASE("a ring on a GPU refuses what it cannot be, and a kernel without a shutdown is named") {
  const std::string log = on_a_gpu([](const cuda::Driver& driver) {
    const auto refusal = [&](const ring::GpuRingShape& shape) {
      const auto made = ring::GpuRing::create(driver, shape);
      return made ? "" : made.error().text;
    };
    CHECK(refusal({.slots = 0}).find("at least one slot and one lane") != std::string::npos);
    CHECK(refusal({.threads = 2000}).find("1 to 1024 threads, not 2000") != std::string::npos);
    CHECK(refusal({.board = {.connections = 1, .ids = 1}, .depth = 3}).find("power of two, not 3") !=
          std::string::npos);
    CHECK(refusal({.tenants = 40}) != "");

    auto ring = taken(ring::GpuRing::create(driver, {.slots = 4, .lanes = 2}));
    well(ring->launch());
    // Nothing ends it: a wait without a bound would last for ever.
    const auto waited = ring->wait_for_end(50);
    REQUIRE_FALSE(waited.has_value());
    CHECK(waited.error().code == ErrorCode::kTimeout);
    well(ring->publish({.slot = 3, .opcode = ring::opcode::kAtomicAdd, .args = {7, ring::kLayout2026_05.observables}}));
    well(ring->done_within(3, 20'000));
    CHECK(ring->control()[ring::kLayout2026_05.observables] == 7);
    well(ring->shut_down());
    well(ring->wait_for_end(20'000));
  });
  (void)log;
}

}  // namespace ring_twin_test
