#pragma once
// Data races between blocks: two blocks that touch the same bytes of global memory, one of which writes, with no
// grid-wide barrier between. Searched for on request only, because it keeps the last block that accessed each word.
//
// It does not find a race within a block or one between kernels. It does not recognise order by a flag or a counter of
// the program's own; so accesses by atomics, volatile ones and those with an order (relaxed, acquire, release) do not
// count. Of the readers of a word the last one is kept, of different bytes of a word the first writer.
//
// Cost: 28 bytes for each word of the pages (of 4 KiB) that a kernel touches, and a look at it for each access.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/cuda/ptx/access.h"

namespace meshbed::sim::ptx {

class Races {
 public:
  /// The accesses of these lanes, before they take place.
  void note(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write,
            const Access& access);
  /// An atomic at this place: where it is a cooperative grid's barrier, and all blocks have come, what was is over.
  void note_atomic(const Grid& grid, const std::byte* at);
  /// The first race, in one line; empty: none was seen.
  const std::string& text() const { return text_; }

 private:
  struct Word {
    std::uint32_t epoch = 0;                                              // whose the rest is
    std::uint32_t writer = 0, write_line = 0, reader = 0, read_line = 0;  // blocks: 1 more than their index; 0: none
    std::uint8_t written = 0, read = 0;                                   // which of its bytes
  };
  static constexpr std::uint64_t kPageWords = 1024;

  Word& word_at(std::uint64_t place);
  void tell(Warp& warp, const Instruction& in, std::uint32_t lane, bool write, std::uint32_t other,
            std::uint32_t other_line, bool other_writes);

  std::unordered_map<std::uint64_t, std::vector<Word>> pages_;  // by host address / 4 KiB
  std::uint64_t last_page_ = ~std::uint64_t{0};
  std::vector<Word>* last_ = nullptr;
  std::uint32_t epoch_ = 1;
  std::uint64_t arrivals_ = 0;
  std::string text_;
};

}  // namespace meshbed::sim::ptx
