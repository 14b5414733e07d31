// The engine's messages in GPU memory itself (GPUDirect RDMA): simulated ranks, each with its own copy of the engine
// and its node's GPU, whose adapters' writes come there late and out of order until a flush.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugin/cuda/graph.h"
#include "tests/cuda/engine_ranks.h"

using namespace meshbed;
using namespace meshbed::test;

namespace direct_test {
namespace {

constexpr std::size_t kMostBytes = std::size_t{20} << 20U;

/// Where a call's memory begins, from the begin of a rank's own.
struct Places {
  std::size_t send = 0, send_bytes = 0, recv = 0, recv_bytes = 0;
};

struct Rank : EngineRank {
  explicit Rank(const EngineRank& rank) : EngineRank(rank) {}
  std::uint64_t direct_calls() const {
    meshcoll_stats stats{};
    stats.struct_bytes = sizeof stats;
    CHECK(this->ENGINE(meshcoll_get_stats)(comm, &stats) == MESHCOLL_OK);
    return stats.gpu_direct_calls;
  }
  meshcoll_args args(meshcoll_call which, std::size_t count, int root) const {
    meshcoll_args args{};
    args.struct_bytes = sizeof args;
    args.call = which;
    args.count = args.recv_count = count;
    args.dtype = MESHCOLL_UINT8;
    args.root = root;
    args.to = (rank + 1) % world;
    args.from = (rank + world - 1) % world;
    return args;
  }
};

struct Setting {
  int nodes = 2, rails = 1;
  bool dma_buf = true, peer_memory = false;
  std::map<std::string, std::string> environment{};
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  bool registers = true;  // the GPU's memory, for as long as the communicator: what goes lands all that is on its way
};

std::string run_ranks(const Setting& setting, const std::function<void(const Rank&)>& body) {
  models::Cluster cluster = ring_cluster(setting.nodes, 100'000'000'000, kPicosecondsPerMicrosecond, setting.rails);
  for (models::Node& node : cluster.nodes) {
    node.peer_memory = setting.peer_memory;
    for (models::Nic& nic : node.nics) nic.dma_buf = setting.dma_buf;
  }
  const EngineRanks ranks{.cluster = cluster,
                          .bytes = kMostBytes,
                          .environment = setting.environment,
                          .algorithm = setting.algorithm,
                          .protocol = setting.protocol};
  return run_engine_ranks(ranks, [&](const EngineRank& rank) {
    if (setting.registers) {
      CHECK(rank.ENGINE(meshcoll_register)(rank.comm, rank.there, kMostBytes) == MESHCOLL_OK);
    }
    body(Rank(rank));
    CHECK(rank.broken() == MESHCOLL_OK);
  });
}

const std::vector<meshcoll_call> kCalls{MESHCOLL_ALL_GATHER, MESHCOLL_BROADCAST, MESHCOLL_ALL_TO_ALL,
                                        MESHCOLL_GATHER,     MESHCOLL_SCATTER,   MESHCOLL_SEND_RECV};

/// Of `count` bytes a block, as meshcoll.h says what is in place.
Places places_of(const Rank& rank, meshcoll_call which, std::size_t count, int root, bool in_place) {
  const auto world = static_cast<std::size_t>(rank.world), own = static_cast<std::size_t>(rank.rank) * count;
  const bool is_root = rank.rank == root;
  Places places{.send_bytes = count, .recv_bytes = count};
  if (which == MESHCOLL_ALL_GATHER || which == MESHCOLL_ALL_TO_ALL || which == MESHCOLL_GATHER) {
    places.recv_bytes = world * count;
  }
  if (which == MESHCOLL_ALL_TO_ALL || which == MESHCOLL_SCATTER || which == MESHCOLL_REDUCE_SCATTER) {
    places.send_bytes = world * count;
  }
  places.recv = places.send_bytes + 3;  // somewhere in a page
  if (!in_place) return places;
  places.recv = 0;
  if (which == MESHCOLL_ALL_GATHER || (which == MESHCOLL_GATHER && is_root)) places.send = own;
  if ((which == MESHCOLL_SCATTER && is_root) || which == MESHCOLL_REDUCE_SCATTER) places.recv = own;
  const bool apart = (which == MESHCOLL_GATHER || which == MESHCOLL_SCATTER) && !is_root;
  if (apart) places.recv = places.send_bytes;
  return places;
}

void fill(char* bytes, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i) {
    seed = seed * 1664525U + 1013904223U;
    bytes[i] = static_cast<char>(seed >> 24U);
  }
}

/// Which of the two were in GPU memory, and what a call copied.
struct Seen {
  std::uint64_t direct = 0, copies = 0, host_copies = 0;
};

/// The call on GPU memory in the stream and the same on host memory: every byte of what a rank owns is alike.
Seen exercise(const Rank& rank, meshcoll_call which, std::size_t count, int root, bool in_place, unsigned salt) {
  const Places places = places_of(rank, which, count, root, in_place);
  const std::size_t all = std::max(places.send + places.send_bytes, places.recv + places.recv_bytes);
  std::vector<char> expected(all);
  fill(expected.data(), all, salt * 1000 + static_cast<unsigned>(rank.rank));
  std::memcpy(rank.here, expected.data(), all);
  well(rank.stream->copy(rank.there, rank.here, all));
  well(rank.stream->synchronize());
  meshcoll_args args = rank.args(which, count, root);
  args.send = rank.there + places.send;
  args.recv = rank.there + places.recv;
  args.in_stream = 1;
  args.stream = rank.stream->handle();
  const sim::CudaCounts before = rank.counts();
  const std::uint64_t direct_before = rank.direct_calls();
  CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_OK);
  // By the GPU and at once: it sees what has been flushed, and nothing else.
  well(rank.stream->copy(rank.here, rank.there, all));
  well(rank.stream->synchronize());
  const sim::CudaCounts after = rank.counts();
  CHECK(after.device_syncs == before.device_syncs);
  args.send = expected.data() + places.send;
  args.recv = expected.data() + places.recv;
  args.in_stream = 0;
  meshcoll_handle handle = 0;
  CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, &handle) == MESHCOLL_OK);
  CHECK(rank.ENGINE(meshcoll_wait)(rank.comm, handle, -1) == MESHCOLL_OK);
  CHECK_MESSAGE(std::memcmp(rank.here, expected.data(), all) == 0, "call ", static_cast<int>(which), ", ", count,
                " bytes, root ", root, in_place ? ", in place" : "");
  return {.direct = rank.direct_calls() - direct_before,
          .copies = after.copies - before.copies - 1,
          .host_copies = after.host_copies - before.host_copies - 1};
}

