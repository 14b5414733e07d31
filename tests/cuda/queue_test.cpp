// The queues in which a device finds its streams' work: what one more stream can still do while others are held. The
// rows are what an H200 did (sim/cuda/stream.cpp).
#include <string>
#include <vector>

#include "tests/cuda/gpus.h"

using namespace meshbed;
using namespace meshbed::test;

namespace queue_test {
namespace {

constexpr std::size_t kBytes = 1 << 20;

enum class Engine { kCopies, kKernels, kCopiesInOwnContext, kKernelsInOwnContext };

struct Row {
  int held = 0;
  std::string behind = {};  // the wait of each, beside a fill: "out", "in"
  Engine engine = Engine::kCopies;
  bool goes_through = false;
  std::string queues = {};
};

/// Whether one more stream's work ends while all of the others are held.
bool goes_through(const Row& row) {
  bool through = false;
  run_gpus({.connections = row.queues, .simulated = true}, [&] {
    const Gpu gpu;
    const CUdeviceptr memory = allocate(kBytes);
    auto* const pinned = static_cast<char*>(allocate_pinned(kBytes));
    auto* const word = static_cast<volatile unsigned*>(allocate_pinned(4));
    const bool own = row.engine == Engine::kCopiesInOwnContext || row.engine == Engine::kKernelsInOwnContext;
    CUcontext context = nullptr;
    if (own) CHECK(cuCtxCreate_v2(&context, 0, 0) == 0);
    CUstream one_more = make_stream();
    CUevent end = make_event();
    CUfunction function = find_function(kImage, "empty");
    if (own) CHECK(cuCtxPopCurrent_v2(&context) == 0);
    std::vector<CUstream> held;
    for (int i = 0; i < row.held; ++i) {
      CUstream stream = held.emplace_back(make_stream());
      CHECK(cuMemsetD32Async(memory, 0, 16, stream) == 0);
      CHECK(cuStreamWaitValue32_v2(stream, reinterpret_cast<CUdeviceptr>(word), 1, 0) == 0);
      if (row.behind.find("out") != std::string::npos) CHECK(cuMemcpyDtoHAsync_v2(pinned, memory, 64, stream) == 0);
      if (row.behind.find("in") != std::string::npos) CHECK(cuMemcpyHtoDAsync_v2(memory, pinned, 64, stream) == 0);
      CHECK(cuMemsetD32Async(memory, 0, 16, stream) == 0);
    }
    if (own) CHECK(cuCtxPushCurrent_v2(context) == 0);
    if (row.engine == Engine::kCopies || row.engine == Engine::kCopiesInOwnContext) {
      CHECK(cuMemcpyDtoHAsync_v2(pinned, memory, kBytes, one_more) == 0);
      CHECK(cuMemcpyHtoDAsync_v2(memory, pinned, kBytes, one_more) == 0);
    } else {
      CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, one_more, nullptr, nullptr) == 0);
    }
    CHECK(cuEventRecord(end, one_more) == 0);
    // Threads of the held streams look, too, each in its turn.
    for (int look = 0; look < 1000 && !through; ++look) {
      sleep(kPicosecondsPerMicrosecond);
      through = cuEventQuery(end) == 0;
    }
    *word = 1;
    CHECK(cuEventSynchronize(end) == 0);
    if (own) CHECK(cuCtxPopCurrent_v2(&context) == 0);
    for (CUstream stream : held) CHECK(cuStreamSynchronize(stream) == 0);
  });
  return through;
}

}  // namespace

TEST_CASE("what one more stream does while others are held is what an H200 did") {
  const Row rows[] = {
      {6, "", Engine::kCopies, true},
      {20, "", Engine::kCopies, true},
      {40, "", Engine::kCopies, true},
      {40, "", Engine::kKernels, false},
      {8, "out in", Engine::kCopies, false},
      {20, "out in", Engine::kCopies, false},
      {8, "out in", Engine::kKernels, false},
      {8, "out in", Engine::kCopiesInOwnContext, false},
      {8, "out in", Engine::kKernelsInOwnContext, true},
      {40, "out in", Engine::kKernelsInOwnContext, true},
      {20, "out", Engine::kCopies, false},
      {20, "out", Engine::kKernels, false},
      {20, "in", Engine::kCopies, true},
      {20, "in", Engine::kKernels, false},
      {40, "out in", Engine::kCopies, false, "32"},
      {8, "out in", Engine::kCopies, false, "1"},
      // Not measured: each stream has a queue of its own while there are enough.
      {6, "out in", Engine::kCopies, true},
      {6, "out in", Engine::kKernels, true},
      {20, "out in", Engine::kCopies, true, "32"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.held);
    CAPTURE(row.behind);
    CAPTURE(static_cast<int>(row.engine));
    CAPTURE(row.queues);
    CHECK(goes_through(row) == row.goes_through);
  }
}

}  // namespace queue_test
