// The engine's calls in CUDA streams: two simulated ranks, each with its own copy of the engine and its node's GPU.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugin/cuda/graph.h"
#include "tests/cuda/engine_ranks.h"

using namespace meshbed;
using namespace meshbed::test;

namespace engine_test {
namespace {

constexpr std::size_t kCount = 50'021;  // a prime
constexpr std::size_t kBytes = kCount * sizeof(int);

/// With numbers there and in pinned memory.
struct Rank : EngineRank {
  explicit Rank(const EngineRank& rank)
      : EngineRank(rank), numbers(reinterpret_cast<int*>(there)), seen(reinterpret_cast<int*>(here)) {}
  int* numbers;
  int* seen;

  void put(int number) const {
    for (std::size_t i = 0; i < kCount; ++i) seen[i] = number + static_cast<int>(i);
    well(stream->copy(numbers, seen, kBytes));
  }
  meshcoll_result sum(int in_stream = 1) const {
    meshcoll_args args{};
    args.struct_bytes = sizeof args;
    args.call = MESHCOLL_ALL_REDUCE;
    args.send = args.recv = numbers;
    args.count = kCount;
    args.dtype = MESHCOLL_INT32;
    args.in_stream = in_stream;
    args.stream = stream->handle();
    return this->ENGINE(meshcoll_start)(comm, &args, nullptr);
  }
  bool all_are(int factor, int sum) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (seen[i] != sum + factor * static_cast<int>(i)) return false;
    }
    return true;
  }
};

const std::map<std::string, std::string> kSums{{"MESHBED_GPU_SUMS", "1"}};  // the GPU reduces

void run_two(const std::function<void(const Rank&)>& body, const std::map<std::string, std::string>& environment = {}) {
  run_engine_ranks({.cluster = ring_cluster(2), .bytes = kBytes, .environment = environment},
                   [&](const EngineRank& rank) {
                     CHECK(rank.ENGINE(meshcoll_has_gpu)(rank.comm) == 1);
                     body(Rank(rank));
                   });
}

}  // namespace

TEST_CASE("a call begins when its stream comes to it, and the stream goes on when it has ended") {
  run_two([](const Rank& rank) {
    const auto word = taken(cuda::PinnedMemory::allocate(*rank.driver, 4));
    rank.put(rank.rank == 0 ? 100 : 1);
    // Rank 0's stream stands still; rank 1 waits for it in the network, its stream with it.
    if (rank.rank == 0) well(cuda::hold_until(*rank.driver, rank.stream->handle(), word.device_address(), 1));
    CHECK(rank.sum() == MESHCOLL_OK);
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    rank.simulation->sleep(20 * kPicosecondsPerMillisecond);
    CHECK_FALSE(taken(rank.stream->is_idle()));
    if (rank.rank == 0) *reinterpret_cast<volatile unsigned*>(word.data()) = 1;
    well(rank.stream->synchronize());
    CHECK(rank.simulation->now() >= 20 * kPicosecondsPerMillisecond);
    CHECK(rank.all_are(2, 101));
    CHECK(rank.broken() == MESHCOLL_OK);
  });
}

TEST_CASE("an all-reduce copies in and out, once each, launches nothing, and waits for no device") {
  run_two([](const Rank& rank) {
    for (int call = 0; call < 3; ++call) {
      rank.put(call);
      well(rank.stream->synchronize());
      const sim::CudaCounts before = rank.counts();
      CHECK(rank.sum() == MESHCOLL_OK);
      well(rank.stream->synchronize());
      const sim::CudaCounts after = rank.counts();
      CHECK(after.copies - before.copies == 2);
      CHECK(after.copied_bytes - before.copied_bytes == 2 * kBytes);
      CHECK(after.launches == before.launches);
      CHECK(after.device_syncs == before.device_syncs);
      well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
      well(rank.stream->synchronize());
      CHECK(rank.all_are(2, 2 * call));
    }
  });
}

