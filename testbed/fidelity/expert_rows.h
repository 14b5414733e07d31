#pragma once
// Rows of dispatch and combine: which call of a mixture of experts (models/time/expert_time.h) a row of a measured file
// is of. The tokens, the mode and the format of a token are in the set-up, in the row's variant and in its bytes.
//
//   tokens    "tok128" or "128tok" of the variant; else bytes over those of a token, times the top k in low latency
//   mode      "ll" or "normal" (ht) of the variant, else "low-latency" or "normal" of the set-up, else by the bytes:
//             low latency if they count each of a token's experts
//   token     "fp8" or "bf16" of the variant, else what divides the bytes: FP8 with a scale each 128 elements and a
//             header of 16 bytes, BF16, FP8 with scales, FP8 alone; of "hidden N" elements (7168 if it is not given)
//   top k     "top-8", "top 8" or "topk 8" (8); experts: "256 experts", "8 local experts", "_e288" (256)
//   SMs       "sm24" of the variant, "24 SMs" of the set-up
//   nodes     DeepEP's own tests send a token to 4 nodes at most, so do those made from them, unless the router is
//   uniform
// A bandwidth whose bytes count a token once is that of the tool's own count of bytes, with each copy to a node.
// MoRI's kernels within a node send a token once to each rank in both of their kinds: they are normal ones here.

#include <optional>
#include <string>

#include "models/time/expert_time.h"

namespace meshbed::testbed {

/// ep_dispatch, ep_combine, dispatch, combine, moe_dispatch, ...: true of a combine; nothing of other names.
std::optional<bool> expert_operation(const std::string& name);

struct ExpertRow {
  bool combine = false;
  int ranks = 2, nodes = 1;
  double bytes = 0;
  std::string variant;
  std::string set_up;  // with the header's units
};

/// The call; throws std::runtime_error, with what is missing, where the bytes are not those of whole tokens.
models::ExpertCall expert_call(const ExpertRow& row);

}  // namespace meshbed::testbed
