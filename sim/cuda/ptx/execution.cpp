// One grid: blocks become resident, their warps take turns, and what comes of it.
#include <algorithm>
#include <map>
#include <utility>

#include "sim/cuda/ptx/cluster/cluster.h"
#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/machine.h"
#include "sim/cuda/ptx/race/race.h"
#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

namespace {

constexpr std::uint64_t kTurn = 1024;  // warp instructions of a warp's turn
constexpr std::uint32_t kMostThreads = 1024;
constexpr std::uint32_t kMostBlocks[] = {0x7fffffff, 65535, 65535};  // along each axis
constexpr std::uint32_t kMostShared = 227U * 1024U;
constexpr std::uint32_t kMostClusterBlocks = 16;
constexpr std::uint32_t kSharedAlignment = 128;
// What a grid keeps for the next one, and how many are kept: enough for what small kernels need.
constexpr std::size_t kSpareBytes = 128U * 1024U, kSpareGrids = 8;

Error refused(const LaunchRequest& request, const std::string& why) {
  return {.code = ErrorCode::kInvalidArgument, .text = "kernel " + request.kernel->name + ": " + why};
}

void start_block(Grid& grid, Block& block, std::uint64_t index) {
  block.index = index;
  block.at = clustered_position(grid.request, index);
  block.live = grid.threads;
  block.shared.assign(rounded_up(grid.shared_bytes, kSharedAlignment) + kReservedBytes, std::byte{0});
  for (std::uint32_t rest = std::exchange(block.waited_at, 0); rest != 0; rest &= rest - 1) {
    block.barriers[static_cast<std::size_t>(std::countr_zero(rest))] = {};
  }
  block.warps.resize(grid.warps);
  for (std::uint32_t at = 0; at < grid.warps; ++at) {
    if (block.warps[at] == nullptr) block.warps[at] = std::make_unique<Warp>();
    block.warps[at]->begin(grid, block, at, std::min(kLanes, grid.threads - at * kLanes));
  }
}

/// A block's memory for that slot.
Block& take_block(Grid& grid, std::size_t slot) {
  auto& block = grid.resident[slot];
  if (block == nullptr && !grid.free_blocks.empty()) {
    block = std::move(grid.free_blocks.back());
    grid.free_blocks.pop_back();
  }
  if (block == nullptr) block = std::make_unique<Block>();
  block->slot = static_cast<std::uint32_t>(slot);
  block->cluster.clear();
  return *block;
}

/// As block_at: the blocks of a cluster begin together, where the last of those before them has ended.
Block* clustered_block_at(Grid& grid, std::size_t slot) {
  const std::size_t first = slot / grid.cluster_blocks * grid.cluster_blocks, end = first + grid.cluster_blocks;
  for (std::size_t at = first; at < end; ++at) {
    // One that has ended stays: its shared memory is the cluster's.
    if (grid.resident[at] != nullptr && grid.resident[at]->live > 0) return nullptr;
  }
  if (grid.next_block >= grid.blocks) {
    for (std::size_t at = first; at < end; ++at) {
      if (grid.resident[at] != nullptr) grid.free_blocks.push_back(std::move(grid.resident[at]));
    }
    return nullptr;
  }
  std::vector<Block*> cluster;
  for (std::size_t at = first; at < end; ++at) cluster.push_back(&take_block(grid, at));
  for (Block* block : cluster) {
    block->cluster = cluster;
    start_block(grid, *block, grid.next_block++);
  }
  return grid.resident[slot].get();
}

/// The block at that slot, or the next one there where it has ended or none was; nullptr: none is left.
Block* block_at(Grid& grid, std::size_t slot) {
  auto& block = grid.resident[slot];
  if (block != nullptr && block->live > 0) return block.get();
  if (grid.cluster_blocks > 1) return clustered_block_at(grid, slot);
  if (grid.next_block >= grid.blocks) {
    if (block != nullptr) grid.free_blocks.push_back(std::move(block));
    return nullptr;
  }
  start_block(grid, take_block(grid, slot), grid.next_block++);
  return block.get();
}

bool all_wait(const Block& block) {
  return std::all_of(block.warps.begin(), block.warps.end(), [](const auto& warp) { return warp->runnable() == 0; });
}

bool any_runs(const Block& block) {
  return std::any_of(block.warps.begin(), block.warps.end(),
                     [](const auto& warp) { return warp->runnable() != 0 && !warp->spins() && !warp->waits_far; });
}

bool any_lives(const Grid& grid) {
  return std::any_of(grid.resident.begin(), grid.resident.end(),
                     [](const auto& block) { return block != nullptr && block->live > 0; });
}

/// A block of which every thread waits for one that never comes.
void name_deadlock(Grid& grid, Block& block) {
  bool at_barrier = true;
  std::map<std::string, std::uint32_t> where;
  Warp* first = nullptr;
  for (const auto& warp : block.warps) {
    if (warp->alive != 0 && first == nullptr) first = warp.get();
    each_active(warp->alive, [&](std::uint32_t lane) {
      const bool exchange = (warp->warp_waiting >> lane & 1U) != 0;
      if (exchange) at_barrier = false;
      const std::string what = exchange ? "an exchange of its warp"
                               : warp->barrier[lane] == kClusterBarrier
                                   ? "the cluster's barrier"
                                   : "barrier " + std::to_string(warp->barrier[lane]);
      ++where["line " + std::to_string(warp->barrier_at[lane]->line) + " (" + what + ")"];
    });
  }
  std::string text = "a barrier that not all reach: ";
  bool begun = false;
  for (const auto& [place, count] : where) {
    text += (begun ? ", " : "") + std::to_string(count) + " threads wait at " + place;
    begun = true;
  }
  const std::uint32_t ended = grid.threads - block.live;
  if (ended > 0) text += ", " + std::to_string(ended) + " have ended";
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(first->alive));
  fail(*first, *first->barrier_at[lane], lane, at_barrier ? Fault::Kind::kBarrier : Fault::Kind::kDeadlock, text);
}

}  // namespace

