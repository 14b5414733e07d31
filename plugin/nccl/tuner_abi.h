#pragma once
// The ncclTuner plugin ABI as C-layout types, version 5 (NCCL 2.28 on) and version 6 (NCCL 2.30.3 on). NCCL looks for
// them in the net plugin's file where no file of its own is named, for the newest first. Written from the ABI's facts;
// version 5 was compared with the calls in the libnccl.so.2 of 2.28.9 (offsets of init, getCollInfo and finalize, their
// arguments, seven rows of three columns), version 6 with what public plugins fill in; every offset is asserted.
//
// Threads: init and finalize on the thread that makes or ends a communicator, getCollInfo and getChunkSize on any
// thread that calls collectives. Each communicator has a context of its own.

#include <cstddef>
#include <cstdint>

#include "plugin/nccl/net_abi.h"

namespace meshbed::nccl {

enum Collective : int {
  kBroadcast = 0,
  kReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllReduce = 4,
};

/// Rows of a cost table. A table may have fewer, or more that are not known here.
enum Algorithm : int {
  kAlgoTree = 0,
  kAlgoRing = 1,
  kAlgoCollNetDirect = 2,
  kAlgoCollNetChain = 3,
  kAlgoNvls = 4,
  kAlgoNvlsTree = 5,
  kAlgoPat = 6,
};
inline constexpr int kAlgorithms = 7;  // NCCL_NUM_ALGORITHMS
inline constexpr int kProtocols = 3;   // NCCL_NUM_PROTOCOLS: LL, LL128, Simple
/// NCCL_ALGO_PROTO_IGNORE: this entry is not to be chosen.
inline constexpr float kCostIgnore = -1.0F;

struct NvlDomainInfoV5 {
  int nNvlDomains;
  int minRanksPerNvlDomain;
  int maxRanksPerNvlDomain;
};

/// What NCCL's own cost model starts from; a tuner may change it. Unused here, so its layout is not declared.
struct TunerConstantsV5;

using TunerInit = int(void** context, std::uint64_t commId, std::size_t nRanks, std::size_t nNodes, LogFunction log,
                      NvlDomainInfoV5* nvlDomainInfo, TunerConstantsV5* constants);
/// `collCostTable` is declared float** and is the address of float[numAlgo][numProto]: microseconds, or kCostIgnore.
/// `nChannels` 0: as NCCL likes.
using TunerGetCollInfo = int(void* context, int collType, std::size_t nBytes, int numPipeOps, float** collCostTable,
                             int numAlgo, int numProto, int regBuff, int* nChannels);
/// `chunkSize`: bytes, NCCL's; what is left there NCCL rounds and bounds.
using TunerGetChunkSize = int(void* context, int collType, std::size_t nBytes, int algo, int proto, int nChannels,
                              std::size_t* chunkSize);
using TunerFinalize = int(void* context);

struct TunerV5 {
  const char* name;
  TunerInit* init;
  TunerGetCollInfo* getCollInfo;
  TunerFinalize* finalize;
};

struct TunerV6 {
  const char* name;
  TunerInit* init;
  TunerGetCollInfo* getCollInfo;
  TunerFinalize* finalize;
  TunerGetChunkSize* getChunkSize;  // nullptr: not asked
};

static_assert(offsetof(NvlDomainInfoV5, nNvlDomains) == 0);
static_assert(offsetof(NvlDomainInfoV5, minRanksPerNvlDomain) == 4);
static_assert(offsetof(NvlDomainInfoV5, maxRanksPerNvlDomain) == 8);
static_assert(sizeof(NvlDomainInfoV5) == 12);

static_assert(offsetof(TunerV5, name) == 0);
static_assert(offsetof(TunerV5, init) == 8);
static_assert(offsetof(TunerV5, getCollInfo) == 16);
static_assert(offsetof(TunerV5, finalize) == 24);
static_assert(sizeof(TunerV5) == 32);

static_assert(offsetof(TunerV6, name) == 0);
static_assert(offsetof(TunerV6, init) == 8);
static_assert(offsetof(TunerV6, getCollInfo) == 16);
static_assert(offsetof(TunerV6, finalize) == 24);
static_assert(offsetof(TunerV6, getChunkSize) == 32);
static_assert(sizeof(TunerV6) == 40);

}  // namespace meshbed::nccl
