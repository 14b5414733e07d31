#pragma once
// Channels: how many of its channels NCCL takes for a call. Pure.
//
// Nomenclature: channel - a block of a GPU's threads with connections of its own to the next rank; S - bytes as NCCL
// counts them for its choice (all_gather and reduce_scatter: of all ranks); traffic - S times 2 of an all_reduce.
// First a call may have a channel for each S that its threads ask for: 512 of them (640 of LL128) times 8 bytes of LL
// and LL128, the ranks' number of times around a ring of LL, or times 64 of Simple. Then S is cut into cells of 32 KiB
// of traffic, of a fourth of it where it is LL's, and each channel gets as many whole cells as 1/channels of the
// traffic is. NCCL v2.30.7 src/enqueue.cc: topoGetAlgoInfo (Ring/Tree channel tuning), scheduleCollTasksToPlan
// (MinTrafficPerChannel; 16 KiB in earlier versions), ncclFuncTrafficPerByte; src/graph/tuning.cc: threadThresholds;
// their constants in src/include/comm.h and src/include/device.h. Cost: O(1).

#include "models/time/collective_time.h"

namespace meshbed::models {

/// Between 1 and `most`, which is the communicator's number of them. `most` of sends and receives, whose channels are
/// dealt out by peer, not by size.
int channels_used(const CollectiveCall& call, CollectiveAlgorithm algorithm, CollectiveProtocol protocol, int most);

}  // namespace meshbed::models