void Grid::clear() {
  std::size_t bytes = 0;
  const auto keeps = [&bytes](std::size_t more) {
    bytes += more;
    return bytes <= kSpareBytes;
  };
  for (auto& block : resident) {
    if (block != nullptr) free_blocks.push_back(std::move(block));
  }
  resident.clear();
  std::erase_if(free_blocks, [&](const auto& block) {
    std::size_t its = sizeof(Block) + block->shared.capacity();
    for (const auto& warp : block->warps) {
      its += sizeof(Warp) + warp->local.capacity();
      for (auto& frame : warp->frames) free_frames.push_back(std::move(frame));
      warp->frames.clear();
    }
    return !keeps(its);
  });
  std::erase_if(free_frames, [&](const auto& frame) { return !keeps(sizeof(Frame) + frame->capacity); });
  static_cast<GridState&>(*this) = {};
  request.module.reset();
  own_pools.clear();
  fault.reset();
  races.reset();
  printed.clear();
}

SpareGrids::SpareGrids() = default;
SpareGrids::~SpareGrids() = default;

Execution::Execution(std::unique_ptr<Grid> grid) : grid_(std::move(grid)) {}

Execution::~Execution() {
  if (!grid_->printed.empty() && grid_->request.print) grid_->request.print(grid_->printed);
  SpareGrids* const spares = grid_->request.spares;
  if (spares == nullptr || spares->grids_.size() >= kSpareGrids) return;
  grid_->clear();
  spares->grids_.push_back(std::move(grid_));
}

