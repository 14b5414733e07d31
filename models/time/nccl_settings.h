#pragma once
// NCCL settings: what variables of NCCL's that a measurement's set-up names do to a collective's choice of algorithm,
// protocol and channels. Pure.
//
//   NCCL_ALGO, NCCL_PROTO     a list as NCCL v2.30.7-1 reads it (src/graph/tuning.cc, parseList): "Ring", "^LL128",
//                             "LL,Simple", "allreduce:Tree;allgather:Ring"; before 2.19 without functions
//   NCCL_TREE_THRESHOLD       bytes up to which 2.4 takes a tree (v2.4.8-1, src/enqueue.cc 236); other versions have no
//                             such variable
//   NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS   channels at most
//   NCCL_BUFFSIZE             bytes of a channel's buffer, with K, M or G
// Names count with and without "NCCL_" where a value follows ("BUFFSIZE 8 MiB"); "^LL128" counts alone.

#include <string>

#include "models/time/collective_time.h"

namespace meshbed::models {

/// Of the text's variables to the call: forced where one choice is left, else what is refused.
void apply_nccl_settings(CollectiveCall& call, const std::string& set_up);

}  // namespace meshbed::models
