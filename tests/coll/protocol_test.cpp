// How slices travel: lines of data and flags, by themselves, and through the engine.
#include "plugin/coll/plan/protocol.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "plugin/coll/run/communicator.h"
#include "tests/coll/rank_threads.h"

namespace protocol_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

constexpr std::array<int, 2> kDevices = {0, 1};
constexpr std::array kLined = {Protocol::kLl, Protocol::kLl128};

struct Message {
  Message(Protocol protocol, std::uint64_t flag, std::size_t size_bytes)
      : data(size_bytes), lines(lined_bytes(protocol, size_bytes), char(0x5a)) {
    std::iota(data.begin(), data.end(), char(1));
    write_lines(protocol, flag, data.data(), data.size(), lines.data());
  }
  std::vector<char> data, lines;
};

}  // namespace

TEST_CASE("lines: NCCL's layouts, slots and slices") {
  CHECK(format_of(Protocol::kLl).slot_bytes == 512 * 1024 / 8);  // NCCL_STEPS
  CHECK(slice_bytes_of(Protocol::kLl, 1U << 20U) == 32 * 1024);
  CHECK(slice_bytes_of(Protocol::kLl, 100) == 100);
  CHECK(format_of(Protocol::kLl128).slot_bytes == 120 * 640 * 8);  // LL128_ELEMS_PER_THREAD, threads, bytes
  CHECK(slice_bytes_of(Protocol::kLl128, 1U << 20U) == 576'000);
  CHECK(slice_bytes_of(Protocol::kSimple, 1U << 20U) == 1U << 20U);
  const Message ll(Protocol::kLl, 0x1122334455667788, 11);
  REQUIRE(ll.lines.size() == 32);
  const unsigned char expected[32] = {1, 2,  3,  4, 0x88, 0x77, 0x66, 0x55, 5, 6, 7, 8, 0x88, 0x77, 0x66, 0x55,
                                      9, 10, 11, 0, 0x88, 0x77, 0x66, 0x55, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55};
  CHECK(std::memcmp(ll.lines.data(), expected, sizeof expected) == 0);
  const Message ll128(Protocol::kLl128, 0x1122334455667788, 121);
  REQUIRE(ll128.lines.size() == 256);
  CHECK(std::memcmp(ll128.lines.data(), ll128.data.data(), 120) == 0);
  CHECK(ll128.lines[120] == char(0x88));
  CHECK(ll128.lines[128] == ll128.data[120]);
  CHECK(ll128.lines[129] == 0);
}

TEST_CASE("lines: every size comes back, and nothing behind it is touched") {
  for (const Protocol protocol : kLined) {
    for (std::size_t size = 0; size <= 500; ++size) {
      const Message message(protocol, 7, size);
      std::vector<char> arrived(size + 8, char(0xcc));
      REQUIRE(read_lines(protocol, 7, message.lines.data(), arrived.data(), size));
      REQUIRE(std::equal(message.data.begin(), message.data.end(), arrived.begin()));
      REQUIRE(std::count(arrived.begin() + static_cast<std::ptrdiff_t>(size), arrived.end(), char(0xcc)) == 8);
    }
  }
}

TEST_CASE("lines: one that is not there is seen, wherever it is, and nothing is written") {
  constexpr std::size_t kSize = 400;
  for (const Protocol protocol : kLined) {
    const std::uint64_t flag = flag_of(3, kSize);
    const std::size_t line_bytes = format_of(protocol).line_bytes;
    for (std::size_t line = 0; line < lined_bytes(protocol, kSize) / line_bytes; ++line) {
      Message message(protocol, flag, kSize);
      // What the message before has left there, which had the same size.
      const Message before(protocol, flag_of(2, kSize), kSize);
      std::copy_n(before.lines.begin() + static_cast<std::ptrdiff_t>(line * line_bytes), line_bytes,
                  message.lines.begin() + static_cast<std::ptrdiff_t>(line * line_bytes));
      std::vector<char> arrived(kSize, char(0xcc));
      REQUIRE_FALSE(read_lines(protocol, flag, message.lines.data(), arrived.data(), kSize));
      REQUIRE(std::count(arrived.begin(), arrived.end(), char(0xcc)) == static_cast<std::ptrdiff_t>(kSize));
    }
  }
}

TEST_CASE("in lines nothing of the caller's is registered, and what is copied is counted") {
  loopback::configure({});
  for (const char* protocol : {"ll", "ll128"}) {
    std::uint64_t before = 0;
    const auto adjust = [protocol](meshcoll_options& options) { options.protocol = protocol; };
    run_ranks(2, adjust, [&](meshcoll_comm* comm, int rank) {
      std::vector<float> data(100, 1);
      const auto reduce = [&] {
        CHECK(meshcoll_all_reduce(comm, data.data(), data.data(), 100, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
      };
      reduce();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
      if (rank == 0) before = loopback::registrations_made();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
      for (int i = 0; i < 5; ++i) reduce();
      CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
      if (rank == 0) CHECK(loopback::registrations_made() == before);
      meshcoll_stats stats{};
      stats.struct_bytes = sizeof stats;
      CHECK(meshcoll_get_stats(comm, &stats) == MESHCOLL_OK);
      // Each time: 50 elements are sent and received, twice; and 50 are reduced into the output.
      CHECK(stats.copied_bytes == 6 * (4 + 1) * 50 * sizeof(float));
      CHECK(stats.bytes_sent == 6 * 2 * 50 * sizeof(float));
    });
  }
}

TEST_CASE("a plugin that completes a receive before its data are there is an error in lines, not wrong data") {
  for (const char* protocol : {"ll", "ll128"}) {
    loopback::configure({.early_device = 1, .early_after = 3});
    run_ranks(
        2,
        [protocol](meshcoll_options& options) {
          options.protocol = protocol;
          options.slice_bytes = 256;
          options.channel_devices = &kDevices[static_cast<std::size_t>(options.rank)];
        },
        [&](meshcoll_comm* comm, int rank) {
          std::vector<float> data(1000, 1);
          CHECK(meshcoll_all_reduce(comm, data.data(), data.data(), 1000, MESHCOLL_FLOAT32, MESHCOLL_SUM) ==
                MESHCOLL_NET);
          const std::string error = error_of(comm);
          CHECK_MESSAGE(contains(error, "and the flags in its lines are not its own"), error);
          CHECK_MESSAGE(contains(error, "receive from rank 0, channel 0, slice 3"), error);
          if (rank == 1) CHECK_MESSAGE(contains(error, "a message of 256 bytes by protocol"), error);
        });
    loopback::configure({});
  }
}

TEST_CASE("in lines ranks that call with different counts get an error, also if the counts need as many lines") {
  for (const std::size_t other : {std::size_t{100}, std::size_t{400}}) {
    loopback::configure({});
    run_ranks(
        2, [](meshcoll_options& options) { options.protocol = "ll128"; },
        [&](meshcoll_comm* comm, int rank) {
          std::vector<char> data(1000, 1);
          const meshcoll_result result =
              rank == 0 ? meshcoll_send_recv(comm, data.data(), 101, 1, nullptr, 0, -1, MESHCOLL_INT8)
                        : meshcoll_send_recv(comm, nullptr, 0, -1, data.data(), other, 0, MESHCOLL_INT8);
          if (rank == 1) CHECK(result == MESHCOLL_NET);
          if (rank == 1)
            CHECK_MESSAGE(contains(error_of(comm), "do both ranks call the same operation"), error_of(comm));
        });
  }
}

TEST_CASE("in lines the pairs of a group share a connection, whichever has the longest messages") {
  loopback::configure({});
  for (const char* protocol : {"ll", "ll128"}) {
    run_ranks(
        2, [protocol](meshcoll_options& options) { options.protocol = protocol; },
        [](meshcoll_comm* comm, int rank) {
          const std::array<std::size_t, 3> counts = {20'000, 3, 500};
          std::vector<std::vector<float>> out, in;
          CHECK(meshcoll_group_start(comm) == MESHCOLL_OK);
          for (const std::size_t count : counts) {
            out.emplace_back(count, static_cast<float>(count + static_cast<std::size_t>(rank)));
            in.emplace_back(count);
            CHECK(meshcoll_send_recv(comm, out.back().data(), count, 1 - rank, in.back().data(), count, 1 - rank,
                                     MESHCOLL_FLOAT32) == MESHCOLL_OK);
          }
          CHECK(meshcoll_group_end(comm, nullptr) == MESHCOLL_OK);
          for (std::size_t pair = 0; pair < counts.size(); ++pair) {
            const auto expected = static_cast<float>(counts[pair] + static_cast<std::size_t>(1 - rank));
            CHECK(in[pair] == std::vector<float>(counts[pair], expected));
          }
        });
  }
}

TEST_CASE("ranks whose protocols differ do not start") {
  loopback::configure({});
  const std::string address = free_address();
  // Rank 1 is refused as soon as rank 0 is there, which then waits for another one.
  const auto start = [&](int rank, Protocol protocol) {
    return Communicator::create({.rank = rank,
                                 .world = 2,
                                 .bootstrap = address,
                                 .net_plugin = "STATIC_PLUGIN",
                                 .connect_timeout_ms = rank == 0 ? 5000 : 20'000,
                                 .way = {.protocol = {.protocol = protocol}}});
  };
  std::thread zero([&] { CHECK_FALSE(start(0, Protocol::kLl).has_value()); });
  const auto other = start(1, Protocol::kLl128);
  zero.join();
  REQUIRE_FALSE(other.has_value());
  CHECK_MESSAGE(contains(other.error().text, "it chooses algorithms or protocols otherwise"), other.error().text);
}

}  // namespace protocol_test
