#pragma once
// For tests of the PTX interpreter: modules from texts, kernels run to their end in device_memory.h.

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "sim/cuda/ptx/machine.h"
#include "tests/cuda/device_memory.h"

namespace meshbed::test {

inline std::shared_ptr<const sim::ptx::Module> module_of(const std::string& text, const std::string& place = "text") {
  auto parsed = sim::ptx::Module::parse(text, place);
  if (!parsed) FAIL(parsed.error().text);
  return *parsed;
}

inline std::shared_ptr<const sim::ptx::Module> module_file(const std::string& name) {
  const std::string path = std::string(MESHBED_SOURCE_DIR) + "/tests/cuda/ptx/" + name;
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  return module_of({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, name);
}

/// What one launch is given beside its arguments.
struct GridLaunch {
  std::uint32_t grid = 1, grid_y = 1, block = 32, resident = 64;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint64_t seed = 0;
  bool cooperative = false;
  std::array<std::uint32_t, 3> cluster{};  // 0: none
};

/// A module on a device: its variables are there.
class Device {
 public:
  explicit Device(std::shared_ptr<const sim::ptx::Module> module) : module_(std::move(module)) {
    for (const auto& variable : module_->variables()) addresses_.push_back(memory.allocate(variable.bytes));
    for (std::size_t index = 0; index < addresses_.size(); ++index) {
      const std::uint64_t bytes = module_->variables()[index].bytes;
      if (bytes > 0) module_->write_initial(index, addresses_, memory.at(addresses_[index], bytes, true));
    }
  }

  std::uint64_t variable(const std::string& name) const {
    for (std::size_t index = 0; index < addresses_.size(); ++index) {
      if (module_->variables()[index].name == name) return addresses_[index];
    }
    FAIL("no variable " << name);
    return 0;
  }

  template <typename... Arguments>
  std::unique_ptr<sim::ptx::Execution> start(const std::string& kernel, const GridLaunch& launch,
                                             Arguments... arguments) {
    sim::ptx::LaunchRequest request;
    request.module = module_;
    request.kernel = module_->find_kernel(kernel);
    REQUIRE_MESSAGE(request.kernel != nullptr, kernel);
    request.grid = {launch.grid, launch.grid_y, 1};
    request.is_explicit_cluster = launch.cluster[0] != 0;
    if (request.is_explicit_cluster) request.cluster = launch.cluster;
    request.block = {launch.block, 1, 1};
    request.resident_blocks = launch.resident;
    request.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    request.seed = launch.seed;
    request.cooperative = launch.cooperative;
    request.variable_addresses = addresses_;
    request.parameters.resize(request.kernel->parameter_bytes);
    std::size_t index = 0;
    [[maybe_unused]] const auto place = [&](auto value) {
      std::memcpy(request.parameters.data() + request.kernel->parameters.at(index++).offset, &value, sizeof value);
    };
    (place(arguments), ...);
    request.print = [this](std::string_view text) { printed += text; };
    request.spares = &spares_;
    auto started = sim::ptx::Execution::start(std::move(request), memory);
    if (!started) FAIL(started.error().text);
    return std::move(*started);
  }

  /// To the end; what went wrong, or nothing. A grid that only polls is an end too: "spins".
  template <typename... Arguments>
  std::string run(const std::string& kernel, const GridLaunch& launch, Arguments... arguments) {
    auto execution = start(kernel, launch, arguments...);
    auto state = sim::ptx::Execution::State::kRunning;
    for (int steps = 0; state == sim::ptx::Execution::State::kRunning && steps < 10000; ++steps)
      state = execution->step(1000000);
    counts = execution->counts();
    if (state == sim::ptx::Execution::State::kSpinning) return "spins: " + execution->waiting();
    if (state == sim::ptx::Execution::State::kFault) return execution->fault()->text;
    return state == sim::ptx::Execution::State::kFinished ? "" : "still runs";
  }

  DeviceMemory memory;
  std::string printed;
  sim::ptx::Counts counts;

 private:
  sim::ptx::SpareGrids spares_;
  std::shared_ptr<const sim::ptx::Module> module_;
  std::vector<std::uint64_t> addresses_;
};

}  // namespace meshbed::test
