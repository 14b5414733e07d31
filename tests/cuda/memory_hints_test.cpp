// What a program says of managed memory and asks again, operations on words of memory by the batch, and a recording
// that the program adds nodes to.
#include <array>
#include <vector>

#include "tests/cuda/entry.h"

namespace memory_hints_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

constexpr int kCpu = -1, kInvalid = -2;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

struct Managed {
  explicit Managed(std::size_t size) { CHECK(cuMemAllocManaged(&address, size, 1) == 0); }
  CUresult advise(std::size_t offset, std::size_t size, int advice, int device) const {
    return find_entry<decltype(cuda::cuMemAdvise)>("cuMemAdvise", 11000)(address + offset, size, advice, device);
  }
  CUresult prefetch(std::size_t offset, std::size_t size, int device) const {
    return find_entry<decltype(cuda::cuMemPrefetchAsync)>("cuMemPrefetchAsync", 11000)(address + offset, size, device,
                                                                                       nullptr);
  }
  int attribute(int which, std::size_t offset, std::size_t size) const {
    int value = -77;
    CHECK(DRIVER_CALL(cuMemRangeGetAttribute, "cuMemRangeGetAttribute")(&value, sizeof(value), which, address + offset,
                                                                        size) == 0);
    return value;
  }
  CUdeviceptr address = 0;
};

}  // namespace

TEST_CASE("advice and prefetches of managed memory can be queried by ranges: where they differ there is no value") {
  run_gpus({.gpus = 2}, [] {
    constexpr int kReadMostly = 1, kPreferred = 2, kAccessedBy = 3, kPrefetched = 4, kPreferredType = 5;
    constexpr int kSetReadMostly = 1, kUnsetReadMostly = 2, kSetPreferred = 3, kSetAccessedBy = 5;
    const Gpu gpu;
    const Managed memory(4 * kMiB);
    CHECK(memory.attribute(kReadMostly, 0, 4 * kMiB) == 0);
    CHECK(memory.attribute(kPreferred, 0, 4 * kMiB) == kInvalid);
    CHECK(memory.attribute(kPrefetched, 0, kMiB) == kInvalid);
    CHECK(memory.advise(0, 2 * kMiB, kSetReadMostly, 0) == 0);
    CHECK(memory.attribute(kReadMostly, 0, 2 * kMiB) == 1);
    CHECK(memory.attribute(kReadMostly, 0, 2 * kMiB + 1) == 0);
    CHECK(memory.advise(kMiB, kMiB, kUnsetReadMostly, 0) == 0);
    CHECK(memory.attribute(kReadMostly, 0, kMiB) == 1);
    CHECK(memory.attribute(kReadMostly, 0, 2 * kMiB) == 0);
    CHECK(memory.advise(0, 4 * kMiB, kSetPreferred, kCpu) == 0);
    CHECK(memory.attribute(kPreferred, 0, 4 * kMiB) == kCpu);
    CHECK(memory.attribute(kPreferredType, 0, 4 * kMiB) == 2);
    CHECK(memory.advise(0, kMiB, kSetPreferred, 1) == 0);
    CHECK(memory.attribute(kPreferred, 0, kMiB) == 1);
    CHECK(memory.attribute(kPreferred, 0, 4 * kMiB) == kInvalid);
    CHECK(memory.advise(0, 4 * kMiB, kSetAccessedBy, 1) == 0);
    CHECK(memory.advise(0, kMiB, kSetAccessedBy, 0) == 0);
    std::array<int, 3> devices{};
    const auto get = DRIVER_CALL(cuMemRangeGetAttribute, "cuMemRangeGetAttribute");
    CHECK(get(devices.data(), sizeof(devices), kAccessedBy, memory.address, kMiB) == 0);
    CHECK(devices == std::array<int, 3>{0, 1, kInvalid});
    CHECK(get(devices.data(), sizeof(devices), kAccessedBy, memory.address, 4 * kMiB) == 0);
    CHECK(devices == std::array<int, 3>{1, kInvalid, kInvalid});
    CHECK(memory.prefetch(0, 4 * kMiB, 1) == 0);
    CHECK(memory.prefetch(2 * kMiB, kMiB, kCpu) == 0);
    CHECK(memory.attribute(kPrefetched, 0, 2 * kMiB) == 1);
    CHECK(memory.attribute(kPrefetched, 2 * kMiB, kMiB) == kCpu);
    CHECK(memory.attribute(kPrefetched, 0, 4 * kMiB) == kInvalid);

    CHECK(memory.advise(0, 5 * kMiB, kSetReadMostly, 0) == 1);
    CHECK(memory.advise(0, kMiB, 9, 0) == 1);
    CHECK(memory.advise(0, kMiB, kSetPreferred, 7) == 101);
    CHECK(memory.prefetch(0, kMiB, 7) == 101);
    CHECK(get(devices.data(), 5, kAccessedBy, memory.address, kMiB) == 1);
    CHECK(get(devices.data(), 8, kPreferred, memory.address, kMiB) == 1);
    CHECK(get(devices.data(), 4, kPreferred, allocate(64), 64) == 1);  // not managed
    const auto all = DRIVER_CALL(cuMemRangeGetAttributes, "cuMemRangeGetAttributes");
    int read_mostly = -1, preferred = -1;
    void* values[] = {&read_mostly, &preferred};
    std::size_t sizes[] = {4, 4};
    int which[] = {kReadMostly, kPreferred};
    CHECK(all(values, sizes, which, 2, memory.address, kMiB) == 0);
    CHECK(read_mostly == 1);
    CHECK(preferred == 1);
    // Since CUDA 12.2 a place has a type.
    const auto advise = DRIVER_CALL(cuMemAdvise_v2, "cuMemAdvise");
    CHECK(advise(memory.address, kMiB, kSetPreferred, {.type = 4, .id = 0}) == 0);
    CHECK(memory.attribute(kPreferredType, 0, kMiB) == 3);
    CHECK(advise(memory.address, kMiB, kSetPreferred, {.type = 0, .id = 0}) == 1);
  });
}

