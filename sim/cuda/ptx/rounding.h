#pragma once
// The rounding and saturation of floating-point instructions: wrappers around handlers that round to nearest.

#include "sim/cuda/ptx/decode.h"

namespace meshbed::sim::ptx {

/// Puts what the modes of the instruction ask for around its handler. `bytes`: of the result, 4 or 8.
void wrap_modes(Instruction& in, std::uint32_t bytes);

}  // namespace meshbed::sim::ptx
