// Strangers at rank 0's store, over real sockets on this machine: what a job with a key refuses, and what clients that
// never become ranks cost.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugin/base/log.h"
#include "plugin/base/prng.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "tests/coll/rank_threads.h"
#include "tests/support/heap.h"

namespace stranger_test {

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

/// A job's meeting place, with rank 0's store at it.
struct Job {
  explicit Job(int ranks, std::optional<JobKey> its_key = JobKey::draw().value())
      : world(ranks), key(std::move(its_key)), address(free_address()) {
    auto started = StoreServer::start(
        {.address = *parse_address(address), .identity = identity(0, world), .linger_ms = 2000, .key = key});
    REQUIRE_MESSAGE(started.has_value(), started.error().text);
    server = std::move(*started);
  }
  std::string place() const { return key ? address + "/" + key->text() : address; }
  std::unique_ptr<StoreClient> join(int rank) const {
    auto client = StoreClient::connect(place(), identity(rank, world), Deadline::after_ms(10000));
    REQUIRE_MESSAGE(client.has_value(), client.error().text);
    return std::move(*client);
  }
  /// Why a rank that goes to `place` does not get in.
  std::string refusal(const std::string& at, int rank) const {
    const auto client = StoreClient::connect(at, identity(rank, world), Deadline::after_ms(10000));
    REQUIRE_FALSE(client.has_value());
    return client.error().text;
  }
  Socket stranger() const {
    auto socket = connect_to(*parse_address(address), Deadline::after_ms(10000));
    REQUIRE_MESSAGE(socket.has_value(), socket.error().text);
    return std::move(*socket);
  }

  int world;
  std::optional<JobKey> key;
  std::string address;
  std::unique_ptr<StoreServer> server;
};

/// What a store, or a client, sends to us.
class Frames {
 public:
  explicit Frames(const Socket& socket) : socket_(socket) {}
  /// The next frame; one of type kBye where the connection has ended first.
  Frame next() {
    for (bool broken = false;;) {
      if (auto frame = take_frame(&bytes_, &broken)) return *frame;
      REQUIRE_FALSE(broken);
      REQUIRE(socket_.wait_for(POLLIN, 10000));
      if (read_into(socket_, &bytes_) == SocketOutcome::kClosed) return {.type = FrameType::kBye, .body = {}};
    }
  }

