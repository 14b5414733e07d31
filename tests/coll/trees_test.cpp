// The binary trees by their own properties: the pair of Sanders, Speck, Traeff (2009) and the one under a root.
#include <doctest/doctest.h>

#include "plugin/coll/plan/schedule.h"

namespace trees_test {

using namespace meshbed::coll;

TEST_CASE("the two trees: each rank under one other, at most log2 n deep, and with children in one of the two") {
  for (int ranks = 2; ranks <= 300; ++ranks) {
    int branches = 0;
    for (int tree = 0; tree < 2; ++tree) {
      int tops = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const TreeNode node = paired_tree(tree, rank, ranks);
        for (const int child : {node.first, node.second}) {
          if (child >= 0) CHECK(paired_tree(tree, child, ranks).parent == rank);
        }
        CHECK((node.first >= 0 || node.second < 0));
        tops += node.parent < 0 ? 1 : 0;
        branches += node.first >= 0 ? 1 : 0;
        if (node.first >= 0 && ranks % 2 == 0) CHECK(paired_tree(1 - tree, rank, ranks).first < 0);
        int depth = 0;
        for (int above = node.parent; above >= 0; above = paired_tree(tree, above, ranks).parent) ++depth;
        CHECK((1 << depth) < 2 * ranks);
      }
      CHECK(tops == 1);
    }
    CHECK(branches == 2 * (ranks - ranks / 2));
  }
}

TEST_CASE("the rooted tree: each rank under one other, floor(log2 n) deep, the root above all") {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      for (int rank = 0; rank < ranks; ++rank) {
        const TreeNode node = rooted_tree(root, rank, ranks);
        for (const int child : {node.first, node.second}) {
          if (child >= 0) CHECK(rooted_tree(root, child, ranks).parent == rank);
        }
        int depth = 0, top = rank;
        for (; rooted_tree(root, top, ranks).parent >= 0; top = rooted_tree(root, top, ranks).parent) ++depth;
        CHECK(top == root);
        CHECK((1 << depth) <= ranks);
      }
    }
  }
}

}  // namespace trees_test
