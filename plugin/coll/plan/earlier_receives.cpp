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

}  // namespace meshbed::coll
