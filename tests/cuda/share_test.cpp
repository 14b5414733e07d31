// What processes of a simulated node give one another: memory and events by handles, memory by descriptors.
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "sim/host/device_memory.h"
#include "sim/host/file/descriptors.h"
#include "sim/host/load/redirection.h"
#include "tests/cuda/ranks.h"

namespace share_test {

using meshbed::kPicosecondsPerMillisecond;
using meshbed::Picoseconds;
using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

constexpr Picoseconds kMs = kPicosecondsPerMillisecond;
constexpr unsigned kLazyPeerAccess = 1;

CUresult copied_out(CUdeviceptr address) {
  int number = 0;
  return cuMemcpyDtoH_v2(&number, address, sizeof(number));
}

/// What a rank's file would call in libc's place.
template <typename Function>
Function* libc_call(const char* name) {
  return reinterpret_cast<Function*>(meshbed::sim::redirection_of(name));
}
#define LIBC(name) libc_call<decltype(::name)>(#name)

constexpr sockaddr_un kName{.sun_family = AF_UNIX, .sun_path = "\0memory"};
constexpr socklen_t kNameBytes = offsetof(sockaddr_un, sun_path) + sizeof("\0memory") - 1;

/// A message of one byte that two descriptors go with.
struct Parcel {
  Parcel() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
  void put(const std::array<int, 2>& descriptors) {
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(descriptors));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(descriptors));
  }
  std::array<int, 2> get() {
    std::array<int, 2> descriptors{-1, -1};
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    CHECK(rights != nullptr);
    if (rights == nullptr) return descriptors;
    CHECK(rights->cmsg_type == SCM_RIGHTS);
    CHECK(rights->cmsg_len == CMSG_LEN(sizeof(descriptors)));
    std::memcpy(descriptors.data(), CMSG_DATA(rights), sizeof(descriptors));
    return descriptors;
  }

  char byte = 'm';
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
};

}  // namespace

