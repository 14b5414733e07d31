// What strangers may hold at a port of ours, over the real loopback: its addresses 127.0.0.1, 127.0.0.2 ... are as many
// machines.
#include "plugin/net/connect/first_messages.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "plugin/base/log.h"
#include "tests/net/addresses.h"

namespace first_messages_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

const std::size_t kClientsMax = AcceptQueueOptions{}.clients_max;

std::string g_warnings;

/// An accept queue whose warnings are kept, and callers from addresses of the loopback network.
class Scene {
 public:
  /// `cable`: 127.0.0.1/24 is a cable's address.
  explicit Scene(bool cable = false) {
    if (cable) nics_.push_back(test::nic("rocep1s0f0", {"127.0.0.1/24"}));
    g_warnings.clear();
    set_log_sink([](LogLevel level, const char*, int, const char* text) {
      if (level == LogLevel::kWarn) g_warnings += std::string(text) + "\n";
    });
    REQUIRE(first_messages.open(
        false, {.name = "test", .patience_ms = 30000, .is_over_cable = [this](const auto& own, const auto& client) {
                  return is_over_cable(nics_, own, client);
                }}));
  }
  ~Scene() {
    set_log_sink(nullptr);
    for (const int caller : callers_) ::close(caller);
  }

  /// Comes from 127.0.0.`host`, 127.0.1.0 where that is 256; nothing is said.
  int call(int host) {
    const int caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(caller >= 0);
    callers_.push_back(caller);
    sockaddr_in own = loopback(host, 0), there = loopback(1, first_messages.queue().port());
    REQUIRE(::bind(caller, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
    REQUIRE(::connect(caller, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0);
    return caller;
  }
  static void say_ready(int caller) {
    std::array<std::uint8_t, kWireLargestBytes> bytes{};
    const std::size_t length = encode_message({.type = WireType::kReady, .cookie = 7, .end = {}, .reason = ""}, bytes);
    REQUIRE(::send(caller, bytes.data(), length, 0) == static_cast<ssize_t>(length));
  }
  std::size_t waiting() const {
    std::vector<pollfd> watched;
    first_messages.queue().watch(watched);
    return watched.size();
  }

  FirstMessages first_messages;
  std::vector<Arrival> arrivals;

 private:
  static sockaddr_in loopback(int host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl((127U << 24U) + static_cast<unsigned>(host));
    return address;
  }
  std::vector<Nic> nics_;
  std::vector<int> callers_;
};

}  // namespace

TEST_CASE("a thousand silent callers hold 64 connections, and cost a warning at each doubling") {
  Scene scene;
  for (int round = 0; round < 10; ++round) {
    for (int caller = 0; caller < 100; ++caller) scene.call(1);
    REQUIRE(scene.first_messages.advance(scene.arrivals));
    CHECK(scene.waiting() == kClientsMax);
  }
  CHECK(scene.arrivals.empty());
  // 936 were dropped: number 1, 2, 3, 4, 8, 16 ... 512 are logged.
  CHECK(std::count(g_warnings.begin(), g_warnings.end(), '\n') == 11);
  CHECK(g_warnings.find("more wait here than may, most of them from that address; 512 were dropped here so far") !=
        std::string::npos);
}

TEST_CASE("those who say who they are get in, though a crowd from another address came before and after them") {
  Scene scene;
  const int early = scene.call(2);
  for (int caller = 0; caller < 80; ++caller) scene.call(1);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  for (int caller = 0; caller < 80; ++caller) scene.call(1);
  const int late = scene.call(3);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.arrivals.empty());
  scene.say_ready(early);
  scene.say_ready(late);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  REQUIRE(scene.arrivals.size() == 2);
  CHECK(to_text(scene.arrivals[0].remote.address) == "127.0.0.2");
  CHECK(to_text(scene.arrivals[1].remote.address) == "127.0.0.3");
  CHECK(scene.arrivals[0].message.cookie == 7);
  CHECK(scene.waiting() == kClientsMax - 2);
}

TEST_CASE("a client of the crowd that has introduced itself when room is made is not removed") {
  Scene scene;
  const int first = scene.call(1);
  scene.say_ready(first);
  for (int caller = 0; caller < 64; ++caller) scene.call(1);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.arrivals.size() == 1);
  CHECK(g_warnings.empty());
}