TEST_CASE("a batch of operations on words stands in its stream in order, or not at all") {
  run_gpus({}, [] {
    constexpr int kWait32 = 1, kWrite32 = 2, kFlush = 3, kWrite64 = 5, kBarrier = 6;
    constexpr unsigned kEqual = 1;
    const Gpu gpu;
    const auto batch = DRIVER_CALL(cuStreamBatchMemOp_v2, "cuStreamBatchMemOp");
    const CUstream stream = make_stream(), other = make_stream();
    const CUdeviceptr words = allocate(64);
    using Operation = cuda::CUstreamBatchMemOpParams;
    const auto operation = [&](int kind, std::size_t offset, unsigned long long value, unsigned flags = 0) {
      return Operation{.operation = kind,
                       .barrier_flags = 0,
                       .address = words + offset,
                       .value = value,
                       .flags = flags,
                       .alias = 0,
                       .reserved = 0};
    };
    std::vector<Operation> wanted{operation(kWrite32, 0, 5), operation(kWait32, 8, 3, kEqual),
                                  operation(kBarrier, 0, 0), operation(kWrite64, 16, 0x700000006ULL)};
    CHECK(batch(handle_of(stream), 4, wanted.data(), 0) == 0);
    CHECK(cuStreamWriteValue32_v2(other, words + 8, 3, 0) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(words) == 5);
    CHECK(number_at(words + 16) == 6);
    CHECK(number_at(words + 20) == 7);
    wanted[0].value = 9;
    wanted[3].address += 1;
    CHECK(batch(handle_of(stream), 4, wanted.data(), 0) == 1);
    wanted[3] = operation(kFlush, 0, 0);
    CHECK(batch(handle_of(stream), 4, wanted.data(), 0) == 801);
    wanted[3].operation = 77;
    CHECK(batch(handle_of(stream), 4, wanted.data(), 0) == 1);
    CHECK(batch(handle_of(stream), 256, wanted.data(), 0) == 1);
    CHECK(batch(handle_of(stream), 1, wanted.data(), 1) == 1);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(words) == 5);
  });
}

TEST_CASE("a program adds nodes to what a stream records, and says what comes before the next one") {
  run_gpus({}, [] {
    constexpr unsigned kAdd = 0, kSet = 1;
    const Gpu gpu;
    const CUstream stream = make_stream();
    const CUdeviceptr place = allocate(8);
    const auto update = DRIVER_CALL(cuStreamUpdateCaptureDependencies_v2, "cuStreamUpdateCaptureDependencies");
    cuda::GraphNode* node = nullptr;
    CHECK(update(handle_of(stream), &node, nullptr, 0, kSet) == 401);  // it does not record
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuMemsetD32Async(place, 1, 1, stream) == 0);
    int status = 0;
    unsigned long long id = 0;
    cuda::Graph* graph = nullptr;
    const cuda::GraphNode** tails = nullptr;
    std::size_t count = 0;
    const auto info = find_entry<decltype(cuda::cuStreamGetCaptureInfo_v2)>("cuStreamGetCaptureInfo", 12000);
    CHECK(info(handle_of(stream), &status, &id, &graph, &tails, &count) == 0);
    CHECK(status == 1);
    CHECK(count == 1);
    const auto* first = tails[0];
    const cuda::cudaMemsetParams fill{.target = reinterpret_cast<void*>(place + 4),
                                      .pitch = 0,
                                      .value = 2,
                                      .element_bytes = 4,
                                      .width = 1,
                                      .height = 1};
    CHECK(DRIVER_CALL(cuGraphAddMemsetNode, "cuGraphAddMemsetNode")(&node, graph, nullptr, 0, &fill, nullptr) == 0);
    CHECK(update(handle_of(stream), &node, nullptr, 1, 7) == 1);
    CHECK(update(handle_of(stream), &node, nullptr, 1, kAdd) == 0);
    CHECK(info(handle_of(stream), &status, &id, &graph, &tails, &count) == 0);
    CHECK(count == 2);
    CHECK(update(handle_of(stream), &node, nullptr, 1, kSet) == 0);
    CHECK(info(handle_of(stream), &status, &id, &graph, &tails, &count) == 0);
    CHECK(count == 1);
    CHECK(tails[0] == node);
    CHECK(tails[0] != first);
    CHECK(DRIVER_CALL(cuGraphDestroyNode, "cuGraphDestroyNode")(node) == 401);
    // The first fill was left on purpose, so that nothing is missing at the end.
    CUgraph recorded = nullptr;
    CUgraphExec executable = nullptr;
    CHECK(cuStreamEndCapture(stream, &recorded) == 0);
    CHECK(cuGraphInstantiateWithFlags(&executable, recorded, 0) == 0);
    CHECK(cuGraphLaunch(executable, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(place) == 1);
    CHECK(number_at(place + 4) == 2);
  });
}

}  // namespace memory_hints_test