TEST_CASE("memory of another process on the node: the same bytes, counted, and never its own or another node's") {
  cuda::CUipcHandle handle{}, freed{};
  const auto get = [](cuda::CUipcHandle* place, CUdeviceptr address) {
    return DRIVER_CALL(cuIpcGetMemHandle, "cuIpcGetMemHandle")(place, address);
  };
  const auto open = [](CUdeviceptr* place, const cuda::CUipcHandle& from, unsigned flags) {
    return DRIVER_CALL(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle")(place, from, flags);
  };
  const auto exports = [&] {
    const CUdeviceptr memory = allocate(4096), gone = allocate(4096);
    CHECK(cuMemsetD32_v2(memory, 7, 1024) == 0);
    CHECK(get(&handle, memory + 4) == 1);
    CHECK(get(&handle, memory) == 0);
    CHECK(get(&freed, gone) == 0);
    CHECK(cuMemFree_v2(gone) == 0);
    CUdeviceptr own = 0;
    CHECK(open(&own, handle, kLazyPeerAccess) == 201);
    CUdeviceptr of_pool = 0;
    CHECK(cuMemAllocAsync(&of_pool, 64, nullptr) == 0);
    cuda::CUipcHandle none{};
    CHECK(get(&none, of_pool) == 1);
    int can = -1;
    CHECK(cuPointerGetAttribute(&can, 10, memory) == 0);
    CHECK(can == 1);
    wait_until(20 * kMs);
    CHECK(number_at(memory) == 9);
    CHECK(cuMemFree_v2(memory) == 0);
  };
  const auto imports = [&] {
    wait_until(5 * kMs);
    CUdeviceptr there = 0, again = 0;
    CHECK(open(&there, handle, 0) == 1);
    CHECK(open(&there, freed, kLazyPeerAccess) == 400);
    CHECK(open(&there, cuda::CUipcHandle{}, kLazyPeerAccess) == 400);
    CHECK(open(&there, handle, kLazyPeerAccess) == 0);
    CHECK(number_at(there) == 7);
    CHECK(number_at(there + 4092) == 7);
    CHECK(cuMemsetD32_v2(there, 9, 1) == 0);
    CHECK(open(&again, handle, kLazyPeerAccess) == 0);
    CHECK(again == there);
    CHECK(cuMemFree_v2(there) == 1);  // what was opened is closed
    const auto close = DRIVER_CALL(cuIpcCloseMemHandle, "cuIpcCloseMemHandle");
    CHECK(close(there + 4) == 1);
    CHECK(close(there) == 0);
    CHECK(number_at(there) == 9);
    CHECK(close(there) == 0);
    CHECK(close(there) == 1);
    CHECK(copied_out(there) == 1);
  };
  const auto elsewhere = [&] {
    wait_until(5 * kMs);
    CUdeviceptr there = 0;
    CHECK(open(&there, handle, kLazyPeerAccess) == 400);
  };
  const std::string said =
      run_gpu_ranks({{.node = 0, .body = exports}, {.node = 0, .body = imports}, {.node = 1, .body = elsewhere}});
  CHECK(said.find("of a handle of node 0: it reaches no further than its node") != std::string::npos);
  CHECK(said.find("is freed while") == std::string::npos);
}

TEST_CASE("memory that is freed while another process has it open is named") {
  cuda::CUipcHandle handle{};
  const std::string said = run_gpu_ranks(
      {{.node = 0,
        .body =
            [&] {
              const CUdeviceptr memory = allocate(64);
              CHECK(DRIVER_CALL(cuIpcGetMemHandle, "cuIpcGetMemHandle")(&handle, memory) == 0);
              wait_until(10 * kMs);
              CHECK(cuMemFree_v2(memory) == 0);
            }},
       {.node = 0, .body = [&] {
          wait_until(5 * kMs);
          CUdeviceptr there = 0;
          CHECK(DRIVER_CALL(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle")(&there, handle, kLazyPeerAccess) == 0);
          wait_until(15 * kMs);
          CHECK(DRIVER_CALL(cuIpcCloseMemHandle, "cuIpcCloseMemHandle")(there) == 0);
        }}});
  CHECK(said.find("memory of 64 bytes is freed while another process has it open") != std::string::npos);
}

TEST_CASE("an event of another process is waited for by its streams and by the host") {
  constexpr unsigned kDisableTiming = 2, kInterprocess = 4;
  cuda::CUipcHandle memory{}, event{};
  const auto exports = [&] {
    register_add_one();
    const CUdeviceptr place = allocate(4);
    CUevent made = nullptr;
    CHECK(cuEventCreate(&made, kInterprocess) == 1);  // without timing, or not at all
    const CUevent plain = make_event();
    const auto get = DRIVER_CALL(cuIpcGetEventHandle, "cuIpcGetEventHandle");
    CHECK(get(&event, handle_of(plain)) == 400);
    CHECK(cuEventCreate(&made, kDisableTiming | kInterprocess) == 0);
    CHECK(get(&event, handle_of(made)) == 0);
    CHECK(DRIVER_CALL(cuIpcGetMemHandle, "cuIpcGetMemHandle")(&memory, place) == 0);
    cuda::Event* own = nullptr;
    CHECK(DRIVER_CALL(cuIpcOpenEventHandle, "cuIpcOpenEventHandle")(&own, event) == 201);
    const CUstream stream = make_stream();
    const CUfunction function = find_function(kImage, "add_one");
    wait_until(10 * kMs);
    CHECK(add_one(function, place, 5000, stream) == 0);
    CHECK(cuEventRecord(made, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    wait_until(30 * kMs);
    CHECK(number_at(place) == 5);  // not overwritten by the kernel
  };
  const auto imports = [&] {
    wait_until(5 * kMs);
    cuda::Event* opened = nullptr;
    CUdeviceptr place = 0;
    CHECK(DRIVER_CALL(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle")(&place, memory, kLazyPeerAccess) == 0);
    CHECK(DRIVER_CALL(cuIpcOpenEventHandle, "cuIpcOpenEventHandle")(&opened, memory) == 400);
    CHECK(DRIVER_CALL(cuIpcOpenEventHandle, "cuIpcOpenEventHandle")(&opened, event) == 0);
    const auto theirs = reinterpret_cast<CUevent>(opened);
    CHECK(cuEventQuery(theirs) == 0);  // never recorded
    const CUstream stream = make_stream();
    wait_until(11 * kMs);
    CHECK(cuEventQuery(theirs) == 600);
    CHECK(cuStreamWaitEvent(stream, theirs, 0) == 0);
    CHECK(cuMemsetD32Async(place, 5, 1, stream) == 0);
    CHECK(cuEventSynchronize(theirs) == 0);
    CHECK(meshbed::sim::World::get().now() >= 15 * kMs);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(cuEventSynchronize(theirs) == 0);
    CHECK(cuEventDestroy_v2(theirs) == 0);
    CHECK(DRIVER_CALL(cuIpcCloseMemHandle, "cuIpcCloseMemHandle")(place) == 0);
  };
  run_gpu_ranks({{.node = 0, .body = exports}, {.node = 0, .body = imports}});
}

TEST_CASE("memory without an address: its handle is kept, described, exported to a descriptor and imported again") {
  run_gpu_ranks({{.node = 0, .body = [] {
                    constexpr std::size_t kGranularity = std::size_t{2} << 20U;
                    cuda::CUmemAllocationProp properties{
                        .type = 1, .handle_types = 1, .location = {1, 0}, .windows = nullptr, .flags = {}};
                    const cuda::CUmemAccessDesc access{.location = {1, 0}, .flags = 3};
                    CUdeviceptr place = 0, again = 0;
                    unsigned long long handle = 0, kept = 0, other = 0, plain = 0;
                    CHECK(cuMemAddressReserve(&place, kGranularity, 0, 0, 0) == 0);
                    CHECK(cuMemAddressReserve(&again, kGranularity, 0, 0, 0) == 0);
                    CHECK(::cuMemCreate(&handle, kGranularity, &properties, 0) == 0);
                    CHECK(cuMemMap(place, kGranularity, 0, handle, 0) == 0);
                    unsigned long long flags = 7;
                    const auto get_access = DRIVER_CALL(cuMemGetAccess, "cuMemGetAccess");
                    CHECK(get_access(&flags, &access.location, place) == 0);
                    CHECK(flags == 0);
                    CHECK(::cuMemSetAccess(place, kGranularity, &access, 1) == 0);
                    CHECK(get_access(&flags, &access.location, place + 64) == 0);
                    CHECK(flags == 3);
                    CHECK(get_access(&flags, &access.location, again) == 1);
                    CHECK(cuMemRelease(handle) == 0);
                    CHECK(DRIVER_CALL(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle")(
                              &kept, reinterpret_cast<void*>(place + 4096)) == 0);
                    CHECK(kept == handle);
                    cuda::CUmemAllocationProp told{};
                    CHECK(DRIVER_CALL(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle")(
                              &told, kept) == 0);
                    CHECK(told.handle_types == 1);
                    CHECK(told.location.id == 0);

                    int descriptor = -1;
                    const auto give = DRIVER_CALL(cuMemExportToShareableHandle, "cuMemExportToShareableHandle");
                    const auto take = DRIVER_CALL(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle");
                    CHECK(give(&descriptor, kept, 8, 0) == 801);
                    CHECK(give(&descriptor, kept, 1, 0) == 0);
                    properties.handle_types = 0;
                    CHECK(::cuMemCreate(&plain, kGranularity, &properties, 0) == 0);
                    CHECK(give(&descriptor, plain, 1, 0) == 1);  // it was not made for that
                    CHECK(take(&other, reinterpret_cast<void*>(std::intptr_t{descriptor} + 1000), 1) == 1);
                    CHECK(take(&other, reinterpret_cast<void*>(std::intptr_t{descriptor}), 1) == 0);
                    CHECK(other != kept);
                    CHECK(cuMemMap(again, kGranularity, 0, other, 0) == 0);
                    CHECK(::cuMemSetAccess(again, kGranularity, &access, 1) == 0);
                    CHECK(cuMemsetD32_v2(place, 7, 1) == 0);
                    CHECK(number_at(again) == 7);
                    // It is there until its last mapping, handle and descriptor are gone.
                    std::size_t before = 0, after = 0, total = 0;
                    CHECK(cuMemGetInfo_v2(&before, &total) == 0);
                    CHECK(cuMemUnmap(place, kGranularity) == 0);
                    CHECK(cuMemRelease(kept) == 0);
                    CHECK(cuMemRelease(kept) == 1);
                    CHECK(number_at(again) == 7);
                    CHECK(cuMemUnmap(again, kGranularity) == 0);
                    CHECK(cuMemRelease(other) == 0);
                    meshbed::sim::close_descriptor(*meshbed::sim::World::current_process(), descriptor);
                    CHECK(cuMemGetInfo_v2(&after, &total) == 0);
                    CHECK(after == before + kGranularity);
                  }}});
}

TEST_CASE("descriptors of a GPU's memory go to another process of the node over a Unix stream") {
  constexpr std::size_t kGranularity = std::size_t{2} << 20U;
  const cuda::CUmemAccessDesc access{.location = {1, 0}, .flags = 3};
  const auto mapped = [&](unsigned long long handle) {
    CUdeviceptr place = 0;
    CHECK(cuMemAddressReserve(&place, kGranularity, 0, 0, 0) == 0);
    CHECK(cuMemMap(place, kGranularity, 0, handle, 0) == 0);
    CHECK(::cuMemSetAccess(place, kGranularity, &access, 1) == 0);
    return place;
  };
  const auto gives = [&] {
    const int listener = LIBC(socket)(AF_UNIX, SOCK_STREAM, 0);
    CHECK(LIBC(bind)(listener, reinterpret_cast<const sockaddr*>(&kName), kNameBytes) == 0);
    CHECK(LIBC(listen)(listener, 1) == 0);
    const cuda::CUmemAllocationProp properties{
        .type = 1, .handle_types = 1, .location = {1, 0}, .windows = nullptr, .flags = {}};
    unsigned long long handle = 0;
    CHECK(::cuMemCreate(&handle, kGranularity, &properties, 0) == 0);
    const CUdeviceptr place = mapped(handle);
    CHECK(cuMemsetD32_v2(place, 7, 1) == 0);
    std::array<int, 2> descriptors{-1, -1};
    CHECK(DRIVER_CALL(cuMemExportToShareableHandle, "cuMemExportToShareableHandle")(descriptors.data(), handle, 1, 0) ==
          0);
    CHECK(DRIVER_CALL(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange")(&descriptors[1], place,
                                                                                      kGranularity, 1, 0) == 0);
    const int stream = LIBC(accept)(listener, nullptr, nullptr);
    Parcel parcel;
    parcel.put(descriptors);
    CHECK(LIBC(sendmsg)(stream, &parcel.message, 0) == 1);
    parcel.put({listener, stream});
    errno = 0;
    CHECK(LIBC(sendmsg)(stream, &parcel.message, 0) == -1);  // which belong to one process
    CHECK(errno == EOPNOTSUPP);
    wait_until(20 * kMs);
    CHECK(number_at(place) == 9);
  };
  const auto takes = [&] {
    wait_until(5 * kMs);
    const int stream = LIBC(socket)(AF_UNIX, SOCK_STREAM, 0);
    CHECK(LIBC(connect)(stream, reinterpret_cast<const sockaddr*>(&kName), kNameBytes) == 0);
    Parcel parcel;
    CHECK(LIBC(recvmsg)(stream, &parcel.message, 0) == 1);
    const std::array<int, 2> descriptors = parcel.get();
    unsigned long long handle = 0;
    CHECK(DRIVER_CALL(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle")(
              &handle, reinterpret_cast<void*>(std::intptr_t{descriptors[0]}), 1) == 0);
    const CUdeviceptr place = mapped(handle);
    CHECK(number_at(place) == 7);
    CHECK(cuMemsetD32_v2(place, 9, 1) == 0);
    meshbed::sim::DmaBuf buffer;
    CHECK(meshbed::sim::find_dma_buf(*meshbed::sim::World::current_process(), descriptors[1], buffer) == 0);
    CHECK(buffer.size_bytes == kGranularity);
  };
  run_gpu_ranks({{.node = 0, .body = gives}, {.node = 0, .body = takes}});
}

TEST_CASE("a program that is alone has no peer to give handles to") {
  const std::string log = run_gpus({}, [] {
    const Gpu gpu;
    cuda::CUipcHandle handle{};
    CUevent event = nullptr;
    CHECK(DRIVER_CALL(cuIpcGetMemHandle, "cuIpcGetMemHandle")(&handle, allocate(4)) == 801);
    CHECK(cuEventCreate(&event, 6) == 801);
  });
  CHECK(log.find("cuIpcGetMemHandle is not implemented") != std::string::npos);
}

}  // namespace share_test
