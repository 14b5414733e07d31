#pragma once
// Axes: a world of ranks as a grid with named axes, and the groups along them. Pure values.
//
// Ranks stand in row-major order, the last axis fastest: in "dp=2,pp=2,tp=2" rank r is (r / 4, r / 2 % 2, r % 2). A
// group over some axes holds the ranks that differ along these alone, in row-major order too; over all of them it is
// the whole grid, over none each rank alone. A world of several times the grid's ranks leaves all but the first grid's
// to spare: they belong to no group.

#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::coll {

struct Axis {
  std::string name;
  int size = 1;
};

class Grid {
 public:
  /// "dp=2,pp=2,tp=2"; kInvalidArgument names what is wrong: no such form, a name twice, a size below 1, a world that
  /// is no multiple of the grid.
  static Result<Grid> parse(std::string_view text, int world);

  int ranks() const { return ranks_; }
  bool is_spare(int rank) const { return rank >= ranks_; }
  /// The group of `rank` over these axes ("tp", "dp,tp", in any order; empty: none), in row-major order. Empty for a
  /// spare rank. kInvalidArgument: an axis that there is not, or twice.
  Result<std::vector<int>> group_of(int rank, std::string_view axes) const;

 private:
  std::vector<Axis> axes_;
  int ranks_ = 1;
};

}  // namespace meshbed::coll
