// Local: an ncclNet plugin (version 11: NCCL 2.28 on) between processes of one host. The engine takes it as
// net_plugin "local", NCCL as NCCL_NET_PLUGIN=local.
//
// Threads: see plugin/nccl/net_abi.h; the calls for one connection come one at a time.

#include <sys/prctl.h>

#include <array>
#include <cstring>
#include <memory>

#include "plugin/local/meeting.h"
#include "plugin/local/refusal.h"
#include "plugin/nccl/boundary.h"

using namespace meshbed;
using namespace meshbed::local;
using namespace meshbed::nccl;

namespace {

/// For logs: one device, the host itself.
constinit std::array<char, 6> g_device_name{"local"};

Error misused(const char* what) { return refuse(ErrorCode::kInvalidArgument, what); }

int init(void** context, std::uint64_t /*comm_id*/, CommConfig* /*config*/, LogFunction log,
         ProfilerFunction /*profiler*/) {
  return at_boundary("init", [&]() -> Result<void> {
    send_log_to(log, "NET/Local");
    // Yama may permit only a parent to read a process: this permits our peers too. Without Yama it fails with EINVAL
    // and is not needed. The kernel still requires the same user.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    auto doorbell = Doorbell::create();
    if (!doorbell) return doorbell.error();
    *context = new Connecting(std::make_shared<PollBackoff>(std::move(*doorbell)));
    return ok();
  });
}

int finalize(void* context) {
  delete static_cast<Connecting*>(context);
  return kNcclSuccess;
}

int devices(int* count) {
  *count = 1;
  return kNcclSuccess;
}

int get_properties(int device, PropertiesV11* properties) {
  return at_boundary("getProperties", [&]() -> Result<void> {
    if (device != 0) return misused("getProperties: there is one device, 0");
    constexpr int kMegabitsPerSecond = 80000;  // about what one processor copies; NCCL wants a number
    constexpr int kConnectionsMax = 65536;
    *properties = {};
    properties->name = g_device_name.data();
    properties->guid = 1;
    properties->ptrSupport = kPtrHost;
    properties->regIsGlobal = 1;  // nothing is registered at all
    properties->speed = kMegabitsPerSecond;
    properties->port = 1;
    properties->latency = 1;
    properties->maxComms = kConnectionsMax;
    properties->maxRecvs = 1;
    properties->netDeviceType = kNetDeviceHost;
    properties->vProps.ndevs = 1;
    properties->maxP2pBytes = kMessageBytesMax;
    properties->maxCollBytes = kMessageBytesMax;
    properties->maxMultiRequestSize = 1;
    return ok();
  });
}

int listen(void* context, int device, void* handle, void** listen_comm) {
  return at_boundary("listen", [&]() -> Result<void> {
    if (device != 0) return misused("listen: there is one device, 0");
    Handle made;
    auto listener = Listener::open(static_cast<Connecting*>(context)->poll_backoff(), &made);
    if (!listener) return listener.error();
    std::memset(handle, 0, kHandleBytes);
    std::memcpy(handle, &made, sizeof made);
    *listen_comm = listener->release();
    return ok();
  });
}

int connect(void* context, int device, void* handle, void** send_comm, NetDeviceHandle** /*offload*/) {
  return at_boundary("connect", [&]() -> Result<void> {
    if (device != 0) return misused("connect: there is one device, 0");
    Handle read;
    std::memcpy(&read, handle, sizeof read);
    auto link = static_cast<Connecting*>(context)->go_on(read);
    std::memcpy(handle, &read, sizeof read);  // between polls the attempt's number lies there
    if (!link) return link.error();
    *send_comm = link->release();
    return ok();
  });
}

int accept(void* listen_comm, void** recv_comm, NetDeviceHandle** /*offload*/) {
  return at_boundary("accept", [&]() -> Result<void> {
    auto link = static_cast<Listener*>(listen_comm)->accept();
    if (!link) return link.error();
    *recv_comm = link->release();
    return ok();
  });
}

int register_memory(void* comm, void* data, std::size_t /*size*/, int type, void** mhandle) {
  return at_boundary("regMr", [&]() -> Result<void> {
    if (type != kPtrHost) return misused("regMr: only host memory (1) is moved");
    *mhandle = data != nullptr ? data : comm;  // any pointer that is not NULL
    return ok();
  });
}

int deregister_memory(void* /*comm*/, void* /*mhandle*/) { return kNcclSuccess; }

int isend(void* send_comm, void* data, std::size_t size, int tag, void* /*mhandle*/, void* /*event*/, void** request) {
  return at_boundary("isend", [&]() -> Result<void> {
    auto posted = static_cast<LocalLink*>(send_comm)->post(data, size, tag);
    if (!posted) return posted.error();
    *request = *posted;
    return ok();
  });
}

int irecv(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** /*mhandles*/, void** /*events*/,
          void** request) {
  return at_boundary("irecv", [&]() -> Result<void> {
    if (n != 1) return misused("irecv: one receive at a time (maxRecvs is 1)");
    auto posted = static_cast<LocalLink*>(recv_comm)->post(data[0], sizes[0], tags[0]);
    if (!posted) return posted.error();
    *request = *posted;
    return ok();
  });
}

int test(void* request, int* done, int* sizes) {
  return at_boundary("test", [&]() -> Result<void> {
    auto& asked = *static_cast<Request*>(request);
    auto size_bytes = asked.link->test(asked);
    if (!size_bytes) return size_bytes.error();
    *done = size_bytes->has_value() ? 1 : 0;
    if (*done != 0 && sizes != nullptr) *sizes = static_cast<int>(**size_bytes);
    return ok();
  });
}

int close_link(void* comm) {
  delete static_cast<LocalLink*>(comm);
  return kNcclSuccess;
}

int close_listen(void* listen_comm) {
  delete static_cast<Listener*>(listen_comm);
  return kNcclSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const NetV11 ncclNetPlugin_v11 = {
    .name = "Local",
    .init = &init,
    .devices = &devices,
    .getProperties = &get_properties,
    .listen = &listen,
    .connect = &connect,
    .accept = &accept,
    .regMr = &register_memory,
    .regMrDmaBuf = nullptr,  // host memory only
    .deregMr = &deregister_memory,
    .isend = &isend,
    .irecv = &irecv,
    .iflush = nullptr,  // nothing is written behind the processor's back
    .test = &test,
    .closeSend = &close_link,
    .closeRecv = &close_link,
    .closeListen = &close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = &finalize,
    .setNetAttr = nullptr,
};