TEST_CASE("a peer that comes over a cable with two hundred connections at once may take a second to say why") {
  Scene scene(true);
  std::vector<int> callers;
  for (int caller = 0; caller < 200; ++caller) callers.push_back(scene.call(2));
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.waiting() == 200);
  for (int caller = 0; caller < 100; ++caller) scene.say_ready(callers[static_cast<std::size_t>(caller)]);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.arrivals.size() == 100);
  CHECK(g_warnings.empty());
  // The others never say anything.
  for (int look = 0; look < 60 && scene.waiting() > kClientsMax; ++look) {
    ::poll(nullptr, 0, 50);
    REQUIRE(scene.first_messages.advance(scene.arrivals));
  }
  CHECK(scene.waiting() == kClientsMax);
}

TEST_CASE(
    "a client that dials a cable's address from another subnet came over no cable: a router brought it, or our "
    "kernel") {
  Scene scene(true);
  constexpr int kFromElsewhere = 257;
  for (int caller = 0; caller < 100; ++caller) scene.call(kFromElsewhere);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.waiting() == kClientsMax);
}

TEST_CASE("each look lets in so many, and the others wait outside") {
  Scene scene(true);
  for (int caller = 0; caller < 300; ++caller) scene.call(2);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.waiting() == AcceptQueueOptions().accepted_at_once);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  CHECK(scene.waiting() == 300);
  CHECK(g_warnings.empty());
}

TEST_CASE("those who come over a cable within moments are not without number either") {
  Scene scene(true);
  for (int caller = 0; caller < 1100; ++caller) {
    scene.call(2);
    if (caller % 100 == 99) REQUIRE(scene.first_messages.advance(scene.arrivals));
  }
  CHECK(scene.waiting() == AcceptQueue::kClientsOverCablesMax);
}

namespace {

/// While it lives this process gets no further descriptor.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none_left{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  }
  ~NoDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("where the process has no descriptor left, strangers make room") {
  Scene scene;
  for (int caller = 0; caller < 8; ++caller) scene.call(1);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  const int peer = scene.call(2);
  scene.say_ready(peer);
  bool advanced = false;
  {
    const NoDescriptorLeft limit;
    advanced = static_cast<bool>(scene.first_messages.advance(scene.arrivals));
  }
  CHECK(advanced);
  REQUIRE(scene.arrivals.size() == 1);
  CHECK(to_text(scene.arrivals[0].remote.address) == "127.0.0.2");
}

TEST_CASE("no descriptor left, and no new client: waiting clients stay") {
  Scene scene;
  for (int caller = 0; caller < 8; ++caller) scene.call(1);
  REQUIRE(scene.first_messages.advance(scene.arrivals));
  bool advanced = false;
  {
    const NoDescriptorLeft limit;
    advanced = static_cast<bool>(scene.first_messages.advance(scene.arrivals));
  }
  CHECK(advanced);
  CHECK(scene.waiting() == 8);
  CHECK(g_warnings.empty());
  CHECK_FALSE(scene.first_messages.queue().is_paused());
}

TEST_CASE(
    "no descriptor left, and no client that could go: accepting pauses, with one warning, and then the client gets "
    "in") {
  Scene scene;
  const int peer = scene.call(2);
  scene.say_ready(peer);
  bool advanced = true;
  {
    const NoDescriptorLeft limit;
    for (int look = 0; look < 6; ++look) {
      advanced = advanced && static_cast<bool>(scene.first_messages.advance(scene.arrivals));
      if (look == 0) CHECK(scene.first_messages.queue().is_paused());
      ::poll(nullptr, 0, 30);
    }
  }
  CHECK(advanced);
  CHECK(std::count(g_warnings.begin(), g_warnings.end(), '\n') == 1);
  CHECK(g_warnings.find("Too many open files: no client can connect before") != std::string::npos);
  // poll(2) does not find the port readable meanwhile, which would be the same look again and again.
  for (int look = 0; look < 20 && scene.first_messages.queue().is_paused(); ++look) {
    CHECK(scene.first_messages.queue().descriptor() == -1);
    ::poll(nullptr, 0, 30);
    REQUIRE(scene.first_messages.advance(scene.arrivals));
  }
  CHECK(scene.first_messages.queue().descriptor() >= 0);
  REQUIRE(scene.arrivals.size() == 1);
  CHECK(to_text(scene.arrivals[0].remote.address) == "127.0.0.2");
}

}  // namespace first_messages_test
