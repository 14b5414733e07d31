// Version 10: NCCL 2.26 and 2.27. Profiler events, a traffic class with each connect.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"

using namespace meshbed::nccl;

namespace {

int init_v10(LogFunction log, ProfilerFunction profiler) { return init_shared_profiled(log, profiler); }

int connect_v10(int dev, CommConfig* config, void* handle, void** send_comm, NetDeviceHandle**) {
  const int traffic_class = config != nullptr ? config->trafficClass : kTrafficClassUndefined;
  return connect_with_class(shared_context(), dev, traffic_class, handle, send_comm);
}

}  // namespace

const NetV10 ncclNetPlugin_v10 = {
    .name = kPluginName,
    .init = &init_v10,
    .devices = &devices,
    .getProperties = &properties_since_v9<PropertiesV9>,
    .listen = &listen_shared,
    .connect = &connect_v10,
    .accept = &accept,
    .regMr = &reg_mr,
    .regMrDmaBuf = &reg_mr_dma_buf,
    .deregMr = &dereg_mr,
    .isend = &isend,
    .irecv = &irecv,
    .iflush = &iflush,
    .test = &test,
    .closeSend = &close_send,
    .closeRecv = &close_recv,
    .closeListen = &close_listen,
    .getDeviceMr = nullptr,    // no device offload
    .irecvConsumed = nullptr,  // likewise
    .makeVDevice = nullptr,    // NICs are never fused: a cable is a subnet
};
