#include "cli/bench/cost/null_net.h"

#include <array>
#include <cstddef>

#include "plugin/nccl/net_abi.h"

namespace {

using namespace meshbed::nccl;

struct Request {
  int bytes = 0;
  bool taken = false;
};

struct Comm {
  std::array<Request, kMaxRequests> requests;
};

void* new_comm() { return new Comm; }

void* take_request(void* comm, std::size_t bytes) {
  for (Request& request : static_cast<Comm*>(comm)->requests) {
    if (request.taken) continue;
    request = {.bytes = static_cast<int>(bytes), .taken = true};
    return &request;
  }
  return nullptr;  // all are taken: no request now
}

}  // namespace

extern "C" {

int null_net_init(void** context, std::uint64_t, CommConfig*, LogFunction, ProfilerFunction) {
  static int nothing;
  *context = &nothing;
  return kNcclSuccess;
}
int null_net_finalize(void*) { return kNcclSuccess; }

int null_net_devices(int* count) {
  *count = 1;
  return kNcclSuccess;
}

int null_net_properties(int, PropertiesV11* properties) {
  static char name[] = "null";
  *properties = {};
  properties->name = name;
  properties->ptrSupport = kPtrHost;
  properties->speed = 100'000;
  properties->maxRecvs = 1;
  properties->maxP2pBytes = 1U << 30U;
  return kNcclSuccess;
}

int null_net_listen(void*, int, void*, void** listen_comm) {
  static int nothing;
  *listen_comm = &nothing;
  return kNcclSuccess;
}
int null_net_connect(void*, int, void*, void** send_comm, NetDeviceHandle**) {
  *send_comm = new_comm();
  return kNcclSuccess;
}
int null_net_accept(void*, void** recv_comm, NetDeviceHandle**) {
  *recv_comm = new_comm();
  return kNcclSuccess;
}

int null_net_register(void* comm, void*, std::size_t, int, void** handle) {
  *handle = comm;
  return kNcclSuccess;
}
int null_net_deregister(void*, void*) { return kNcclSuccess; }

int null_net_isend(void* comm, void*, std::size_t bytes, int, void*, void*, void** request) {
  *request = take_request(comm, bytes);
  return kNcclSuccess;
}
int null_net_irecv(void* comm, int, void**, std::size_t* bytes, int*, void**, void**, void** request) {
  *request = take_request(comm, bytes[0]);
  return kNcclSuccess;
}
int null_net_test(void* request, int* done, int* bytes) {
  auto* const asked = static_cast<Request*>(request);
  *done = 1;
  if (bytes != nullptr) *bytes = asked->bytes;
  asked->taken = false;
  return kNcclSuccess;
}

int null_net_close(void* comm) {
  delete static_cast<Comm*>(comm);
  return kNcclSuccess;
}
int null_net_close_listen(void*) { return kNcclSuccess; }

extern const NetV11 ncclNetPlugin_v11;
const NetV11 ncclNetPlugin_v11 = {
    .name = "null",
    .init = null_net_init,
    .devices = null_net_devices,
    .getProperties = null_net_properties,
    .listen = null_net_listen,
    .connect = null_net_connect,
    .accept = null_net_accept,
    .regMr = null_net_register,
    .regMrDmaBuf = nullptr,
    .deregMr = null_net_deregister,
    .isend = null_net_isend,
    .irecv = null_net_irecv,
    .iflush = nullptr,
    .test = null_net_test,
    .closeSend = null_net_close,
    .closeRecv = null_net_close,
    .closeListen = null_net_close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = null_net_finalize,
    .setNetAttr = nullptr,
};

}  // extern "C"
