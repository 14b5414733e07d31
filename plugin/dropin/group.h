#pragma once
// Group: what is called between ncclGroupStart and ncclGroupEnd, and what is called outside of any.

#include "plugin/dropin/library.h"

namespace meshbed::dropin {

/// A call on a communicator: now, or with the group that the calling thread has open.
Outcome call(const ncclComm* comm, cudaStream_t stream, meshcoll_args args);
/// Likewise.
Outcome make_communicator(const Plan& plan);

Outcome start_group();
Outcome end_group();

}  // namespace meshbed::dropin
