// What the documentation says of virtual memory, of words that streams look at, and of managed memory, at its borders.
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/cuda/entry.h"

namespace memory_rules_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20U;
constexpr cuda::CUmemAllocationProp kOnFirst{
    .type = 1, .handle_types = 0, .location = {1, 0}, .windows = nullptr, .flags = {}};

/// Two memories side by side, which nothing but their mappings keeps.
CUdeviceptr map_two() {
  CUdeviceptr place = 0;
  CHECK(cuMemAddressReserve(&place, 2 * kGranularity, 0, 0, 0) == 0);
  for (int index = 0; index < 2; ++index) {
    unsigned long long handle = 0;
    CHECK(::cuMemCreate(&handle, kGranularity, &kOnFirst, 0) == 0);
    CHECK(cuMemMap(place + static_cast<CUdeviceptr>(index) * kGranularity, kGranularity, 0, handle, 0) == 0);
    CHECK(cuMemRelease(handle) == 0);
  }
  return place;
}

CUresult set_access(CUdeviceptr place, std::size_t size, int device, int flags) {
  const cuda::CUmemAccessDesc access{.location = {1, device}, .flags = flags};
  return ::cuMemSetAccess(place, size, &access, 1);
}

}  // namespace

TEST_CASE("several mappings side by side are given up by one call, which is of all of each or of none") {
  run_gpus({}, [] {
    const Gpu gpu;
    std::size_t before = 0, during = 0, after = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&before, &total) == 0);
    const CUdeviceptr place = map_two();
    CHECK(set_access(place, 2 * kGranularity, 0, 3) == 0);
    CHECK(cuMemsetD32_v2(place + kGranularity - 4, 7, 2) == 0);
    CHECK(number_at(place + kGranularity) == 7);
    CHECK(cuMemGetInfo_v2(&during, &total) == 0);
    CHECK(during == before - 2 * kGranularity);
    CHECK(cuMemUnmap(place, kGranularity / 2) == 1);
    CHECK(cuMemUnmap(place, 3 * kGranularity) == 1);
    CHECK(cuMemAddressFree(place, 2 * kGranularity) == 1);
    CHECK(cuMemUnmap(place, 2 * kGranularity) == 0);
    CHECK(cuMemUnmap(place, 2 * kGranularity) == 1);
    CHECK(cuMemGetInfo_v2(&after, &total) == 0);
    CHECK(after == before);
    CHECK(cuMemAddressFree(place, 2 * kGranularity) == 0);
  });
}

