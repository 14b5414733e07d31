// The rendezvous over real sockets on this machine.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "tests/coll/rank_threads.h"

namespace store_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

Identity identity(int rank, int world) {
  return {.world = static_cast<std::uint32_t>(world),
          .rank = static_cast<std::uint32_t>(rank),
          .channels = 1,
          .steps = 8,
          .slice_bytes = 1 << 20};
}

std::unique_ptr<StoreServer> serve(const std::string& address, int world) {
  auto server =
      StoreServer::start({.address = *parse_address(address), .identity = identity(0, world), .linger_ms = 2000});
  REQUIRE_MESSAGE(server.has_value(), server.error().text);
  return std::move(*server);
}

std::unique_ptr<StoreClient> join(const std::string& address, int rank, int world) {
  auto client = StoreClient::connect(address, identity(rank, world), Deadline::after_ms(5000));
  REQUIRE_MESSAGE(client.has_value(), client.error().text);
  return std::move(*client);
}

Socket raw_client(const std::string& address) {
  auto socket = connect_to(*parse_address(address), Deadline::after_ms(5000));
  REQUIRE(socket.has_value());
  return std::move(*socket);
}

}  // namespace

TEST_CASE("a value reaches the rank that asks for it, before or after it is set, and once") {
  const std::string address = free_address();
  auto server = serve(address, 2);
  auto zero = join(address, 0, 2), one = join(address, 1, 2);
  CHECK(zero->set("early", std::string("a\0b", 3)).has_value());
  CHECK(*one->get("early", Deadline::after_ms(5000)) == std::string("a\0b", 3));
  const auto asked = one->begin_get("late");
  CHECK(zero->set("late", "value").has_value());
  while (!one->failure()) {
    REQUIRE(one->poll(5000).has_value());
    if (const auto value = one->take(*asked)) {
      CHECK(*value == "value");
      break;
    }
  }
  const auto nothing = one->get("early", Deadline::after_ms(50));
  REQUIRE_FALSE(nothing.has_value());
  CHECK(nothing.error().code == ErrorCode::kTimeout);
}

