// Order and time: streams, events, host functions, copies that wait and copies that do not.
#include <string>
#include <vector>

#include "models/gpu.h"
#include "tests/cuda/gpus.h"

using namespace meshbed;
using namespace meshbed::test;

namespace stream_test {
namespace {

constexpr Picoseconds kUs = kPicosecondsPerMicrosecond;

const models::GpuModel& h100() { return *models::find_gpu("H100"); }

}  // namespace

TEST_CASE("a kernel's work is seen when it has ended, and a caller that does not wait sees what was there") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream(), other = make_stream();
    const CUdeviceptr address = allocate(4);
    auto* host = static_cast<int*>(allocate_pinned(8));
    CUfunction function = find_function(kImage, "add_one");
    CHECK(add_one(function, address, 500, stream) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(host, address, 4, other) == 0);  // a race, which the program loses
    CHECK(cuStreamSynchronize(other) == 0);
    CHECK(host[0] == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(host, address, 4, other) == 0);
    CHECK(cuStreamSynchronize(other) == 0);
    CHECK(host[0] == 1);
  });
}

TEST_CASE("a launch costs its call, its delay, its waves and the waking of who waits") {
  run_gpus({.simulated = true}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream();
    const CUdeviceptr address = allocate(4);
    CUfunction function = find_function(kImage, "add_one");
    const Picoseconds begin_ps = now_ps();
    // 3 waves: an SM holds 2 blocks of 1024 threads.
    CHECK(add_one(function, address, 10, stream, {.blocks = 132 * 2 * 2 + 1, .threads = 1024}) == 0);
    CHECK(now_ps() - begin_ps == h100().launch_call_ps);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(now_ps() - begin_ps ==
          h100().launch_call_ps + h100().launch_delay_ps + 30 * kUs + h100().kernel_gap_ps + h100().wake_ps);
  });
}

TEST_CASE("kernels of two streams share the SMs, and one that fills the GPU keeps the other one waiting") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUfunction function = find_function(kImage, "add_one");
    const CUdeviceptr address = allocate(8);
    for (const bool fills : {false, true}) {
      CAPTURE(fills);
      CUstream first = make_stream(), second = make_stream();
      CUevent begin = make_event(), end = make_event();
      CHECK(cuEventRecord(begin, first) == 0);
      CHECK(add_one(function, address, 100, first, {.blocks = fills ? 264U : 1U, .threads = 1024}) == 0);
      CHECK(add_one(function, address + 4, 100, second) == 0);
      CHECK(cuEventRecord(end, second) == 0);
      CHECK(cuCtxSynchronize() == 0);
      float milliseconds = 0;
      CHECK(cuEventElapsedTime_v2(&milliseconds, begin, end) == 0);
      CHECK((milliseconds > 0.2F) == fills);
    }
  });
}

TEST_CASE("the default stream comes after all blocking streams and before what they get later; others ignore it") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUfunction function = find_function(kImage, "add_one");
    const CUdeviceptr address = allocate(4);
    for (const unsigned flags : {0U, 1U}) {
      CAPTURE(flags);
      CUstream stream = make_stream(flags);
      CHECK(cuMemsetD32_v2(address, 0, 1) == 0);
      CHECK(cuCtxSynchronize() == 0);
      CHECK(add_one(function, address, 300, stream) == 0);
      CHECK(number_at(address) == (flags == 0 ? 1 : 0));  // cuMemcpyDtoH is in the default stream
      CHECK(cuStreamSynchronize(stream) == 0);
      CHECK(add_one(function, address, 300, nullptr) == 0);
      auto* host = static_cast<int*>(allocate_pinned(4));
      CHECK(cuMemcpyDtoHAsync_v2(host, address, 4, stream) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      CHECK(*host == (flags == 0 ? 2 : 1));
    }
  });
}

TEST_CASE("a stream that waits for an event comes after what the event stands for, and only that") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUfunction function = find_function(kImage, "add_one");
    CUstream first = make_stream(), second = make_stream();
    const CUdeviceptr address = allocate(8);
    auto* host = static_cast<int*>(allocate_pinned(8));
    CUevent event = make_event(2);
    CHECK(cuStreamWaitEvent(second, event, 0) == 0);  // never recorded: nothing to wait for
    CHECK(add_one(function, address, 200, first) == 0);
    CHECK(cuEventRecord(event, first) == 0);
    CHECK(add_one(function, address + 4, 5000, first) == 0);
    CHECK(cuStreamWaitEvent(second, event, 0) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(host, address, 8, second) == 0);
    CHECK(cuStreamSynchronize(second) == 0);
    CHECK(host[0] == 1);
    CHECK(host[1] == 0);
    CHECK(cuStreamQuery(first) == 600);
    CHECK(cuEventQuery(event) == 0);
    CHECK(cuStreamSynchronize(first) == 0);
    CHECK(cuStreamQuery(first) == 0);
  });
}

