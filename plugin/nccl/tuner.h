#pragma once
// The tuner: keeps NCCL from algorithms that send over other nodes where a ring need not. One context a communicator;
// it learns the cabling in its init, together with all other ranks, and changes cost tables from then on.
//
// A tuner knows the number of ranks and nodes, not which rank is on which node. It assumes that node numbers follow the
// cables as far as these allow, beginning at the node with the lowest address, as in a usual job on a ring. Otherwise
// all ranks still make the same choice, but it may not be the fastest.
//
// These are the entries of both versions' tables.

#include <cstddef>
#include <cstdint>

#include "plugin/nccl/tuner_abi.h"

namespace meshbed::nccl {

int tuner_init(void** context, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, LogFunction log,
               NvlDomainInfoV5* domains, TunerConstantsV5* constants);
/// The number of channels stays NCCL's choice.
int tuner_get_coll_info(void* context, int collective, std::size_t size_bytes, int pipelined, float** cost_table,
                        int algorithms, int protocols, int registered, int* channels);
int tuner_finalize(void* context);
/// Leaves *chunk_bytes as NCCL has it. Longer chunks would be striped over parallel cables (from NCCL_MESH_STRIPE_BYTES
/// on), but NCCL has a channel for each NIC, and those use all cables at any length: pair-striped.toml with two
/// channels runs chunks of 64 KiB at 99.8 % of the rate of 1 MiB. And all ranks must cut alike, while each knows only
/// its own cables and its own NCCL_MESH_STRIPE_BYTES.
int tuner_get_chunk_size(void* context, int collective, std::size_t size_bytes, int algorithm, int protocol,
                         int channels, std::size_t* chunk_bytes);

}  // namespace meshbed::nccl
