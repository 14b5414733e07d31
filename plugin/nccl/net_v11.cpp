// Version 11: NCCL 2.28 on. A context per communicator, finalize, setNetAttr.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"

using namespace meshbed::nccl;

namespace {

int get_properties(int dev, PropertiesV11* props) {
  const int result = properties_since_v9(dev, props);
  if (result == kNcclSuccess) props->maxMultiRequestSize = 1;
  return result;
}

}  // namespace

const NetV11 ncclNetPlugin_v11 = {
    .name = kPluginName,
    .init = &init,
    .devices = &devices,
    .getProperties = &get_properties,
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
