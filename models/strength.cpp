#include "models/strength.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace meshbed::models {
namespace {

class Parting {
 public:
  Parting(int nodes, const std::vector<int>& rates)
      : nodes_(nodes), rates_(rates), group_of_(static_cast<std::size_t>(nodes)) {}

  double least() {
    place(0, 0, 0);
    return least_;
  }

 private:
  /// Each way for the nodes from `node` on; those before are in `groups` groups, with `between` crossing.
  void place(int node, int groups, double between) {
    if (node == nodes_) {
      if (groups > 1) least_ = std::min(least_, between / (groups - 1));
      return;
    }
    for (int group = 0; group <= groups; ++group) {
      double more = 0;
      for (int other = 0; other < node; ++other) {
        if (group_of_[static_cast<std::size_t>(other)] == group) continue;
        more += rates_[static_cast<std::size_t>(other * nodes_ + node)];
      }
      group_of_[static_cast<std::size_t>(node)] = group;
      place(node + 1, std::max(groups, group + 1), between + more);
    }
  }

  const int nodes_;
  const std::vector<int>& rates_;
  std::vector<int> group_of_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

double strength(int nodes, const std::vector<int>& rates) { return Parting(nodes, rates).least(); }

}  // namespace meshbed::models
