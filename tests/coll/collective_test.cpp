// The engine over a real ncclNet table: threads, connections, slices, delays. Ranks are threads; bytes are real.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "tests/coll/rank_threads.h"

namespace collective_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

// Whole numbers below 2^12: their sums are exact in any order, so that one expectation fits every plan.
float value_of(std::uint64_t seed, int rank, std::size_t index) {
  return static_cast<float>(mix64(seed ^ (static_cast<std::uint64_t>(rank) << 40U) ^ index) & 0xfffU);
}

std::vector<float> values_of(std::uint64_t seed, int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(seed, rank, i);
  return values;
}

float sum_of(std::uint64_t seed, int ranks, std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(seed, rank, index);
  return sum;
}

struct World {
  int ranks = 1;
  int channels = 1;
  int steps = 8;
  std::uint64_t slice_bytes = 256;
  std::uint64_t seed = 1;
};

void by_ring(meshcoll_options& options) { options.algorithm = "ring"; }

// Every operation once, on `count` elements, in and out of place.
void all_operations(meshcoll_comm* comm, int rank, const World& world, std::size_t count) {
  const std::uint64_t seed = world.seed + count;
  const auto n = static_cast<std::size_t>(world.ranks);
  const auto me = static_cast<std::size_t>(rank);
  const std::vector<float> mine = values_of(seed, rank, count), blocks = values_of(seed, rank, count * n);
  std::size_t wrong = 0;
  const auto expect = [&](const std::vector<float>& values, std::size_t offset, std::size_t many,
                          const auto& expected) {
    for (std::size_t i = 0; i < many; ++i) wrong += values[offset + i] != expected(i) ? 1 : 0;
  };
  const auto run = [&](meshcoll_result result) { CHECK_MESSAGE(result == MESHCOLL_OK, error_of(comm)); };
  const auto summed = [&](std::size_t i) { return sum_of(seed, world.ranks, i); };
  const auto own_block_summed = [&](std::size_t i) { return sum_of(seed, world.ranks, me * count + i); };
  const auto gathered = [&](std::size_t i) { return value_of(seed, static_cast<int>(i / count), i % count); };

  std::vector<float> out(count, -1), in_out = mine;
  run(meshcoll_all_reduce(comm, mine.data(), out.data(), count, MESHCOLL_FLOAT32, MESHCOLL_SUM));
  expect(out, 0, count, summed);
  run(meshcoll_all_reduce(comm, in_out.data(), in_out.data(), count, MESHCOLL_FLOAT32, MESHCOLL_SUM));
  expect(in_out, 0, count, summed);

  std::vector<float> all(count * n, -1), all_in_place(count * n, -1);
  run(meshcoll_all_gather(comm, mine.data(), all.data(), count, MESHCOLL_FLOAT32));
  expect(all, 0, count * n, gathered);
  std::copy(mine.begin(), mine.end(), all_in_place.begin() + static_cast<std::ptrdiff_t>(me * count));
  run(meshcoll_all_gather(comm, all_in_place.data() + me * count, all_in_place.data(), count, MESHCOLL_FLOAT32));
  expect(all_in_place, 0, count * n, gathered);

  std::vector<float> share(count, -1), blocks_in_place = blocks;
  run(meshcoll_reduce_scatter(comm, blocks.data(), share.data(), count, MESHCOLL_FLOAT32, MESHCOLL_SUM));
  expect(share, 0, count, own_block_summed);
  run(meshcoll_reduce_scatter(comm, blocks_in_place.data(), blocks_in_place.data() + me * count, count,
                              MESHCOLL_FLOAT32, MESHCOLL_SUM));
  expect(blocks_in_place, me * count, count, own_block_summed);

  const int root = static_cast<int>(count % n);
  const auto from_root = [&](std::size_t i) { return value_of(seed, root, i); };
  std::vector<float> spread(count, -1);
  run(meshcoll_broadcast(comm, rank == root ? mine.data() : nullptr, spread.data(), count, MESHCOLL_FLOAT32, root));
  expect(spread, 0, count, from_root);

  const int to = (rank + 1) % world.ranks, from = (rank + world.ranks - 1) % world.ranks;
  std::vector<float> received(count, -1);
  run(meshcoll_send_recv(comm, mine.data(), count, to, received.data(), count, from, MESHCOLL_FLOAT32));
  expect(received, 0, count, [&](std::size_t i) { return value_of(seed, from, i); });
  std::vector<float> replaced = mine;
  run(meshcoll_send_recv(comm, replaced.data(), count, to, replaced.data(), count, from, MESHCOLL_FLOAT32));
  expect(replaced, 0, count, [&](std::size_t i) { return value_of(seed, from, i); });
  run(meshcoll_barrier(comm));
  CHECK_MESSAGE(wrong == 0, "rank ", rank, " of ", world.ranks, ", ", count, " elements");
}

