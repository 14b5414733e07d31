#pragma once
// The ncclNet plugin ABI, versions 8 to 12, as C-layout types: what a net plugin exports and what its caller reads.
//
// Self-contained, so that both sides of the table (the plugin and the collective engine) include only this file.
// Written from the ABI's facts; every offset and size is asserted, for x86-64 and aarch64 (LP64). A table's symbol is
// data named ncclNetPlugin_v<N>. Threads: init, devices, getProperties and finalize on the caller's thread; listen,
// connect, accept, regMr, deregMr and close* on a service thread; isend, irecv, iflush and test on a progress thread.

#include <cstddef>
#include <cstdint>

namespace meshbed::nccl {

// ---- numbers
// ----------------------------------------------------------------------------------------------------------

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,
};

enum NcclLogLevel : int {
  kNcclLogNone = 0,
  kNcclLogVersion = 1,
  kNcclLogWarn = 2,
  kNcclLogInfo = 3,
  kNcclLogAbort = 4,
  kNcclLogTrace = 5,
};

/// Subsystem bits of a log line. A line with flags 0 is filtered out by NCCL, so INFO lines must carry one.
inline constexpr unsigned long kNcclLogInit = 0x1;
inline constexpr unsigned long kNcclLogNet = 0x10;

inline constexpr std::size_t kHandleBytes = 128;   // NCCL_NET_HANDLE_MAXSIZE
inline constexpr int kMaxRequests = 32;            // NCCL_NET_MAX_REQUESTS: outstanding per comm and grouped receive
inline constexpr int kMaxGroupedReceives = 8;      // NCCL_NET_IB_MAX_RECVS: what NCCL groups at most
inline constexpr int kPtrHost = 1;                 // NCCL_PTR_HOST
inline constexpr int kPtrCuda = 2;                 // NCCL_PTR_CUDA
inline constexpr int kPtrDmaBuf = 4;               // NCCL_PTR_DMABUF
inline constexpr int kTrafficClassUndefined = -1;  // NCCL_NET_TRAFFIC_CLASS_UNDEF
inline constexpr int kAttributeUndefined = -1;     // NCCL_NET_ATTR_UNDEF
inline constexpr std::int16_t kIdUndefined = -1;   // NCCL_NET_ID_UNDEF: rail and plane
inline constexpr std::uint64_t kMaxNetSizeBytes = std::uint64_t{1} << 40U;  // NCCL_MAX_NET_SIZE_BYTES
/// As irecv's *request on entry (v11 on): the data carry their own flags, completion of this receive is optional.
inline constexpr std::uintptr_t kOptionalRecvCompletion = 1;

enum NetDeviceType : int { kNetDeviceHost = 0, kNetDeviceUnpack = 1 };

// ---- callbacks
// --------------------------------------------------------------------------------------------------------

using LogFunction = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
/// Profiler events of a net plugin, from v10 on.
using ProfilerFunction = int (*)(void** event, int type, void* parent, std::int64_t plugin_id, void* data);

// ---- records
// ----------------------------------------------------------------------------------------------------------

/// Device offload; a plugin of type kNetDeviceHost leaves the pointer to it alone. v7 to v12 alike.
struct NetDeviceHandle {
  int netDeviceType;
  int netDeviceVersion;
  void* handle;
  std::size_t size;
  int needsProxyProgress;
};

/// Configuration of a communicator: v10 gives it to connect, v11 and v12 to init.
struct CommConfig {
  int trafficClass;
};

struct CommAttr {
  std::int32_t maxConcurrentPeers;
  std::int32_t minConcurrentPeers;
  std::int32_t maxFlowsPerPeer;
  std::int32_t minFlowsPerPeer;
};

/// A hint of what comes next; v11 and v12. -1: undefined. op, algo and proto are bit masks.
struct NetAttr {
  CommAttr sendCommAttr;
  CommAttr recvCommAttr;
  std::uint32_t op;
  std::uint32_t algo;
  std::uint32_t proto;
};

/// The devices that a (fused) device consists of; v9, v10 and v11.
struct VDevicePropsV9 {
  int ndevs;
  int devs[4];
};

struct VDevicePropsV12 {
  int ndevs;
  int devs[8];
};

struct PropertiesV8 {
  char* name;          // for logs
  char* pciPath;       // below /sys/devices; NULL: unknown
  std::uint64_t guid;  // of the NIC chip, one for all of its functions
  int ptrSupport;      // kPtr* bits
  int regIsGlobal;     // a registration is not tied to a comm
  int speed;           // Mb/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;  // grouped receives
  int netDeviceType;
  int netDeviceVersion;
};

