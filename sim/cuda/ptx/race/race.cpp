#include "sim/cuda/ptx/race/race.h"

#include <algorithm>
#include <cstdio>

#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

std::string block_name(const Grid& grid, std::uint64_t index) {
  const auto& size = grid.request.grid;
  return "(" + std::to_string(index % size[0]) + "," + std::to_string(index / size[0] % size[1]) + "," +
         std::to_string(index / size[0] / size[1]) + ")";
}

}  // namespace

Races::Word& Races::word_at(std::uint64_t place) {
  const std::uint64_t page = place / (kPageWords * 4);
  if (page != last_page_) {
    last_ = &pages_[page];
    if (last_->empty()) last_->resize(kPageWords);
    last_page_ = page;
  }
  Word& word = (*last_)[place / 4 % kPageWords];
  if (word.epoch != epoch_) word = Word{.epoch = epoch_};
  return word;
}

void Races::tell(Warp& warp, const Instruction& in, std::uint32_t lane, bool write, std::uint32_t other,
                 std::uint32_t other_line, bool other_writes) {
  std::uint64_t addresses[kLanes];
  lane_addresses(warp, in, addresses);
  char address[24];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(addresses[lane]));
  const Grid& grid = *warp.grid;
  text_ = "kernel " + grid.request.kernel->name + ": blocks " + block_name(grid, other - 1) + " and " +
          block_name(grid, warp.block->index) + " race for " + address + ": the first " +
          (other_writes ? "writes" : "reads") + " there at PTX line " + std::to_string(other_line) + ", the second " +
          (write ? "writes" : "reads") + " at line " + std::to_string(in.line) +
          ", and nothing of the grid's orders them";
}

void Races::note(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write,
                 const Access& access) {
  if (!text_.empty() || access.space != Space::kGlobal) return;
  const auto own = static_cast<std::uint32_t>(warp.block->index + 1);
  each_active(lanes, [&](std::uint32_t lane) {
    const auto begin = reinterpret_cast<std::uint64_t>(access.of(lane, bytes));
    for (std::uint64_t place = begin; place < begin + bytes && text_.empty(); place = (place / 4 + 1) * 4) {
      Word& word = word_at(place);
      const std::uint64_t count = std::min<std::uint64_t>(begin + bytes, (place / 4 + 1) * 4) - place;
      const auto mask = static_cast<std::uint8_t>(((1U << count) - 1) << (place % 4));
      if (word.writer != 0 && word.writer != own && (word.written & mask) != 0)
        tell(warp, in, lane, write, word.writer, word.write_line, true);
      else if (write && word.reader != 0 && word.reader != own && (word.read & mask) != 0)
        tell(warp, in, lane, write, word.reader, word.read_line, false);
      if (write && (word.writer == 0 || word.writer == own)) {
        word.writer = own;
        word.write_line = in.line;
        word.written |= mask;
      }
      if (!write) {
        word.read = static_cast<std::uint8_t>(word.reader == own ? word.read | mask : mask);
        word.reader = own;
        word.read_line = in.line;
      }
    }
  });
}

void Races::note_atomic(const Grid& grid, const std::byte* at) {
  if (at < grid.workspace.data() || at >= grid.workspace.data() + grid.workspace.size()) return;
  // Cooperative groups: one thread of each block adds to a word of the grid's workspace, and waits for the others.
  if (++arrivals_ % grid.blocks == 0) ++epoch_;
}

}  // namespace meshbed::sim::ptx
