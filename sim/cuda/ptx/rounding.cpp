#include "sim/cuda/ptx/rounding.h"

#include <cfenv>

#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

int host_rounding(std::uint8_t modes) {
  switch (modes & kModeRounding) {
    case kModeDown:
      return FE_DOWNWARD;
    case kModeUp:
      return FE_UPWARD;
    case kModeZero:
      return FE_TOWARDZERO;
    default:
      return FE_TONEAREST;
  }
}

template <typename T>
void clamp_to_one(const Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  // A NaN becomes 0, and so does -0.
  each_active(lanes, [&](std::uint32_t lane) { d[lane] = d[lane] > T{0} ? (d[lane] < T{1} ? d[lane] : T{1}) : T{0}; });
}

/// The handler is another function, known only here: no arithmetic of it moves across the change of the mode.
template <typename T>
void with_modes(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const int mode = host_rounding(in.modes);
  if (mode != FE_TONEAREST) std::fesetround(mode);
  in.inner(warp, in, lanes);
  if (mode != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  if ((in.modes & kModeSaturate) != 0) clamp_to_one<T>(warp, in, lanes);
}

}  // namespace

void wrap_modes(Instruction& in, std::uint32_t bytes) {
  if (in.modes == 0) return;
  in.inner = in.run;
  in.run = bytes == 8 ? with_modes<double> : with_modes<float>;
}

}  // namespace meshbed::sim::ptx