TEST_CASE("where the GPU reduces, it launches kernels, and copies and waits as it does without") {
  run_two(
      [](const Rank& rank) {
        for (int call = 0; call < 3; ++call) {
          rank.put(call);
          well(rank.stream->synchronize());
          const sim::CudaCounts before = rank.counts();
          CHECK(rank.sum() == MESHCOLL_OK);
          well(rank.stream->synchronize());
          const sim::CudaCounts after = rank.counts();
          CHECK(after.launches > before.launches);
          CHECK(after.copies - before.copies == 2);
          CHECK(after.copied_bytes - before.copied_bytes == 2 * kBytes);
          CHECK(after.device_syncs == before.device_syncs);
          well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
          well(rank.stream->synchronize());
          CHECK(rank.all_are(2, 2 * call));
        }
        CHECK(rank.broken() == MESHCOLL_OK);
      },
      kSums);
}

TEST_CASE(
    "where the GPU reduces, it does not for a graph: the engine's kernels might stand behind what the graph holds") {
  run_two(
      [](const Rank& rank) {
        const auto graph = taken(cuda::Graph::record(*rank.driver, *rank.stream, [&]() -> Result<void> {
          CHECK(rank.sum() == MESHCOLL_OK);
          return ok();
        }));
        rank.put(1);
        well(rank.stream->synchronize());
        const sim::CudaCounts before = rank.counts();
        for (int launch = 0; launch < 3; ++launch) well(graph.launch(*rank.stream));
        well(rank.stream->synchronize());
        CHECK(rank.counts().launches == before.launches);
        well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
        well(rank.stream->synchronize());
        CHECK(rank.all_are(8, 8));
      },
      kSums);
}

TEST_CASE("an abort while the GPU is to reduce leaves nothing under way") {
  run_two(
      [](const Rank& rank) {
        rank.put(1);
        CHECK(rank.sum() == MESHCOLL_OK);
        well(rank.stream->synchronize());
        if (rank.rank == 0) {
          CHECK(rank.sum() == MESHCOLL_OK);
          rank.simulation->sleep(5 * kPicosecondsPerMillisecond);
          CHECK(rank.ENGINE(meshcoll_abort)(rank.comm, "enough") == MESHCOLL_OK);
          well(rank.stream->synchronize());
          CHECK(rank.broken() == MESHCOLL_ABORTED);
        } else {
          rank.simulation->sleep(20 * kPicosecondsPerMillisecond);
        }
      },
      kSums);
}

TEST_CASE("calls that follow one another in a stream see each other's results, without the host") {
  run_two([](const Rank& rank) {
    rank.put(1);
    for (int call = 0; call < 5; ++call) CHECK(rank.sum() == MESHCOLL_OK);
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    well(rank.stream->synchronize());
    CHECK(rank.all_are(32, 32));
  });
}

TEST_CASE("an abort lets the streams go that wait for a call; why shows in the communicator") {
  run_two([](const Rank& rank) {
    const auto word = taken(cuda::PinnedMemory::allocate(*rank.driver, 4));
    rank.put(1);
    if (rank.rank == 0) well(cuda::hold_until(*rank.driver, rank.stream->handle(), word.device_address(), 1));
    CHECK(rank.sum() == MESHCOLL_OK);
    if (rank.rank == 0) {
      rank.simulation->sleep(5 * kPicosecondsPerMillisecond);
      CHECK(rank.ENGINE(meshcoll_abort)(rank.comm, "enough") == MESHCOLL_OK);
      *reinterpret_cast<volatile unsigned*>(word.data()) = 1;
    }
    well(rank.stream->synchronize());
    CHECK(rank.broken() == MESHCOLL_ABORTED);
  });
}

TEST_CASE("a call that is refused does not touch its stream, and without a stream one needs a handle") {
  run_two([](const Rank& rank) {
    meshcoll_args args{};
    args.struct_bytes = sizeof args;
    args.call = MESHCOLL_ALL_REDUCE;
    args.count = 1;  // and no memory
    args.in_stream = 1;
    args.stream = rank.stream->handle();
    CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(taken(rank.stream->is_idle()));
    CHECK(rank.sum(0) == MESHCOLL_INVALID_ARGUMENT);
    rank.put(3);
    CHECK(rank.sum() == MESHCOLL_OK);
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    well(rank.stream->synchronize());
    CHECK(rank.all_are(2, 6));
  });
}

