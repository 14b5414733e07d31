#include "plugin/base/collective.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace collective_test {

using namespace meshbed;

TEST_CASE("each collective has one line, a number below their count, and names of its own") {
  std::set<int> numbers;
  std::set<std::string> names, calls, nccl_names, tuner_names;
  for (const CollectiveInfo& each : kCollectives) {
    numbers.insert(static_cast<int>(each.collective));
    names.insert(each.name);
    calls.insert(each.call);
    nccl_names.insert(each.nccl_name);
    tuner_names.insert(std::string(each.tuner_name));
    CHECK(&info_of(each.collective) == &each);
  }
  CHECK(*numbers.begin() == 0);
  CHECK(*numbers.rbegin() == kCollectiveCount - 1);
  for (const auto* each : {&names, &calls, &nccl_names, &tuner_names}) CHECK(each->size() == kCollectives.size());
  CHECK(numbers.size() == kCollectives.size());
}

TEST_CASE("which reduce, and which have a root") {
  std::string reducing, rooted;
  for (const CollectiveInfo& each : kCollectives) {
    if (reduces(each.collective)) reducing += std::string(name_of(each.collective)) + " ";
    if (has_root(each.collective)) rooted += std::string(name_of(each.collective)) + " ";
  }
  CHECK(reducing == "all_reduce reduce_scatter reduce ");
  CHECK(rooted == "broadcast reduce gather scatter ");
}

TEST_CASE("what a rank sends and receives, and which go in pairs") {
  std::string all_to_all, pairs, sends, receives, root_sends, root_receives;
  for (const CollectiveInfo& each : kCollectives) {
    const std::string name = std::string(each.name) + " ";
    if (is_all_to_all(each.collective)) all_to_all += name;
    if (each.pattern == CollectivePattern::kPairs) pairs += name;
    if (has_shares(each.sends)) sends += name;
    if (has_shares(each.receives)) receives += name;
    if (is_of_root(each.sends)) root_sends += name;
    if (is_of_root(each.receives)) root_receives += name;
    CHECK(has_root(each.collective) == (is_of_root(each.sends) || is_of_root(each.receives)));
  }
  CHECK(all_to_all == "alltoall ");
  CHECK(pairs == "alltoall gather scatter ");
  CHECK(sends == "reduce_scatter alltoall scatter ");
  CHECK(receives == "all_gather alltoall gather ");
  CHECK(root_sends == "broadcast scatter ");
  CHECK(root_receives == "reduce gather ");
}

}  // namespace collective_test
