#include "plugin/coll/plan/axes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace axes_test {

using namespace meshbed;
using namespace meshbed::coll;

namespace {

std::vector<int> group(const char* mesh, int world, int rank, const char* axes) {
  return Grid::parse(mesh, world).value().group_of(rank, axes).value();
}

std::string refused(const char* mesh, int world) {
  const auto grid = Grid::parse(mesh, world);
  REQUIRE_FALSE(grid.has_value());
  CHECK(grid.error().code == ErrorCode::kInvalidArgument);
  return grid.error().text;
}

}  // namespace

TEST_CASE("groups along the axes of dp=2,pp=2,tp=2: row-major, tp fastest") {
  const char* mesh = "dp=2,pp=2,tp=2";
  CHECK(group(mesh, 8, 5, "tp") == std::vector<int>{4, 5});
  CHECK(group(mesh, 8, 5, "pp") == std::vector<int>{5, 7});
  CHECK(group(mesh, 8, 5, "dp") == std::vector<int>{1, 5});
  CHECK(group(mesh, 8, 5, "dp,tp") == std::vector<int>{0, 1, 4, 5});
  CHECK(group(mesh, 8, 5, "tp,dp") == std::vector<int>{0, 1, 4, 5});
  CHECK(group(mesh, 8, 5, "pp,tp") == std::vector<int>{4, 5, 6, 7});
  CHECK(group(mesh, 8, 5, "dp,pp,tp") == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(group(mesh, 8, 5, "") == std::vector<int>{5});
  CHECK(group("", 1, 0, "") == std::vector<int>{0});
}

TEST_CASE("every product of axes parts the grid: each rank is in one group, and all members name the same one") {
  for (const auto& [mesh, ranks] : {std::pair("a=2,b=3,c=4", 24), std::pair("a=1,b=5", 5), std::pair("a=7", 7)}) {
    const std::string text = mesh;
    std::vector<std::string> names;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] >= 'a' && text[at] <= 'z') names.emplace_back(1, text[at]);
    }
    for (unsigned chosen = 0; chosen < 1U << names.size(); ++chosen) {
      std::string axes;
      for (std::size_t index = 0; index < names.size(); ++index) {
        if ((chosen >> index & 1U) != 0) axes += (axes.empty() ? "" : ",") + names[index];
      }
      std::set<std::vector<int>> groups;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> members = group(mesh, ranks, rank, axes.c_str());
        CHECK(std::count(members.begin(), members.end(), rank) == 1);
        CHECK(std::is_sorted(members.begin(), members.end()));
        groups.insert(members);
      }
      std::size_t total = 0;
      for (const auto& members : groups) total += members.size();
      CHECK(total == static_cast<std::size_t>(ranks));
    }
  }
}

TEST_CASE("a world of several grids leaves the others' ranks to spare; any other world is refused") {
  const auto grid = Grid::parse("tp=4", 12);
  REQUIRE(grid.has_value());
  CHECK(grid->ranks() == 4);
  CHECK_FALSE(grid->is_spare(3));
  CHECK(grid->is_spare(4));
  CHECK(grid->group_of(11, "tp").value().empty());
  CHECK(refused("tp=4", 10) == "mesh \"tp=4\" has 4 ranks, of which the world's 10 are no multiple");
  CHECK(refused("dp=3,tp=4", 8) == "mesh \"dp=3,tp=4\" has more ranks than the world's 8");
  CHECK(refused("a=2147483647,b=2147483647", 8) ==
        "mesh \"a=2147483647,b=2147483647\" has more ranks than the world's 8");
}

TEST_CASE("what is no mesh, and no axis of it, is said") {
  CHECK(refused("tp", 8) == "mesh \"tp\": \"tp\" is not of the form name=size, as in \"dp=2,tp=4\"");
  CHECK(refused("=2", 8) == "mesh \"=2\": \"=2\" is not of the form name=size, as in \"dp=2,tp=4\"");
  CHECK(refused("dp=2,,tp=2", 8) == "mesh \"dp=2,,tp=2\": \"\" is not of the form name=size, as in \"dp=2,tp=4\"");
  CHECK(refused("tp=0", 8) == "mesh \"tp=0\": the size of tp is \"0\", not 1 or more");
  CHECK(refused("tp=two", 8) == "mesh \"tp=two\": the size of tp is \"two\", not 1 or more");
  CHECK(refused("tp=2,tp=2", 8) == "mesh \"tp=2,tp=2\" has two axes called tp");
  const auto grid = Grid::parse("dp=2,tp=4", 8).value();
  CHECK(grid.group_of(0, "pp").error().text == "there is no axis \"pp\"; the mesh has dp, tp");
  CHECK(grid.group_of(0, "tp,tp").error().text == "axis tp is given twice");
}

}  // namespace axes_test
