// Frames: entering a function, leaving it, and the end of lanes.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

namespace {

constexpr std::uint32_t kMostLocalBytes = 512U * 1024U;  // of a thread, as hardware has it
constexpr std::uint32_t kDeepest = 20000;

/// Grows every lane's local memory to hold so many bytes. Addresses there are offsets, so nothing else moves.
bool hold_local(Warp& warp, std::uint64_t bytes) {
  if (bytes <= warp.local_stride) return true;
  if (bytes > kMostLocalBytes) return false;
  const auto stride = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::max<std::uint64_t>(bytes, std::uint64_t{warp.local_stride} * 2), kMostLocalBytes));
  if (warp.local_stride == 0) {
    warp.local.assign(std::size_t{stride} * kLanes, std::byte{0});
  } else {
    std::vector<std::byte> larger(std::size_t{stride} * kLanes);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      std::memcpy(larger.data() + std::size_t{lane} * stride, warp.local.data() + std::size_t{lane} * warp.local_stride,
                  warp.local_stride);
    }
    warp.local = std::move(larger);
  }
  warp.local_stride = stride;
  return true;
}

}  // namespace

const std::byte* Grid::pool_of(const Function& function) {
  const std::byte*& pool = pools[function.index];
  if (pool != nullptr) return pool;
  if (function.addresses.empty()) return pool = function.pool.data();
  auto own = std::make_unique<std::byte[]>(function.pool.size() + 1);
  std::memcpy(own.get(), function.pool.data(), function.pool.size());
  for (const PoolAddress& one : function.addresses) {
    const std::uint64_t value =
        address_of(*program, kernel, *one.symbol, request.variable_addresses) + static_cast<std::uint64_t>(one.addend);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) write_lane(own.get() + one.place, one.bytes, lane, value);
  }
  own_pools.push_back(std::move(own));
  return pool = own_pools.back().get();
}

Frame* enter_frame(Warp& warp, const Function& function, Frame* parent, std::uint32_t lanes) {
  // Lanes that call the same function from the same frame share a frame, whenever they come: so they meet again in it.
  for (Frame* frame = parent != nullptr ? parent->child : nullptr; frame != nullptr; frame = frame->sibling) {
    if (frame->function != &function) continue;
    frame->lanes |= lanes;
    return frame;
  }
  const std::uint32_t local = parent == nullptr ? 0 : parent->local_base + parent->function->local_bytes;
  const std::uint32_t depth = parent == nullptr ? 0 : parent->depth + 1;
  if (depth > kDeepest || !hold_local(warp, std::uint64_t{local} + function.local_bytes)) return nullptr;
  std::unique_ptr<Frame> made;
  auto& free = warp.grid->free_frames;
  for (std::size_t at = free.size(); at > 0 && free.size() - at < 8; --at) {
    if (free[at - 1]->capacity < function.frame_bytes) continue;
    made = std::move(free[at - 1]);
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(at - 1));
    break;
  }
  if (made == nullptr) {
    made = std::make_unique<Frame>();
    made->registers = std::make_unique<std::byte[]>(function.frame_bytes + 64);
    made->capacity = function.frame_bytes;
  }
  // What is read before it is written is unspecified; here it is 0 in each run.
  std::memset(made->registers.get(), 0, function.frame_bytes);
  made->function = &function;
  made->parent = parent;
  made->child = nullptr;
  made->sibling = parent != nullptr ? parent->child : nullptr;
  if (parent != nullptr) parent->child = made.get();
  made->pool = warp.grid->pool_of(function);
  made->local_base = local;
  made->depth = depth;
  made->lanes = lanes;
  warp.frames.push_back(std::move(made));
  return warp.frames.back().get();
}

void leave_frame(Warp& warp, Frame* frame, std::uint32_t lanes) {
  frame->lanes &= ~lanes;
  if (frame->lanes != 0) return;
  if (frame->parent != nullptr) {
    Frame** link = &frame->parent->child;
    while (*link != frame) link = &(*link)->sibling;
    *link = frame->sibling;
  }
  // What was entered last is left first: it stands at the end, however deep the calls are.
  const auto behind =
      std::find_if(warp.frames.rbegin(), warp.frames.rend(), [&](const auto& one) { return one.get() == frame; });
  const auto at = std::prev(behind.base());
  if (warp.grid->free_frames.size() < 64) warp.grid->free_frames.push_back(std::move(*at));
  warp.frames.erase(at);
}

void exit_lanes(Warp& warp, std::uint32_t lanes) {
  warp.alive &= ~lanes;
  warp.idle |= lanes;
  warp.block->live -= count_lanes(lanes);
  ++warp.grid->changes;
  for (std::uint32_t rest = lanes; rest != 0;) {
    Frame* frame = warp.lane_frame[static_cast<std::uint32_t>(std::countr_zero(rest))];
    std::uint32_t together = 0;
    each_active(rest, [&](std::uint32_t lane) {
      if (warp.lane_frame[lane] != frame) return;
      together |= 1U << lane;
      warp.lane_frame[lane] = nullptr;
    });
    rest &= ~together;
    while (frame != nullptr) {
      Frame* parent = frame->parent;
      leave_frame(warp, frame, together);
      frame = parent;
    }
  }
}

}  // namespace meshbed::sim::ptx