Result<std::unique_ptr<Execution>> Execution::start(LaunchRequest&& request, Memory& memory) {
  const KernelInfo& info = *request.kernel;
  std::uint64_t threads = 1, blocks = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (request.grid[axis] == 0 || request.block[axis] == 0) return refused(request, "a dimension of 0");
    threads = std::min<std::uint64_t>(threads * request.block[axis], std::uint64_t{1} << 32U);
    if (request.grid[axis] > kMostBlocks[axis]) {
      return refused(request, "a grid of " + std::to_string(request.grid[axis]) + " blocks along axis " + "xyz"[axis] +
                                  ", where " + std::to_string(kMostBlocks[axis]) + " are allowed");
    }
    blocks *= request.grid[axis];
    if (request.cluster[axis] == 0 || request.grid[axis] % request.cluster[axis] != 0) {
      return refused(request, "a grid of " + std::to_string(request.grid[axis]) + " blocks along axis " + "xyz"[axis] +
                                  " in clusters of " + std::to_string(request.cluster[axis]));
    }
  }
  if (cluster_blocks(request.cluster) > kMostClusterBlocks)
    return refused(request, "a cluster of more than " + std::to_string(kMostClusterBlocks) + " blocks");
  if (threads > kMostThreads || threads > info.max_threads) {
    return refused(request, std::to_string(threads) + " threads a block, where " +
                                std::to_string(std::min(kMostThreads, info.max_threads)) + " are allowed");
  }
  if (info.required_block[0] != 0 && info.required_block != request.block)
    return refused(request, "its .reqntid asks for another block");
  if (std::uint64_t{info.static_shared_bytes} + request.dynamic_shared_bytes > kMostShared) {
    return refused(request, "more shared memory than a block may have (" + std::to_string(kMostShared) + " bytes)");
  }
  if (request.parameters.size() < info.parameter_bytes) {
    return refused(request, std::to_string(request.parameters.size()) + " bytes of parameters of " +
                                std::to_string(info.parameter_bytes));
  }
  std::unique_ptr<Grid> grid;
  if (request.spares != nullptr && !request.spares->grids_.empty()) {
    grid = std::move(request.spares->grids_.back());
    request.spares->grids_.pop_back();
  } else {
    grid = std::make_unique<Grid>();
  }
  grid->memory = &memory;
  grid->program = &request.module->program();
  grid->kernel = &grid->program->kernels[static_cast<std::size_t>(request.kernel - grid->program->kernel_infos.data())];
  grid->blocks = blocks;
  grid->threads = static_cast<std::uint32_t>(threads);
  grid->warps = rounded_up(grid->threads, kLanes) / kLanes;
  if (ready_function(*grid->program, grid->kernel->function) == nullptr) return refused(request, "that cannot be read");
  grid->shared_bytes = info.static_shared_bytes + request.dynamic_shared_bytes;
  grid->workspace[0] = std::byte{8};  // its first word: bytes that it has
  grid->pools.assign(grid->program->functions.size(), nullptr);
  grid->cluster_blocks = cluster_blocks(request.cluster);
  const std::uint64_t clusters = std::max<std::uint64_t>(request.resident_blocks / grid->cluster_blocks, 1);
  grid->resident.resize(static_cast<std::size_t>(std::min(clusters * grid->cluster_blocks, blocks)));
  grid->shuffled = request.seed != 0;
  if (grid->shuffled) grid->prng = Prng(request.seed);
  if (request.check_races) grid->races = std::make_shared<Races>();
  grid->request = std::move(request);
  return std::unique_ptr<Execution>(new Execution(std::move(grid)));
}

Execution::State Execution::step(std::uint64_t lane_instructions) {
  Grid& grid = *grid_;
  const std::uint64_t until = grid.counts.lane_instructions + lane_instructions;
  // What a warp saw before does not count: others may have written since.
  grid.step_began = ++grid.changes;
  grid.step_news = grid.news;
  Round& round = grid.round;
  while (!grid.fault) {
    if (round.at == round.blocks) {
      if (grid.next_block >= grid.blocks) std::erase(grid.resident, nullptr);
      if (grid.resident.empty()) break;
      round = {.blocks = grid.resident.size()};
      if (grid.shuffled) round.first = grid.prng.below(round.blocks);
    }
    while (round.at < round.blocks && !grid.fault) {
      Block* found = block_at(grid, (round.first + round.at++) % round.blocks);
      if (found == nullptr) continue;
      Block& block = *found;
      const std::size_t warps = block.warps.size();
      const std::uint64_t changes = grid.changes;
      const std::size_t first = grid.shuffled ? grid.prng.below(warps) : 0;
      for (std::size_t index = 0; index < warps && !grid.fault; ++index) {
        Warp& warp = *block.warps[(first + index) % warps];
        if (warp.alive == 0) continue;
        run_warp(warp, grid.shuffled ? 1 + grid.prng.below(kTurn) : kTurn);
      }
      if (grid.fault) break;
      if (block.live > 0 && all_wait(block) && !awaits_cluster(block)) name_deadlock(grid, block);
      // What a block changes before it waits may let others of its cluster go on that have had their turn.
      const bool has_changed = grid.cluster_blocks > 1 && grid.changes != changes;
      if (block.live == 0 || has_changed || any_runs(block)) round.progress = true;
      // The next step goes on where this one ends: a grid of many blocks that poll would else never come to its last.
      if (grid.counts.lane_instructions >= until && round.at < round.blocks) {
        return grid.fault ? State::kFault : State::kRunning;
      }
    }
    if (grid.fault) break;
    if (!round.progress && any_lives(grid)) return next_ps() >= 0 ? State::kFar : State::kSpinning;
    if (grid.counts.lane_instructions >= until) return State::kRunning;
  }
  if (!grid.printed.empty() && grid.request.print) {
    grid.request.print(grid.printed);
    grid.printed.clear();
  }
  return grid.fault ? State::kFault : State::kFinished;
}