void run_world(const World& world, const std::vector<std::size_t>& counts) {
  INFO("ranks ", world.ranks, " channels ", world.channels, " steps ", world.steps, " slice ", world.slice_bytes);
  run_ranks(
      world.ranks,
      [&](meshcoll_options& options) {
        options.channels = world.channels;
        options.steps = world.steps;
        options.slice_bytes = world.slice_bytes;
        by_ring(options);
      },
      [&](meshcoll_comm* comm, int rank) {
        for (const std::size_t count : counts) all_operations(comm, rank, world, count);
      });
}

}  // namespace

TEST_CASE("every operation is right on 1..5 ranks, for sizes zero, one, odd, prime and fewer than ranks") {
  loopback::configure({});
  for (int ranks = 1; ranks <= 5; ++ranks) run_world({.ranks = ranks}, {0, 1, 2, 3, 7, 64, 97, 1009});
}

TEST_CASE("every operation is right on 2 and 3 channels and with the narrowest window") {
  loopback::configure({});
  for (const int channels : {2, 3}) {
    run_world({.ranks = 3, .channels = channels}, {1, 2, 101, 3001});
    run_world({.ranks = 4, .channels = channels, .steps = 2, .slice_bytes = 64}, {5, 997});
  }
}

TEST_CASE("a plugin that hesitates, refuses requests for now and completes late changes nothing but the time") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Prng prng(seed);
    loopback::configure({.seed = seed, .delay_percent = 40});
    const World world{.ranks = 2 + static_cast<int>(prng.below(3)),
                      .channels = 1 + static_cast<int>(prng.below(3)),
                      .steps = 2 + static_cast<int>(prng.below(7)),
                      .slice_bytes = 4 * (1 + prng.below(100)),
                      .seed = seed};
    run_world(world, {prng.below(3000), prng.below(300), prng.below(30)});
  }
}

TEST_CASE("the default slices are right too: 2 ranks, 3 000 001 elements") {
  loopback::configure({});
  run_world({.ranks = 2, .slice_bytes = 0}, {3000001});
}

TEST_CASE("sums are the same bits on every rank, in every order of events") {
  constexpr std::size_t kCount = 777;
  std::vector<std::vector<float>> results;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    loopback::configure({.seed = seed, .delay_percent = seed == 1 ? 0 : 50});
    std::vector<std::vector<float>> of_rank(4, std::vector<float>(kCount));
    run_ranks(
        4,
        [](meshcoll_options& options) {
          by_ring(options);
          options.slice_bytes = 128;
        },
        [&](meshcoll_comm* comm, int rank) {
          std::vector<float>& data = of_rank[static_cast<std::size_t>(rank)];
          // Values whose sum depends on the order of the additions.
          for (std::size_t i = 0; i < kCount; ++i) data[i] = value_of(9, rank, i) * 0.1F + (rank == 2 ? 1e7F : 0.0F);
          CHECK(meshcoll_all_reduce(comm, data.data(), data.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM) ==
                MESHCOLL_OK);
        });
    for (auto& data : of_rank) results.push_back(std::move(data));
  }
  for (const auto& data : results) {
    CHECK(std::memcmp(data.data(), results.front().data(), kCount * sizeof(float)) == 0);
  }
}