 private:
  const Socket& socket_;
  std::string bytes_;
};

void write_all(const Socket& socket, std::string bytes) {
  while (write_from(socket, &bytes) == SocketOutcome::kWouldBlock) REQUIRE(socket.wait_for(POLLOUT, 10000));
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

constexpr std::size_t kMiB = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("a rank without the job's key, or with another job's, is refused with the reason") {
  const Job job(2);
  auto one = job.join(1);
  CHECK(contains(job.refusal(job.address + "/" + JobKey::draw().value().text(), 0), "it is of another job"));
  CHECK(contains(job.refusal(job.address, 0), "it has no job key and this job has one"));
  auto zero = job.join(0);
  CHECK(zero->set("key", "value").has_value());
  CHECK(one->get("key", Deadline::after_ms(5000)).value() == "value");

  const Job open(2, std::nullopt);
  CHECK(contains(open.refusal(open.address + "/" + job.key->text(), 1), "it has a job key and this job has none"));
  CHECK(contains(open.refusal(open.address + "/0123", 1), "is not 32 hexadecimal digits"));
  CHECK(open.join(1) != nullptr);
}

TEST_CASE("a recorded introduction takes no rank") {
  const auto key = JobKey::draw().value();
  std::string recorded;
  {
    // An earlier start of the job, with the same key.
    const Job job(3, key);
    const Socket rank = job.stranger();
    const std::string nonce = draw_nonce().value(), hello = encode_hello(identity(1, 3));
    recorded = encode({FrameType::kProve, 0, nonce});
    write_all(rank, recorded);
    Frames frames(rank);
    const Frame challenge = frames.next();
    REQUIRE(challenge.type == FrameType::kChallenge);
    const std::string proven =
        encode({FrameType::kHello, 0, hello + key.proof(JobKey::Side::kRank, nonce, challenge.body, hello)});
    recorded += proven;
    write_all(rank, proven);
    const Frame welcome = frames.next();
    CHECK(welcome.type == FrameType::kWelcome);
    CHECK(welcome.body == key.proof(JobKey::Side::kServer, nonce, challenge.body, hello));
  }
  const Job job(3, key);
  auto zero = job.join(0), two = job.join(2);
  {
    const Socket replayed = job.stranger();
    write_all(replayed, recorded);
    Frames frames(replayed);
    CHECK(frames.next().type == FrameType::kChallenge);
    const Frame refused = frames.next();
    CHECK(refused.type == FrameType::kRefused);
    CHECK(contains(refused.body, "another job"));
  }
  auto one = job.join(1);
  std::thread first([&] { CHECK(one->barrier(10000).has_value()); });
  std::thread second([&] { CHECK(two->barrier(10000).has_value()); });
  CHECK(zero->barrier(10000).has_value());
  first.join();
  second.join();
}

TEST_CASE(
    "a rank that strangers displace, before or after the challenge, introduces itself again until it is accepted") {
  const auto key = JobKey::draw().value();
  const std::string address = free_address(), hello = encode_hello(identity(1, 2));
  auto listener = listen_at(*parse_address(address));
  REQUIRE(listener.has_value());
  std::thread rank_0([&] {
    constexpr int kDisplaced = 30;
    for (int call = 0; call <= kDisplaced; ++call) {
      if (!listener->wait_for(POLLIN, 10000)) return;  // it has given up: the check below fails
      const Socket caller(::accept4(listener->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (call % 2 == 0 && call < kDisplaced) continue;
      Frames frames(caller);
      const Frame prove = frames.next();
      CHECK(prove.type == FrameType::kProve);
      const std::string challenge(kNonceBytes, 'n');
      write_all(caller, encode({FrameType::kChallenge, 0, challenge}));
      CHECK(frames.next().type == FrameType::kHello);
      if (call < kDisplaced) continue;
      const std::string proof = key.proof(JobKey::Side::kServer, prove.body, challenge, hello);
      write_all(caller, encode({FrameType::kWelcome, 0, proof}));
      CHECK(frames.next().type == FrameType::kBye);
    }
  });
  {
    const auto client = StoreClient::connect(address + "/" + key.text(), identity(1, 2), Deadline::after_ms(10000));
    CHECK_MESSAGE(client.has_value(), client.error().text);
  }
  rank_0.join();
}

TEST_CASE(
    "a rank that was displaced waits for room in rank 0's queue until its deadline, and for a rank 0 that ended") {
  const auto key = JobKey::draw().value();
  for (const bool ends : {false, true}) {
    const SocketAddress address = *parse_address(free_address());
    auto listener = listen_at(address);
    REQUIRE(listener.has_value());
    REQUIRE(::listen(listener->descriptor(), 1) == 0);
    const std::string hello = encode_hello(identity(1, 2));
    std::thread rank_0([&] {
      if (!listener->wait_for(POLLIN, 10000)) return;  // it did not call: the check below fails, as behind the loop
      Socket displaced(::accept4(listener->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      std::vector<Socket> strangers;
      for (auto stranger = connect_to(address, Deadline::after_ms(0)); stranger;
           stranger = connect_to(address, Deadline::after_ms(0))) {
        strangers.push_back(std::move(*stranger));
      }
      displaced.close();
      ::poll(nullptr, 0, 2500);  // longer than the rank would look for a rank 0 that has ended
      if (ends) {
        listener->close();
        return;
      }
      strangers.clear();
      Socket caller;
      Frame prove;
      do {  // those who have left are accepted before the rank
        if (!listener->wait_for(POLLIN, 10000)) return;
        caller = Socket(::accept4(listener->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        prove = Frames(caller).next();
      } while (prove.type == FrameType::kBye);
      CHECK(prove.type == FrameType::kProve);
      const std::string challenge(kNonceBytes, 'n');
      write_all(caller, encode({FrameType::kChallenge, 0, challenge}));
      Frames frames(caller);
      CHECK(frames.next().type == FrameType::kHello);
      write_all(caller,
                encode({FrameType::kWelcome, 0, key.proof(JobKey::Side::kServer, prove.body, challenge, hello)}));
      CHECK(frames.next().type == FrameType::kBye);
    });
    {
      const auto client =
          StoreClient::connect(to_text(address) + "/" + key.text(), identity(1, 2), Deadline::after_ms(10000));
      CHECK(client.has_value() == !ends);
      if (!client) CHECK_MESSAGE(contains(client.error().text, "is lost"), client.error().text);
    }
    rank_0.join();
  }
}

TEST_CASE("rank 0's place is believed only with a proof of the key") {
  const auto key = JobKey::draw().value();
  for (const bool challenges : {false, true}) {
    const std::string address = free_address();
    auto listener = listen_at(*parse_address(address));
    REQUIRE(listener.has_value());
    std::thread impostor([&] {
      listener->wait_for(POLLIN, 10000);
      const Socket caller(::accept4(listener->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      Frames frames(caller);
      CHECK(frames.next().type == FrameType::kProve);
      if (challenges) {
        write_all(caller, encode({FrameType::kChallenge, 0, std::string(kNonceBytes, 'n')}));
        CHECK(frames.next().type == FrameType::kHello);
      }
      write_all(caller, encode({FrameType::kWelcome, 0, std::string(kProofBytes, 'p')}));
      while (caller.wait_for(POLLIN, 10000)) {
        std::string rest;
        if (read_into(caller, &rest) == SocketOutcome::kClosed) break;
      }
    });
    const auto client = StoreClient::connect(address + "/" + key.text(), identity(1, 2), Deadline::after_ms(10000));
    impostor.join();
    REQUIRE_FALSE(client.has_value());
    CHECK_MESSAGE(contains(client.error().text, challenges ? "does not know this job's key" : "without a proof"),
                  client.error().text);
  }
}

TEST_CASE("200 silent clients hold 64 descriptors beside the job's, and delay no rank") {
  const Job job(2);
  const auto before = open_descriptors();
  std::vector<Socket> silent;
  for (int count = 0; count < 200; ++count) silent.push_back(job.stranger());
  auto one = job.join(1);  // was accepted behind them
  CHECK(open_descriptors() <= before + 200 + 64 + job.world + 2);
  auto zero = job.join(0);
  std::thread other([&] { CHECK(one->barrier(10000).has_value()); });
  CHECK(zero->barrier(10000).has_value());
  other.join();
}

TEST_CASE("a rank that sets 40,000 values that no rank reads is refused, and its memory is bounded") {
  const Job job(3);
  auto zero = job.join(0), one = job.join(1);
  const std::size_t before = heap_in_use_bytes();
  std::size_t most = 0;
  const std::string value(8000, 'v');
  Result<void> state;
  for (int count = 0; state && count < 40'000; ++count) {
    state = one->set("key " + std::to_string(count), value);
    if (state) state = one->poll(0);
    if (count % 100 == 0) most = std::max(most, heap_in_use_bytes());
  }
  while (state) state = one->poll(1000);
  // A refusal may be lost where the connection ends below what is still on its way to rank 0.
  CHECK_MESSAGE((contains(state.error().text, "has set values of 64 MiB that no rank has read") ||
                 contains(state.error().text, "is lost")),
                state.error().text);
  // What is measured is what they take; Valgrind's allocator counts nothing.
  if (before > 0) CHECK(most > before + 32 * kMiB);
  CHECK(most < before + 128 * kMiB);
  while (!zero->failure()) REQUIRE(zero->poll(5000).has_value());
  CHECK(contains(*zero->failure(), "rank 1 is lost"));
}

TEST_CASE("values that are read, or set again, can be set without end") {
  const Job job(2);
  auto zero = job.join(0), one = job.join(1);
  const std::string value(8000, 'v');
  for (int count = 0; count < 20'000; ++count) {
    REQUIRE(one->set("again", value).has_value());
    if (count % 100 == 0) REQUIRE(zero->get("again", Deadline::after_ms(10000)).value() == value);
  }
  CHECK(one->poll(0).has_value());
}

TEST_CASE("beside 10,000 hostile connections with 20,000 frames a job goes on, and ends right with flat memory") {
  const Job job(3);
  auto zero = job.join(0), one = job.join(1);  // rank 2 is to come: the store accepts all the time
  std::atomic<bool> attacked{false};
  std::atomic<int> rounds{0};
  const std::size_t before = heap_in_use_bytes();
  std::thread hostile([&] {
    Prng prng(46);
    const std::string hello = encode({FrameType::kHello, 0, encode_hello(identity(2, 3))});
    const std::string prove = encode({FrameType::kProve, 0, std::string(kNonceBytes, 'n')});
    const std::string proven =
        encode({FrameType::kHello, 0, encode_hello(identity(2, 3)) + std::string(kProofBytes, 'p')});
    const std::string set = encode({FrameType::kSet, 0, encode_pair("key", std::string(8000, 'v'))});
    const std::vector<std::string> frames{
        hello, prove, proven, set, encode({FrameType::kFail, 1, "no more"}), encode({FrameType::kBye, 0, {}})};
    std::vector<Socket> held(32);  // the latest ones stay open, whatever they have sent
    for (std::size_t count = 0; count < 10'000 || rounds.load() <= 100; ++count) {
      Socket socket = job.stranger();
      std::string bytes;
      for (int frame = 0; frame < 2; ++frame) {
        std::string one_frame = frames[prng.below(frames.size())];
        if (prng.below(2) == 0) one_frame[prng.below(one_frame.size())] = static_cast<char>(prng.below(256));
        bytes += one_frame;
      }
      if (prng.below(4) == 0) bytes.resize(prng.below(bytes.size()));
      write_from(socket, &bytes);
      held[count % held.size()] = std::move(socket);
    }
    attacked.store(true);
  });
  for (; !attacked.load(); ++rounds) {
    const std::string number = std::to_string(rounds.load());
    REQUIRE(zero->set("to one", number).has_value());
    REQUIRE(one->get("to one", Deadline::after_ms(10000)).value() == number);
    REQUIRE(one->set("to zero", number).has_value());
    REQUIRE(zero->get("to zero", Deadline::after_ms(10000)).value() == number);
  }
  hostile.join();
  CHECK(heap_in_use_bytes() < before + 16 * kMiB);
  auto two = job.join(2);
  std::thread second([&] { CHECK(one->barrier(10000).has_value()); });
  std::thread third([&] { CHECK(two->barrier(10000).has_value()); });
  CHECK(zero->barrier(10000).has_value());
  second.join();
  third.join();
  CHECK_FALSE(zero->failure().has_value());
}

TEST_CASE("ranks of the engine meet by an id while strangers call at its address, and split with a key of their own") {
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
  char id[MESHCOLL_ID_BYTES] = {};
  REQUIRE_MESSAGE(meshcoll_get_id(id) == MESHCOLL_OK, error_of(nullptr));
  unsetenv("NCCL_SOCKET_IFNAME");
  const auto place = parse_meeting_place(id);
  REQUIRE(place.has_value());
  REQUIRE(place->key.has_value());
  std::atomic<bool> ended{false};
  std::thread hostile([&] {
    const std::string hello = encode({FrameType::kHello, 0, encode_hello(identity(1, 3))});
    std::vector<Socket> held(16);
    for (std::size_t count = 0; !ended.load(); ++count) {
      auto socket = connect_to(place->address, Deadline::after_ms(0));
      if (!socket) continue;  // all ranks are in: the store listens no longer
      std::string bytes = hello;
      if (count % 2 == 0) write_from(*socket, &bytes);
      held[count % held.size()] = std::move(*socket);
    }
  });
  loopback::configure({});
  run_ranks(
      3, [&](meshcoll_options& options) { options.bootstrap = id; },
      [](meshcoll_comm* comm, int rank) {
        int number = 1;
        CHECK(meshcoll_all_reduce(comm, &number, &number, 1, MESHCOLL_INT32, MESHCOLL_SUM) == MESHCOLL_OK);
        CHECK(number == 3);
        meshcoll_comm* part = nullptr;
        REQUIRE_MESSAGE(meshcoll_split(comm, rank == 1 ? 1 : 0, rank, &part) == MESHCOLL_OK, error_of(comm));
        number = rank;
        CHECK(meshcoll_all_reduce(part, &number, &number, 1, MESHCOLL_INT32, MESHCOLL_SUM) == MESHCOLL_OK);
        CHECK(number == (rank == 1 ? 1 : 2));
        CHECK(meshcoll_destroy(part) == MESHCOLL_OK);
      });
  ended.store(true);
  hostile.join();
}

}  // namespace stranger_test