TEST_CASE("a communicator goes while a call of another one holds its stream: nothing waits for the device") {
  run_two([](const Rank& rank) {
    Rank other = rank;
    CHECK(rank.ENGINE(meshcoll_split)(rank.comm, 0, rank.rank, &other.comm) == MESHCOLL_OK);
    rank.put(1);
    CHECK(other.sum() == MESHCOLL_OK);
    well(rank.stream->synchronize());
    const Picoseconds apart = 20 * kPicosecondsPerMillisecond, begun = rank.simulation->now();
    if (rank.rank == 0) CHECK(rank.sum() == MESHCOLL_OK);
    CHECK(rank.ENGINE(meshcoll_abort)(other.comm, "no longer wanted") == MESHCOLL_OK);
    CHECK(rank.ENGINE(meshcoll_destroy)(other.comm) == MESHCOLL_OK);
    CHECK(rank.simulation->now() - begun < apart);
    if (rank.rank == 1) {
      rank.simulation->sleep(apart);
      CHECK(rank.sum() == MESHCOLL_OK);
    }
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    well(rank.stream->synchronize());
    CHECK(rank.all_are(4, 4));
  });
}

TEST_CASE("a communicator of one rank is aborted before its stream comes to its call") {
  run_two([](const Rank& rank) {
    meshcoll_options options{};
    options.struct_bytes = sizeof options;
    options.world = 1;
    Rank alone = rank;
    CHECK(rank.ENGINE(meshcoll_init)(&options, &alone.comm) == MESHCOLL_OK);
    const auto word = taken(cuda::PinnedMemory::allocate(*rank.driver, 4));
    well(cuda::hold_until(*rank.driver, rank.stream->handle(), word.device_address(), 1));
    CHECK(alone.sum() == MESHCOLL_OK);
    CHECK(rank.ENGINE(meshcoll_abort)(alone.comm, "enough") == MESHCOLL_OK);
    CHECK(alone.broken() == MESHCOLL_ABORTED);
    *reinterpret_cast<volatile unsigned*>(word.data()) = 1;
    well(rank.stream->synchronize());
    CHECK(rank.ENGINE(meshcoll_destroy)(alone.comm) == MESHCOLL_OK);
  });
}

TEST_CASE("an abort lets more streams go than the GPU has queues, whose calls stand behind one that does not come") {
  run_two([](const Rank& rank) {
    constexpr int kStreams = 20;
    const auto word = taken(cuda::PinnedMemory::allocate(*rank.driver, 4));
    std::vector<cuda::Stream> streams;
    for (int i = 0; i < kStreams; ++i) streams.push_back(taken(cuda::Stream::create(*rank.driver)));
    rank.put(1);
    well(rank.stream->synchronize());
    // Rank 1's first stream stands still.
    if (rank.rank == 1) {
      well(cuda::hold_until(*rank.driver, streams.front().handle(), word.device_address(), 1));
    }
    for (const cuda::Stream& stream : streams) {
      Rank own = rank;
      own.stream = &stream;
      CHECK(own.sum() == MESHCOLL_OK);
      well(stream.copy(rank.seen, rank.numbers, kBytes));
    }
    if (rank.rank == 0) {
      rank.simulation->sleep(5 * kPicosecondsPerMillisecond);
      CHECK(rank.ENGINE(meshcoll_abort)(rank.comm, "enough") == MESHCOLL_OK);
      for (const cuda::Stream& stream : streams) well(stream.synchronize());
    } else {
      CHECK(rank.ENGINE(meshcoll_abort)(rank.comm, "me, too") == MESHCOLL_OK);  // which waits for no stream
      *reinterpret_cast<volatile unsigned*>(word.data()) = 1;
      for (const cuda::Stream& stream : streams) well(stream.synchronize());
    }
    CHECK(rank.broken() == MESHCOLL_ABORTED);
  });
}

