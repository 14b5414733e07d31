// Calls made between group_start and group_end: one call, in which all sends and receives move at once.
#include <doctest/doctest.h>

#include <vector>

#include "tests/coll/rank_threads.h"

namespace group_call_test {

using namespace meshbed::test;

namespace {

constexpr std::size_t kCount = 5000;
using Floats = std::vector<float>;

meshcoll_result send(meshcoll_comm* comm, const Floats& data, int peer) {
  return meshcoll_send_recv(comm, data.data(), data.size(), peer, nullptr, 0, -1, MESHCOLL_FLOAT32);
}
meshcoll_result receive(meshcoll_comm* comm, Floats& data, int peer) {
  return meshcoll_send_recv(comm, nullptr, 0, -1, data.data(), data.size(), peer, MESHCOLL_FLOAT32);
}

float word(int from, int to, int turn) { return static_cast<float>(100 * from + 10 * to + turn); }

/// Many slices for each send.
void small_slices(meshcoll_options& options) {
  options.slice_bytes = 256;
  options.steps = 4;
  options.operation_timeout_ms = 20'000;
}

}  // namespace

TEST_CASE("head to head: both ranks send first, more than their windows hold, and both receive") {
  loopback::configure({.seed = 2, .delay_percent = 20});
  run_ranks(2, small_slices, [](meshcoll_comm* comm, int rank) {
    const Floats sent(kCount, word(rank, 1 - rank, 0));
    Floats received(kCount);
    REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
    CHECK(send(comm, sent, 1 - rank) == MESHCOLL_OK);
    CHECK(receive(comm, received, 1 - rank) == MESHCOLL_OK);
    CHECK_MESSAGE(meshcoll_group_end(comm, nullptr) == MESHCOLL_OK, error_of(comm));
    CHECK(received == Floats(kCount, word(1 - rank, rank, 0)));
  });
}

TEST_CASE("circles close, whichever way each rank orders its calls, and turns of a pair stay in order") {
  loopback::configure({.seed = 9, .delay_percent = 20});
  constexpr int kRanks = 4, kTurns = 3;
  run_ranks(kRanks, small_slices, [](meshcoll_comm* comm, int rank) {
    // All to all by hand, three times over; half the ranks receive first, half send first.
    std::vector<Floats> sent, received(kRanks * kTurns, Floats(kCount));
    for (int i = 0; i < kRanks * kTurns; ++i) sent.emplace_back(kCount, word(rank, i % kRanks, i / kRanks));
    REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
    for (const bool sends : {rank % 2 == 0, rank % 2 != 0}) {
      for (int i = 0; i < kRanks * kTurns; ++i) {
        const int peer = i % kRanks;
        if (peer == rank) continue;
        const auto at = static_cast<std::size_t>(i);
        CHECK((sends ? send(comm, sent[at], peer) : receive(comm, received[at], peer)) == MESHCOLL_OK);
      }
    }
    // Ourselves, too.
    CHECK(meshcoll_send_recv(comm, sent[static_cast<std::size_t>(rank)].data(), kCount, rank,
                             received[static_cast<std::size_t>(rank)].data(), kCount, rank,
                             MESHCOLL_FLOAT32) == MESHCOLL_OK);
    meshcoll_handle handle = 0;
    CHECK(meshcoll_group_end(comm, &handle) == MESHCOLL_OK);
    CHECK_MESSAGE(meshcoll_wait(comm, handle, -1) == MESHCOLL_OK, error_of(comm));
    for (int i = 0; i < kRanks * kTurns; ++i) {
      if (i % kRanks == rank && i / kRanks > 0) continue;
      CHECK(received[static_cast<std::size_t>(i)] == Floats(kCount, word(i % kRanks, rank, i / kRanks)));
    }
  });
}

TEST_CASE("groups nest, take other collectives along, and are one call of their own") {
  loopback::configure({.seed = 4, .delay_percent = 10});
  run_ranks(3, small_slices, [](meshcoll_comm* comm, int rank) {
    const int next = (rank + 1) % 3, previous = (rank + 2) % 3;
    Floats sum(kCount, 1), product(kCount, 2), sent(kCount, word(rank, next, 0)), received(kCount), outside(kCount, 1);
    const auto reduce = [&](Floats& data, meshcoll_op op) {
      return meshcoll_all_reduce(comm, data.data(), data.data(), kCount, MESHCOLL_FLOAT32, op);
    };
    REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
    // The ring's connections are the pairs', too: rank 0 calls its pairs first, the others last.
    if (rank == 0) CHECK(send(comm, sent, next) == MESHCOLL_OK);
    CHECK(reduce(sum, MESHCOLL_SUM) == MESHCOLL_OK);
    REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
    CHECK(reduce(product, MESHCOLL_PROD) == MESHCOLL_OK);
    meshcoll_handle handle = 17;
    CHECK(meshcoll_group_end(comm, &handle) == MESHCOLL_OK);
    CHECK(handle == 0);
    CHECK(sum[0] == 1);  // nothing has begun
    if (rank != 0) CHECK(send(comm, sent, next) == MESHCOLL_OK);
    CHECK(receive(comm, received, previous) == MESHCOLL_OK);
    CHECK_MESSAGE(meshcoll_group_end(comm, nullptr) == MESHCOLL_OK, error_of(comm));
    CHECK(sum == Floats(kCount, 3));
    CHECK(product == Floats(kCount, 8));
    CHECK(received == Floats(kCount, word(previous, rank, 0)));
    // An empty group is a call that does nothing.
    REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
    CHECK(meshcoll_group_end(comm, &handle) == MESHCOLL_OK);
    CHECK(meshcoll_wait(comm, handle, -1) == MESHCOLL_OK);
    CHECK(reduce(outside, MESHCOLL_SUM) == MESHCOLL_OK);
    CHECK(outside == Floats(kCount, 3));
    CHECK(meshcoll_group_end(comm, nullptr) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(contains(error_of(comm), "group_end without its group_start"));
  });
}

TEST_CASE("a refused call spoils its group, of which nothing runs, and no other group") {
  loopback::configure({});
  run_ranks(2, small_slices, [](meshcoll_comm* comm, int rank) {
    Floats data(kCount, 1), other(kCount);
    const auto refused = [&](auto call, const char* why) {
      REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
      CHECK(send(comm, data, 1 - rank) == MESHCOLL_OK);
      CHECK(call() != MESHCOLL_OK);
      CHECK(send(comm, data, 1 - rank) == MESHCOLL_OK);
      CHECK(meshcoll_group_end(comm, nullptr) == MESHCOLL_INVALID_ARGUMENT);
      CHECK_MESSAGE(contains(error_of(comm), why), error_of(comm));
    };
    refused([&] { return send(comm, data, 2); }, "to is 2 in a world of 2");
    refused([&] { return meshcoll_barrier(comm); }, "a barrier is no part of a group");
    refused(
        [&] {
          return meshcoll_send_recv(comm, data.data(), kCount, 1 - rank, data.data(), kCount, 1 - rank,
                                    MESHCOLL_FLOAT32);
        },
        "a send_recv in place is no part of a group");
    REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
    CHECK(send(comm, data, 1 - rank) == MESHCOLL_OK);
    CHECK(receive(comm, other, 1 - rank) == MESHCOLL_OK);
    CHECK(meshcoll_group_end(comm, nullptr) == MESHCOLL_OK);
    CHECK(other == data);
  });
}

TEST_CASE("a transfer that fails ends its group on every rank, with peer and number in the error") {
  loopback::configure({.fail_send_device = 1, .fail_send_after = 3});
  static const int kDevices[] = {0, 1, 2};
  run_ranks(
      3,
      [](meshcoll_options& options) {
        small_slices(options);
        options.channel_devices = kDevices + options.rank;
      },
      [](meshcoll_comm* comm, int rank) {
        Floats sent(kCount, 1), one(kCount), two(kCount);
        REQUIRE(meshcoll_group_start(comm) == MESHCOLL_OK);
        for (const int away : {1, 2}) {
          CHECK(send(comm, sent, (rank + away) % 3) == MESHCOLL_OK);
          CHECK(receive(comm, away == 1 ? one : two, (rank + away) % 3) == MESHCOLL_OK);
        }
        CHECK(meshcoll_group_end(comm, nullptr) == MESHCOLL_NET);
        meshcoll_error error{};
        error.struct_bytes = sizeof error;
        CHECK(meshcoll_get_error(comm, &error) == MESHCOLL_OK);
        CHECK(std::string(error.operation) == "group_call");
        CHECK(error.sequence == 1);
        // Rank 1 saw it fail; who failed in its eyes saw nothing but rank 1's word.
        const int failed = contains(error.text, "send to rank 0") ? 0 : 2;
        CHECK_MESSAGE(error.peer == (rank == failed ? 1 : failed), error.text);
        CHECK_MESSAGE(contains(error.text, "cable of device 1 was pulled"), error.text);
      });
}

}  // namespace group_call_test