bool exchanges(meshcoll_call which) { return which == MESHCOLL_ALL_TO_ALL || which == MESHCOLL_SEND_RECV; }

/// All calls and sizes, in place and not: nothing passes the host, but what an exchange in place gives.
void exercise_all(const Rank& rank, const std::vector<std::size_t>& sizes,
                  const std::vector<meshcoll_call>& calls = kCalls) {
  unsigned salt = 0;
  for (const meshcoll_call which : calls) {
    for (const std::size_t count : sizes) {
      for (const bool in_place : {false, true}) {
        const Seen seen = exercise(rank, which, count, rank.world - 1, in_place, ++salt);
        const bool lends = in_place && exchanges(which);
        CHECK(seen.direct == (lends ? 0 : 1));
        CHECK(seen.host_copies == (lends ? 1 : 0));
        CHECK(seen.copies <= 1);
        if (in_place) CHECK(seen.copies == seen.host_copies);
      }
    }
  }
}

const std::vector<std::size_t> kSizes{4, 7, 4099, 65'537, (std::size_t{3} << 20U) + 5};
const std::map<std::string, std::string> kStaged{{"MESHBED_GPU_DIRECT", "0"}};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("collectives that do not reduce have their messages in GPU memory: host memory's bytes, no copy by a host") {
  const std::string said = run_ranks({.nodes = 2}, [](const Rank& rank) { exercise_all(rank, kSizes); });
  CHECK_MESSAGE(count_of(said, "WARN") == 0, said);
}

TEST_CASE("... over three nodes, by every algorithm that has some of them") {
  for (const char* algorithm : {"ring", "tree", "direct", "mesh", "auto"}) {
    run_ranks({.nodes = 3, .algorithm = algorithm}, [](const Rank& rank) {
      exercise_all(rank, {4, 65'537, (std::size_t{1} << 20U) + 1});
    });
  }
}

TEST_CASE("... over two cables between two nodes, which share long messages") {
  run_ranks({.nodes = 2, .rails = 2}, [](const Rank& rank) { exercise_all(rank, kSizes); });
}

TEST_CASE("... through relays, by way of another node's host memory") {
  run_ranks({.nodes = 4}, [](const Rank& rank) { exercise_all(rank, {4, 65'537, (std::size_t{1} << 20U) + 1}); });
}

TEST_CASE("... by addresses where nvidia_peermem is loaded and dma-bufs are not known") {
  run_ranks({.nodes = 2, .dma_buf = false, .peer_memory = true}, [](const Rank& rank) {
    exercise_all(rank, {4, 65'537, (std::size_t{1} << 20U) + 1});
  });
}

TEST_CASE("where the GPU reduces, what is reduced stays in its memory, too: the processor's bytes, no copy by a host") {
  for (const char* algorithm : {"ring", "tree", "halving-doubling", "direct", "mesh", "torus"}) {
    run_ranks({.nodes = 3, .environment = {{"MESHBED_GPU_SUMS", "1"}}, .algorithm = algorithm}, [](const Rank& rank) {
      exercise_all(rank, {4, 65'537, 300'007},
                   {MESHCOLL_ALL_REDUCE, MESHCOLL_REDUCE_SCATTER, MESHCOLL_REDUCE, MESHCOLL_ALL_GATHER});
    });
  }
}

TEST_CASE("MESHBED_GPU_DIRECT=0, adapters that register no GPU memory and lines have the messages in pinned memory") {
  const auto staged = [](const Rank& rank) {
    unsigned salt = 0;
    for (const meshcoll_call which : kCalls) {
      for (const std::size_t count : {std::size_t{4}, std::size_t{65'537}}) {
        const Seen seen = exercise(rank, which, count, 0, false, ++salt);
        CHECK(seen.direct == 0);
        CHECK(seen.host_copies >= 1);
        CHECK(seen.host_copies <= 2);
      }
    }
  };
  run_ranks({.nodes = 2, .environment = kStaged}, staged);
  run_ranks({.nodes = 2, .dma_buf = false}, staged);
  run_ranks({.nodes = 2, .protocol = "ll"}, staged);
}

TEST_CASE("ranks with and without GPUDirect go together: the messages are the same") {
  run_ranks({.nodes = 3}, [](const Rank& rank) {
    meshcoll_args args = rank.args(MESHCOLL_ALL_GATHER, 100'003, 0);
    std::vector<char> on_host(3 * args.count);
    // Rank 0's memory is the host's.
    fill(rank.here, args.count, static_cast<unsigned>(rank.rank));
    well(rank.stream->copy(rank.there, rank.here, args.count));
    args.send = rank.rank == 0 ? rank.here : rank.there;
    args.recv = rank.rank == 0 ? on_host.data() : rank.there + args.count;
    args.in_stream = 1;
    args.stream = rank.stream->handle();
    CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_OK);
    if (rank.rank != 0) well(rank.stream->copy(on_host.data(), rank.there + args.count, on_host.size()));
    well(rank.stream->synchronize());
    std::vector<char> expected(args.count);
    for (unsigned other = 0; other < 3; ++other) {
      fill(expected.data(), args.count, other);
      CHECK(std::memcmp(on_host.data() + other * args.count, expected.data(), args.count) == 0);
    }
    CHECK(rank.direct_calls() == (rank.rank == 0 ? 0 : 1));
  });
}

TEST_CASE("a wrong value of MESHBED_GPU_DIRECT is named, with what to set") {
  const std::string said =
      run_ranks({.nodes = 2, .environment = {{"MESHBED_GPU_DIRECT", "yes"}}}, [](const Rank& rank) {
        meshcoll_args args = rank.args(MESHCOLL_BROADCAST, 8, 0);
        args.send = args.recv = rank.there;
        args.in_stream = 1;
        args.stream = rank.stream->handle();
        CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_INVALID_ARGUMENT);
      });
  CHECK_MESSAGE(count_of(said, "MESHBED_GPU_DIRECT is \"yes\"; set 1 (adapters read and write GPU memory") > 0, said);
}

TEST_CASE("memory that is not registered is so for its call: also after it was") {
  run_ranks({.nodes = 2}, [](const Rank& rank) {
    CHECK(rank.ENGINE(meshcoll_deregister)(rank.comm, rank.there) == MESHCOLL_OK);
    exercise_all(rank, kSizes);
  });
  run_ranks({.nodes = 3, .registers = false}, [](const Rank& rank) { exercise_all(rank, {4, 65'537}); });
}

TEST_CASE("without the flush the GPU reads old bytes: these tests would see that it is missing") {
  run_ranks({.nodes = 2, .environment = {{"NCCL_GDR_FLUSH_DISABLE", "1"}}}, [](const Rank& rank) {
    constexpr std::size_t kCount = (std::size_t{1} << 20U) + 5;
    const int other = 1 - rank.rank;
    int wrong = 0;
    for (int call = 0; call < 5; ++call) {
      fill(rank.here, kCount, static_cast<unsigned>(10 * call + rank.rank));
      well(rank.stream->copy(rank.there, rank.here, kCount));
      meshcoll_args args = rank.args(MESHCOLL_SEND_RECV, kCount, 0);
      args.send = rank.there;
      args.recv = rank.there + kCount;
      args.in_stream = 1;
      args.stream = rank.stream->handle();
      CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_OK);
      well(rank.stream->copy(rank.here, rank.there + kCount, kCount));
      well(rank.stream->synchronize());
      std::vector<char> expected(kCount);
      fill(expected.data(), kCount, static_cast<unsigned>(10 * call + other));
      wrong += std::memcmp(rank.here, expected.data(), kCount) != 0 ? 1 : 0;
    }
    CHECK(wrong > 0);
  });
}

TEST_CASE("a group whose operations depend on each other is copied; one whose do not is not") {
  run_ranks({.nodes = 2}, [](const Rank& rank) {
    constexpr std::size_t kCount = 5'003;
    for (const bool depends : {false, true}) {
      fill(rank.here, 4 * kCount, 7 + static_cast<unsigned>(rank.rank));
      well(rank.stream->copy(rank.there, rank.here, 8 * kCount));
      well(rank.stream->synchronize());
      const std::uint64_t direct_before = rank.direct_calls();
      const sim::CudaCounts before = rank.counts();
      meshcoll_args first = rank.args(MESHCOLL_BROADCAST, kCount, 0);
      first.in_stream = 1;
      first.stream = rank.stream->handle();
      first.send = first.recv = rank.there;
      meshcoll_args second = first;
      second.call = MESHCOLL_ALL_GATHER;
      second.send = rank.there + (depends ? 0 : kCount);
      second.recv = rank.there + 4 * kCount;
      CHECK(rank.ENGINE(meshcoll_group_start)(rank.comm) == MESHCOLL_OK);
      CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &first, nullptr) == MESHCOLL_OK);
      CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &second, nullptr) == MESHCOLL_OK);
      CHECK(rank.ENGINE(meshcoll_group_end)(rank.comm, nullptr) == MESHCOLL_OK);
      well(rank.stream->synchronize());
      CHECK(rank.direct_calls() - direct_before == (depends ? 0 : 2));
      CHECK((rank.counts().host_copies > before.host_copies) == depends);
      well(rank.stream->copy(rank.here, rank.there, 8 * kCount));
      well(rank.stream->synchronize());
      for (unsigned other = 0; other < 2; ++other) {
        std::vector<char> expected(2 * kCount);
        fill(expected.data(), expected.size(), 7 + (depends ? 0 : other));
        const char* const wanted = expected.data() + (depends ? 0 : kCount);
        CHECK(std::memcmp(rank.here + (4 + other) * kCount, wanted, kCount) == 0);
      }
    }
  });
}

TEST_CASE("calls that a graph has recorded are copied") {
  run_ranks({.nodes = 2}, [](const Rank& rank) {
    constexpr std::size_t kCount = 5'003;
    meshcoll_args args = rank.args(MESHCOLL_ALL_GATHER, kCount, 0);
    args.send = rank.there;
    args.recv = rank.there + kCount;
    args.in_stream = 1;
    args.stream = rank.stream->handle();
    const auto graph = taken(cuda::Graph::record(*rank.driver, *rank.stream, [&]() -> Result<void> {
      CHECK(rank.ENGINE(meshcoll_start)(rank.comm, &args, nullptr) == MESHCOLL_OK);
      return ok();
    }));
    fill(rank.here, kCount, static_cast<unsigned>(rank.rank));
    well(rank.stream->copy(rank.there, rank.here, kCount));
    well(graph.launch(*rank.stream));
    well(rank.stream->copy(rank.here, rank.there + kCount, 2 * kCount));
    well(rank.stream->synchronize());
    CHECK(rank.direct_calls() == 0);
    for (unsigned other = 0; other < 2; ++other) {
      std::vector<char> expected(kCount);
      fill(expected.data(), kCount, other);
      CHECK(std::memcmp(rank.here + other * kCount, expected.data(), kCount) == 0);
    }
  });
}

TEST_CASE("memory of two mappings, which no dma-buf is of, is copied from then on, with one warning a rank") {
  const std::string said = run_ranks({.nodes = 2}, [](const Rank& rank) {
    constexpr std::size_t kGranularity = std::size_t{2} << 20U;
    const CUdeviceptr place = map_twice(kGranularity);
    Rank mapped = rank;
    mapped.there = reinterpret_cast<char*>(place);
    for (unsigned call = 0; call < 3; ++call) {
      const Seen seen = exercise(mapped, MESHCOLL_ALL_GATHER, (std::size_t{1} << 20U) + 77, 0, false, call);
      CHECK(seen.direct == 0);
      CHECK(seen.host_copies == 2);
    }
    CHECK(exercise(rank, MESHCOLL_ALL_GATHER, 1001, 0, false, 9).direct == 0);
  });
  CHECK_MESSAGE(count_of(said, "from now on messages in GPU memory are copied, as with MESHBED_GPU_DIRECT=0") == 2,
                said);
}

}  // namespace direct_test
