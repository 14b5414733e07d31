// Version 8: NCCL 2.20 to 2.23. Sizes are int, one device per NIC, no contexts.
#include <array>

#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"

using namespace meshbed::nccl;

namespace {

int get_properties(int dev, PropertiesV8* props) {
  PropertiesV12 full{};
  if (props == nullptr) return kNcclInvalidArgument;
  if (const int result = properties(dev, &full); result != kNcclSuccess) return result;
  *props = PropertiesV8{};
  copy_common(full, *props);
  return kNcclSuccess;
}

int isend_v8(void* send_comm, void* data, int size, int tag, void* mhandle, void** request) {
  if (size < 0) return kNcclInvalidArgument;
  return isend_plain(send_comm, data, static_cast<std::size_t>(size), tag, mhandle, request);
}

int irecv_v8(void* recv_comm, int n, void** data, int* sizes, int* tags, void** mhandles, void** request) {
  if (n < 1 || n > kMaxRecvs || sizes == nullptr) return kNcclInvalidArgument;
  std::array<std::size_t, kMaxRecvs> wide{};
  for (int index = 0; index < n; ++index) {
    if (sizes[index] < 0) return kNcclInvalidArgument;
    wide[static_cast<std::size_t>(index)] = static_cast<std::size_t>(sizes[index]);
  }
  return irecv_plain(recv_comm, n, data, wide.data(), tags, mhandles, request);
}

}  // namespace

const NetV8 ncclNetPlugin_v8 = {
    .name = kPluginName,
    .init = &init_shared,
    .devices = &devices,
    .getProperties = &get_properties,
    .listen = &listen_shared,
    .connect = &connect_shared,
    .accept = &accept,
    .regMr = &reg_mr,
    .regMrDmaBuf = &reg_mr_dma_buf,
    .deregMr = &dereg_mr,
    .isend = &isend_v8,
    .irecv = &irecv_v8,
    .iflush = &iflush,
    .test = &test,
    .closeSend = &close_send,
    .closeRecv = &close_recv,
    .closeListen = &close_listen,
    .getDeviceMr = nullptr,    // no device offload
    .irecvConsumed = nullptr,  // likewise
};
