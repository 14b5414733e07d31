// Ranks that are processes of their own, here three threads with a host each, meeting over the loopback interface.
#include "testbed/world/metal_host.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace metal_host_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

/// A MASTER_PORT whose two successors are free now.
int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  socklen_t length = sizeof address;
  REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(descriptor);
  return ntohs(address.sin_port) - 1;
}

void run_hosts(int ranks, const std::function<void(MetalHost&)>& body) {
  const int port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto host =
          MetalHost::meet({.rank = rank, .ranks = ranks, .address = "127.0.0.1", .port = port, .said_by = "the test"},
                          Deadline::after_ms(60'000));
      REQUIRE_MESSAGE(host.has_value(), host.error().text);
      body(**host);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("an IPv6 address must be in brackets before its port, once") {
  CHECK(address_and_port("10.0.0.1", 29'500) == "10.0.0.1:29500");
  CHECK(address_and_port("node0.local", 1) == "node0.local:1");
  CHECK(address_and_port("fd01::1", 29'500) == "[fd01::1]:29500");
  CHECK(address_and_port("[fd01::1]", 29'500) == "[fd01::1]:29500");
}

TEST_CASE("a rendezvous releases no rank before all are there") {
  std::atomic<int> arrived{0};
  run_hosts(3, [&](MetalHost& host) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      CHECK(host.rendezvous().has_value());
      CHECK(arrived >= 3 * round);
      CHECK(host.rendezvous().has_value());
    }
  });
}

TEST_CASE("what one rank publishes another looks up, once and when it is there; long texts are handed over whole") {
  run_hosts(2, [&](MetalHost& host) {
    const std::string text(100'000, 'x');
    if (host.rank() == 0) {
      CHECK(host.look_up("later")->has_value() == false);
      CHECK(host.rendezvous().has_value());
      std::optional<std::string> value;
      while (!value) value = *host.look_up("later");
      CHECK(*value == std::string("a\0b", 3));
      CHECK(*host.take_over("text") == text);
      CHECK(host.take_over("empty")->empty());
    } else {
      CHECK(host.rendezvous().has_value());
      CHECK(host.publish("later", std::string("a\0b", 3)).has_value());
      CHECK(host.hand_over("text", text).has_value());
      CHECK(host.hand_over("empty", "").has_value());
    }
    CHECK(host.rendezvous().has_value());
  });
}

TEST_CASE("a failure reaches every rank, with the first one's name, and no rank waits for one that has ended") {
  run_hosts(3, [&](MetalHost& host) {
    if (host.rank() == 2) {
      host.announce_failure("no such device");
      return;
    }
    const Result<void> all = host.rendezvous();
    CHECK_FALSE(all.has_value());
    CHECK(host.others_failed());
    CHECK(host.failure() == "rank 2: no such device");
  });
}

TEST_CASE("the threads of a rank run one at a time and change over where they are idle") {
  run_hosts(1, [&](MetalHost& host) {
    int turn = 0, inside = 0;
    const auto thread = [&](int mine) {
      return RankThread{.name = "test", .body = [&, mine] {
                          for (int round = 0; round < 100; ++round) {
                            while (turn % 2 != mine) host.idle("test");
                            CHECK(++inside == 1);  // not atomic: ThreadSanitizer would see a second one inside
                            --inside;
                            ++turn;
                          }
                        }};
    };
    host.run_together({thread(0), thread(1)});
    CHECK(turn == 200);
  });
}

}  // namespace metal_host_test
