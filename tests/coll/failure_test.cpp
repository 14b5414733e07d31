// Failures as stories: every rank gets an error that names the reason, no rank hangs, nothing stays open.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <poll.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "plugin/coll/run/communicator.h"
#include "plugin/coll/store/frame.h"
#include "plugin/coll/store/socket.h"
#include "tests/coll/rank_threads.h"

namespace failure_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::size_t kCount = 1000;

meshcoll_result reduce(meshcoll_comm* comm) {
  std::vector<float> data(kCount, 1);
  return meshcoll_all_reduce(comm, data.data(), data.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM);
}

meshcoll_result exchange(meshcoll_comm* comm, int peer) {
  std::vector<float> sent(kCount, 1), received(kCount);
  return meshcoll_send_recv(comm, sent.data(), kCount, peer, received.data(), kCount, peer, MESHCOLL_FLOAT32);
}

/// Rank `odd` opens device 3, all others device 0, and they go round the ring.
AdjustOptions odd_device(int odd) {
  static const int kOdd[] = {3}, kOther[] = {0};
  return [odd](meshcoll_options& options) {
    options.channel_devices = options.rank == odd ? kOdd : kOther;
    options.algorithm = "ring";
  };
}

meshcoll_options options_of(int rank, int world, const std::string& address) {
  meshcoll_options options{};
  options.struct_bytes = sizeof options;
  options.rank = rank;
  options.world = world;
  options.bootstrap = address.c_str();
  options.net_plugin = "STATIC_PLUGIN";
  options.connect_timeout_ms = 20000;
  options.algorithm = "ring";  // as a hello says it that says nothing of it
  return options;
}

}  // namespace

TEST_CASE("a refused connect fails an all_reduce on every rank with the plugin's own reason") {
  loopback::configure({.refuse_connect_device = 3});
  run_ranks(4, odd_device(2), [](meshcoll_comm* comm, int rank) {
    CHECK(reduce(comm) == MESHCOLL_NET);
    CHECK_MESSAGE(contains(error_of(comm), "no path: device 3 has no cable"), error_of(comm));
    CHECK_MESSAGE(contains(error_of(comm), rank == 2 ? "no connection to rank 3" : "rank 2"), error_of(comm));
    CHECK(reduce(comm) == MESHCOLL_NET);
    CHECK_MESSAGE(contains(error_of(comm), "broken since an earlier error"), error_of(comm));
    CHECK(meshcoll_barrier(comm) == MESHCOLL_NET);
  });
}

TEST_CASE("listen and accept that fail reach every rank as well") {
  for (const bool listens : {true, false}) {
    loopback::configure({.refuse_listen_device = listens ? 3 : -1, .refuse_accept_device = listens ? -1 : 3});
    run_ranks(3, odd_device(1), [&](meshcoll_comm* comm, int) {
      CHECK(reduce(comm) == MESHCOLL_NET);
      const std::string error = error_of(comm);
      CHECK_MESSAGE(contains(error, listens ? "device 3 does not listen" : "device 3 is full"), error);
    });
  }
}

TEST_CASE("a send_recv that is refused is an error at both ends, and the communicator lives on") {
  loopback::configure({.refuse_connect_device = 3});
  run_ranks(4, odd_device(3), [](meshcoll_comm* comm, int rank) {
    // Rank 3 cannot connect to any rank; ranks 0 and 2 are not affected.
    if (rank == 3 || rank == 1) {
      CHECK(exchange(comm, 4 - rank) == MESHCOLL_NET);
      const std::string error = error_of(comm);
      CHECK_MESSAGE(contains(error, "no path: device 3 has no cable"), error);
      CHECK_MESSAGE(contains(error, rank == 1 ? "peer rank 3 refused" : "no connection to rank 1"), error);
    } else {
      CHECK(exchange(comm, 2 - rank) == MESHCOLL_OK);
    }
    CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
    if (rank < 2) CHECK_MESSAGE(exchange(comm, 1 - rank) == MESHCOLL_OK, error_of(comm));
  });
}

