// Calls that are started and waited for later: their order, their handles, their deadlines.
#include <doctest/doctest.h>

#include <cstdint>
#include <latch>
#include <limits>
#include <thread>
#include <vector>

#include "tests/coll/rank_threads.h"

namespace handle_test {

using namespace meshbed::test;

namespace {

constexpr std::size_t kCount = 500;

meshcoll_args args_of(meshcoll_call call, const std::vector<float>& send, std::vector<float>& recv) {
  meshcoll_args args{};
  args.struct_bytes = sizeof args;
  args.call = call;
  args.send = send.data();
  args.recv = recv.data();
  args.count = args.recv_count = recv.size();
  args.dtype = MESHCOLL_FLOAT32;
  args.op = MESHCOLL_SUM;
  args.to = args.from = -1;
  return args;
}

meshcoll_args receive_from(int peer, std::vector<float>& recv) {
  meshcoll_args args = args_of(MESHCOLL_SEND_RECV, recv, recv);
  args.send = nullptr;
  args.from = peer;
  return args;
}

meshcoll_result send_to(meshcoll_comm* comm, int peer, float value) {
  const std::vector<float> data(kCount, value);
  return meshcoll_send_recv(comm, data.data(), data.size(), peer, nullptr, 0, -1, MESHCOLL_FLOAT32);
}

meshcoll_error parts_of(meshcoll_comm* comm) {
  meshcoll_error error{};
  error.struct_bytes = sizeof error;
  CHECK(meshcoll_get_error(comm, &error) == MESHCOLL_OK);
  return error;
}

}  // namespace

TEST_CASE("calls that were started run in their order, whatever is waited for first") {
  loopback::configure({.seed = 5, .delay_percent = 20});
  run_ranks(3, nullptr, [](meshcoll_comm* comm, int rank) {
    // Each call sums what the one before it has left.
    constexpr int kCalls = 8;
    std::vector<std::vector<float>> values(kCalls + 1, std::vector<float>(kCount, rank == 0 ? 1.0F : 0.0F));
    std::vector<meshcoll_handle> handles(kCalls);
    for (std::size_t i = 0; i < kCalls; ++i) {
      const meshcoll_args args = args_of(MESHCOLL_ALL_REDUCE, values[i], values[i + 1]);
      REQUIRE(meshcoll_start(comm, &args, &handles[i]) == MESHCOLL_OK);
    }
    for (std::size_t i = kCalls; i-- > 0;) CHECK(meshcoll_wait(comm, handles[i], -1) == MESHCOLL_OK);
    float expected = 1;
    for (std::size_t i = 1; i <= kCalls; ++i, expected *= 3) CHECK(values[i] == std::vector<float>(kCount, expected));
    // A blocking call comes after what was started before it.
    std::vector<float> last(kCount);
    const meshcoll_args args = args_of(MESHCOLL_ALL_REDUCE, values[0], values[1]);
    REQUIRE(meshcoll_start(comm, &args, handles.data()) == MESHCOLL_OK);
    CHECK(meshcoll_all_reduce(comm, values[1].data(), last.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM) ==
          MESHCOLL_OK);
    CHECK(last == std::vector<float>(kCount, 3));
    CHECK(meshcoll_test(comm, handles[0]) == MESHCOLL_OK);
  });
}

TEST_CASE("every call can be started: the results are the blocking ones") {
  loopback::configure({});
  run_ranks(3, nullptr, [](meshcoll_comm* comm, int rank) {
    for (int call = MESHCOLL_ALL_REDUCE; call <= MESHCOLL_BARRIER; ++call) {
      std::vector<float> send(3 * kCount), started(3 * kCount, -1), blocking(3 * kCount, -1);
      for (std::size_t i = 0; i < send.size(); ++i)
        send[i] = static_cast<float>(i % 97 + static_cast<std::size_t>(rank));
      meshcoll_args args = args_of(static_cast<meshcoll_call>(call), send, started);
      args.count = args.recv_count = kCount;
      args.to = (rank + 1) % 3;
      args.from = (rank + 2) % 3;
      args.root = 1;
      meshcoll_handle handle = 0;
      CHECK_MESSAGE(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK, error_of(comm));
      CHECK_MESSAGE(meshcoll_wait(comm, handle, -1) == MESHCOLL_OK, error_of(comm));
      const void* in = send.data();
      void* out = blocking.data();
      constexpr auto kType = MESHCOLL_FLOAT32;
      const meshcoll_result result =
          call == MESHCOLL_ALL_REDUCE       ? meshcoll_all_reduce(comm, in, out, kCount, kType, MESHCOLL_SUM)
          : call == MESHCOLL_ALL_GATHER     ? meshcoll_all_gather(comm, in, out, kCount, kType)
          : call == MESHCOLL_REDUCE_SCATTER ? meshcoll_reduce_scatter(comm, in, out, kCount, kType, MESHCOLL_SUM)
          : call == MESHCOLL_BROADCAST      ? meshcoll_broadcast(comm, in, out, kCount, kType, 1)
          : call == MESHCOLL_REDUCE         ? meshcoll_reduce(comm, in, out, kCount, kType, MESHCOLL_SUM, 1)
          : call == MESHCOLL_ALL_TO_ALL     ? meshcoll_all_to_all(comm, in, out, kCount, kType)
          : call == MESHCOLL_GATHER         ? meshcoll_gather(comm, in, out, kCount, kType, 1)
          : call == MESHCOLL_SCATTER        ? meshcoll_scatter(comm, in, out, kCount, kType, 1)
          : call == MESHCOLL_BARRIER        ? meshcoll_barrier(comm)
                                     : meshcoll_send_recv(comm, in, kCount, args.to, out, kCount, args.from, kType);
      CHECK_MESSAGE(result == MESHCOLL_OK, error_of(comm));
      CHECK_MESSAGE(started == blocking, "call ", call);
      const bool receives =
          call != MESHCOLL_BARRIER && (rank == 1 || (call != MESHCOLL_REDUCE && call != MESHCOLL_GATHER));
      CHECK_MESSAGE((started[0] != -1) == receives, "call ", call);
    }
  });
}

TEST_CASE("a wait may end before its call, which goes on") {
  loopback::configure({});
  std::latch waited(1);
  run_ranks(2, nullptr, [&](meshcoll_comm* comm, int rank) {
    if (rank == 1) {
      waited.wait();
      CHECK(send_to(comm, 0, 7) == MESHCOLL_OK);
      return;
    }
    std::vector<float> received(kCount);
    const meshcoll_args args = receive_from(1, received);
    meshcoll_handle handle = 0;
    CHECK(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK);
    CHECK(meshcoll_test(comm, handle) == MESHCOLL_IN_PROGRESS);
    CHECK(meshcoll_wait(comm, handle, 20) == MESHCOLL_IN_PROGRESS);
    waited.count_down();
    CHECK(meshcoll_wait(comm, handle, -1) == MESHCOLL_OK);
    CHECK(received == std::vector<float>(kCount, 7));
  });
}

TEST_CASE("communicators side by side: a call on one ends while one on the other waits for it") {
  loopback::configure({});
  run_ranks(2, nullptr, [](meshcoll_comm* world, int rank) {
    meshcoll_comm* group = nullptr;
    REQUIRE(meshcoll_split(world, 0, 0, &group) == MESHCOLL_OK);
    std::vector<float> first(kCount), second(kCount);
    if (rank == 0) {
      const meshcoll_args args = receive_from(1, first);
      meshcoll_handle handle = 0;
      CHECK(meshcoll_start(world, &args, &handle) == MESHCOLL_OK);
      // Rank 1 sends on the one only after it has received on the other.
      CHECK(send_to(group, 1, 2) == MESHCOLL_OK);
      CHECK(meshcoll_wait(world, handle, -1) == MESHCOLL_OK);
      CHECK(first == std::vector<float>(kCount, 3));
    } else {
      const meshcoll_args args = receive_from(0, second);
      meshcoll_handle handle = 0;
      CHECK(meshcoll_start(group, &args, &handle) == MESHCOLL_OK);
      CHECK(meshcoll_wait(group, handle, -1) == MESHCOLL_OK);
      CHECK(send_to(world, 0, second[0] + 1) == MESHCOLL_OK);
    }
    CHECK(meshcoll_destroy(group) == MESHCOLL_OK);
  });
}

TEST_CASE("a handle that is invalid, used up or another communicator's is an error, and harms nothing") {
  loopback::configure({});
  run_ranks(2, nullptr, [](meshcoll_comm* comm, int) {
    meshcoll_comm* group = nullptr;
    REQUIRE(meshcoll_split(comm, 0, 0, &group) == MESHCOLL_OK);
    std::vector<float> value(kCount, 1), groups_value(kCount, 1);
    meshcoll_args args = args_of(MESHCOLL_ALL_REDUCE, value, value);
    const meshcoll_args groups_args = args_of(MESHCOLL_ALL_REDUCE, groups_value, groups_value);
    meshcoll_handle handle = 0, other = 0;
    REQUIRE(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK);
    REQUIRE(meshcoll_start(group, &groups_args, &other) == MESHCOLL_OK);
    CHECK(handle != other);
    CHECK(meshcoll_wait(comm, other, -1) == MESHCOLL_INVALID_ARGUMENT);
    CHECK_MESSAGE(contains(error_of(comm), "is of another communicator"), error_of(comm));
    CHECK(meshcoll_wait(comm, handle, -1) == MESHCOLL_OK);
    CHECK(meshcoll_wait(comm, handle, -1) == MESHCOLL_INVALID_ARGUMENT);
    CHECK_MESSAGE(contains(error_of(comm), "is used up"), error_of(comm));
    CHECK(meshcoll_test(comm, 0) == MESHCOLL_INVALID_ARGUMENT);
    CHECK_MESSAGE(contains(error_of(comm), "handle 0 is of no call"), error_of(comm));
    CHECK(meshcoll_wait(group, other, -1) == MESHCOLL_OK);
    CHECK(meshcoll_destroy(group) == MESHCOLL_OK);
    // Of what is destroyed: the pointer is compared, never followed.
    CHECK(meshcoll_wait(group, other, -1) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(contains(meshcoll_last_error(group), "no communicator"));
    CHECK(meshcoll_destroy(group) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(meshcoll_abort(group, nullptr) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(meshcoll_rank(group) == -1);
    CHECK(meshcoll_wait(comm, other, -1) == MESHCOLL_INVALID_ARGUMENT);
    // What cannot be started.
    CHECK(meshcoll_start(comm, nullptr, &handle) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(meshcoll_start(comm, &args, nullptr) == MESHCOLL_INVALID_ARGUMENT);
    args.struct_bytes = 8;
    CHECK(meshcoll_start(comm, &args, &handle) == MESHCOLL_INVALID_ARGUMENT);
    args.struct_bytes = sizeof args;
    args.call = static_cast<meshcoll_call>(77);
    CHECK(meshcoll_start(comm, &args, &handle) == MESHCOLL_INVALID_ARGUMENT);
    CHECK_MESSAGE(contains(error_of(comm), "there is no call 77"), error_of(comm));
    CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
  });
}

TEST_CASE("an error's text stays with its thread while other threads cause errors") {
  loopback::configure({});
  run_ranks(1, nullptr, [](meshcoll_comm*, int) {
    meshcoll_options options{};
    options.struct_bytes = sizeof options;
    options.world = 1;
    meshcoll_comm* comm = nullptr;
    REQUIRE(meshcoll_init(&options, &comm) == MESHCOLL_OK);
    int number = 0;
    const auto err = [&](int root) {
      CHECK(meshcoll_broadcast(comm, &number, &number, 1, MESHCOLL_INT32, root) == MESHCOLL_INVALID_ARGUMENT);
    };
    err(3);
    const char* text = meshcoll_last_error(comm);
    std::thread([&] {
      err(4);
      CHECK(std::string(meshcoll_last_error(comm)) == "root is 4 in a world of 1");
    }).join();
    CHECK(std::string(text) == "root is 3 in a world of 1");
    CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
    CHECK(std::string(text) == "root is 3 in a world of 1");
  });
}

TEST_CASE("what was started and never waited for ends before its communicator") {
  loopback::configure({});
  std::vector<std::vector<float>> values(3, std::vector<float>(kCount, 1));
  run_ranks(3, nullptr, [&](meshcoll_comm* comm, int rank) {
    auto& own = values[static_cast<std::size_t>(rank)];
    const meshcoll_args args = args_of(MESHCOLL_ALL_REDUCE, own, own);
    meshcoll_handle handle = 0;
    CHECK(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK);
  });
  for (const auto& own : values) CHECK(own == std::vector<float>(kCount, 3));
}

TEST_CASE("a call's own deadline holds from when it was made, and the error has its parts") {
  loopback::configure({});
  std::latch late(1);
  run_ranks(2, nullptr, [&](meshcoll_comm* comm, int rank) {
    CHECK(parts_of(comm).result == MESHCOLL_OK);
    CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
    std::vector<float> received(kCount);
    if (rank == 1) {
      CHECK(send_to(comm, 0, 1) == MESHCOLL_OK);
      late.wait();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_NET);
      const meshcoll_error error = parts_of(comm);
      CHECK(error.peer == 0);
      CHECK(std::string(error.operation) == "barrier");
      CHECK(error.sequence == 3);
      CHECK_MESSAGE(contains(error.text, "barrier 3: rank 0: send_recv 3: not finished"), error.text);
      return;
    }
    meshcoll_args args = receive_from(1, received);
    meshcoll_handle first = 0, second = 0, third = 0;
    CHECK(meshcoll_start(comm, &args, &first) == MESHCOLL_OK);
    args.timeout_ms = 300;
    CHECK(meshcoll_start(comm, &args, &second) == MESHCOLL_OK);
    CHECK(meshcoll_start(comm, &args, &third) == MESHCOLL_OK);
    CHECK(meshcoll_wait(comm, first, -1) == MESHCOLL_OK);
    CHECK(meshcoll_wait(comm, second, -1) == MESHCOLL_TIMEOUT);
    const meshcoll_error error = parts_of(comm);
    CHECK(error.result == MESHCOLL_TIMEOUT);
    CHECK(error.peer == 1);
    CHECK(std::string(error.operation) == "send_recv");
    CHECK(error.sequence == 3);
    CHECK_MESSAGE(contains(error.text, "channel 0: receive from rank 1 (0 slices done"), error.text);
    // What came behind it never begins.
    CHECK(meshcoll_wait(comm, third, -1) == MESHCOLL_TIMEOUT);
    CHECK_MESSAGE(contains(error_of(comm), "broken since an earlier error: send_recv 3"), error_of(comm));
    late.count_down();
  });
}

TEST_CASE("what a call has not is not looked at, and for ever may be said in milliseconds") {
  loopback::configure({});
  const auto for_ever = [](meshcoll_options& options) {
    options.connect_timeout_ms = options.operation_timeout_ms = std::numeric_limits<std::int64_t>::max();
  };
  run_ranks(2, for_ever, [](meshcoll_comm* comm, int rank) {
    const std::vector<float> sent(kCount, static_cast<float>(rank + 1));
    std::vector<float> received(kCount);
    meshcoll_args args = args_of(MESHCOLL_ALL_REDUCE, sent, received);
    args.root = -1;
    meshcoll_handle handle = 0;
    REQUIRE_MESSAGE(meshcoll_start(comm, &args, &handle) == MESHCOLL_OK, error_of(comm));
    CHECK(meshcoll_wait(comm, handle, -1) == MESHCOLL_OK);
    CHECK(received == std::vector<float>(kCount, 3));
    CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
  });
}

}  // namespace handle_test
