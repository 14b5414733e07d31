// Groups of a communicator's ranks: along the axes of a mesh, by color, side by side.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "tests/coll/rank_threads.h"

namespace group_test {

using namespace meshbed::test;

namespace {

constexpr std::size_t kCount = 300;

/// Sums over `comm` what `own` is at each of its ranks.
float sum_over(meshcoll_comm* comm, float own) {
  std::vector<float> values(kCount, own);
  const auto result = meshcoll_all_reduce(comm, values.data(), values.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM);
  CHECK_MESSAGE(result == MESHCOLL_OK, error_of(comm));
  for (const float value : values) CHECK(value == values.front());
  return values.front();
}

float power(int rank) { return static_cast<float>(1U << static_cast<unsigned>(rank)); }

float sum_of(const std::vector<int>& members) {
  return std::accumulate(members.begin(), members.end(), 0.0F, [](float sum, int rank) { return sum + power(rank); });
}

}  // namespace

TEST_CASE("the groups of dp=2,pp=2,tp=2 sum over their own ranks, in any order beside each other and the world") {
  loopback::configure({.seed = 3, .delay_percent = 20});
  run_ranks(8, nullptr, [](meshcoll_comm* world, int rank) {
    meshcoll_comm *tensor = nullptr, *data = nullptr, *alone = nullptr;
    REQUIRE(meshcoll_mesh_group(world, "dp=2,pp=2,tp=2", "tp", &tensor) == MESHCOLL_OK);
    REQUIRE(meshcoll_mesh_group(world, "dp=2,pp=2,tp=2", "dp,pp", &data) == MESHCOLL_OK);
    REQUIRE(meshcoll_mesh_group(world, "dp=2,pp=2,tp=2", "", &alone) == MESHCOLL_OK);
    CHECK(meshcoll_world(tensor) == 2);
    CHECK(meshcoll_rank(tensor) == rank % 2);
    CHECK(meshcoll_world(data) == 4);
    CHECK(meshcoll_rank(data) == rank / 2);
    CHECK(meshcoll_world(alone) == 1);
    const int pair = rank / 2 * 2;
    // One group is three operations ahead of the other.
    for (int time = 0; time < (pair == 0 ? 4 : 1); ++time)
      CHECK(sum_over(tensor, power(rank)) == sum_of({pair, pair + 1}));
    CHECK(sum_over(data, power(rank)) == sum_of({rank % 2, rank % 2 + 2, rank % 2 + 4, rank % 2 + 6}));
    CHECK(sum_over(world, power(rank)) == 255);
    CHECK(sum_over(alone, power(rank)) == power(rank));
    CHECK(meshcoll_barrier(data) == MESHCOLL_OK);
    for (meshcoll_comm* group : {tensor, data, alone}) CHECK(meshcoll_destroy(group) == MESHCOLL_OK);
    CHECK(sum_over(world, 1) == 8);
  });
}

TEST_CASE("split: ranks of one color, by key and then by rank; a negative color has no group") {
  loopback::configure({});
  run_ranks(5, nullptr, [](meshcoll_comm* world, int rank) {
    meshcoll_comm* group = nullptr;
    // Colors 0 1 0 1 none; keys put rank 2 before rank 0.
    const int color = rank == 4 ? -1 : rank % 2, key = rank == 2 ? -7 : 0;
    REQUIRE_MESSAGE(meshcoll_split(world, color, key, &group) == MESHCOLL_OK, error_of(world));
    if (rank == 4) {
      CHECK(group == nullptr);
      return;
    }
    CHECK(meshcoll_world(group) == 2);
    const int places[] = {1, 0, 0, 1};
    CHECK(meshcoll_rank(group) == places[rank]);
    CHECK(sum_over(group, power(rank)) == (color == 0 ? sum_of({0, 2}) : sum_of({1, 3})));
    CHECK(meshcoll_destroy(group) == MESHCOLL_OK);
  });
}

TEST_CASE("spare ranks get no group, and a world that is no multiple of the mesh none at all") {
  loopback::configure({});
  run_ranks(4, nullptr, [](meshcoll_comm* world, int rank) {
    meshcoll_comm* group = nullptr;
    REQUIRE(meshcoll_mesh_group(world, "tp=2", "tp", &group) == MESHCOLL_OK);
    CHECK((group != nullptr) == (rank < 2));
    if (group != nullptr) {
      CHECK(sum_over(group, power(rank)) == 3);
      CHECK(meshcoll_destroy(group) == MESHCOLL_OK);
    }
    CHECK(meshcoll_mesh_group(world, "tp=3", "tp", &group) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(contains(error_of(world), "the world's 4 are no multiple"));
    CHECK(meshcoll_mesh_group(world, "tp=4", "pp", &group) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(contains(error_of(world), "there is no axis \"pp\"; the mesh has tp"));
    CHECK(meshcoll_mesh_group(world, nullptr, "tp", &group) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(meshcoll_split(world, 0, 0, nullptr) == MESHCOLL_INVALID_ARGUMENT);
    // None of these errors has damaged the communicator.
    CHECK(sum_over(world, 1) == 4);
  });
}

TEST_CASE("a group that breaks is broken for itself alone") {
  loopback::configure({});
  run_ranks(4, nullptr, [](meshcoll_comm* world, int rank) {
    meshcoll_comm* group = nullptr;
    REQUIRE(meshcoll_split(world, rank / 2, 0, &group) == MESHCOLL_OK);
    float value[2] = {1, 1};
    if (rank < 2) {
      // The two ends want different counts.
      const bool sends = rank == 0;
      const auto result = sends ? meshcoll_send_recv(group, value, 1, 1, nullptr, 0, -1, MESHCOLL_FLOAT32)
                                : meshcoll_send_recv(group, nullptr, 0, -1, value, 2, 0, MESHCOLL_FLOAT32);
      if (!sends) CHECK(result == MESHCOLL_NET);
      CHECK(meshcoll_barrier(group) != MESHCOLL_OK);
    } else {
      CHECK(sum_over(group, 1) == 2);
    }
    CHECK(sum_over(world, 1) == 4);
    CHECK(meshcoll_destroy(group) == MESHCOLL_OK);
  });
}

TEST_CASE("who never comes to its group is waited for as long as for any rank, and named") {
  loopback::configure({});
  run_ranks(
      3, [](meshcoll_options& options) { options.connect_timeout_ms = 500; },
      [](meshcoll_comm* world, int rank) {
        meshcoll_comm* group = nullptr;
        // Rank 0, where all were to meet, is elsewhere.
        if (rank == 0) {
          CHECK(meshcoll_barrier(world) == MESHCOLL_OK);
          return;
        }
        CHECK(meshcoll_mesh_group(world, "tp=3", "tp", &group) == MESHCOLL_TIMEOUT);
        CHECK_MESSAGE(contains(error_of(world), "group 1: rank 0 published no address to meet at"), error_of(world));
        CHECK(group == nullptr);
        CHECK(meshcoll_barrier(world) == MESHCOLL_OK);
      });
}

}  // namespace group_test
