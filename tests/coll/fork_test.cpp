// A child of fork() shares its parent's connections: what it closes, or leaves behind when it ends, is not the rank's.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "tests/coll/rank_threads.h"

namespace fork_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

/// Runs `body` in a child; its status.
template <typename Body>
int status_in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a child that destroys its parent's store client does not say goodbye for it") {
  const std::string address = free_address();
  auto server =
      StoreServer::start({.address = *parse_address(address), .identity = {.world = 2, .rank = 0}, .linger_ms = 2000});
  REQUIRE(server.has_value());
  auto zero = StoreClient::connect(address, {.world = 2, .rank = 0}, Deadline::after_ms(5000));
  auto one = StoreClient::connect(address, {.world = 2, .rank = 1}, Deadline::after_ms(5000));
  REQUIRE(zero.has_value());
  REQUIRE(one.has_value());
  CHECK(status_in_child([&] {
          one->reset();
          return 0;
        }) == 0);
  std::thread other([&] { CHECK((*one)->barrier(10000).has_value()); });
  const auto barrier = (*zero)->barrier(10000);
  CHECK_MESSAGE(barrier.has_value(), (barrier ? "" : barrier.error().text));
  other.join();
}

TEST_CASE("a communicator is refused in a child of its process, with the reason, and goes on in the parent") {
  loopback::configure({});
  const std::string address = free_address();
  std::atomic<bool> child_ended{false};  // the other rank is in no call at the fork, whose locks a child would inherit
  run_ranks(
      2, [&](meshcoll_options& options) { options.bootstrap = address.c_str(); },
      [&](meshcoll_comm* comm, int rank) {
        while (rank == 0 && !child_ended) std::this_thread::yield();
        if (rank == 1) {
          const int status = status_in_child([&] {
            int number = 1;
            if (meshcoll_all_reduce(comm, &number, &number, 1, MESHCOLL_INT32, MESHCOLL_SUM) !=
                MESHCOLL_INVALID_ARGUMENT) {
              return 1;
            }
            if (meshcoll_abort(comm, "the child ends") != MESHCOLL_INVALID_ARGUMENT) return 2;
            if (meshcoll_destroy(comm) != MESHCOLL_INVALID_ARGUMENT) return 3;
            return contains(error_of(comm), "comm: called in a child (fork) of the process") ? 0 : 4;
          });
          child_ended = true;
          CHECK(status == 0);
        }
        int number = 1;
        CHECK(meshcoll_all_reduce(comm, &number, &number, 1, MESHCOLL_INT32, MESHCOLL_SUM) == MESHCOLL_OK);
        CHECK(number == 2);
      });
}

}  // namespace fork_test