TEST_CASE("a loop that asks an event lets time go on, and the time between two events is the kernel's") {
  run_gpus({.simulated = true}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream();
    const CUdeviceptr address = allocate(4);
    CUevent begin = make_event(), end = make_event(), untimed = make_event(2), unused = make_event();
    CUfunction function = find_function(kImage, "add_one");
    CHECK(cuEventRecord(begin, stream) == 0);
    CHECK(add_one(function, address, 100, stream) == 0);
    CHECK(cuEventRecord(end, stream) == 0);
    CHECK(cuEventRecord(untimed, stream) == 0);
    float milliseconds = -1;
    CHECK(cuEventElapsedTime_v2(&milliseconds, begin, end) == 600);
    int looks = 0;
    while (cuEventQuery(end) == 600) ++looks;
    CHECK(looks > 0);
    CHECK(cuEventElapsedTime_v2(&milliseconds, begin, end) == 0);
    const Picoseconds expected_ps = h100().launch_call_ps + h100().launch_delay_ps + 100 * kUs + h100().kernel_gap_ps;
    CHECK(milliseconds == doctest::Approx(static_cast<double>(expected_ps) / 1e9));
    CHECK(cuEventElapsedTime_v2(&milliseconds, begin, untimed) == 400);
    CHECK(cuEventElapsedTime_v2(&milliseconds, begin, unused) == 400);
    CHECK(cuEventDestroy_v2(end) == 0);
    CHECK(cuEventQuery(end) == 400);
  });
}

TEST_CASE("a host function comes between what was put before it and after it, on a thread that may block") {
  run_gpus({.simulated = true}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream();
    const CUdeviceptr address = allocate(4);
    static int* host = nullptr;
    static int seen = -1;
    host = static_cast<int*>(allocate_pinned(4));
    CUfunction function = find_function(kImage, "add_one");
    CHECK(add_one(function, address, 100, stream) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(host, address, 4, stream) == 0);
    const auto look = [](void* data) {
      sleep(kPicosecondsPerMillisecond);
      seen = *static_cast<int*>(data);
    };
    CHECK(cuLaunchHostFunc(stream, look, host) == 0);
    CHECK(add_one(function, address, 1, stream) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(host, address, 4, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(seen == 1);
    CHECK(*host == 2);
    CHECK(now_ps() > kPicosecondsPerMillisecond);
    CHECK(cuLaunchHostFunc(stream, nullptr, host) == 1);
  });
}

TEST_CASE("copies: pageable memory to the device is taken at the call, from the device is there at its return") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream();
    const CUdeviceptr address = allocate(4);
    CUfunction function = find_function(kImage, "add_one");
    CHECK(add_one(function, address, 100, stream) == 0);
    int number = 10;
    CHECK(cuMemcpyHtoDAsync_v2(address, &number, 4, stream) == 0);
    number = 99;
    CHECK(cuMemcpyDtoHAsync_v2(&number, address, 4, stream) == 0);
    CHECK(number == 10);
    auto* pinned = static_cast<int*>(allocate_pinned(4));
    *pinned = 20;
    CHECK(add_one(function, address, 100, stream) == 0);
    CHECK(cuMemcpyHtoDAsync_v2(address, pinned, 4, stream) == 0);
    *pinned = 21;  // too early: pinned memory is read when the copy's turn comes
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(address) == 21);
  });
}

TEST_CASE("copies into the GPU and out of it run side by side, two into it one after the other") {
  run_gpus({.simulated = true}, [] {
    const Gpu gpu;
    constexpr std::size_t kSize = 55'000'000;  // a millisecond
    CUstream streams[] = {make_stream(), make_stream()};
    const CUdeviceptr memory[] = {allocate(kSize), allocate(kSize)};
    void* hosts[] = {allocate_pinned(kSize), allocate_pinned(kSize)};
    const Picoseconds one_ps = models::copy_ps(h100(), models::CopyKind::kPinned, kSize);
    for (const bool same_way : {true, false}) {
      CAPTURE(same_way);
      const Picoseconds begin_ps = now_ps();
      CHECK(cuMemcpyHtoDAsync_v2(memory[0], hosts[0], kSize, streams[0]) == 0);
      if (same_way) {
        CHECK(cuMemcpyHtoDAsync_v2(memory[1], hosts[1], kSize, streams[1]) == 0);
      } else {
        CHECK(cuMemcpyDtoHAsync_v2(hosts[1], memory[1], kSize, streams[1]) == 0);
      }
      CHECK(cuCtxSynchronize() == 0);
      CHECK(now_ps() - begin_ps >= (same_way ? 2 : 1) * one_ps);
      CHECK(now_ps() - begin_ps < (same_way ? 2 : 1) * one_ps + 10 * kUs);
    }
  });
}

