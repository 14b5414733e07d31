// Rebuild: those who live go on without those who do not.
#include <doctest/doctest.h>

#include <latch>
#include <thread>
#include <vector>

#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "tests/coll/rank_threads.h"

namespace rebuild_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::size_t kCount = 1000;
constexpr int kRanks = 4;

/// Rank r opens device r.
void own_device(meshcoll_options& options) {
  static const int kDevices[] = {0, 1, 2, 3};
  options.channel_devices = kDevices + options.rank;
  options.slice_bytes = 256;
}

meshcoll_result reduce(meshcoll_comm* comm, float own, float* sum) {
  std::vector<float> data(kCount, own);
  const auto result = meshcoll_all_reduce(comm, data.data(), data.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM);
  *sum = data.front();
  if (result == MESHCOLL_OK) CHECK(data == std::vector<float>(kCount, *sum));
  return result;
}

/// The communicator of those who go on, which must have `world` ranks and sum right.
meshcoll_comm* go_on(meshcoll_comm* comm, int world, float own, float expected) {
  meshcoll_comm* survivors = nullptr;
  CHECK_MESSAGE(meshcoll_rebuild(comm, &survivors) == MESHCOLL_OK, error_of(comm));
  if (survivors == nullptr) return nullptr;
  CHECK(meshcoll_world(survivors) == world);
  float sum = 0;
  CHECK_MESSAGE(reduce(survivors, own, &sum) == MESHCOLL_OK, error_of(survivors));
  CHECK(sum == expected);
  CHECK(meshcoll_barrier(survivors) == MESHCOLL_OK);
  return survivors;
}

std::unique_ptr<coll::StoreClient> join(const std::string& address, int rank) {
  const coll::Identity identity{.world = 3, .rank = static_cast<std::uint32_t>(rank)};
  auto client = coll::StoreClient::connect(address, identity, Deadline::after_ms(5000));
  REQUIRE_MESSAGE(client.has_value(), client.error().text);
  return std::move(*client);
}

std::unique_ptr<coll::StoreServer> serve(const std::string& address, std::int64_t linger_ms) {
  auto server = coll::StoreServer::start(
      {.address = *coll::parse_address(address), .identity = {.world = 3, .rank = 0}, .linger_ms = linger_ms});
  REQUIRE_MESSAGE(server.has_value(), server.error().text);
  return std::move(*server);
}

}  // namespace

TEST_CASE(
    "one of four hangs in the middle of an all_reduce: the three go on, and it gets an error when it comes back") {
  loopback::configure({.stall_device = 2, .stall_after = 20});
  std::latch gone_on(kRanks - 1);
  run_ranks(
      kRanks,
      [](meshcoll_options& options) {
        own_device(options);
        options.connect_timeout_ms = 5000;  // so long the hung rank is waited for
        options.operation_timeout_ms = options.rank == 2 ? 60'000 : 1000;
      },
      [&](meshcoll_comm* comm, int rank) {
        float sum = 0;
        CHECK(reduce(comm, 1, &sum) != MESHCOLL_OK);
        if (rank == 2) {
          gone_on.wait();
          meshcoll_comm* survivors = nullptr;
          CHECK(meshcoll_rebuild(comm, &survivors) == MESHCOLL_NET);
          CHECK(survivors == nullptr);
          CHECK_MESSAGE(contains(error_of(comm), "the survivors have gone on without this rank"), error_of(comm));
          return;
        }
        meshcoll_comm* survivors = go_on(comm, kRanks - 1, static_cast<float>(rank), 0 + 1 + 3);
        CHECK(meshcoll_rank(survivors) == (rank == 3 ? 2 : rank));
        gone_on.count_down();
        CHECK(reduce(comm, 1, &sum) != MESHCOLL_OK);  // the old one stays broken
        CHECK(meshcoll_destroy(survivors) == MESHCOLL_OK);
      });
}

