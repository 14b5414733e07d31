#pragma once
// Randomness of a simulated process: one generator, seeded from the run's seed and the process's place.

#include <cstddef>

namespace meshbed::sim {

struct ProcessState;

void fill_random(ProcessState& state, void* data, std::size_t size);

}  // namespace meshbed::sim
