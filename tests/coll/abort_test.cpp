// Abort: every waiting rank learns which rank aborted, during any operation, and nothing stays open in the plugin.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "tests/coll/rank_threads.h"

namespace abort_test {

using namespace meshbed::test;

namespace {

constexpr std::size_t kCount = 8;
constexpr int kRanks = 3;

meshcoll_error parts_of(meshcoll_comm* comm) {
  meshcoll_error error{};
  error.struct_bytes = sizeof error;
  CHECK(meshcoll_get_error(comm, &error) == MESHCOLL_OK);
  return error;
}

/// Rank r opens device r; two slices to a block.
std::function<void(meshcoll_options&)> own_device(const char* protocol) {
  return [protocol](meshcoll_options& options) {
    static const int kDevices[] = {0, 1, 2};
    options.channel_devices = kDevices + options.rank;
    options.slice_bytes = 16;
    options.steps = 2;
    options.algorithm = "ring";
    options.protocol = protocol;
  };
}

/// Calls 0 .. kCalls - 1: every collective, and a group of pairs.
constexpr int kCalls = MESHCOLL_BARRIER + 1;
const char* name_of(int call) {
  static const std::array<const char*, kCalls> kNames{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                      "reduce",     "send_recv",  "all_to_all",     "gather",
                                                      "scatter",    "group_call"};
  return kNames[static_cast<std::size_t>(call)];
}

struct Buffers {
  std::vector<float> send = std::vector<float>(kRanks * kCount, 1), recv = std::vector<float>(kRanks * kCount);
};

meshcoll_result call(meshcoll_comm* comm, int number, int rank, Buffers& buffers) {
  const int next = (rank + 1) % kRanks, previous = (rank + 2) % kRanks;
  if (number == MESHCOLL_BARRIER) {
    CHECK(meshcoll_group_start(comm) == MESHCOLL_OK);
    for (int i = 0; i < 2; ++i) {
      float* into = buffers.recv.data() + static_cast<std::size_t>(i) * kCount;
      CHECK(meshcoll_send_recv(comm, buffers.send.data(), kCount, i == 0 ? next : previous, into, kCount,
                               i == 0 ? previous : next, MESHCOLL_FLOAT32) == MESHCOLL_OK);
    }
    return meshcoll_group_end(comm, nullptr);
  }
  meshcoll_args args{};
  args.struct_bytes = sizeof args;
  args.call = static_cast<meshcoll_call>(number);
  args.send = buffers.send.data();
  args.recv = buffers.recv.data();
  args.count = args.recv_count = kCount;
  args.dtype = MESHCOLL_FLOAT32;
  args.op = MESHCOLL_SUM;
  args.root = 1;
  args.to = next;
  args.from = previous;
  meshcoll_handle handle = 0;
  CHECK(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK);
  return meshcoll_wait(comm, handle, -1);
}

/// `number` on every rank, where rank `who` takes `steps` steps with its plugin, stops there, and is aborted. False:
/// the call needed no more steps than that.
bool abort_after(int number, int who, int steps, const char* protocol = "simple") {
  loopback::configure({.stall_device = who, .stall_after = steps});
  std::atomic<meshcoll_comm*> aborted{nullptr};
  std::atomic<int> finished{0}, ended_well{0};
  std::latch all_here(kRanks), all_back(kRanks), all_counted(kRanks);
  std::vector<Buffers> buffers(kRanks);
  bool stalled = false;
  std::thread aborter([&] {
    while (!loopback::stalled() && finished < kRanks) std::this_thread::yield();
    stalled = loopback::stalled();
    if (stalled) CHECK(meshcoll_abort(aborted, "no more") == MESHCOLL_OK);
  });
  run_ranks(kRanks, own_device(protocol), [&](meshcoll_comm* comm, int rank) {
    if (rank == who) aborted = comm;
    all_here.arrive_and_wait();
    const std::string where = std::string(name_of(number)) + " by " + protocol + ", rank " + std::to_string(who) +
                              ", " + std::to_string(steps) + " steps: ";
    const meshcoll_result result = call(comm, number, rank, buffers[static_cast<std::size_t>(rank)]);
    ++finished;
    if (result == MESHCOLL_OK) ++ended_well;
    // No buffers are used any more, and they may be freed.
    buffers[static_cast<std::size_t>(rank)] = {};
    all_back.arrive_and_wait();
    // Of what is open in a plugin only its context is left: no connection, registration, listener or request.
    if (ended_well == 0) CHECK_MESSAGE(loopback::open_objects() == kRanks, where << loopback::open_objects());
    all_counted.arrive_and_wait();
    if (!loopback::stalled()) {
      CHECK_MESSAGE(result == MESHCOLL_OK, where << error_of(comm));
      return;
    }
    // Who has all its data may be done.
    if (rank != who && result == MESHCOLL_OK) return;
    CHECK_MESSAGE(result == MESHCOLL_ABORTED, where << error_of(comm));
    const meshcoll_error error = parts_of(comm);
    CHECK(error.peer == who);
    CHECK(error.sequence == 1);
    CHECK(std::string(error.operation) == name_of(number));
    const std::string text = std::string(name_of(number)) + " 1: rank " + std::to_string(who) + ": aborted at " +
                             name_of(number) + " 1: no more";
    CHECK_MESSAGE(error.text == text, where << error.text);
    CHECK(meshcoll_barrier(comm) == MESHCOLL_ABORTED);
  });
  aborter.join();
  return stalled;
}

}  // namespace

TEST_CASE(
    "abort after each step of each collective, by one rank or another: all ranks learn of it, nothing stays open") {
  for (int number = 0; number < kCalls; ++number) {
    int steps = 0;
    while (abort_after(number, (number + 1) % kRanks, steps)) ++steps;
    CHECK_MESSAGE(steps >= 2, name_of(number));
  }
}

TEST_CASE("the same where messages are lines of data and flags") {
  for (const char* protocol : {"ll", "ll128"}) {
    for (int number = 0; number < kCalls; ++number) {
      int steps = 0;
      while (abort_after(number, (number + 1) % kRanks, steps, protocol)) ++steps;
      CHECK_MESSAGE(steps >= 1, name_of(number) << " by " << protocol);
    }
  }
}

TEST_CASE("abort before the first step of each collective, by each rank") {
  for (int number = 0; number < kCalls; ++number) {
    for (int who = 0; who < kRanks; ++who) CHECK(abort_after(number, who, 0));
  }
}

TEST_CASE("abort wakes who waits in a barrier, here and elsewhere, and reaches who comes later") {
  loopback::configure({});
  std::latch aborted(1);
  std::atomic<meshcoll_comm*> first{nullptr};
  std::thread aborter([&] {
    while (first == nullptr) std::this_thread::yield();
    CHECK(meshcoll_abort(first, nullptr) == MESHCOLL_OK);
    aborted.count_down();
  });
  run_ranks(3, nullptr, [&](meshcoll_comm* comm, int rank) {
    if (rank == 2) {
      aborted.wait();
    } else if (rank == 0) {
      first = comm;
    }
    CHECK(meshcoll_barrier(comm) == MESHCOLL_ABORTED);
    CHECK(parts_of(comm).peer == 0);
    CHECK_MESSAGE(contains(error_of(comm), "rank 0: aborted at "), error_of(comm));
    Buffers buffers;
    CHECK(call(comm, MESHCOLL_ALL_REDUCE, rank, buffers) == MESHCOLL_ABORTED);
  });
  aborter.join();
}

TEST_CASE("abort ends all that was started, and an aborted communicator may be aborted, used and destroyed") {
  loopback::configure({});
  run_ranks(2, nullptr, [](meshcoll_comm* comm, int rank) {
    if (rank == 1) {
      // Learns of it at its next call.
      CHECK(meshcoll_barrier(comm) == MESHCOLL_ABORTED);
      return;
    }
    std::vector<float> received(kCount);
    std::array<meshcoll_handle, 3> handles{};
    meshcoll_args args{};
    args.struct_bytes = sizeof args;
    args.call = MESHCOLL_SEND_RECV;
    args.recv = received.data();
    args.recv_count = kCount;
    args.dtype = MESHCOLL_FLOAT32;
    args.to = -1;
    args.from = 1;
    for (auto& handle : handles) CHECK(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK);
    CHECK(meshcoll_abort(comm, "enough") == MESHCOLL_OK);
    // All have ended by now.
    for (const auto handle : handles) CHECK(meshcoll_test(comm, handle) == MESHCOLL_ABORTED);
    CHECK_MESSAGE(contains(error_of(comm), "enough"), error_of(comm));
    CHECK(meshcoll_abort(comm, "again") == MESHCOLL_OK);
    meshcoll_comm* group = nullptr;
    CHECK(meshcoll_split(comm, 0, 0, &group) == MESHCOLL_ABORTED);
    CHECK(group == nullptr);
    CHECK(meshcoll_start(comm, &args, handles.data()) == MESHCOLL_OK);
    CHECK(meshcoll_wait(comm, handles[0], -1) == MESHCOLL_ABORTED);
    CHECK_MESSAGE(!contains(error_of(comm), "again"), error_of(comm));
  });
}

TEST_CASE("an abort is its own communicator's: groups live on, and a lonely rank's ends at once") {
  loopback::configure({});
  run_ranks(2, nullptr, [](meshcoll_comm* comm, int rank) {
    meshcoll_comm *pair = nullptr, *alone = nullptr;
    REQUIRE(meshcoll_split(comm, 0, 0, &pair) == MESHCOLL_OK);
    REQUIRE(meshcoll_split(comm, rank, 0, &alone) == MESHCOLL_OK);
    // A split ends here before it ends on the other rank, where the abort must find it done.
    CHECK(meshcoll_barrier(pair) == MESHCOLL_OK);
    if (rank == 0) CHECK(meshcoll_abort(comm, nullptr) == MESHCOLL_OK);
    CHECK(meshcoll_barrier(comm) == MESHCOLL_ABORTED);
    float value = 1;
    CHECK(meshcoll_all_reduce(pair, &value, &value, 1, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
    CHECK(value == 2);
    CHECK(meshcoll_barrier(alone) == MESHCOLL_OK);
    CHECK(meshcoll_abort(alone, "bored") == MESHCOLL_OK);
    CHECK(meshcoll_all_reduce(alone, &value, &value, 1, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_ABORTED);
    CHECK(meshcoll_destroy(pair) == MESHCOLL_OK);
    CHECK(meshcoll_destroy(alone) == MESHCOLL_OK);
  });
}

}  // namespace abort_test
