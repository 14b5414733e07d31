// Faults: what happened, with kernel, block, thread and line.
#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

namespace {

std::string triple(const std::array<std::uint32_t, 3>& at) {
  return "(" + std::to_string(at[0]) + "," + std::to_string(at[1]) + "," + std::to_string(at[2]) + ")";
}

std::string place_of(const Warp& warp, const Instruction& in, std::uint32_t lane) {
  const auto& size = warp.grid->request.block;
  const std::uint32_t thread = warp.index * kLanes + lane;
  std::string text = "kernel " + warp.grid->request.kernel->name + ", block " + triple(warp.block->at) + ", thread " +
                     triple({thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]}) +
                     ", PTX line " + std::to_string(in.line);
  if (warp.lane_frame[lane] != nullptr && warp.lane_frame[lane]->parent != nullptr) {
    text += " (in " + warp.lane_frame[lane]->function->name + ")";
  }
  return text;
}

}  // namespace

void fail(Warp& warp, const Instruction& in, std::uint32_t lane, Fault::Kind kind, const std::string& what) {
  warp.event = true;
  if (warp.grid->fault) return;
  warp.grid->fault = Fault{kind, place_of(warp, in, lane) + ": " + what};
}

}  // namespace meshbed::sim::ptx