TEST_CASE("a barrier of 64 ranks opens for all, again and again") {
  const std::string address = free_address();
  auto server = serve(address, 64);
  std::atomic<int> here{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 64; ++rank) {
    threads.emplace_back([&, rank] {
      auto client = join(address, rank, 64);
      for (int round = 1; round <= 5; ++round) {
        ++here;
        CHECK(client->barrier(20000).has_value());
        CHECK(here.load() >= 64 * round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a barrier that times out names who never came and who came but does not take part") {
  const std::string address = free_address();
  auto server = serve(address, 4);
  auto zero = join(address, 0, 4), two = join(address, 2, 4);
  const auto result = zero->barrier(100);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::kTimeout);
  CHECK(contains(result.error().text, "ranks 1, 3 never reached rank 0"));
  CHECK(contains(result.error().text, "rank 2 did not come to the barrier"));
}

TEST_CASE("rubbish, silence and half a frame delay no rank") {
  const std::string address = free_address();
  auto server = serve(address, 2);
  const Socket silent = raw_client(address), half = raw_client(address), rubbish = raw_client(address);
  std::string bytes(5, '\1');
  write_from(half, &bytes);
  bytes = "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n";
  write_from(rubbish, &bytes);
  auto zero = join(address, 0, 2), one = join(address, 1, 2);
  std::thread other([&] { CHECK(one->barrier(5000).has_value()); });
  CHECK(zero->barrier(5000).has_value());
  other.join();
  // The one that spoke rubbish was shown the door.
  CHECK(rubbish.wait_for(POLLIN, 5000));
  std::string answer;
  CHECK(read_into(rubbish, &answer) == SocketOutcome::kClosed);
}

TEST_CASE("100 000 random and mutated frames from unknown clients crash nothing") {
  const std::string address = free_address();
  auto server = serve(address, 3);  // one rank never comes, so that there is a door to knock at
  auto zero = join(address, 0, 3);
  Prng prng(11);
  const std::string hello = encode({FrameType::kHello, 0, encode_hello(identity(1, 3))});
  int frames = 0;
  while (frames < 100000) {
    const Socket client = raw_client(address);
    std::string bytes;
    for (int i = 0; i < 200; ++i, ++frames) {
      std::string frame = hello;
      // The first frame of some clients is good, so that the other requests are reached as well.
      const std::uint64_t flips = i == 0 ? prng.below(2) : 1 + prng.below(4);
      if (i > 0) {
        frame = encode({static_cast<FrameType>(1 + prng.below(11)), static_cast<std::uint32_t>(prng.next()),
                        std::string(prng.below(60), static_cast<char>(prng.below(256)))});
      }
      for (std::uint64_t flip = 0; flip < flips && prng.below(4) != 0; ++flip) {
        frame[prng.below(frame.size())] = static_cast<char>(prng.below(256));
      }
      bytes += frame;
    }
    write_from(client, &bytes);
  }
  // Still there, and still itself.
  CHECK(zero->set("key", "value").has_value());
  const auto value = zero->begin_get("key");
  CHECK(value.has_value());
}

TEST_CASE("a rank that is lost is announced to all others; one that says goodbye is not") {
  const std::string address = free_address();
  auto server = serve(address, 3);
  auto zero = join(address, 0, 3);
  join(address, 1, 3).reset();
  {
    const Socket lost = raw_client(address);
    std::string hello = encode({FrameType::kHello, 0, encode_hello(identity(2, 3))});
    write_from(lost, &hello);
    REQUIRE(lost.wait_for(POLLIN, 5000));
  }
  while (!zero->failure()) REQUIRE(zero->poll(5000).has_value());
  CHECK(contains(*zero->failure(), "rank 2 is lost"));
}

TEST_CASE("a barrier without a rank that failed and left says why it failed, whatever is read first") {
  const std::string address = free_address();
  auto server = serve(address, 2);
  auto zero = join(address, 0, 2);
  join(address, 1, 2)->announce_failure("its plugin does not load");
  // Zero has not read anything yet: the failure and the barrier's answer lie before it together.
  const auto barrier = zero->barrier(5000);
  REQUIRE_FALSE(barrier.has_value());
  CHECK(barrier.error().code == ErrorCode::kRemote);
  CHECK_MESSAGE(barrier.error().text == "rank 1: its plugin does not load", barrier.error().text);
}

TEST_CASE("an abort is sent before anything that its rank does because of it") {
  // Another thread of the rank finds the abort at once and refuses a peer: the peer must not read that refusal alone.
  int read_alone = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string address = free_address();
    auto server = serve(address, 2);
    auto aborts = join(address, 0, 2), peer = join(address, 1, 2);
    const auto asked = peer->begin_get("outcome");
    REQUIRE(asked.has_value());
    std::atomic<bool> waits{false};
    std::thread service([&] {
      waits = true;
      while (!aborts->aborted()) CHECK(aborts->set("another", "value").has_value());
      CHECK(aborts->set("outcome", "refused").has_value());
    });
    aborts->abort(std::string(kFrameBodyBytesMax, 'x'));
    std::optional<std::string> refusal;
    while (!refusal) {
      REQUIRE(peer->poll(5000).has_value());
      refusal = peer->take(*asked);
    }
    if (!peer->failure()) ++read_alone;
    service.join();
  }
  CHECK(read_alone == 0);
}

TEST_CASE("who has caught up with rank 0 knows of a failure that another rank knows of") {
  for (int round = 0; round < 200; ++round) {
    constexpr int kWorld = 8;
    const std::string address = free_address();
    auto server = serve(address, kWorld);
    std::vector<std::unique_ptr<StoreClient>> clients;
    for (int rank = 0; rank < kWorld; ++rank) clients.push_back(join(address, rank, kWorld));
    std::atomic<bool> is_known{false};
    std::thread fails([&] {
      clients.front()->announce_failure("no more");
      is_known = true;
    });
    // The last that rank 0 passes it on to.
    StoreClient& last = *clients.back();
    while (!is_known) {
    }
    last.catch_up();
    CHECK(last.failure().has_value());
    fails.join();
  }
}

TEST_CASE("a barrier that a failed rank is in opens for no rank") {
  const std::string address = free_address();
  auto server = serve(address, 2);
  auto one = join(address, 1, 2);
  auto zero = raw_client(address);
  std::string said = encode({FrameType::kHello, 0, encode_hello(identity(0, 2))}) +
                     encode({FrameType::kBarrier, 1, encode_u32(5000)}) + encode({FrameType::kFail, 1, "no more"});
  REQUIRE(write_from(zero, &said) == SocketOutcome::kMoved);
  std::string heard;
  for (bool echoed = false, broken = false; !echoed;) {
    REQUIRE(zero.wait_for(POLLIN, 5000));
    REQUIRE(read_into(zero, &heard) != SocketOutcome::kClosed);
    while (auto frame = take_frame(&heard, &broken)) echoed |= frame->type == FrameType::kFailed;
    REQUIRE_FALSE(broken);
  }
  // One has not read the failure yet, and completes the number of those that have come.
  const auto barrier = one->barrier(5000);
  REQUIRE_FALSE(barrier.has_value());
  CHECK_MESSAGE(barrier.error().text == "rank 0: no more", barrier.error().text);
}

TEST_CASE("a rank that comes twice, or that does not exist, is refused with the reason") {
  const std::string address = free_address();
  auto server = serve(address, 2);
  auto one = join(address, 1, 2);
  const auto twice = StoreClient::connect(address, identity(1, 2), Deadline::after_ms(5000));
  REQUIRE_FALSE(twice.has_value());
  CHECK(contains(twice.error().text, "rank 1 is here already"));
  const auto unknown = StoreClient::connect(address, identity(2, 2), Deadline::after_ms(5000));
  REQUIRE_FALSE(unknown.has_value());
  CHECK(contains(unknown.error().text, "there is no rank 2"));
}

TEST_CASE("an empty rendezvous is a timeout that names the address") {
  const std::string address = free_address();
  const auto client = StoreClient::connect(address, identity(1, 2), Deadline::after_ms(100));
  REQUIRE_FALSE(client.has_value());
  CHECK(client.error().code == ErrorCode::kTimeout);
  CHECK(contains(client.error().text, "rank 0 does not answer at " + address));
}

TEST_CASE("a caller whose own port is the rendezvous's is not its own rank 0") {
  int first = 0, last = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  REQUIRE(first < last);
  // No process listens at a port that the kernel gives to callers (those as even as the first, first): going through
  // them all, it gives this one, too.
  SocketAddress address;
  for (int port = first; port <= last; port += 2) {
    address = *parse_address("127.0.0.1:" + std::to_string(port));
    if (listen_at(address).has_value()) break;
  }
  for (int call = first; call <= last; ++call) {
    const auto connected = connect_to(address, Deadline::after_ms(0));
    REQUIRE_MESSAGE(!connected.has_value(), "call ", call - first, " is connected");
    REQUIRE(connected.error().os_errno == ECONNREFUSED);
  }
}

TEST_CASE(
    "after a wait in vain a rank asks who waits too, and whether the store still answers: a machine without power ends "
    "no connection") {
  const std::string address = free_address();
  {
    auto server = serve(address, 2);
    auto one = join(address, 1, 2);
    auto none = one->waiting_ranks();
    REQUIRE(none.has_value());
    CHECK_FALSE((*none)[1]);
    for (const bool waits : {true, false, true}) {
      REQUIRE(one->tell_waiting(waits ? 0 : -1).has_value());
      const auto told = one->waiting_ranks();
      REQUIRE(told.has_value());
      CHECK((*told)[1] == waits);
      CHECK_FALSE((*told)[0]);
      const auto behind = one->waits_behind(1);
      REQUIRE(behind.has_value());
      CHECK(*behind == (waits ? std::vector<int>{0} : std::vector<int>{}));
    }
    REQUIRE(one->tell_waiting(1).has_value());
    CHECK(one->waits_behind(1).value() == std::vector<int>{1});  // a circle
    CHECK(one->waits_behind(7).value().empty());
  }
  const std::string silent = free_address();
  auto listener = listen_at(*parse_address(silent));
  REQUIRE(listener.has_value());
  std::unique_ptr<StoreClient> one;
  std::thread joining([&] { one = join(silent, 1, 2); });
  Socket socket;
  while (!socket.is_open()) {
    listener->wait_for(POLLIN, 5000);
    socket = Socket(::accept4(listener->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  std::string welcome = encode({FrameType::kWelcome, 0, {}});
  CHECK(write_from(socket, &welcome) == SocketOutcome::kMoved);
  joining.join();
  const auto alive = one->waiting_ranks();
  REQUIRE_FALSE(alive.has_value());
  CHECK(alive.error().text == "rank 0's store at " + silent + " has not answered for 2000 ms");
  // Nor does one wait for ever where no deadline was asked for.
  const auto barrier = one->barrier(0, 50);
  REQUIRE_FALSE(barrier.has_value());
  CHECK(barrier.error().text == "rank 0's store at " + silent + " has not answered for 50 ms");
}

TEST_CASE("the rendezvous stands on IPv6 as well") {
  const std::string ipv4 = free_address();
  const std::string address = "[::1]" + ipv4.substr(ipv4.find(':'));
  auto started =
      StoreServer::start({.address = *parse_address(address), .identity = identity(0, 2), .linger_ms = 2000});
  if (!started) {
    WARN_MESSAGE(started.has_value(), "skipped: no IPv6 loopback here: " << started.error().text);
    return;
  }
  auto one = join(address, 1, 2);
  CHECK(one->set("key", "value").has_value());
  CHECK(one->get("key", Deadline::after_ms(5000)).has_value());
}

}  // namespace store_test
