// Memory: device, pinned, registered, managed, pools, virtual memory.
#include <array>
#include <cstdint>
#include <vector>

#include "tests/cuda/gpus.h"

using namespace meshbed::test;
using meshbed::kGiB;
using meshbed::kMiB;

namespace memory_test {

TEST_CASE("device memory is counted, as large as the model's, and 0 bytes of it are an error") {
  run_gpus({}, [] {
    const Gpu gpu;
    std::size_t left = 0, total = 0;
    const CUdeviceptr large = allocate(79 * kGiB);
    CHECK(cuMemGetInfo_v2(&left, &total) == 0);
    CHECK(total == 80 * kGiB);
    CHECK(left == kGiB);
    CUdeviceptr address = 7;
    CHECK(cuMemAlloc_v2(&address, kGiB + 1) == 2);
    CHECK(cuMemAlloc_v2(&address, 0) == 1);
    CHECK(address == 7);
    CHECK(cuMemFree_v2(large) == 0);
    CHECK(cuMemFree_v2(large) == 1);
    CHECK(cuMemFree_v2(0) == 0);
    CHECK(cuMemFree_v2(12345) == 1);
    CHECK(cuMemGetInfo_v2(&left, &total) == 0);
    CHECK(left == total);
  });
}

TEST_CASE("an address inside an allocation knows where it begins; one behind it is unknown") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUdeviceptr address = allocate(1000);
    CUdeviceptr base = 0;
    std::size_t size = 0;
    CHECK(cuMemGetAddressRange_v2(&base, &size, address + 999) == 0);
    CHECK(base == address);
    CHECK(size == 1000);
    CHECK(cuMemGetAddressRange_v2(&base, &size, address + 1000) == 500);
    char bytes[8] = {};
    CHECK(cuMemcpyDtoH_v2(bytes, address + 993, 8) == 1);  // one byte too many
    CHECK(cuMemcpyDtoH_v2(bytes, address + 992, 8) == 0);
  });
}

TEST_CASE("a copy or a fill of more bytes than numbers can say is refused as any that is too long") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUdeviceptr address = allocate(1000);
    char bytes[8] = {};
    CHECK(cuMemcpyDtoH_v2(bytes, address, SIZE_MAX) == 1);
    CHECK(cuMemcpyHtoD_v2(address, bytes, SIZE_MAX - address) == 1);
    CHECK(cuMemsetD32_v2(address, 0, SIZE_MAX / 4 + 1) == 1);  // 2^64 bytes
    CHECK(cuMemsetD2D8_v2(address, 1ULL << 63, 0, 1, 3) == 1);
    CHECK(number_at(address) == 0);
  });
}

TEST_CASE("rows of memory whose bytes are more than numbers can say are out of memory") {
  run_gpus({}, [] {
    const Gpu gpu;
    CUdeviceptr address = 0;
    std::size_t pitch = 0;
    CHECK(cuMemAllocPitch_v2(&address, &pitch, SIZE_MAX, 1, 4) == 1);             // nor can the pitch
    CHECK(cuMemAllocPitch_v2(&address, &pitch, 8 * kGiB, 2 * kGiB + 1, 4) == 2);  // 2^64 + 2^33 bytes
    CHECK(cuMemAllocPitch_v2(&address, &pitch, 700, 3, 4) == 0);
    CHECK(pitch == 1024);
    if (!genuine_gpu()) CHECK(counters().allocated_bytes == 3072);
  });
}

TEST_CASE("copies are counted by where they lead, with their bytes, and who waited for a device or a stream") {
  run_gpus({.simulated = true}, [] {
    const Gpu gpu;
    const CUdeviceptr first = allocate(64), second = allocate(64);
    char bytes[64] = {};
    const auto before = counters();
    CHECK(cuMemcpyHtoD_v2(first, bytes, 64) == 0);
    CHECK(cuMemcpyDtoD_v2(second, first, 32) == 0);
    CHECK(cuMemcpyDtoH_v2(bytes, second, 16) == 0);
    CHECK(cuMemcpyDtoH_v2(bytes, second, 8) == 0);
    CHECK(cuCtxSynchronize() == 0);
    const auto after = counters();
    CHECK(after.copies_in - before.copies_in == 1);
    CHECK(after.copies_inside - before.copies_inside == 1);
    CHECK(after.copies_out - before.copies_out == 2);
    CHECK(after.copied_bytes - before.copied_bytes == 64 + 32 + 16 + 8);
    CHECK(after.device_syncs - before.device_syncs == 1);
    CHECK(after.implicit_device_syncs == before.implicit_device_syncs);
  });
}

