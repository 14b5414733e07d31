// Version 9: NCCL 2.24 and 2.25. Sizes are size_t, properties name the largest messages and the virtual device.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"

using namespace meshbed::nccl;

const NetV9 ncclNetPlugin_v9 = {
    .name = kPluginName,
    .init = &init_shared,
    .devices = &devices,
    .getProperties = &properties_since_v9<PropertiesV9>,
    .listen = &listen_shared,
    .connect = &connect_shared,
    .accept = &accept,
    .regMr = &reg_mr,
    .regMrDmaBuf = &reg_mr_dma_buf,
    .deregMr = &dereg_mr,
    .isend = &isend_plain,
    .irecv = &irecv_plain,
    .iflush = &iflush,
    .test = &test,
    .closeSend = &close_send,
    .closeRecv = &close_recv,
    .closeListen = &close_listen,
    .getDeviceMr = nullptr,    // no device offload
    .irecvConsumed = nullptr,  // likewise
    .makeVDevice = nullptr,    // NICs are never fused: a cable is a subnet
};
