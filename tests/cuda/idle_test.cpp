// Kernels that wait long for the host: looks that would find nothing are left out, and nothing is seen later for it.
#include <string>

#include "models/gpu.h"
#include "tests/cuda/ranks.h"
#include "tests/cuda/scan_kernel.h"

using namespace meshbed;
using namespace meshbed::test;

namespace idle_test {
namespace {

constexpr Picoseconds kMs = kPicosecondsPerMillisecond;

// seldom: looks at the word, and every `every`th time at the one behind it, until that is not 0; then that goes into
// `answer`. until: looks at the word until it is not 0 or the clock says `deadline` (ns), and writes into `answer` what
// the clock says then.
constexpr char kKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry seldom(.param .u64 words, .param .u64 every, .param .u64 answer) {
  .reg .pred %p<4>;
  .reg .b32 %r<3>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [words];
  ld.param.u64 %d2, [every];
  ld.param.u64 %d4, [answer];
again:
  mov.u64 %d3, 0;
next:
  ld.volatile.u32 %r1, [%d1];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  add.u64 %d3, %d3, 1;
  setp.lt.u64 %p2, %d3, %d2;
  @%p2 bra next;
  ld.volatile.u32 %r2, [%d1+4];
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra again;
done:
  st.release.sys.u32 [%d4], %r2;
  ret;
}
.visible .entry until(.param .u64 words, .param .u64 deadline, .param .u64 answer) {
  .reg .pred %p<3>;
  .reg .b32 %r<2>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [words];
  ld.param.u64 %d2, [deadline];
  ld.param.u64 %d4, [answer];
again:
  ld.acquire.sys.u32 %r1, [%d1];
  mov.u64 %d3, %globaltimer;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  setp.lt.u64 %p2, %d3, %d2;
  @%p2 bra again;
done:
  st.release.sys.u64 [%d4], %d3;
  ret;
}
)";

volatile std::uint64_t* pinned(std::size_t size) { return static_cast<volatile std::uint64_t*>(allocate_pinned(size)); }

CUdeviceptr address_of(const volatile std::uint64_t* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// One thread of the kernel on a stream of its own.
CUstream launch(CUfunction function, CUdeviceptr words, std::uint64_t number, CUdeviceptr answer) {
  void* arguments[] = {&words, &number, &answer};
  CUstream stream = make_stream();
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) == 0);
  return stream;
}

/// Sleeps so long at a time, so that something else goes on, and counts the events until `when_ps`.
std::uint64_t events_until(Picoseconds when_ps, Picoseconds pause_ps = kMs) {
  const std::uint64_t before = sim::World::get().events_run();
  while (sim::World::get().now() < when_ps) sim::World::get().sleep(pause_ps);
  return sim::World::get().events_run() - before;
}

}  // namespace

TEST_CASE("a kernel that waits long looks seldom, and sees what is written as early as one that looked all the time") {
  const Picoseconds look_ps = models::find_gpu("H100")->host_flag_ps;
  for (const std::uint64_t words : {1, 700}) {
    CAPTURE(words);
    run_gpu_ranks({{.node = 0, .body = [look_ps, words] {
                      volatile std::uint64_t* const memory = pinned(4096);
                      volatile std::uint64_t* const answer = pinned(8);
                      *answer = 0;
                      CUstream stream =
                          launch(find_function(kScanKernel, "scan"), address_of(memory), words, address_of(answer));
                      const Picoseconds written_ps = 400 * kMs + look_ps / 3;
                      const std::uint64_t events = events_until(400 * kMs, (words == 1 ? 1 : 40) * kMs);
                      // Of half a million looks; those of the first milliseconds are all there.
                      CHECK(events > 1000);
                      CHECK(events < (words == 1 ? 30'000 : 100'000));
                      wait_until(written_ps);
                      reinterpret_cast<volatile std::uint32_t*>(memory)[words - 1] = 42;
                      CHECK(cuStreamSynchronize(stream) == 0);
                      CHECK(*answer == 42);
                      const auto looks = static_cast<Picoseconds>(words + 3);
                      CHECK(sim::World::get().now() - written_ps < looks * look_ps + 20 * kPicosecondsPerMicrosecond);
                    }}});
  }
}

TEST_CASE("a kernel that looks at a clock as well keeps its deadline") {
  const Picoseconds look_ps = models::find_gpu("H100")->host_flag_ps;
  run_gpu_ranks({{.node = 0, .body = [look_ps] {
                    volatile std::uint64_t* const memory = pinned(4096);
                    volatile std::uint64_t* const answer = pinned(8);
                    const Picoseconds deadline_ps = 100 * kMs + 300'000'000;
                    CUstream stream = launch(find_function(kKernels, "until"), address_of(memory),
                                             deadline_ps / kPicosecondsPerNanosecond, address_of(answer));
                    static_cast<void>(events_until(200 * kMs));
                    CHECK(cuStreamSynchronize(stream) == 0);
                    const auto ended_ps = static_cast<Picoseconds>(*answer) * kPicosecondsPerNanosecond;
                    CHECK(ended_ps >= deadline_ps);
                    CHECK(ended_ps - deadline_ps <= 2 * look_ps);
                  }}});
}

TEST_CASE("a kernel that looks at a word every 10,000th time, as NCCL's do, does so in time when it is written") {
  const Picoseconds look_ps = models::find_gpu("H100")->host_flag_ps;
  run_gpu_ranks({{.node = 0, .body = [look_ps] {
                    volatile std::uint64_t* const memory = pinned(4096);
                    volatile std::uint64_t* const answer = pinned(8);
                    constexpr std::uint64_t kEvery = 10'000;
                    CUfunction seldom = find_function(kKernels, "seldom");
                    CUstream stream = launch(seldom, address_of(memory), kEvery, address_of(answer));
                    CHECK(events_until(1000 * kMs) < 60'000);  // of a million looks
                    const Picoseconds written_ps = sim::World::get().now();
                    reinterpret_cast<volatile std::uint32_t*>(memory)[1] = 42;
                    CHECK(cuStreamSynchronize(stream) == 0);
                    CHECK(*answer == 42);
                    CHECK(sim::World::get().now() - written_ps < static_cast<Picoseconds>(kEvery + 300) * look_ps);
                  }}});
}

TEST_CASE("kernels that wait for one another's words and for the host hand them on at once, late or not") {
  const Picoseconds look_ps = models::find_gpu("H100")->host_flag_ps;
  run_gpu_ranks({{.node = 0, .body = [look_ps] {
                    volatile std::uint64_t* const words = pinned(4096);
                    CUfunction scan = find_function(kScanKernel, "scan");
                    CUstream last = nullptr;
                    // Each waits for the word before its own, all in pinned memory: a chain of eight.
                    for (int at = 0; at < 8; ++at)
                      last = launch(scan, address_of(words + at), 1, address_of(words + at + 1));
                    static_cast<void>(events_until(100 * kMs));
                    const Picoseconds written_ps = sim::World::get().now();
                    words[0] = 7;
                    CHECK(cuStreamSynchronize(last) == 0);
                    CHECK(words[8] == 7);
                    CHECK(sim::World::get().now() - written_ps < 8 * 3 * look_ps + 20 * kPicosecondsPerMicrosecond);
                  }}});
}

}  // namespace idle_test
