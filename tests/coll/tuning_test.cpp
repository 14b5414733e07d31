// Tuning tables, and what is chosen by them and without them.
#include <doctest/doctest.h>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "tests/coll/rank_threads.h"

namespace tuning_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

constexpr const char* kTable = R"(collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks
# small ones directly
allreduce, 0, 4096, direct, ll, -1, -1, 4   # of four ranks only
allreduce,0,65536,tree,ll128,-1,-1,-1,-1,-1

alltoall,1000,2000,ring,ll,-1,-1,-1
)";

PlanRequest request_of(Collective collective, std::uint64_t count, int ranks = 4) {
  return {.collective = collective, .ranks = ranks, .count = count};
}

void refused(const std::string& line, const std::string& why) {
  const auto table = parse_tuning("# a comment\n" + line + "\n");
  REQUIRE_FALSE_MESSAGE(table.has_value(), line);
  CHECK_MESSAGE(table.error().text == "tuning table, line 2: " + why, table.error().text);
}

}  // namespace

TEST_CASE("tuning: the first line that fits counts; what is said of no size is left to the cost function") {
  const auto table = parse_tuning(kTable);
  REQUIRE_MESSAGE(table.has_value(), table.error().text);
  CHECK(table->size() == 3);
  const ChoiceRules choice{.algorithm = {.automatic = true}, .protocol = {.automatic = true}, .tuning = *table};
  CHECK(choose_way(choice, request_of(Collective::kAllReduce, 1024)) ==
        AlgorithmProtocol{Algorithm::kDirect, Protocol::kLl});
  CHECK(choose_way(choice, request_of(Collective::kAllReduce, 1025)) ==
        AlgorithmProtocol{Algorithm::kTree, Protocol::kLl128});
  CHECK(choose_way(choice, request_of(Collective::kAllReduce, 1024, 5)) ==
        AlgorithmProtocol{Algorithm::kTree, Protocol::kLl128});
  // Of all ranks' blocks together.
  CHECK(choose_way(choice, request_of(Collective::kAllToAll, 100)) ==
        AlgorithmProtocol{Algorithm::kRing, Protocol::kLl});
  CHECK(choose_way(choice, request_of(Collective::kAllToAll, 126)) ==
        AlgorithmProtocol{Algorithm::kRing, Protocol::kSimple});
  ChoiceRules costs = choice;
  costs.tuning.clear();
  for (const Collective other : {Collective::kAllGather, Collective::kReduce}) {
    CHECK(choose_way(choice, request_of(other, 1024)) == choose_way(costs, request_of(other, 1024)));
  }
  CHECK(choose_way(choice, request_of(Collective::kAllReduce, 1U << 20U)) ==
        choose_way(costs, request_of(Collective::kAllReduce, 1U << 20U)));
}

TEST_CASE("tuning: what was asked for stands, whatever the table says") {
  const auto table = parse_tuning(kTable);
  ChoiceRules choice{.algorithm = {.algorithm = Algorithm::kRing}, .protocol = {.automatic = true}, .tuning = *table};
  CHECK(choose_way(choice, request_of(Collective::kAllReduce, 10)) ==
        AlgorithmProtocol{Algorithm::kRing, Protocol::kLl});
  choice.algorithm.automatic = true;
  choice.protocol = {.protocol = Protocol::kSimple};
  CHECK(choose_way(choice, request_of(Collective::kAllReduce, 10)) ==
        AlgorithmProtocol{Algorithm::kDirect, Protocol::kSimple});
}

