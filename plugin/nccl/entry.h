#pragma once
// The one core behind the five tables: every function that a table needs, in the widest version's terms. The version
// files adapt their signatures to these and nothing else.
//
// Pointers that come in are checked before they are followed; out-parameters are set only on success.

#include <cstddef>
#include <cstdint>

#include "plugin/nccl/net_abi.h"

namespace meshbed::nccl {

inline constexpr const char* kPluginName = "Mesh";
inline constexpr int kMaxRecvs = kMaxGroupedReceives;

// ---- process and communicator
// -----------------------------------------------------------------------------------------

/// v11, v12: one context per communicator; finalize() gives it back, the last one closes the devices.
int init(void** context, std::uint64_t comm_id, CommConfig* config, LogFunction log, ProfilerFunction profiler);
int finalize(void* context);
int set_net_attr(void* context, NetAttr* attributes);
/// v8 to v10: one context for the process, which has no finalize(); calling it again changes nothing but the logger.
int init_shared(LogFunction log);
/// v10 brings a profiler with it.
int init_shared_profiled(LogFunction log, ProfilerFunction profiler);
/// The context of init_shared(); nullptr before it.
void* shared_context();

int devices(int* count);
/// In v12's terms; the version files copy what theirs has.
int properties(int dev, PropertiesV12* props);

// ---- connections
// ------------------------------------------------------------------------------------------------------

int listen(void* context, int dev, void* handle, void** listen_comm);
int connect(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
/// v10 passes the traffic class with each connect; -1: undefined.
int connect_with_class(void* context, int dev, int traffic_class, void* handle, void** send_comm);
int accept(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
int close_send(void* send_comm);
int close_recv(void* recv_comm);
int close_listen(void* listen_comm);

// ---- memory and data
// --------------------------------------------------------------------------------------------------

int reg_mr(void* comm, void* data, std::size_t size, int type, void** mhandle);
/// GPU memory: `data` is its address, `fd` a dma-buf in which it lies from `offset` on. Only where ptrSupport has
/// DMABUF.
int reg_mr_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd, void** mhandle);
int dereg_mr(void* comm, void* mhandle);
/// v10 to v12; `event` is the profiler's, under which ours begins and ends (net/transfer_event.h). NULL: none.
int isend(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* event, void** request);
int irecv(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** events,
          void** request);
/// After a receive of `sizes` bytes is done; its request is done when the GPU sees them. NULL: there is nothing to wait
/// for (host memory, no bytes, NCCL_GDR_FLUSH_DISABLE=1).
int iflush(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
int test(void* request, int* done, int* sizes);

// ---- for the version files
// --------------------------------------------------------------------------------------------

/// Copies the fields that v9 and its successors share, except vProps.
template <typename Properties>
void copy_common(const PropertiesV12& from, Properties& to) {
  to.name = from.name;
  to.pciPath = from.pciPath;
  to.guid = from.guid;
  to.ptrSupport = from.ptrSupport;
  to.regIsGlobal = from.regIsGlobal;
  to.speed = from.speed;
  to.port = from.port;
  to.latency = from.latency;
  to.maxComms = from.maxComms;
  to.maxRecvs = from.maxRecvs;
  to.netDeviceType = from.netDeviceType;
  to.netDeviceVersion = from.netDeviceVersion;
}

/// What v9, v10 and v11 have beyond v8.
template <typename Properties>
int properties_since_v9(int dev, Properties* props) {
  PropertiesV12 full{};
  if (props == nullptr) return kNcclInvalidArgument;
  if (const int result = properties(dev, &full); result != kNcclSuccess) return result;
  *props = Properties{};
  copy_common(full, *props);
  props->forceFlush = full.forceFlush;
  props->vProps.ndevs = full.vProps.ndevs;
  props->vProps.devs[0] = full.vProps.devs[0];
  props->maxP2pBytes = full.maxP2pBytes;
  props->maxCollBytes = full.maxCollBytes;
  return kNcclSuccess;
}

// listen, connect and the data calls of the versions without contexts or profiler events.
int listen_shared(int dev, void* handle, void** listen_comm);
int connect_shared(int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
int isend_plain(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void** request);
int irecv_plain(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** request);

}  // namespace meshbed::nccl