TEST_CASE("pointers say what they are") {
  run_gpus({}, [] {
    const Gpu gpu;
    unsigned kind = 0;
    int managed = -1;
    CUdeviceptr shared = 0;
    CHECK(cuMemAllocManaged(&shared, 100, 1) == 0);
    const CUdeviceptr device = allocate(100);
    void* pinned = allocate_pinned(100);
    CHECK(cuPointerGetAttribute(&kind, 2, device) == 0);
    CHECK(kind == 2);
    CHECK(cuPointerGetAttribute(&kind, 2, reinterpret_cast<CUdeviceptr>(pinned)) == 0);
    CHECK(kind == 1);
    CHECK(cuPointerGetAttribute(&managed, 8, shared) == 0);
    CHECK(managed == 1);
    int local = 0;
    CHECK(cuPointerGetAttribute(&kind, 2, reinterpret_cast<CUdeviceptr>(&local)) == 1);
    *reinterpret_cast<int*>(shared) = 5;  // the host may touch it
    CHECK(number_at(device) == 0);
    CHECK(cuMemFree_v2(shared) == 0);
    CHECK(cuMemFreeHost(pinned) == 0);
    CHECK(cuMemFreeHost(pinned) == 1);
    CHECK(cuMemFreeHost(&local) == 1);
  });
}

TEST_CASE("host memory is registered once, and unregistered only where it was") {
  run_gpus({}, [] {
    const Gpu gpu;
    std::vector<char> bytes(10'000);
    CHECK(cuMemHostRegister_v2(bytes.data(), bytes.size(), 0) == 0);
    CHECK(cuMemHostRegister_v2(bytes.data() + 5000, 10, 0) == 712);
    CHECK(cuMemHostUnregister(bytes.data() + 1) == 1);
    CHECK(cuMemHostUnregister(bytes.data()) == 0);
    CHECK(cuMemHostUnregister(bytes.data()) == 713);
    CHECK(cuMemHostRegister_v2(bytes.data(), 0, 0) == 1);
    CHECK(cuMemHostRegister_v2(bytes.data(), 1, 16) == 1);
  });
}

TEST_CASE("memory of a stream is freed at its turn in it, not before") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream();
    CUdeviceptr address = 0;
    CHECK(cuMemAllocAsync(&address, 100, stream) == 0);
    CHECK(cuMemsetD32Async(address, 0, 25, stream) == 0);
    CHECK(add_one(find_function(kImage, "add_one"), address, 50, stream) == 0);
    CHECK(cuMemFreeAsync(address, stream) == 0);
    if (!genuine_gpu()) CHECK(counters().allocated_bytes == 100);
    CHECK(cuStreamSynchronize(stream) == 0);
    if (!genuine_gpu()) CHECK(counters().allocated_bytes == 0);
    CHECK(cuMemFreeAsync(address, stream) == 1);
  });
}

TEST_CASE("virtual memory: two allocations mapped side by side are one range, and nothing without access") {
  run_gpus({}, [] {
    const Gpu gpu;
    struct Properties {
      int type = 1, handles = 0, where = 1, device = 0;
      void* windows = nullptr;
      char flags[8] = {};
    } properties;
    struct Access {
      int where = 1, device = 0, flags = 3;
    } access;
    constexpr std::size_t kSize = 2 * kMiB;
    CUdeviceptr range = 0;
    CHECK(cuMemAddressReserve(&range, kSize + 1, 0, 0, 0) == 1);
    CHECK(cuMemAddressReserve(&range, 2 * kSize, 0, 0, 0) == 0);
    unsigned long long first = 0, second = 0;
    CHECK(cuMemCreate(&first, kSize - 1, &properties, 0) == 1);
    CHECK(cuMemCreate(&first, kSize, &properties, 0) == 0);
    CHECK(cuMemCreate(&second, kSize, &properties, 0) == 0);
    CHECK(cuMemMap(range, kSize, 0, first, 0) == 0);
    CHECK(cuMemMap(range, kSize, 0, second, 0) == 1);  // taken
    CHECK(cuMemMap(range + kSize, kSize, 0, second, 0) == 0);
    std::array<int, 2> pair{1, 2};
    const CUdeviceptr seam = range + kSize - sizeof(int);
    CHECK(cuMemcpyHtoD_v2(seam, pair.data(), sizeof(pair)) == 1);  // no access
    CHECK(cuMemSetAccess(range, 3 * kSize, &access, 1) == 1);
    CHECK(cuMemSetAccess(range, 2 * kSize, &access, 1) == 0);
    CHECK(cuMemcpyHtoD_v2(seam, pair.data(), sizeof(pair)) == 0);
    CHECK(number_at(seam) == 1);
    CHECK(number_at(seam + sizeof(int)) == 2);
    CHECK(cuMemAddressFree(range, 2 * kSize) == 1);  // mapped
    CHECK(cuMemRelease(first) == 0);
    CHECK(number_at(seam) == 1);  // mapped memory stays
    CHECK(cuMemUnmap(range, kSize) == 0);
    CHECK(cuMemUnmap(range + kSize, kSize) == 0);
    CHECK(cuMemMap(range, kSize, 0, first, 0) == 1);  // gone with its last mapping
    CHECK(cuMemMap(range, kSize, 0, second, 0) == 0);
    CHECK(cuMemSetAccess(range, kSize, &access, 1) == 0);
    CHECK(number_at(seam) == 0);
    CHECK(number_at(range) == 2);
    CHECK(cuMemUnmap(range, kSize) == 0);
    CHECK(cuMemRelease(second) == 0);
    CHECK(cuMemAddressFree(range, 2 * kSize) == 0);
    if (!genuine_gpu()) CHECK(counters().allocated_bytes == 0);
  });
}

}  // namespace memory_test