TEST_CASE("a refusal in a circle of send_recv reaches ranks that only wait for a waiting rank") {
  loopback::configure({.refuse_connect_device = 3});
  run_ranks(6, odd_device(5), [](meshcoll_comm* comm, int rank) {
    std::vector<float> sent(kCount, 1), received(kCount);
    const int code = meshcoll_send_recv(comm, sent.data(), kCount, (rank + 1) % 6, received.data(), kCount,
                                        (rank + 5) % 6, MESHCOLL_FLOAT32);
    // Rank 5 is refused by rank 0, rank 4 sends to 5, and rank 1 waits for what rank 0 will never send. Ranks 2 and 3
    // may have exchanged all they had to before the news came.
    if ((rank == 2 || rank == 3) && code == MESHCOLL_OK) return;
    CHECK(code == MESHCOLL_NET);
    CHECK_MESSAGE(contains(error_of(comm), "device 3 has no cable"), error_of(comm));
  });
}

TEST_CASE("a transfer that fails on one rank ends the operation on all, and names peer, channel and slice") {
  loopback::configure({.seed = 3, .delay_percent = 20, .fail_send_device = 3, .fail_send_after = 5});
  run_ranks(
      3,
      [](meshcoll_options& options) {
        odd_device(1)(options);
        options.slice_bytes = 64;
      },
      [](meshcoll_comm* comm, int rank) {
        CHECK(reduce(comm) == MESHCOLL_NET);
        const std::string error = error_of(comm);
        CHECK_MESSAGE(contains(error, "send to rank 2, channel 0, slice 5"), error);
        CHECK_MESSAGE(contains(error, "cable of device 3 was pulled"), error);
        CHECK_MESSAGE(contains(error, "rank 1: ") == (rank != 1), error);
        meshcoll_error parts{};
        parts.struct_bytes = sizeof parts;
        CHECK(meshcoll_get_error(comm, &parts) == MESHCOLL_OK);
        CHECK(parts.peer == (rank == 2 ? 1 : 2));  // as rank 1 saw it, which reported it; rank 2 does not know
      });
}

TEST_CASE("ranks that are still connecting when another fails learn who it was, not who refused them because of it") {
  // Rank 2 never gets its connection to rank 0; rank 1's first send fails. Rank 0 gives up with the job, and so refuses
  // rank 2, which may read the refusal together with the reason.
  loopback::configure({.stall_connect_device = 2, .fail_send_device = 3});
  const auto devices = [](meshcoll_options& options) {
    static const int kDevices[][1] = {{0}, {3}, {2}};
    options.channel_devices = kDevices[options.rank];
    options.algorithm = "ring";
  };
  for (int round = 0; round < 50; ++round) {
    run_ranks(3, devices, [](meshcoll_comm* comm, int rank) {
      CHECK(reduce(comm) == MESHCOLL_NET);
      const std::string error = error_of(comm);
      CHECK_MESSAGE(contains(error, "send to rank 2, channel 0, slice 0"), error);
      CHECK_MESSAGE(!contains(error, "refused"), error);
      meshcoll_error parts{};
      parts.struct_bytes = sizeof parts;
      CHECK(meshcoll_get_error(comm, &parts) == MESHCOLL_OK);
      CHECK_MESSAGE(parts.peer == (rank == 2 ? 1 : 2), error);
    });
  }
}

