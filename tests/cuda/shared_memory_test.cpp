// cuMemCreate's memory between processes of `meshbed cuda run`, which have descriptors of it, and within one.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/cuda/entry.h"
#include "tests/cuda/gpus.h"

namespace shared_memory_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

constexpr std::size_t kSize = std::size_t{2} << 20U;
constexpr cuda::CUmemAllocationProp kShareable{
    .type = 1, .handle_types = 1, .location = {1, 0}, .windows = nullptr, .flags = {}};

CUdeviceptr mapped(unsigned long long handle) {
  const cuda::CUmemAccessDesc access{.location = {1, 0}, .flags = 3};
  CUdeviceptr place = 0;
  if (cuMemAddressReserve(&place, kSize, 0, 0, 0) != 0 || cuMemMap(place, kSize, 0, handle, 0) != 0) return 0;
  return cuMemSetAccess(place, kSize, &access, 1) == 0 ? place : 0;
}

int exported(unsigned long long handle) {
  int descriptor = -1;
  const auto call = DRIVER_CALL(cuMemExportToShareableHandle, "cuMemExportToShareableHandle");
  return call(&descriptor, handle, 1, 0) == 0 ? descriptor : -1;
}

CUresult imported(unsigned long long* handle, int descriptor) {
  return DRIVER_CALL(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle")(
      handle, reinterpret_cast<void*>(std::intptr_t{descriptor}), 1);
}

/// One byte, with room for a descriptor beside it.
struct DescriptorMessage {
  char byte = 0;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr header{};

  DescriptorMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
  }
};

void send_descriptor(int socket, int descriptor) {
  DescriptorMessage message;
  cmsghdr* head = CMSG_FIRSTHDR(&message.header);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  CHECK(::sendmsg(socket, &message.header, 0) == 1);
}

int receive_descriptor(int socket) {
  DescriptorMessage message;
  int descriptor = -1;
  if (::recvmsg(socket, &message.header, 0) != 1 || CMSG_FIRSTHDR(&message.header) == nullptr) return -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof descriptor);
  return descriptor;
}

/// The other process: what it was given holds 7, and is 9 then. How far it came; 0: all the way.
int take_and_answer(int socket) {
  int reached = 1;
  run_gpus({}, [&] {
    if (cuInit(0) != 0) return;
    CUcontext context = nullptr;
    if (cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxPushCurrent_v2(context) != 0) return;
    const int descriptor = receive_descriptor(socket);
    unsigned long long handle = 0;
    reached = 2;
    if (imported(&handle, descriptor) != 0) return;
    reached = 3;
    const CUdeviceptr place = mapped(handle);
    unsigned seen = 0;
    if (place == 0 || cuMemcpyDtoH_v2(&seen, place + kSize - 4, 4) != 0 || seen != 7) return;
    reached = 4;
    if (cuMemsetD32_v2(place + kSize - 4, 9, 1) != 0 || cuCtxSynchronize() != 0) return;
    const char done = 1;
    reached = ::write(socket, &done, 1) == 1 ? 0 : 5;
  });
  return reached;
}

}  // namespace

TEST_CASE("memory that one process exports is the same bytes in another one that has its descriptor") {
  int sockets[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(sockets[0]);
    ::_exit(take_and_answer(sockets[1]));
  }
  ::close(sockets[1]);
  run_gpus({}, [&] {
    const Gpu gpu;
    unsigned long long handle = 0;
    CHECK(cuMemCreate(&handle, kSize, &kShareable, 0) == 0);
    const CUdeviceptr place = mapped(handle);
    REQUIRE(place != 0);
    CHECK(cuMemsetD32_v2(place + kSize - 4, 7, 1) == 0);
    CHECK(cuCtxSynchronize() == 0);
    const int descriptor = exported(handle);
    REQUIRE(descriptor >= 0);
    send_descriptor(sockets[0], descriptor);
    ::close(descriptor);
    char done = 0;
    CHECK(::read(sockets[0], &done, 1) == 1);
    CHECK(number_at(place + kSize - 4) == 9);
  });
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(sockets[0]);
}

TEST_CASE("within a process a descriptor brings the memory back under a handle of its own") {
  run_gpus({}, [] {
    const Gpu gpu;
    int supported = 0;
    CHECK(cuDeviceGetAttribute(&supported, 103, 0) == 0);
    CHECK(supported == 1);
    unsigned long long handle = 0, again = 0, kept = 0;
    CHECK(cuMemCreate(&handle, kSize, &kShareable, 0) == 0);
    const int descriptor = exported(handle);
    REQUIRE(descriptor >= 0);
    CHECK(imported(&again, descriptor) == 0);
    ::close(descriptor);
    const CUdeviceptr one = mapped(handle), other = mapped(again);
    REQUIRE(one != 0);
    REQUIRE(other != 0);
    CHECK(cuMemsetD32_v2(one, 5, 1) == 0);
    CHECK(number_at(other) == 5);
    const auto retain = DRIVER_CALL(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle");
    CHECK(retain(&kept, reinterpret_cast<void*>(other)) == 0);
    cuda::CUmemAllocationProp properties{};
    CHECK(DRIVER_CALL(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle")(&properties,
                                                                                                        kept) == 0);
    CHECK(properties.handle_types == 1);
    CHECK(properties.location.id == 0);
    // Memory that was not made to be shared has no descriptor, and other descriptors are no memory.
    const cuda::CUmemAllocationProp plain{
        .type = 1, .handle_types = 0, .location = {1, 0}, .windows = nullptr, .flags = {}};
    unsigned long long own = 0;
    CHECK(cuMemCreate(&own, kSize, &plain, 0) == 0);
    CHECK(exported(own) == -1);
    CHECK(imported(&again, 0) == 1);
  });
}

}  // namespace shared_memory_test
