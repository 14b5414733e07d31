#pragma once
// Group: what is called between ncclGroupStart and ncclGroupEnd, and what is called outside of any.

#include "plugin/dropin/library.h"

namespace meshbed::dropin {

/// A call on a communicator: now, or with the group that the calling thread has open. An error of this or the next is
/// to be given to spoil_group().
Outcome call(const ncclComm* comm, cudaStream_t stream, meshcoll_args args);
/// Likewise.
Outcome make_communicator(const Plan& plan);

/// Splitting is for outside of groups.
Outcome split_communicator(const CommPointer& comm, int color, int key, ncclComm_t* made);
/// Nothing of the group that the calling thread has open, if any, is to run: its end gives this reason, or an earlier
/// one.
void spoil_group(ncclResult_t code, const char* text);
/// What a thread has called that ended before its ncclGroupEnd: nothing of it runs.
void abandon(Group& group);

Outcome start_group();
Outcome end_group();

}  // namespace meshbed::dropin
