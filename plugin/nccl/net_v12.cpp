// Version 12: NCCL 2.30 on. Contexts, rail and plane ids, up to eight devices in a fused NIC.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"

using namespace meshbed::nccl;

const NetV12 ncclNetPlugin_v12 = {
    .name = kPluginName,
    .init = &init,
    .devices = &devices,
    .getProperties = &properties,
    .listen = &listen,
    .connect = &connect,
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
    .finalize = &finalize,
    .setNetAttr = &set_net_attr,
};
