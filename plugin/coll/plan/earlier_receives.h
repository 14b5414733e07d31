#pragma once
// Earlier receives: of each transfer of a schedule's round, the receives before it in the list that it shares elements
// with. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plugin/coll/plan/schedule.h"

namespace meshbed::coll {

class EarlierReceives {
 public:
  /// Of a round; no longer list than the one before allocates nothing. Cost: n log n, and what there is to find.
  void find(const std::vector<Transfer>& transfers);

  /// Whether all of them have digested what they share with `slice`, a part of the transfer. `digested`: by transfer,
  /// how far a receive has come, in elements.
  bool have_digested(std::size_t transfer, const Range& slice, const std::vector<Transfer>& transfers,
                     const std::vector<std::uint64_t>& digested) const;

  /// Their indices in the list.
  std::span<const std::uint32_t> of(std::size_t transfer) const {
    return {found_.data() + begin_[transfer], begin_[transfer + 1] - begin_[transfer]};
  }

 private:
  struct Receive {
    Range range;
    std::uint64_t reach = 0;  // the farthest end of this range and those that begin before it
    std::uint32_t index = 0;
  };
  std::vector<Receive> receives_;  // by their begin
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> found_;
};

}  // namespace meshbed::coll