bool Execution::has_blocks_to_begin() const { return grid_->next_block < grid_->blocks; }

std::uint64_t Execution::resident_blocks() const { return grid_->request.resident_blocks; }

bool Execution::progresses() const { return grid_->round.progress; }
std::int64_t Execution::next_ps() const {
  std::int64_t next = -1;
  for (const auto& block : grid_->resident) {
    if (block == nullptr) continue;
    for (const auto& warp : block->warps) {
      if (warp->alive == 0 || !warp->waits_far) continue;
      if (next < 0 || warp->far_until_ps < next) next = warp->far_until_ps;
    }
  }
  return next;
}

bool Execution::moved() const { return grid_->changes != grid_->step_began; }

bool Execution::saw_news() const { return grid_->news != grid_->step_news; }
void Execution::others_acted() { ++grid_->far_round; }

bool Execution::idled(bool forget) {
  if (moved() || saw_news()) return false;
  for (const auto& block : grid_->resident) {
    if (block == nullptr) continue;
    for (const auto& warp : block->warps) {
      if (warp->runnable() != 0 && !warp->spins() && !warp->idles_far()) return false;
      if (warp->alive != 0 && warp->has_stale_word(forget)) return false;
    }
  }
  return true;
}

const std::optional<Fault>& Execution::fault() const { return grid_->fault; }
const Counts& Execution::counts() const { return grid_->counts; }
const std::string& Execution::race() const {
  static const std::string kNone;
  return grid_->races != nullptr ? grid_->races->text() : kNone;
}

std::string Execution::waiting() const {
  std::map<std::string, std::uint64_t> where;
  for (const auto& block : grid_->resident) {
    if (block == nullptr) continue;
    for (const auto& warp : block->warps) {
      each_active(warp->alive, [&](std::uint32_t lane) {
        const bool waits = ((warp->barrier_waiting | warp->warp_waiting) >> lane & 1U) != 0;
        const auto& code = warp->lane_frame[lane]->function->code;
        const std::uint32_t line = waits ? warp->barrier_at[lane]->line
                                         : code[std::min<std::size_t>(warp->lane_position[lane], code.size() - 1)].line;
        ++where[std::string(waits ? "wait at line " : "run at line ") + std::to_string(line) + " of " +
                warp->lane_frame[lane]->function->name];
      });
    }
  }
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [place, count] : where) order.emplace_back(count, place);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& left, const auto& right) { return left.first > right.first; });
  std::string text = "kernel " + grid_->request.kernel->name + ": ";
  for (std::size_t at = 0; at < order.size() && at < 4; ++at) {
    text += (at > 0 ? ", " : "") + std::to_string(order[at].first) + " threads " + order[at].second;
  }
  if (order.size() > 4) text += " and at " + std::to_string(order.size() - 4) + " more places";
  const std::uint64_t left = grid_->blocks - grid_->next_block;
  if (left > 0)
    text += "; " + std::to_string(left) + " blocks have not begun, because only " +
            std::to_string(grid_->request.resident_blocks) + " fit";
  return text;
}

std::vector<Execution::PolledWord> Execution::polled_words(std::size_t most) const {
  std::vector<PolledWord> words;
  for (const auto& block : grid_->resident) {
    if (block == nullptr) continue;
    for (const auto& warp : block->warps) {
      if (warp->alive == 0) continue;
      for (const FarWord& word : warp->far_words) {
        if (word.look + kFarWords < warp->far_looks) continue;  // its loop no longer looks there
        const bool is_known =
            std::any_of(words.begin(), words.end(), [&](const PolledWord& one) { return one.address == word.address; });
        if (is_known) continue;
        if (words.size() == most) return words;
        words.push_back({word.address, word.bytes, word.value});
      }
    }
  }
  return words;
}

}  // namespace meshbed::sim::ptx