TEST_CASE(
    "where pinned memory runs out the call says so at once, its stream goes on, and the other rank gets an error") {
  run_two([](const Rank& rank) {
    rank.put(3);
    CHECK(rank.sum() == MESHCOLL_OK);
    well(rank.stream->synchronize());
    if (rank.rank == 0) {
      meshcoll_args args{};
      args.struct_bytes = sizeof args;
      args.call = MESHCOLL_ALL_REDUCE;
      args.send = args.recv = rank.numbers;
      args.count = std::uint64_t{1} << 47U;  // more than an address space has
      args.dtype = MESHCOLL_INT32;
      args.in_stream = 1;
      args.stream = rank.stream->handle();
      CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_SYSTEM);
      CHECK(taken(rank.stream->is_idle()));
      meshcoll_error error{};
      error.struct_bytes = sizeof error;
      CHECK(rank.ENGINE(meshcoll_get_error)(rank.comm, &error) == MESHCOLL_OK);
      CHECK(std::string(error.text).find("no pinned memory for") != std::string::npos);
    } else {
      CHECK(rank.sum() == MESHCOLL_OK);
    }
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    well(rank.stream->synchronize());
    rank.simulation->sleep(20 * kPicosecondsPerMillisecond);
    rank.broken();  // looks
    rank.simulation->sleep(20 * kPicosecondsPerMillisecond);
    CHECK(rank.broken() != MESHCOLL_OK);
  });
}

TEST_CASE("a call's pinned memory is used again once its stream has come behind it, not before") {
  run_two([](const Rank& rank) {
    rank.put(1);
    // What the first call brings back is copied long after it has ended; the second one works elsewhere meanwhile.
    const auto other = taken(cuda::Stream::create(*rank.driver));
    const auto numbers = taken(cuda::DeviceMemory::allocate(*rank.driver, kBytes));
    Rank second = rank;
    second.stream = &other;
    second.numbers = reinterpret_cast<int*>(numbers.data());
    CHECK(rank.sum() == MESHCOLL_OK);
    well(other.copy(second.numbers, rank.seen, kBytes));
    CHECK(second.sum() == MESHCOLL_OK);
    CHECK(second.sum() == MESHCOLL_OK);
    well(other.synchronize());
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    well(rank.stream->synchronize());
    CHECK(rank.all_are(2, 2));
    well(other.copy(rank.seen, second.numbers, kBytes));
    well(other.synchronize());
    CHECK(rank.all_are(4, 4));
    for (int call = 0; call < 10; ++call) {
      rank.put(call);
      CHECK(rank.sum() == MESHCOLL_OK);
      well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
      well(rank.stream->synchronize());
      CHECK(rank.all_are(2, 2 * call));
    }
  });
}

TEST_CASE("a group's send and receive are copied once each; a barrier is refused a stream") {
  run_two([](const Rank& rank) {
    constexpr std::size_t kHalf = kCount / 2;
    rank.put(rank.rank * 1'000'000);
    well(rank.stream->synchronize());
    meshcoll_args args{};
    args.struct_bytes = sizeof args;
    args.call = MESHCOLL_SEND_RECV;
    args.send = rank.numbers;
    args.recv = rank.numbers + kHalf;
    args.count = args.recv_count = kHalf;
    args.dtype = MESHCOLL_INT32;
    args.to = args.from = 1 - rank.rank;
    args.in_stream = 1;
    args.stream = rank.stream->handle();
    const sim::CudaCounts before = rank.counts();
    CHECK(rank.ENGINE(meshcoll_group_start)(rank.comm) == MESHCOLL_OK);
    CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_OK);
    CHECK(rank.ENGINE(meshcoll_group_end)(rank.comm, nullptr) == MESHCOLL_OK);
    well(rank.stream->synchronize());
    CHECK(rank.counts().copied_bytes - before.copied_bytes == 2 * kHalf * sizeof(int));
    well(rank.stream->copy(rank.seen, rank.numbers, kBytes));
    well(rank.stream->synchronize());
    CHECK(rank.seen[kHalf] == (1 - rank.rank) * 1'000'000);
    CHECK(rank.seen[2 * kHalf - 1] == (1 - rank.rank) * 1'000'000 + static_cast<int>(kHalf) - 1);
    args.call = MESHCOLL_BARRIER;
    CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_UNSUPPORTED);
  });
}

}  // namespace engine_test
