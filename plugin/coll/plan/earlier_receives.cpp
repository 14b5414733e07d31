#include "plugin/coll/plan/earlier_receives.h"

#include <algorithm>
#include <iterator>

namespace meshbed::coll {

void EarlierReceives::find(const std::vector<Transfer>& transfers) {
  receives_.clear();
  begin_.clear();
  found_.clear();
  for (std::size_t index = 0; index < transfers.size(); ++index) {
    const Transfer& transfer = transfers[index];
    if (transfer.receives && transfer.range.count > 0) {
      receives_.push_back({.range = transfer.range, .index = static_cast<std::uint32_t>(index)});
    }
  }
  std::sort(receives_.begin(), receives_.end(), [](const Receive& left, const Receive& right) {
    return left.range.begin != right.range.begin ? left.range.begin < right.range.begin : left.index < right.index;
  });
  std::uint64_t reach = 0;
  for (Receive& each : receives_) each.reach = reach = std::max(reach, end_of(each.range));
  for (std::size_t index = 0; index < transfers.size(); ++index) {
    begin_.push_back(found_.size());
    const Range& range = transfers[index].range;
    const auto behind = std::partition_point(receives_.begin(), receives_.end(),
                                             [&](const Receive& each) { return each.range.begin < end_of(range); });
    for (auto each = std::make_reverse_iterator(behind); each != receives_.rend() && each->reach > range.begin;
         ++each) {
      if (each->index < index && end_of(each->range) > range.begin) found_.push_back(each->index);
    }
  }
  begin_.push_back(found_.size());
}

bool EarlierReceives::have_digested(std::size_t transfer, const Range& slice, const std::vector<Transfer>& transfers,
                                    const std::vector<std::uint64_t>& digested) const {
  const std::span<const std::uint32_t> all = of(transfer);
  return std::all_of(all.begin(), all.end(), [&](std::uint32_t earlier) {
    const Range& other = transfers[earlier].range;
    const bool shares = slice.begin < end_of(other) && other.begin < end_of(slice);
    return !shares || digested[earlier] >= std::min(end_of(slice), end_of(other));
  });
}

}  // namespace meshbed::coll
