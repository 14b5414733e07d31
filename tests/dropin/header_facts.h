// Header facts: sizes, offsets, numbers and types of an nccl.h, as text. No #pragma once: each file that includes this
// has included its own nccl.h before, ours or NVIDIA's, and the texts are compared.
#include <cstddef>
#include <string>
#include <typeinfo>

#define FACT(expression) \
  text += std::string(#expression " ") + std::to_string(static_cast<long long>(expression)) + "\n"
#define FIELD(field) FACT(offsetof(ncclConfig_t, field))
#define CALL(call) text += std::string(#call " ") + typeid(&call).name() + "\n"

static std::string header_facts() {
  std::string text;
  FACT(NCCL_VERSION_CODE);
  FACT(NCCL_VERSION(2, 8, 3));
  FACT(sizeof(ncclUniqueId)), FACT(sizeof(ncclResult_t)), FACT(sizeof(ncclRedOp_t)), FACT(sizeof(ncclDataType_t));
  FACT(sizeof(ncclConfig_t)), FACT(sizeof(ncclSimInfo_t)), FACT(offsetof(ncclSimInfo_t, estimatedTime));
  FIELD(size), FIELD(magic), FIELD(version), FIELD(blocking), FIELD(cgaClusterSize), FIELD(minCTAs), FIELD(maxCTAs);
  FIELD(netName), FIELD(splitShare), FIELD(trafficClass), FIELD(commName), FIELD(collnetEnable), FIELD(CTAPolicy);
  FIELD(shrinkShare), FIELD(nvlsCTAs), FIELD(nChannelsPerNetPeer), FIELD(nvlinkCentricSched);
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  FACT(config.size), FACT(config.magic), FACT(config.version), FACT(config.blocking), FACT(config.nvlinkCentricSched);
  FACT(config.netName == nullptr), FACT(config.commName == nullptr), FACT(config.splitShare);
  FACT(NCCL_SPLIT_NOCOLOR);
  FACT(ncclSuccess), FACT(ncclUnhandledCudaError), FACT(ncclSystemError), FACT(ncclInternalError);
  FACT(ncclInvalidArgument), FACT(ncclInvalidUsage), FACT(ncclRemoteError), FACT(ncclInProgress), FACT(ncclNumResults);
  FACT(ncclSum), FACT(ncclProd), FACT(ncclMax), FACT(ncclMin), FACT(ncclAvg), FACT(ncclNumOps), FACT(ncclMaxRedOp);
  FACT(ncclInt8), FACT(ncclChar), FACT(ncclUint8), FACT(ncclInt32), FACT(ncclInt), FACT(ncclUint32), FACT(ncclInt64);
  FACT(ncclUint64), FACT(ncclFloat16), FACT(ncclHalf), FACT(ncclFloat32), FACT(ncclFloat), FACT(ncclFloat64);
  FACT(ncclDouble), FACT(ncclBfloat16), FACT(ncclFloat8e4m3), FACT(ncclFloat8e5m2), FACT(ncclNumTypes);
  FACT(ncclScalarDevice), FACT(ncclScalarHostImmediate);
  CALL(ncclMemAlloc), CALL(ncclMemFree), CALL(ncclGetVersion), CALL(ncclGetUniqueId), CALL(ncclCommInitRankConfig);
  CALL(ncclCommInitRank), CALL(ncclCommInitRankScalable), CALL(ncclCommInitAll), CALL(ncclCommFinalize);
  CALL(ncclCommDestroy), CALL(ncclCommAbort), CALL(ncclCommRevoke), CALL(ncclCommSplit), CALL(ncclCommShrink);
  CALL(ncclGetErrorString), CALL(ncclGetLastError), CALL(ncclCommGetAsyncError), CALL(ncclCommCount);
  CALL(ncclCommCuDevice), CALL(ncclCommUserRank), CALL(ncclCommRegister), CALL(ncclCommDeregister);
  CALL(ncclCommWindowRegister), CALL(ncclCommWindowDeregister), CALL(ncclRedOpCreatePreMulSum), CALL(ncclRedOpDestroy);
  CALL(ncclReduce), CALL(ncclBcast), CALL(ncclBroadcast), CALL(ncclAllReduce), CALL(ncclReduceScatter);
  CALL(ncclAllGather), CALL(ncclAlltoAll), CALL(ncclGather), CALL(ncclScatter), CALL(ncclSend), CALL(ncclRecv);
  CALL(ncclGroupStart), CALL(ncclGroupEnd), CALL(ncclGroupSimulateEnd);
  return text;
}
