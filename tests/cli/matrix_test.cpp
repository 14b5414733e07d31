// A matrix of the engine, thinned: which cases are drawn.
#include "testbed/workload/matrix.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "testbed/workload/pattern.h"

namespace matrix_test {

using namespace meshbed::testbed;
using namespace meshbed;

namespace {

constexpr std::uint64_t kLargest = 65536;
constexpr int kRanks = 4;

std::vector<std::string> texts(std::uint64_t seed, int cases) {
  std::vector<std::string> texts;
  for (const MatrixCase& each : matrix_cases(seed, cases, kRanks, kLargest)) texts.push_back(each.text());
  return texts;
}

}  // namespace

TEST_CASE("200 cases: as many of each collective, no two alike, by the seed alone") {
  const std::vector<std::string> drawn = texts(1, 200);
  CHECK(drawn.size() == 200);
  CHECK(std::set<std::string>(drawn.begin(), drawn.end()).size() == 200);
  CHECK(texts(1, 200) == drawn);
  CHECK(texts(2, 200) != drawn);
  std::map<std::string, int> of_collective;
  for (const std::string& text : drawn) ++of_collective[text.substr(0, text.find(' '))];
  CHECK(of_collective.size() == models::collective_names().size());
  for (const auto& [name, cases] : of_collective) CHECK_MESSAGE((cases == 22 || cases == 23), name, " has ", cases);
}

TEST_CASE("200 cases have every element type, reduction, algorithm, protocol, root and size among them") {
  std::set<std::string> types, reductions, algorithms, protocols;
  std::set<int> roots, places;
  std::set<std::uint64_t> counts;
  for (const MatrixCase& each : matrix_cases(1, 200, kRanks, kLargest)) {
    const CollectiveCase& wanted = each.collective;
    types.insert(coll::name_of(wanted.type));
    if (models::reduces(wanted.op)) reductions.insert(coll::name_of(wanted.reduction));
    if (models::has_root(wanted.op)) roots.insert(wanted.root);
    if (wanted.op == models::Collective::kSendRecv) CHECK_MESSAGE(wanted.shift % kRanks != 0, each.text());
    algorithms.insert(each.algorithm);
    protocols.insert(each.protocol);
    places.insert(wanted.in_place ? 1 : 0);
    counts.insert(*wanted.count);
    CHECK_MESSAGE(shape_of(wanted, kRanks).bytes <= kLargest, each.text());
  }
  CHECK(types.size() == coll::kDataTypes);
  CHECK(reductions.size() == coll::kReduceOps);
  CHECK(algorithms == std::set<std::string>{"ring", "tree", "halving-doubling", "direct", "mesh", "torus"});
  CHECK(protocols == std::set<std::string>{"simple", "ll", "ll128"});
  CHECK(roots.size() == kRanks);
  CHECK(places.size() == 2);
  for (const std::uint64_t count : {0, 1, 7, 1009}) CHECK_MESSAGE(counts.count(count) == 1, count);
}

TEST_CASE("where there are no more cases, there are fewer; one rank alone has some as well") {
  const auto all = matrix_cases(1, 100000, 2, 64);
  CHECK(all.size() > 1000);
  CHECK(all.size() < 100000);
  CHECK(matrix_cases(2, 100000, 2, 64).size() == all.size());
  CHECK(matrix_cases(1, 50, 1, kLargest).size() == 50);
}

TEST_CASE("sums of rough numbers hang on their order, and what is exact is not said to") {
  std::vector<float> values[3];
  for (int rank = 0; rank < 3; ++rank) {
    values[rank].resize(1000);
    fill_rough(rank, 7, coll::DataType::kFloat32, values[rank].data(), values[rank].size());
  }
  int differ = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const float one = (values[0][i] + values[1][i]) + values[2][i],
                other = values[0][i] + (values[1][i] + values[2][i]);
    differ += one != other ? 1 : 0;
  }
  CHECK(differ > 100);
  CHECK(rounds({.op = models::Collective::kReduce, .type = coll::DataType::kBfloat16}));
  CHECK_FALSE(rounds({.op = models::Collective::kReduce, .type = coll::DataType::kInt32}));
  CHECK_FALSE(rounds({.op = models::Collective::kReduce, .reduction = coll::ReduceOp::kMax}));
  CHECK_FALSE(rounds({.op = models::Collective::kAllGather}));
}

}  // namespace matrix_test
