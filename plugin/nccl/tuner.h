#pragma once
// The tuner: keeps NCCL from algorithms that send over other nodes where a ring need not. One context a communicator;
// it learns the cabling in its init, together with all other ranks, and changes cost tables from then on.
//
// A tuner is told how many ranks and nodes there are, not which rank is where. Assumed: node numbers follow the cables
// as far as these allow, beginning at the node with the lowest address, as whoever starts a job on a ring does. Where
// they do not, all ranks still make the same choice; it may not be the fastest.

#include <cstddef>
#include <cstdint>

#include "plugin/nccl/tuner_abi.h"

namespace meshbed::nccl {

int tuner_init(void** context, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, LogFunction log);
int tuner_get_coll_info(void* context, int collective, std::size_t size_bytes, float** cost_table, int algorithms,
                        int protocols);
int tuner_finalize(void* context);

}  // namespace meshbed::nccl