TEST_CASE("a sum is formed in ring order: chunk c starts at rank c + 1, each rank adds arrived + own") {
  loopback::configure({});
  run_ranks(3, by_ring, [&](meshcoll_comm* comm, int rank) {
    // One element a chunk. In ring order chunk 0 is (x1 + x2) + x0, and so on; other orders give other bits.
    const float x[3][3] = {{1e8F, 1.0F, -1e8F}, {-1e8F, 1e8F, 1.0F}, {1.0F, -1e8F, 1e8F}};
    float data[3] = {x[rank][0], x[rank][1], x[rank][2]};
    CHECK(meshcoll_all_reduce(comm, data, data, 3, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
    for (int chunk = 0; chunk < 3; ++chunk) {
      const float first = x[(chunk + 1) % 3][chunk] + x[(chunk + 2) % 3][chunk];
      CHECK(data[chunk] == first + x[chunk][chunk]);
    }
  });
}

TEST_CASE("statistics count what the ring moves: 2(n-1)/n S bytes each way") {
  loopback::configure({});
  run_ranks(3, by_ring, [](meshcoll_comm* comm, int) {
    constexpr std::size_t kCount = 3 * 1000;
    std::vector<float> data(kCount, 1);
    CHECK(meshcoll_all_reduce(comm, data.data(), data.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
    meshcoll_stats stats{};
    stats.struct_bytes = sizeof stats;
    CHECK(meshcoll_get_stats(comm, &stats) == MESHCOLL_OK);
    CHECK(stats.bytes_sent == kCount * 4 * 4 / 3);
    CHECK(stats.bytes_received == stats.bytes_sent);
    CHECK(stats.messages_sent == 4);
    CHECK(stats.messages_received == 4);
    CHECK(stats.copied_bytes == kCount * 4 * 2 / 3);
  });
}

TEST_CASE("registered memory is registered once per connection, other memory once per operation") {
  loopback::configure({});
  for (const bool keep : {false, true}) {
    std::uint64_t before = 0;
    run_ranks(2, by_ring, [&](meshcoll_comm* comm, int rank) {
      std::vector<float> data(100, 1);
      const std::size_t bytes = data.size() * sizeof(float);
      if (keep) CHECK(meshcoll_register(comm, data.data(), bytes) == MESHCOLL_OK);
      const auto reduce = [&] {
        CHECK(meshcoll_all_reduce(comm, data.data(), data.data(), 100, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
      };
      reduce();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
      if (rank == 0) before = loopback::registrations_made();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
      for (int i = 0; i < 5; ++i) reduce();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
      // 2 ranks x 2 connections x 5 operations, where nothing is kept; the staging memory always is.
      if (rank == 0) CHECK(loopback::registrations_made() - before == (keep ? 0U : 20U));
      if (keep) CHECK(meshcoll_deregister(comm, data.data()) == MESHCOLL_OK);
      CHECK(meshcoll_deregister(comm, data.data()) == MESHCOLL_INVALID_ARGUMENT);
    });
  }
}

TEST_CASE("a send to ourselves is a copy; one direction alone works in either order") {
  loopback::configure({});
  run_ranks(2, nullptr, [](meshcoll_comm* comm, int rank) {
    const float sent[2] = {1.5F, 2.5F};
    float received[2] = {0, 0};
    CHECK(meshcoll_send_recv(comm, sent, 2, rank, received, 2, rank, MESHCOLL_FLOAT32) == MESHCOLL_OK);
    CHECK(received[1] == 2.5F);
    const float token = 7;
    float got = 0;
    for (const int sender : {0, 1}) {
      const meshcoll_result result =
          rank == sender ? meshcoll_send_recv(comm, &token, 1, 1 - rank, nullptr, 0, -1, MESHCOLL_FLOAT32)
                         : meshcoll_send_recv(comm, nullptr, 0, -1, &got, 1, 1 - rank, MESHCOLL_FLOAT32);
      CHECK(result == MESHCOLL_OK);
    }
    CHECK(got == 7);
  });
}

}  // namespace collective_test