/// v9 and v10.
struct PropertiesV9 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VDevicePropsV9 vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
};

struct PropertiesV11 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VDevicePropsV9 vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
};

struct PropertiesV12 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VDevicePropsV12 vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
  std::int16_t railId;
  std::int16_t planeId;
};

// ---- tables
// ----------------------------------------------------------------------------------------------------------- Every
// function returns an NcclResult, spelled int because that is what crosses the ABI.

struct NetV8 {
  const char* name;
  int (*init)(LogFunction log);
  int (*devices)(int* count);
  int (*getProperties)(int dev, PropertiesV8* props);
  int (*listen)(int dev, void* handle, void** listen_comm);
  int (*connect)(int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
  int (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  int (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  int (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd, void** mhandle);
  int (*deregMr)(void* comm, void* mhandle);
  int (*isend)(void* send_comm, void* data, int size, int tag, void* mhandle, void** request);
  int (*irecv)(void* recv_comm, int n, void** data, int* sizes, int* tags, void** mhandles, void** request);
  int (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  int (*test)(void* request, int* done, int* sizes);
  int (*closeSend)(void* send_comm);
  int (*closeRecv)(void* recv_comm);
  int (*closeListen)(void* listen_comm);
  int (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  int (*irecvConsumed)(void* recv_comm, int n, void* request);
};

struct NetV9 {
  const char* name;
  int (*init)(LogFunction log);
  int (*devices)(int* count);
  int (*getProperties)(int dev, PropertiesV9* props);
  int (*listen)(int dev, void* handle, void** listen_comm);
  int (*connect)(int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
  int (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  int (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  int (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd, void** mhandle);
  int (*deregMr)(void* comm, void* mhandle);
  int (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void** request);
  int (*irecv)(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** request);
  int (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  int (*test)(void* request, int* done, int* sizes);
  int (*closeSend)(void* send_comm);
  int (*closeRecv)(void* recv_comm);
  int (*closeListen)(void* listen_comm);
  int (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  int (*irecvConsumed)(void* recv_comm, int n, void* request);
  int (*makeVDevice)(int* dev, VDevicePropsV9* props);
};

struct NetV10 {
  const char* name;
  int (*init)(LogFunction log, ProfilerFunction profiler);
  int (*devices)(int* count);
  int (*getProperties)(int dev, PropertiesV9* props);
  int (*listen)(int dev, void* handle, void** listen_comm);
  int (*connect)(int dev, CommConfig* config, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
  int (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  int (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  int (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd, void** mhandle);
  int (*deregMr)(void* comm, void* mhandle);
  int (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* event, void** request);
  int (*irecv)(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** events,
               void** request);
  int (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  int (*test)(void* request, int* done, int* sizes);
  int (*closeSend)(void* send_comm);
  int (*closeRecv)(void* recv_comm);
  int (*closeListen)(void* listen_comm);
  int (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  int (*irecvConsumed)(void* recv_comm, int n, void* request);
  int (*makeVDevice)(int* dev, VDevicePropsV9* props);
};

/// v11 and v12 have the same functions; only the property records differ.
template <typename Properties, typename VDeviceProps>
struct NetWithContext {
  const char* name;
  int (*init)(void** context, std::uint64_t comm_id, CommConfig* config, LogFunction log, ProfilerFunction profiler);
  int (*devices)(int* count);
  int (*getProperties)(int dev, Properties* props);
  int (*listen)(void* context, int dev, void* handle, void** listen_comm);
  int (*connect)(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
  int (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  int (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  int (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd, void** mhandle);
  int (*deregMr)(void* comm, void* mhandle);
  int (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* event, void** request);
  int (*irecv)(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** events,
               void** request);
  int (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  int (*test)(void* request, int* done, int* sizes);
  int (*closeSend)(void* send_comm);
  int (*closeRecv)(void* recv_comm);
  int (*closeListen)(void* listen_comm);
  int (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  int (*irecvConsumed)(void* recv_comm, int n, void* request);
  int (*makeVDevice)(int* dev, VDeviceProps* props);
  int (*finalize)(void* context);
  int (*setNetAttr)(void* context, NetAttr* attributes);
};

using NetV11 = NetWithContext<PropertiesV11, VDevicePropsV9>;
using NetV12 = NetWithContext<PropertiesV12, VDevicePropsV12>;

}  // namespace meshbed::nccl

#include "plugin/nccl/net_abi_layout.h"