TEST_CASE("without a limit a peer that has died, or left, ends the wait for it all the same") {
  loopback::configure({});
  // Every rank has come, and the third one's end is seen in the store alone.
  const std::string address = free_address();
  const auto without_limit = [&](int rank) {
    meshcoll_options options = options_of(rank, 3, address);
    options.connect_timeout_ms = -1;
    meshcoll_comm* comm = nullptr;
    const meshcoll_result made = meshcoll_init(&options, &comm);
    CHECK_MESSAGE(made == MESHCOLL_OK, error_of(nullptr));
    if (made != MESHCOLL_OK) return;
    float value = 1;
    CHECK(meshcoll_send_recv(comm, nullptr, 0, -1, &value, 1, 2, MESHCOLL_FLOAT32) == MESHCOLL_NET);
    CHECK_MESSAGE(contains(error_of(comm), "rank 2 is lost"), error_of(comm));
    meshcoll_error error{};
    error.struct_bytes = sizeof error;
    CHECK(meshcoll_get_async_error(comm, &error) == MESHCOLL_OK);
    CHECK(error.result == MESHCOLL_NET);
    CHECK(error.peer == 2);
    CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
  };
  std::thread zero([&] { without_limit(0); }), one([&] { without_limit(1); });
  {
    auto socket = coll::connect_to(*coll::parse_address(address), Deadline::after_ms(20000));
    REQUIRE(socket.has_value());
    std::string hello =
        coll::encode({coll::FrameType::kHello, 0,
                      coll::encode_hello({.world = 3, .rank = 2, .channels = 1, .steps = 8, .slice_bytes = 1 << 20})}) +
        coll::encode({coll::FrameType::kBarrier, 1, coll::encode_u32(0)});
    CHECK(coll::write_from(*socket, &hello) == coll::SocketOutcome::kMoved);
    std::string answers;
    const std::size_t welcome_and_open = 2 * coll::kFrameHeaderBytes;
    while (answers.size() < welcome_and_open && socket->wait_for(POLLIN, 20000)) coll::read_into(*socket, &answers);
    CHECK(answers.size() == welcome_and_open);
  }
  zero.join();
  one.join();

  run_ranks(
      2, [](meshcoll_options& options) { options.connect_timeout_ms = 20'000; },
      [](meshcoll_comm* comm, int rank) {
        if (rank == 1) return;
        float value = 1;
        CHECK(meshcoll_send_recv(comm, nullptr, 0, -1, &value, 1, 1, MESHCOLL_FLOAT32) == MESHCOLL_NET);
        CHECK_MESSAGE(contains(error_of(comm), "rank 1 has left: no connection from rank 1, channel 0"),
                      error_of(comm));
      });
}

TEST_CASE("a refusal is no asynchronous error; another rank's abort is, without a call") {
  loopback::configure({.refuse_connect_device = 3});
  std::atomic<bool> looked{false};
  std::latch both_well(2);
  run_ranks(2, odd_device(1), [&](meshcoll_comm* comm, int rank) {
    meshcoll_error error{};
    error.struct_bytes = sizeof error;
    const auto state = [&] {
      CHECK(meshcoll_get_async_error(comm, &error) == MESHCOLL_OK);
      return error.result;
    };
    CHECK(exchange(comm, 1 - rank) == MESHCOLL_NET);
    CHECK(state() == MESHCOLL_OK);
    CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
    CHECK(state() == MESHCOLL_OK);
    // A barrier ends here before it ends there.
    both_well.arrive_and_wait();
    if (rank == 1) {
      CHECK(meshcoll_abort(comm, "bored") == MESHCOLL_OK);
      while (!looked) std::this_thread::yield();
    } else {
      for (const auto by = Deadline::after_ms(20000); state() == MESHCOLL_OK && !by.passed();) {
        std::this_thread::yield();
      }
      looked = true;
      CHECK(error.peer == 1);
      CHECK(std::string(error.text) == "rank 1: aborted at barrier 2: bored");
    }
    CHECK(state() == MESHCOLL_ABORTED);
  });
}

TEST_CASE("the same where ranks have several neighbours") {
  for (const char* algorithm : {"tree", "halving-doubling", "direct"}) {
    for (int after = 0; after < 12; ++after) {
      loopback::configure({.seed = 3, .delay_percent = 20, .fail_send_device = 3, .fail_send_after = after});
      run_ranks(
          5,
          [&](meshcoll_options& options) {
            odd_device(1)(options);
            options.slice_bytes = 64;
            options.algorithm = algorithm;
          },
          [](meshcoll_comm* comm, int rank) {
            CHECK(reduce(comm) == MESHCOLL_NET);
            const std::string error = error_of(comm);
            CHECK_MESSAGE(contains(error, ", channel 0, slice "), error);
            CHECK_MESSAGE(contains(error, "send to rank "), error);
            CHECK_MESSAGE(contains(error, "cable of device 3 was pulled"), error);
            CHECK_MESSAGE(contains(error, "rank 1: ") == (rank != 1), error);
          });
    }
  }
  loopback::configure({});
}

TEST_CASE("a tree without one of its ranks says what it waits for, and an odd count is an error") {
  loopback::configure({});
  const auto by_tree = [](meshcoll_options& options) {
    options.algorithm = "tree";
    options.operation_timeout_ms = options.rank == 0 ? 300 : 30'000;
  };
  run_ranks(3, by_tree, [](meshcoll_comm* comm, int rank) {
    CHECK(reduce(comm) == MESHCOLL_OK);
    CHECK((rank == 1 ? meshcoll_barrier(comm) : reduce(comm)) != MESHCOLL_OK);
    if (rank == 1) return;
    const std::string error = error_of(comm);
    CHECK_MESSAGE(contains(error, "channel 0: receive from rank 2 (0 slices done"), error);
    CHECK_MESSAGE(contains(error, "send to rank "), error);
  });
  run_ranks(2, by_tree, [](meshcoll_comm* comm, int rank) {
    std::vector<float> data(20, 1);
    const std::size_t count = rank == 0 ? 10 : 20;
    CHECK(meshcoll_broadcast(comm, data.data(), data.data(), count, MESHCOLL_FLOAT32, 0) ==
          (rank == 0 ? MESHCOLL_OK : MESHCOLL_NET));
    if (rank == 1) CHECK_MESSAGE(contains(error_of(comm), "40 bytes arrived where 80 are due"), error_of(comm));
  });
}

TEST_CASE("a connection that never comes is a timeout that names the peer and the channel") {
  loopback::configure({.stall_connect_device = 3});
  run_ranks(
      2,
      [](meshcoll_options& options) {
        odd_device(1)(options);
        // The ranks' own meeting takes as long at most: a busy machine under Valgrind needs a second for that.
        options.connect_timeout_ms = 5000;
      },
      [](meshcoll_comm* comm, int rank) {
        CHECK(reduce(comm) != MESHCOLL_OK);
        const std::string error = error_of(comm);
        CHECK_MESSAGE(contains(error, "5000 ms"), error);
        CHECK_MESSAGE(contains(error, "channel 0"), error);
        CHECK_MESSAGE(contains(error, rank == 0 ? "rank 1" : "rank 0"), error);
      });
}

TEST_CASE("a peer that does not take part is a timeout that says what each channel waits for") {
  loopback::configure({});
  run_ranks(
      2,
      // Rank 1 is the more patient one: its own deadline must not come before rank 0 has reported.
      [](meshcoll_options& options) { options.operation_timeout_ms = options.rank == 0 ? 300 : 30'000; },
      [](meshcoll_comm* comm, int rank) {
        CHECK(reduce(comm) == MESHCOLL_OK);
        if (rank == 1) {
          CHECK(meshcoll_barrier(comm) != MESHCOLL_OK);
          return;
        }
        CHECK(reduce(comm) == MESHCOLL_TIMEOUT);
        CHECK_MESSAGE(contains(error_of(comm), "channel 0: receive from rank 1 (0 slices done"), error_of(comm));
      });
}

TEST_CASE("who cannot connect to a rank that waits for another one in a transfer says for whom") {
  loopback::configure({});
  run_ranks(
      3, [](meshcoll_options& options) { options.connect_timeout_ms = options.rank == 0 ? 1200 : 1000; },
      [](meshcoll_comm* comm, int rank) {
        float value = 1;
        // Connects 2 to 1, which then waits for a second message that never comes.
        if (rank == 2) CHECK(meshcoll_send_recv(comm, &value, 1, 1, nullptr, 0, -1, MESHCOLL_FLOAT32) == MESHCOLL_OK);
        if (rank == 1) {
          CHECK(meshcoll_send_recv(comm, nullptr, 0, -1, &value, 1, 2, MESHCOLL_FLOAT32) == MESHCOLL_OK);
          CHECK(meshcoll_send_recv(comm, nullptr, 0, -1, &value, 1, 2, MESHCOLL_FLOAT32) == MESHCOLL_NET);
        }
        if (rank == 0) {
          CHECK(meshcoll_send_recv(comm, &value, 1, 1, nullptr, 0, -1, MESHCOLL_FLOAT32) == MESHCOLL_TIMEOUT);
        }
        // Rank 2 learns it here.
        if (rank == 2) CHECK(meshcoll_barrier(comm) == MESHCOLL_NET);
        CHECK_MESSAGE(contains(error_of(comm), "rank 1 waits for rank 2 itself"), error_of(comm));
      });
}

TEST_CASE("a listener for the break of the communicator is called before anything is closed, and once") {
  struct Told {
    int times = 0, open = 0;
    std::string error;
  };
  loopback::configure({.refuse_connect_device = 3});
  Told told[3];
  std::latch all_broken(3);  // the objects of all ranks are counted: none goes before each has counted them
  run_ranks(
      3,
      [&](meshcoll_options& options) {
        odd_device(2)(options);
        options.on_break_context = &told[options.rank];
        options.on_break = [](void* context, const char* error) {
          auto& mine = *static_cast<Told*>(context);
          ++mine.times;
          mine.open = loopback::open_objects();
          mine.error = error;
        };
      },
      [&](meshcoll_comm* comm, int rank) {
        CHECK(reduce(comm) == MESHCOLL_NET);
        all_broken.arrive_and_wait();
        CHECK(told[rank].times == 1);
        CHECK_MESSAGE(error_of(comm) == told[rank].error, told[rank].error);
        CHECK(reduce(comm) == MESHCOLL_NET);
        CHECK(told[rank].times == 1);
      });
  // Beyond the contexts: at least the listener of rank 2, which was refused and has no connection.
  CHECK(told[2].open > 3);
}

TEST_CASE("ranks that wait for each other in a circle are named once each, and that the circle closes") {
  loopback::configure({});
  std::atomic<int> named{0};
  run_ranks(
      3, [](meshcoll_options& options) { options.connect_timeout_ms = options.rank == 0 ? 1400 : 2000; },
      [&](meshcoll_comm* comm, int rank) {
        // No rank listens: each waits for a listener of the next one.
        float value = 1;
        CHECK(meshcoll_send_recv(comm, &value, 1, (rank + 1) % 3, nullptr, 0, -1, MESHCOLL_FLOAT32) != MESHCOLL_OK);
        const std::string error = error_of(comm);
        std::size_t waiting = 0;
        for (std::size_t at = 0; (at = error.find(" waits for rank ", at)) != std::string::npos; ++at) ++waiting;
        CHECK_MESSAGE(waiting <= 2, error);
        // Seen from any of them: the one that reports first.
        for (int first = 0; first < 3; ++first) {
          const auto name = [&](int after) { return "rank " + std::to_string((first + after) % 3); };
          const std::string circle =
              "; " + name(0) + " waits for " + name(1) + ", which waits for " + name(2) + ", which closes the circle";
          if (error.ends_with(circle)) ++named;
        }
      });
  CHECK(named >= 1);  // a rank that asks late finds no rank waiting any more
}

TEST_CASE("counts that differ between two ranks are an error, not silence") {
  loopback::configure({});
  run_ranks(2, nullptr, [](meshcoll_comm* comm, int rank) {
    std::vector<float> data(20, 1);
    const auto result = rank == 0 ? meshcoll_send_recv(comm, data.data(), 10, 1, nullptr, 0, -1, MESHCOLL_FLOAT32)
                                  : meshcoll_send_recv(comm, nullptr, 0, -1, data.data(), 20, 0, MESHCOLL_FLOAT32);
    if (rank == 0) return;  // all its bytes were taken
    CHECK(result == MESHCOLL_NET);
    CHECK_MESSAGE(contains(error_of(comm), "40 bytes arrived where 80 are due"), error_of(comm));
  });
}

TEST_CASE("a missing rank is named by all who wait for it") {
  loopback::configure({});
  const std::string address = free_address();
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (const int rank : {0, 3}) {
    threads.emplace_back([&, rank] {
      meshcoll_options options = options_of(rank, 4, address);
      options.connect_timeout_ms = 300;
      meshcoll_comm* comm = nullptr;
      CHECK(meshcoll_init(&options, &comm) == MESHCOLL_TIMEOUT);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string error = error_of(nullptr);
  CHECK_MESSAGE(contains(error, "ranks 1, 2 never reached rank 0 at 127.0.0.1:"), error);
  CHECK(loopback::open_objects() == 0);
}

TEST_CASE("ranks with different options do not start, and hear what differs") {
  loopback::configure({});
  const std::string address = free_address();
  const auto start = [&](int rank, int channels, coll::Algorithm algorithm = coll::Algorithm::kRing) {
    return coll::Communicator::create({.rank = rank,
                                       .world = 2,
                                       .bootstrap = address,
                                       .net_plugin = "STATIC_PLUGIN",
                                       .channels = channels,
                                       .connect_timeout_ms = rank == 0 ? 5000 : 20'000,
                                       .way = {.algorithm = {.algorithm = algorithm}}});
  };
  std::thread zero([&] {
    const auto alone = start(0, 1);
    CHECK(alone.error().code == ErrorCode::kTimeout);
  });
  const auto other = start(1, 2);
  const auto by_tree = start(1, 1, coll::Algorithm::kTree);
  zero.join();
  REQUIRE_FALSE(by_tree.has_value());
  CHECK_MESSAGE(contains(by_tree.error().text, "it chooses algorithms or protocols otherwise"), by_tree.error().text);
  REQUIRE_FALSE(other.has_value());
  CHECK_MESSAGE(contains(other.error().text, "channels 2 where rank 0 has 1"), other.error().text);
}

TEST_CASE("a plugin that one rank cannot load ends init on all of them") {
  loopback::configure({});
  const std::string address = free_address();
  std::thread zero([&] {
    const meshcoll_options options = options_of(0, 2, address);
    meshcoll_comm* comm = nullptr;
    CHECK(meshcoll_init(&options, &comm) == MESHCOLL_NET);
  });
  meshcoll_options options = options_of(1, 2, address);
  options.net_plugin = "nosuchnet";
  meshcoll_comm* comm = nullptr;
  CHECK(meshcoll_init(&options, &comm) == MESHCOLL_SYSTEM);
  zero.join();
  const std::string error = error_of(nullptr);  // of either rank: both hold the reason
  CHECK_MESSAGE(contains(error, "net plugin \"nosuchnet\" does not load"), error);
  CHECK_MESSAGE(contains(error, "libnccl-net-nosuchnet.so"), error);
}

TEST_CASE("a barrier that a rank has left fails at once, and says who left") {
  loopback::configure({});
  run_ranks(3, nullptr, [](meshcoll_comm* comm, int rank) {
    CHECK(reduce(comm) == MESHCOLL_OK);
    if (rank == 2) return;
    CHECK(meshcoll_barrier(comm) != MESHCOLL_OK);  // TIMEOUT, or NET where the other rank announced it first
    CHECK_MESSAGE(contains(error_of(comm), "2 left"), error_of(comm));
  });
}

}  // namespace failure_test