TEST_CASE("what waits for the whole device is counted apart from what waits for a stream") {
  run_gpus({.simulated = true}, [] {
    const Gpu gpu;
    CUstream stream = make_stream();
    CUevent event = make_event();
    CHECK(cuEventRecord(event, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(cuEventSynchronize(event) == 0);
    CHECK(counters().stream_syncs == 2);
    CHECK(counters().device_syncs == 0);
    CHECK(cuMemFree_v2(allocate(8)) == 0);
    CHECK(counters().implicit_device_syncs == 1);
    CHECK(cuCtxSynchronize() == 0);
    CHECK(cudaDeviceSynchronize() == 0);
    CHECK(counters().device_syncs == 2);
  });
}

TEST_CASE("a stream that is destroyed ends what it has; its handle is no stream any more") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream(0);
    const CUdeviceptr address = allocate(4);
    CHECK(add_one(find_function(kImage, "add_one"), address, 100, stream) == 0);
    CHECK(cuStreamDestroy_v2(stream) == 0);
    CHECK(cuStreamQuery(stream) == 400);
    CHECK(number_at(address) == 1);  // the default stream comes after it all the same
    CHECK(cuStreamDestroy_v2(nullptr) == 400);
    CHECK(cuStreamCreate(&stream, 2) == 1);
  });
}

TEST_CASE("a stream waits for a word of memory, and writes one, where the other streams go on") {
  run_gpus({}, [] {
    const Gpu gpu;
    CUstream waits = make_stream(), writes = make_stream();
    const CUdeviceptr address = allocate(4);
    auto* words = static_cast<unsigned*>(allocate_pinned(64));
    auto* seen = words + 8;
    const auto at = [&](int word) { return reinterpret_cast<CUdeviceptr>(words + word); };
    // Not less than 2, and as a difference in a circle: 1 is less than 2, 0x80000001 more.
    CHECK(cuStreamWaitValue32_v2(waits, at(0), 2, 0) == 0);
    CHECK(cuMemsetD32Async(address, 7, 1, waits) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(seen, address, 4, waits) == 0);
    for (const unsigned value : {1U, 0x90000001U}) {
      CHECK(cuStreamWriteValue32_v2(writes, at(0), value, 0) == 0);
      CHECK(cuStreamSynchronize(writes) == 0);
      CHECK(words[0] == value);
      CHECK(cuStreamQuery(waits) == 600);  // CUDA_ERROR_NOT_READY
      CHECK(*seen == 0);
    }
    words[0] = 2;  // by the CPU
    CHECK(cuStreamSynchronize(waits) == 0);
    CHECK(*seen == 7);
    // The others: equal, a bit in common, a bit that neither has.
    words[2] = words[4] = 0;
    words[6] = ~0U;
    CHECK(cuStreamWaitValue32_v2(waits, at(2), 5, 1) == 0);
    CHECK(cuStreamWaitValue64_v2(waits, at(4), 1ULL << 40, 2) == 0);
    CHECK(cuStreamWaitValue32_v2(waits, at(6), 1, 3) == 0);
    CHECK(cuStreamWriteValue32_v2(writes, at(2), 5, 0) == 0);
    CHECK(cuStreamWriteValue64_v2(writes, at(4), 3ULL << 40, 0) == 0);
    CHECK(cuStreamSynchronize(writes) == 0);
    CHECK(cuStreamQuery(waits) == 600);
    words[6] = ~2U;
    CHECK(cuStreamSynchronize(waits) == 0);
    // What is wrong: no memory of CUDA's, not aligned, no such flag, no such stream.
    CHECK(cuStreamWaitValue32_v2(waits, 8, 0, 0) == 1);
    CHECK(cuStreamWaitValue32_v2(waits, at(0) + 2, 0, 0) == 1);
    CHECK(cuStreamWaitValue64_v2(waits, at(1), 0, 0) == 1);
    CHECK(cuStreamWaitValue32_v2(waits, at(0), 0, 8) == 1);
    CHECK(cuStreamWriteValue32_v2(waits, at(0), 0, 2) == 1);
    CHECK(cuStreamWaitValue32_v2(reinterpret_cast<CUstream>(words), at(0), 0, 0) == 400);
  });
}

}  // namespace stream_test
