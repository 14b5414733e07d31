#pragma once
// The layout of the ncclNet ABI as facts: every offset and every size of the types in plugin/nccl/net_abi.h, which
// includes this file, so that the types cannot be used unchecked. The numbers are those of NCCL's published headers on
// LP64; defects D1 and D2 of the ancestor were exactly such shifts.

#include <cstddef>

#include "plugin/nccl/net_abi.h"

#define MESHBED_AT(type, field, offset) \
  static_assert(offsetof(type, field) == (offset), #type "::" #field " has moved from byte " #offset)
#define MESHBED_SIZE(type, size) static_assert(sizeof(type) == (size), #type " is not " #size " bytes")

namespace meshbed::nccl {

MESHBED_AT(NetDeviceHandle, netDeviceType, 0);
MESHBED_AT(NetDeviceHandle, netDeviceVersion, 4);
MESHBED_AT(NetDeviceHandle, handle, 8);
MESHBED_AT(NetDeviceHandle, size, 16);
MESHBED_AT(NetDeviceHandle, needsProxyProgress, 24);
MESHBED_SIZE(NetDeviceHandle, 32);

MESHBED_AT(CommConfig, trafficClass, 0);
MESHBED_SIZE(CommConfig, 4);

MESHBED_AT(CommAttr, maxConcurrentPeers, 0);
MESHBED_AT(CommAttr, minConcurrentPeers, 4);
MESHBED_AT(CommAttr, maxFlowsPerPeer, 8);
MESHBED_AT(CommAttr, minFlowsPerPeer, 12);
MESHBED_SIZE(CommAttr, 16);

MESHBED_AT(NetAttr, sendCommAttr, 0);
MESHBED_AT(NetAttr, recvCommAttr, 16);
MESHBED_AT(NetAttr, op, 32);
MESHBED_AT(NetAttr, algo, 36);
MESHBED_AT(NetAttr, proto, 40);
MESHBED_SIZE(NetAttr, 44);

MESHBED_AT(VDevicePropsV9, ndevs, 0);
MESHBED_AT(VDevicePropsV9, devs, 4);
MESHBED_SIZE(VDevicePropsV9, 20);

MESHBED_AT(VDevicePropsV12, ndevs, 0);
MESHBED_AT(VDevicePropsV12, devs, 4);
MESHBED_SIZE(VDevicePropsV12, 36);

MESHBED_AT(PropertiesV8, name, 0);
MESHBED_AT(PropertiesV8, pciPath, 8);
MESHBED_AT(PropertiesV8, guid, 16);
MESHBED_AT(PropertiesV8, ptrSupport, 24);
MESHBED_AT(PropertiesV8, regIsGlobal, 28);
MESHBED_AT(PropertiesV8, speed, 32);
MESHBED_AT(PropertiesV8, port, 36);
MESHBED_AT(PropertiesV8, latency, 40);
MESHBED_AT(PropertiesV8, maxComms, 44);
MESHBED_AT(PropertiesV8, maxRecvs, 48);
MESHBED_AT(PropertiesV8, netDeviceType, 52);
MESHBED_AT(PropertiesV8, netDeviceVersion, 56);
MESHBED_SIZE(PropertiesV8, 64);

MESHBED_AT(PropertiesV9, name, 0);
MESHBED_AT(PropertiesV9, pciPath, 8);
MESHBED_AT(PropertiesV9, guid, 16);
MESHBED_AT(PropertiesV9, ptrSupport, 24);
MESHBED_AT(PropertiesV9, regIsGlobal, 28);
MESHBED_AT(PropertiesV9, forceFlush, 32);
MESHBED_AT(PropertiesV9, speed, 36);
MESHBED_AT(PropertiesV9, port, 40);
MESHBED_AT(PropertiesV9, latency, 44);
MESHBED_AT(PropertiesV9, maxComms, 48);
MESHBED_AT(PropertiesV9, maxRecvs, 52);
MESHBED_AT(PropertiesV9, netDeviceType, 56);
MESHBED_AT(PropertiesV9, netDeviceVersion, 60);
MESHBED_AT(PropertiesV9, vProps, 64);
MESHBED_AT(PropertiesV9, maxP2pBytes, 88);
MESHBED_AT(PropertiesV9, maxCollBytes, 96);
MESHBED_SIZE(PropertiesV9, 104);

MESHBED_AT(PropertiesV11, name, 0);
MESHBED_AT(PropertiesV11, pciPath, 8);
MESHBED_AT(PropertiesV11, guid, 16);
MESHBED_AT(PropertiesV11, ptrSupport, 24);
MESHBED_AT(PropertiesV11, regIsGlobal, 28);
MESHBED_AT(PropertiesV11, forceFlush, 32);
MESHBED_AT(PropertiesV11, speed, 36);
MESHBED_AT(PropertiesV11, port, 40);
MESHBED_AT(PropertiesV11, latency, 44);
MESHBED_AT(PropertiesV11, maxComms, 48);
MESHBED_AT(PropertiesV11, maxRecvs, 52);
MESHBED_AT(PropertiesV11, netDeviceType, 56);
MESHBED_AT(PropertiesV11, netDeviceVersion, 60);
MESHBED_AT(PropertiesV11, vProps, 64);
MESHBED_AT(PropertiesV11, maxP2pBytes, 88);
MESHBED_AT(PropertiesV11, maxCollBytes, 96);
MESHBED_AT(PropertiesV11, maxMultiRequestSize, 104);
MESHBED_SIZE(PropertiesV11, 112);

MESHBED_AT(PropertiesV12, name, 0);
MESHBED_AT(PropertiesV12, pciPath, 8);
MESHBED_AT(PropertiesV12, guid, 16);
MESHBED_AT(PropertiesV12, ptrSupport, 24);
MESHBED_AT(PropertiesV12, regIsGlobal, 28);
MESHBED_AT(PropertiesV12, forceFlush, 32);
MESHBED_AT(PropertiesV12, speed, 36);
MESHBED_AT(PropertiesV12, port, 40);
MESHBED_AT(PropertiesV12, latency, 44);
MESHBED_AT(PropertiesV12, maxComms, 48);
MESHBED_AT(PropertiesV12, maxRecvs, 52);
MESHBED_AT(PropertiesV12, netDeviceType, 56);
MESHBED_AT(PropertiesV12, netDeviceVersion, 60);
MESHBED_AT(PropertiesV12, vProps, 64);
MESHBED_AT(PropertiesV12, maxP2pBytes, 104);
MESHBED_AT(PropertiesV12, maxCollBytes, 112);
MESHBED_AT(PropertiesV12, maxMultiRequestSize, 120);
MESHBED_AT(PropertiesV12, railId, 124);
MESHBED_AT(PropertiesV12, planeId, 126);
MESHBED_SIZE(PropertiesV12, 128);

MESHBED_AT(NetV8, name, 0);
MESHBED_AT(NetV8, init, 8);
MESHBED_AT(NetV8, devices, 16);
MESHBED_AT(NetV8, getProperties, 24);
MESHBED_AT(NetV8, listen, 32);
MESHBED_AT(NetV8, connect, 40);
MESHBED_AT(NetV8, accept, 48);
MESHBED_AT(NetV8, regMr, 56);
MESHBED_AT(NetV8, regMrDmaBuf, 64);
MESHBED_AT(NetV8, deregMr, 72);
MESHBED_AT(NetV8, isend, 80);
MESHBED_AT(NetV8, irecv, 88);
MESHBED_AT(NetV8, iflush, 96);
MESHBED_AT(NetV8, test, 104);
MESHBED_AT(NetV8, closeSend, 112);
MESHBED_AT(NetV8, closeRecv, 120);
MESHBED_AT(NetV8, closeListen, 128);
MESHBED_AT(NetV8, getDeviceMr, 136);
MESHBED_AT(NetV8, irecvConsumed, 144);
MESHBED_SIZE(NetV8, 152);

MESHBED_AT(NetV9, name, 0);
MESHBED_AT(NetV9, init, 8);
MESHBED_AT(NetV9, devices, 16);
MESHBED_AT(NetV9, getProperties, 24);
MESHBED_AT(NetV9, listen, 32);
MESHBED_AT(NetV9, connect, 40);
MESHBED_AT(NetV9, accept, 48);
MESHBED_AT(NetV9, regMr, 56);
MESHBED_AT(NetV9, regMrDmaBuf, 64);
MESHBED_AT(NetV9, deregMr, 72);
MESHBED_AT(NetV9, isend, 80);
MESHBED_AT(NetV9, irecv, 88);
MESHBED_AT(NetV9, iflush, 96);
MESHBED_AT(NetV9, test, 104);
MESHBED_AT(NetV9, closeSend, 112);
MESHBED_AT(NetV9, closeRecv, 120);
MESHBED_AT(NetV9, closeListen, 128);
MESHBED_AT(NetV9, getDeviceMr, 136);
MESHBED_AT(NetV9, irecvConsumed, 144);
MESHBED_AT(NetV9, makeVDevice, 152);
MESHBED_SIZE(NetV9, 160);

MESHBED_AT(NetV10, name, 0);
MESHBED_AT(NetV10, init, 8);
MESHBED_AT(NetV10, devices, 16);
MESHBED_AT(NetV10, getProperties, 24);
MESHBED_AT(NetV10, listen, 32);
MESHBED_AT(NetV10, connect, 40);
MESHBED_AT(NetV10, accept, 48);
MESHBED_AT(NetV10, regMr, 56);
MESHBED_AT(NetV10, regMrDmaBuf, 64);
MESHBED_AT(NetV10, deregMr, 72);
MESHBED_AT(NetV10, isend, 80);
MESHBED_AT(NetV10, irecv, 88);
MESHBED_AT(NetV10, iflush, 96);
MESHBED_AT(NetV10, test, 104);
MESHBED_AT(NetV10, closeSend, 112);
MESHBED_AT(NetV10, closeRecv, 120);
MESHBED_AT(NetV10, closeListen, 128);
MESHBED_AT(NetV10, getDeviceMr, 136);
MESHBED_AT(NetV10, irecvConsumed, 144);
MESHBED_AT(NetV10, makeVDevice, 152);
MESHBED_SIZE(NetV10, 160);

MESHBED_AT(NetV11, name, 0);
MESHBED_AT(NetV11, init, 8);
MESHBED_AT(NetV11, devices, 16);
MESHBED_AT(NetV11, getProperties, 24);
MESHBED_AT(NetV11, listen, 32);
MESHBED_AT(NetV11, connect, 40);
MESHBED_AT(NetV11, accept, 48);
MESHBED_AT(NetV11, regMr, 56);
MESHBED_AT(NetV11, regMrDmaBuf, 64);
MESHBED_AT(NetV11, deregMr, 72);
MESHBED_AT(NetV11, isend, 80);
MESHBED_AT(NetV11, irecv, 88);
MESHBED_AT(NetV11, iflush, 96);
MESHBED_AT(NetV11, test, 104);
MESHBED_AT(NetV11, closeSend, 112);
MESHBED_AT(NetV11, closeRecv, 120);
MESHBED_AT(NetV11, closeListen, 128);
MESHBED_AT(NetV11, getDeviceMr, 136);
MESHBED_AT(NetV11, irecvConsumed, 144);
MESHBED_AT(NetV11, makeVDevice, 152);
MESHBED_AT(NetV11, finalize, 160);
MESHBED_AT(NetV11, setNetAttr, 168);
MESHBED_SIZE(NetV11, 176);

MESHBED_AT(NetV12, name, 0);
MESHBED_AT(NetV12, init, 8);
MESHBED_AT(NetV12, devices, 16);
MESHBED_AT(NetV12, getProperties, 24);
MESHBED_AT(NetV12, listen, 32);
MESHBED_AT(NetV12, connect, 40);
MESHBED_AT(NetV12, accept, 48);
MESHBED_AT(NetV12, regMr, 56);
MESHBED_AT(NetV12, regMrDmaBuf, 64);
MESHBED_AT(NetV12, deregMr, 72);
MESHBED_AT(NetV12, isend, 80);
MESHBED_AT(NetV12, irecv, 88);
MESHBED_AT(NetV12, iflush, 96);
MESHBED_AT(NetV12, test, 104);
MESHBED_AT(NetV12, closeSend, 112);
MESHBED_AT(NetV12, closeRecv, 120);
MESHBED_AT(NetV12, closeListen, 128);
MESHBED_AT(NetV12, getDeviceMr, 136);
MESHBED_AT(NetV12, irecvConsumed, 144);
MESHBED_AT(NetV12, makeVDevice, 152);
MESHBED_AT(NetV12, finalize, 160);
MESHBED_AT(NetV12, setNetAttr, 168);
MESHBED_SIZE(NetV12, 176);

}  // namespace meshbed::nccl

#undef MESHBED_AT
#undef MESHBED_SIZE
