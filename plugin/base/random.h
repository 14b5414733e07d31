#pragma once
// Random bytes that no stranger can predict: the kernel's, each time anew. In a simulation they descend from the
// run's seed. What only has to differ, and repeat with a seed, takes a Prng (prng.h).

#include <cstdint>
#include <span>

#include "plugin/base/result.h"

namespace meshbed {

Result<void> fill_unpredictable(std::span<std::uint8_t> bytes);

}  // namespace meshbed