TEST_CASE("tuning: errors name line, field, text and what is wanted") {
  refused("allreduce,0,1", "it has 3 fields, and wants 8 to 10");
  refused("allreduces,0,1,ring,ll,-1,-1,-1", "collective_type is \"allreduces\": there is no such collective");
  refused("allreduce,x,1,ring,ll,-1,-1,-1", "min_bytes is \"x\": it is not a number of bytes");
  refused("allreduce,2,1,ring,ll,-1,-1,-1", "max_bytes is \"1\": it is not a number of bytes from min_bytes on");
  refused("allreduce,0,1,auto,ll,-1,-1,-1", "algorithm is \"auto\": the engine has none of that name");
  refused("reducescatter,0,1,tree,ll,-1,-1,-1", "algorithm is \"tree\": that collective does not go that way");
  refused("allreduce,0,1,ring,LL,-1,-1,-1", "protocol is \"LL\": it is none of simple, ll and ll128");
  refused("allreduce,0,1,ring,ll,4,-1,-1", "channels is \"4\": the engine takes only -1 there");
  refused("allreduce,0,1,ring,ll,-1,-1,0", "nRanks is \"0\": it is not a number of ranks, or -1");
  refused("allreduce,0,1,ring,ll,-1,-1,-1,-1,1", "regBuff is \"1\": the engine takes only -1 there");
  CHECK(parse_tuning("")->empty());
  CHECK(parse_tuning("\n\r\n  # nothing")->empty());
}

TEST_CASE("tuning: what is written is read back; rubbish crashes nothing and is refused or is rows") {
  std::string text = tuning_heading();
  TuningTable rows;
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kMesh}) {
    rows.push_back({.bytes_min = 5, .bytes_max = 1ULL << 40U, .algorithm = algorithm, .protocol = Protocol::kLl128});
    text += to_text(rows.back());
  }
  CHECK(*parse_tuning(text) == rows);
  Prng prng(3);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = text;
    for (std::uint64_t change = prng.below(4); change > 0; --change) {
      changed[prng.below(changed.size())] = "0a,\n#- \xff"[prng.below(8)];
    }
    read += parse_tuning(changed).has_value() ? 1 : 0;
  }
  CHECK(read > 0);
  CHECK(read < 20'000);
}

TEST_CASE("cost: lines cost bytes, and save registrations: they are for what is small, ll for the smallest") {
  const ChoiceRules free{.protocol = {.automatic = true}};
  ChoiceRules dear = free;
  dear.network.registration_ns = 20'000;
  const auto protocol_for = [](const ChoiceRules& choice, std::uint64_t bytes) {
    return choose_way(choice, request_of(Collective::kAllReduce, bytes / 4)).protocol;
  };
  for (const std::uint64_t bytes : {8U, 65'536U, 1U << 24U}) CHECK(protocol_for(free, bytes) == Protocol::kSimple);
  CHECK(protocol_for(dear, 8) != Protocol::kSimple);
  CHECK(protocol_for(dear, 1U << 20U) == Protocol::kLl128);
  CHECK(protocol_for(dear, 1U << 26U) == Protocol::kSimple);
}

TEST_CASE("tuning: all ranks go by one table, through the C interface") {
  loopback::configure({});
  run_ranks(
      4,
      [](meshcoll_options& options) {
        options.algorithm = options.protocol = "auto";
        options.tuning = kTable;
      },
      [](meshcoll_comm* comm, int) {
        std::vector<float> data(100, 1);
        CHECK(meshcoll_all_reduce(comm, data.data(), data.data(), 100, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
        CHECK(data[99] == 4);
        meshcoll_stats stats{};
        stats.struct_bytes = sizeof stats;
        CHECK(meshcoll_get_stats(comm, &stats) == MESHCOLL_OK);
        CHECK(stats.messages_sent == 6);  // directly: a part from and to each
      });
}

TEST_CASE("who names no algorithm leaves it to be chosen, and meets those that say \"auto\"") {
  CHECK(ChoiceRules{}.algorithm.automatic);
  loopback::configure({});
  run_ranks(
      3,
      [](meshcoll_options& options) {
        constexpr const char* kNames[] = {nullptr, "", "auto"};
        options.algorithm = kNames[options.rank];
      },
      [](meshcoll_comm* comm, int) {
        float data = 1;
        CHECK(meshcoll_all_reduce(comm, &data, &data, 1, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
        CHECK(data == 3);
      });
}

}  // namespace tuning_test