TEST_CASE("access is a device's that is there, and is taken again") {
  run_gpus({.gpus = 2}, [] {
    const Gpu gpu;
    const CUdeviceptr place = map_two();
    int number = 0;
    CHECK(set_access(place, 2 * kGranularity, 7, 3) == 101);
    CHECK(cuMemcpyDtoH_v2(&number, place, 4) == 1);
    CHECK(set_access(place, 2 * kGranularity, 0, 3) == 0);
    CHECK(number_at(place) == 0);
    CHECK(set_access(place + kGranularity, kGranularity, 0, 0) == 0);
    CHECK(number_at(place) == 0);
    CHECK(cuMemcpyDtoH_v2(&number, place + kGranularity, 4) == 1);
    int can = 0;
    CHECK(DRIVER_CALL(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer")(&can, 1, 0) == 0);
    if (can == 0) CHECK(set_access(place, kGranularity, 1, 3) != 0);
  });
}

TEST_CASE("addresses are reserved with the alignment that is asked for, a power of two") {
  run_gpus({}, [] {
    const Gpu gpu;
    CUdeviceptr place = 0;
    constexpr std::size_t kLarge = 16 * kGranularity;
    CHECK(cuMemAddressReserve(&place, kGranularity, 3 * kGranularity, 0, 0) == 1);
    CHECK(cuMemAddressReserve(&place, kGranularity, 3, 0, 0) == 1);
    CHECK(cuMemAddressReserve(&place, kGranularity, kLarge, 0, 0) == 0);
    CHECK(place % kLarge == 0);
    CHECK(cuMemAddressFree(place, kGranularity) == 0);
  });
}

TEST_CASE("streams look at no word of managed memory, and flush only where the device says that it can") {
  run_gpus({}, [] {
    constexpr int kCanFlush = 98, kWait32 = 1;
    constexpr unsigned kFlush = 1U << 30U;
    const Gpu gpu;
    const CUstream stream = make_stream();
    CUdeviceptr managed = 0;
    CHECK(cuMemAllocManaged(&managed, 64, 1) == 0);
    CHECK(cuStreamWaitValue32_v2(stream, managed, 0, 0) != 0);
    CHECK(cuStreamWriteValue32_v2(stream, managed, 1, 0) != 0);
    const CUdeviceptr word = allocate(4);
    int can = -1;
    CHECK(cuDeviceGetAttribute(&can, kCanFlush, 0) == 0);
    CHECK(cuStreamWaitValue32_v2(stream, word, 0, kFlush) == (can != 0 ? 0 : 801));
    const cuda::CUstreamBatchMemOpParams wait{.operation = kWait32,
                                              .barrier_flags = 0,
                                              .address = word,
                                              .value = 0,
                                              .flags = kFlush,
                                              .alias = 0,
                                              .reserved = 0};
    CHECK(DRIVER_CALL(cuStreamBatchMemOp_v2, "cuStreamBatchMemOp")(handle_of(stream), 1, &wait, 0) ==
          (can != 0 ? 0 : 801));
    CHECK(cuStreamSynchronize(stream) == 0);
  });
}

TEST_CASE("managed memory belongs to a stream as a whole, and is accessed by devices or the host") {
  run_gpus({}, [] {
    constexpr int kDevice = 1, kHost = 2, kHostNuma = 3, kSetAccessedBy = 5, kUnsetAccessedBy = 6;
    constexpr unsigned kGlobal = 1, kSingle = 4;
    const Gpu gpu;
    const CUstream stream = make_stream();
    CUdeviceptr managed = 0;
    CHECK(cuMemAllocManaged(&managed, 4096, 1) == 0);
    const auto attach = DRIVER_CALL(cuStreamAttachMemAsync, "cuStreamAttachMemAsync");
    for (const unsigned flags : {0U, 3U, 5U}) CHECK(attach(handle_of(stream), managed, 0, flags) != 0);
    CHECK(attach(handle_of(stream), managed, 64, kGlobal) != 0);
    CHECK(attach(nullptr, managed, 0, kSingle) != 0);
    CHECK(attach(handle_of(stream), managed, 0, kSingle) == 0);
    CHECK(attach(handle_of(stream), managed, 4096, kGlobal) == 0);
    const auto advise = DRIVER_CALL(cuMemAdvise_v2, "cuMemAdvise");
    CHECK(advise(managed, 4096, kSetAccessedBy, {.type = kHostNuma, .id = 0}) == 1);
    CHECK(advise(managed, 4096, kUnsetAccessedBy, {.type = kHostNuma, .id = 0}) == 1);
    CHECK(advise(managed, 4096, kSetAccessedBy, {.type = kHost, .id = 0}) == 0);
    CHECK(advise(managed, 4096, kSetAccessedBy, {.type = kDevice, .id = 0}) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
  });
}

TEST_CASE("a compiler that says nothing leaves an empty log") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kInfoLog = 3, kInfoLogBytes = 4, kErrorLog = 5, kErrorLogBytes = 6;
    char info[64] = "as it was", error[64] = "as it was";
    int options[] = {kInfoLog, kErrorLog, kErrorLogBytes, kInfoLogBytes};
    const auto fill = [&](void** values) {
      values[0] = info;
      values[1] = error;
      values[2] = values[3] = reinterpret_cast<void*>(sizeof(info));
    };
    void* values[4];
    fill(values);
    cuda::Module* module = nullptr;
    CHECK(DRIVER_CALL(cuModuleLoadDataEx, "cuModuleLoadDataEx")(&module, kImage, 4, options, values) == 0);
    CHECK(error[0] == '\0');
    CHECK(reinterpret_cast<std::uintptr_t>(values[2]) == 0);
    std::memset(error, 'x', sizeof(error));
    fill(values);
    cuda::Link* link = nullptr;
    void* image = nullptr;
    std::size_t size = 0;
    std::string text = kImage;
    CHECK(DRIVER_CALL(cuLinkCreate_v2, "cuLinkCreate")(4, options, values, &link) == 0);
    CHECK(DRIVER_CALL(cuLinkAddData_v2, "cuLinkAddData")(link, 1, text.data(), text.size() + 1, "text", 0, nullptr,
                                                         nullptr) == 0);
    CHECK(DRIVER_CALL(cuLinkComplete, "cuLinkComplete")(link, &image, &size) == 0);
    CHECK(error[0] == '\0');
    CHECK(DRIVER_CALL(cuLinkDestroy, "cuLinkDestroy")(link) == 0);
  });
}

TEST_CASE("a call that has changed is given as the version that asks for it knows it") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kCuda12 = 12050, kCuda114 = 11040;
    const CUstream stream = make_stream();
    cuda::Context *context = nullptr, *made = nullptr;
    void* green = &context;
    CHECK(find_entry<CUresult(cuda::Stream*, cuda::Context**, void**)>("cuStreamGetCtx", kCuda12)(
              handle_of(stream), &context, &green) == 0);
    CHECK(context == reinterpret_cast<cuda::Context*>(gpu.context));
    CHECK(green == nullptr);
    CUdevice device = -1;
    CHECK(find_entry<CUresult(cuda::Context**, void*, int, unsigned, CUdevice)>("cuCtxCreate", kCuda114)(&made, nullptr,
                                                                                                         0, 0, 0) == 0);
    CHECK(cuCtxPopCurrent_v2(nullptr) == 0);
    CHECK(find_entry<CUresult(CUdevice*, cuda::Context*)>("cuCtxGetDevice", 13000)(&device, made) == 0);
    CHECK(device == 0);
    const auto synchronize = find_entry<CUresult(cuda::Context*)>("cuCtxSynchronize", 13000);
    CHECK(synchronize(made) == 0);
    CHECK(synchronize(nullptr) == 0);
    CHECK(cuCtxDestroy_v2(reinterpret_cast<CUcontext>(made)) == 0);
  });
}

}  // namespace memory_rules_test
