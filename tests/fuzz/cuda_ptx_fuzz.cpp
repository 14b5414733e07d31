// Arbitrary PTX text: it is parsed, or refused with a message. Each parsed kernel runs a few steps on a small memory,
// and ends, continues or faults. Seeds: tests/cuda/ptx. Words: cuda_ptx.dict.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/cuda/ptx/machine.h"
#include "tests/cuda/device_memory.h"

using namespace meshbed::sim::ptx;

namespace {

// What one input may take: more would only slow the search down.
constexpr std::uint64_t kVariablesMost_bytes = 1U << 20U, kLocalMost_bytes = 1U << 16U;
constexpr std::size_t kArgument_bytes = 4096;
constexpr std::uint64_t kLaneInstructions = 4096;
constexpr int kSteps = 4;

/// Its variables in memory; false: they take too much.
bool place_variables(const Module& module, meshbed::test::DeviceMemory& memory, std::vector<std::uint64_t>& addresses) {
  std::uint64_t bytes = 0;
  for (const VariableInfo& variable : module.variables()) {
    if (variable.bytes > kVariablesMost_bytes) return false;
    bytes += variable.bytes;
  }
  if (bytes > kVariablesMost_bytes) return false;
  for (const VariableInfo& variable : module.variables()) addresses.push_back(memory.allocate(variable.bytes));
  for (std::size_t index = 0; index < addresses.size(); ++index) {
    const std::uint64_t size_bytes = module.variables()[index].bytes;
    if (size_bytes > 0) module.write_initial(index, addresses, memory.at(addresses[index], size_bytes, true));
  }
  return true;
}

void run(const std::shared_ptr<const Module>& module, const KernelInfo& kernel, meshbed::test::DeviceMemory& memory,
         const std::vector<std::uint64_t>& addresses) {
  if (kernel.local_bytes > kLocalMost_bytes || kernel.static_shared_bytes > kLocalMost_bytes) return;
  LaunchRequest request;
  request.module = module;
  request.kernel = &kernel;
  request.grid = {2, 1, 1};
  request.block = {40, 1, 1};  // a warp and a part of one
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::uint32_t wanted = kernel.required_block[axis];
    if (wanted > 128) return;
    if (wanted > 0) request.block[axis] = wanted;
  }
  request.dynamic_shared_bytes = 256;
  request.resident_blocks = 2;
  request.variable_addresses = addresses;
  request.parameters.resize(kernel.parameter_bytes);
  for (const Parameter& parameter : kernel.parameters) {
    const std::uint64_t value = parameter.bytes == 8 ? memory.allocate(kArgument_bytes) : 7;
    std::memcpy(request.parameters.data() + parameter.offset, &value,
                std::min<std::size_t>(parameter.bytes, sizeof value));
  }
  static SpareGrids spares;  // from input to input: what one leaves behind must not hurt the next
  request.spares = &spares;
  std::uint64_t now_ns = 0, printed = 0;
  request.clock_ns = [&now_ns] { return ++now_ns; };
  request.print = [&printed](std::string_view text) { printed += text.size(); };
  auto started = Execution::start(std::move(request), memory);
  if (!started) {
    if (started.error().text.empty()) std::abort();
    return;
  }
  for (int step = 0; step < kSteps; ++step) {
    const Execution::State state = (*started)->step(kLaneInstructions);
    if (state == Execution::State::kFault && (*started)->fault()->text.empty()) std::abort();
    if (state == Execution::State::kFault || state == Execution::State::kFinished) return;
    (void)(*started)->waiting();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto module = Module::parse({reinterpret_cast<const char*>(data), size}, "fuzzed");
  if (!module) {
    if (module.error().text.empty()) std::abort();
    return 0;
  }
  // Linked with itself: names that are defined again, declared before, and its own.
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto twice = Module::link({text, text}, "linked"); twice) (void)(*twice)->undefined();
  meshbed::test::DeviceMemory memory;
  std::vector<std::uint64_t> addresses;
  if (!place_variables(**module, memory, addresses)) return 0;
  for (const KernelInfo& kernel : (*module)->kernels()) run(*module, kernel, memory, addresses);
  return 0;
}
