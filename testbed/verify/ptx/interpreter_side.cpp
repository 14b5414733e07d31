#include <fmt/format.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "sim/cuda/ptx/machine.h"
#include "testbed/verify/ptx/twin.h"

namespace meshbed::testbed::ptx_twin {
namespace {

/// Arrays of this process, at their own addresses.
class ArrayMemory : public sim::ptx::Memory {
 public:
  std::uint64_t add(const void* bytes, std::size_t size) {
    arrays_.push_back({reinterpret_cast<std::uint64_t>(bytes), size});
    return arrays_.back().begin;
  }
  void* at(std::uint64_t address, std::uint64_t bytes, bool) override {
    for (const Array& array : arrays_) {
      if (address >= array.begin && address - array.begin <= array.size &&
          bytes <= array.size - (address - array.begin)) {
        return reinterpret_cast<void*>(address);
      }
    }
    return nullptr;
  }
  std::string describe(std::uint64_t) const override { return "no operand and no result lies there"; }

 private:
  struct Array {
    std::uint64_t begin, size;
  };
  std::vector<Array> arrays_;
};

Results interpreted(const Form& form, int target, Operands& operands) {
  const auto module = sim::ptx::Module::parse(module_text({&form}, target), "text");
  if (!module) return {.bytes = {}, .refusal = module.error().text};
  constexpr std::uint32_t kResidentBlocks = 64;
  constexpr std::uint64_t kStep = 1'000'000;
  ArrayMemory memory;
  Results results;
  results.bytes.resize(bytes_of(form.result) * operands.count());
  std::array<std::uint64_t, 5> addresses{};
  addresses[0] = memory.add(results.bytes.data(), results.bytes.size());
  for (std::size_t place = 0; place < form.sources.size(); ++place) {
    const std::vector<std::byte>& of_place = operands.of(form.sources[place], place);
    addresses[place + 1] = memory.add(of_place.data(), of_place.size());
  }
  sim::ptx::LaunchRequest request;
  request.module = *module;
  request.kernel = (*module)->find_kernel("f0");
  request.grid = {static_cast<std::uint32_t>(operands.count() / kBlockThreads), 1, 1};
  request.block = {kBlockThreads, 1, 1};
  request.resident_blocks = kResidentBlocks;
  request.parameters.resize(sizeof addresses);
  std::memcpy(request.parameters.data(), addresses.data(), sizeof addresses);
  auto execution = sim::ptx::Execution::start(std::move(request), memory);
  if (!execution) return {.bytes = {}, .refusal = execution.error().text};
  using State = sim::ptx::Execution::State;
  State state = State::kRunning;
  while (state == State::kRunning) state = (*execution)->step(kStep);
  if (state == State::kFault) return {.bytes = {}, .refusal = (*execution)->fault()->text};
  if (state != State::kFinished) return {.bytes = {}, .refusal = "it does not end: " + (*execution)->waiting()};
  return results;
}

}  // namespace

std::vector<Results> InterpreterSide::run(const std::vector<const Form*>& forms, Operands& operands) {
  std::vector<Results> all;
  all.reserve(forms.size());
  for (const Form* form : forms) all.push_back(interpreted(*form, target_, operands));
  return all;
}

}  // namespace meshbed::testbed::ptx_twin