TEST_CASE("who is known to be gone is not waited for: the others go on at once, and again") {
  loopback::configure({.fail_send_device = 3, .fail_send_after = 5});
  run_ranks(kRanks, own_device, [](meshcoll_comm* comm, int rank) {
    float sum = 0;
    CHECK(reduce(comm, 1, &sum) == MESHCOLL_NET);
    if (rank == 3) return;
    const std::int64_t begin_ns = meshcoll_now_ns();
    meshcoll_comm* three = go_on(comm, 3, 1, 3);
    CHECK(meshcoll_now_ns() - begin_ns < 15'000'000'000);  // connect_timeout_ms is 20 s
    // Rank 0 goes: its store stays until the others have left it, and sends them the list.
    if (rank > 0) {
      meshcoll_comm* two = go_on(three, 2, static_cast<float>(rank), 1 + 2);
      CHECK(meshcoll_rank(two) == rank - 1);
      CHECK(meshcoll_destroy(two) == MESHCOLL_OK);
    }
    CHECK(meshcoll_destroy(three) == MESHCOLL_OK);
  });
}

TEST_CASE(
    "a healthy communicator that is rebuilt is whole again, and the old one aborted, for every thread in a call") {
  loopback::configure({});
  run_ranks(3, nullptr, [](meshcoll_comm* comm, int rank) {
    // Ranks 1 and 2 wait for a rank that will never come.
    float sum = 0;
    if (rank > 0) CHECK(reduce(comm, 1, &sum) == MESHCOLL_ABORTED);
    CHECK(meshcoll_rebuild(comm, nullptr) == MESHCOLL_INVALID_ARGUMENT);
    meshcoll_comm* whole = go_on(comm, 3, 2, 6);
    CHECK(meshcoll_rank(whole) == rank);
    CHECK(meshcoll_barrier(comm) == MESHCOLL_ABORTED);
    CHECK(meshcoll_destroy(whole) == MESHCOLL_OK);
  });
  run_ranks(1, nullptr, [](meshcoll_comm* comm, int) {
    meshcoll_comm* again = go_on(comm, 1, 5, 5);
    CHECK(meshcoll_barrier(comm) == MESHCOLL_ABORTED);
    CHECK(meshcoll_destroy(again) == MESHCOLL_OK);
  });
}

TEST_CASE("a rank that dies while the others agree is left out") {
  const std::string address = free_address();
  // The store serves on so long without rank 0, however long it takes the others to ask.
  auto server = serve(address, 20'000);
  auto one = join(address, 1), two = join(address, 2);
  std::thread dies([&] {
    const auto connected = coll::connect_to(*coll::parse_address(address), Deadline::after_ms(5000));
    const Socket& zero = *connected;
    std::string hello = coll::encode({coll::FrameType::kHello, 0, coll::encode_hello({.world = 3, .rank = 0})});
    coll::write_from(zero, &hello);
    // Ends without a goodbye when the others have asked.
    while (!one->failure()) REQUIRE(one->poll(5000).has_value());
  });
  two->announce_failure("a failure to recover from");
  dies.join();
  Result<std::vector<int>> first = std::vector<int>(), second = std::vector<int>();
  std::thread asks([&] { first = one->agree_on_survivors(20'000); });
  second = two->agree_on_survivors(20'000);
  asks.join();
  REQUIRE_MESSAGE(first.has_value(), first.error().text);
  CHECK(*first == std::vector<int>{1, 2});
  CHECK(*second == *first);
  CHECK_FALSE(one->failure().has_value());
  // With the last of them it ends.
  one.reset();
  two.reset();
  server.reset();
}

TEST_CASE("without rank 0 the others cannot agree on the remaining ranks") {
  const std::string address = free_address();
  auto server = serve(address, 100);
  auto one = join(address, 1), two = join(address, 2);
  server.reset();
  const auto alone = two->agree_on_survivors(20'000);
  REQUIRE_FALSE(alone.has_value());
  CHECK(alone.error().code == ErrorCode::kRemote);
  CHECK(two->failed_rank() == 0);
}

}  // namespace rebuild_test
