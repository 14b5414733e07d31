// Control: bra, brx, ret, exit, trap, nanosleep, and what traps because it is not implemented. PTX ISA 9.7.12
// and 9.7.18.
#include "sim/cuda/ptx/cluster/cluster.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

void branch(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto target = static_cast<std::uint32_t>(in.immediate);
  if (lanes == warp.active) {
    warp.position = target;
    return;
  }
  if (lanes == 0) return;
  each_active(lanes, [&](std::uint32_t lane) { warp.lane_position[lane] = target; });
  each_active(warp.active & ~lanes, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  warp.active = 0;
  warp.event = true;
}

/// brx.idx: extra: the table.
void branch_by_index(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto& targets = warp.frame->function->targets[in.extra];
  const auto* index = lanes_at<std::uint32_t>(warp, in.a);
  each_active(warp.active & ~lanes, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  each_active(lanes, [&](std::uint32_t lane) {
    if (index[lane] >= targets.size()) {
      fail(warp, in, lane, Fault::Kind::kTrap,
           "brx.idx: index " + std::to_string(index[lane]) + " of " + std::to_string(targets.size()));
      return;
    }
    warp.lane_position[lane] = targets[index[lane]];
  });
  warp.active = 0;
  warp.event = true;
}

void end_lanes(Warp& warp, const Instruction&, std::uint32_t lanes) {
  if (lanes == 0) return;
  warp.active &= ~lanes;
  each_active(warp.active, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  exit_lanes(warp, lanes);
  warp.active = 0;
  warp.event = true;
  settle_barriers(*warp.block);
  if (warp.grid->has_cluster_barrier) settle_cluster(*warp.block);
  if (warp.warp_waiting != 0) settle_exchanges(warp);
}

void trap(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Grid& grid = *warp.grid;
  const bool lacks_workspace = grid.asked_workspace && !grid.request.cooperative;
  fail(warp, in, static_cast<std::uint32_t>(std::countr_zero(lanes)), Fault::Kind::kTrap,
       lacks_workspace ? "trap: a grid-wide barrier (grid.sync()) in an ordinary launch; launch the kernel by "
                         "cudaLaunchCooperativeKernel"
                       : "trap");
}

void not_implemented(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  fail(warp, in, static_cast<std::uint32_t>(std::countr_zero(lanes)), Fault::Kind::kUnsupported,
       warp.frame->function->names[in.extra]);
}

void pause(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  warp.yields = true;
  warp.event = true;
  note_poll(warp, in, lanes, 0, 0);
}

}  // namespace

void no_effect(Warp&, const Instruction&, std::uint32_t) {}

void decode_trap(Decoder& decoder, const std::string& why) {
  decoder.in.extra = static_cast<std::uint32_t>(decoder.function.names.size());
  decoder.function.names.push_back(why);
  for (const std::string_view modifier : decoder.statement->modifiers) decoder.take(modifier);
  decoder.in.run = not_implemented;
}

bool decode_control(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  if (opcode == "bra") {
    decoder.take("uni");
    decoder.expect_operands(1, 1);
    in.immediate = decoder.target(decoder.operand(0));
    in.flags |= kFlagBranch;
    in.run = branch;
  } else if (opcode == "brx") {
    if (!decoder.take("idx")) decoder.unsupported("this form");
    decoder.take("uni");
    decoder.expect_operands(2, 2);
    in.a = decoder.source(decoder.operand(0), Type::kU32);
    const auto table = decoder.body.table_of.find(decoder.target(decoder.operand(1)));
    if (table == decoder.body.table_of.end()) decoder.refuse("a label of .branchtargets is expected");
    in.extra = table->second;
    in.run = branch_by_index;
  } else if (opcode == "exit" || (opcode == "ret" && decoder.text.entry)) {
    decoder.take("uni");
    in.run = end_lanes;
  } else if (opcode == "trap") {
    in.run = trap;
  } else if (opcode == "nanosleep") {
    decoder.type();
    in.run = pause;
  } else if (opcode == "brkpt" || opcode == "pmevent") {
    decoder.take("mask");
    in.run = no_effect;
  } else {
    return false;
  }
  return true;
}

}  // namespace meshbed::sim::ptx
