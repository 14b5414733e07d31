#pragma once
// Expert time: what dispatch and combine of a mixture of experts take, from mechanisms. Pure.
//
// Nomenclature: n ranks on N nodes, g = n/N of each; t tokens of a rank, each sent to k of E experts, E/n of which a
// rank holds; b - bytes of a token on the wire; copy - one token's bytes for one receiver. Modes, as the libraries name
// them (DeepEP README.md, UCCL-EP, pplx-kernels, MoRI):
//   low latency  a message for each token and expert, straight to the expert's rank: k copies, k (N-1)/N of them to
//                other nodes
//   normal       a token goes once to each node that holds one of its experts, and from there over NVLink to each
//                rank that does: D distinct nodes of which D (N-1)/N are others, R distinct ranks. On one node R copies
// An all-to-all of random routing has, of m equal groups of experts, m (1 - C(E - E/m, k) / C(E, k)) distinct ones a
// token; DeepEP's tests and its models route a token to 4 nodes at most (tests/test_internode.py: num_topk_groups).
// Time = start + the largest of the three ways, blended where they are near one another (norm of order 4), + call
//   start   launch; hop of a message between nodes, where there are several
//   nic     other nodes' bytes over the rank's part of the NICs; or other nodes' messages times the cost of one (the
//           GPU's or the proxy's); or a peer's bytes over the rate of one connection; plus a cost for each remote rank
//   within  bytes to ranks of the same node over NVLink, xGMI or PCIe; where the machine has none, by its NICs
//   GPU     copies times what a multiprocessor takes for a token and its bytes, over the number of multiprocessors
//   call    of a call through the framework: its own cost, and a copy of what was exchanged
// Combine is the same way back: its rate within a node and its start, messages and peers have factors of their own.
// What is not modelled: experts that get more tokens than others, other traffic, several calls that overlap.

#include <cstdint>
#include <vector>

#include "models/time/collective_time.h"
#include "models/time/machine.h"

namespace meshbed::models {

enum class ExpertMode : std::uint8_t { kLowLatency, kNormal };
const char* name_of(ExpertMode mode);  // low latency, normal

struct ExpertCall {
  bool combine = false;  // else dispatch
  ExpertMode mode = ExpertMode::kLowLatency;
  int ranks = 8, nodes = 1;
  double tokens = 128;           // of a rank
  double token_bytes = 14336;    // on the wire, with scales and header
  int top_k = 8, experts = 256;  // experts: of all ranks
  int most_nodes = 0;            // that a token may go to; 0: no limit
  double multiprocessors = 0;    // that the kernels may use; 0: as many as the machine's `ep_sms`
  bool through_call = false;     // measured around the framework's call, not the kernels
  /// The time is that of a bandwidth whose bytes count a token once, while the tool that printed it counts each copy
  /// between nodes (within one: between ranks): 1/D (1/R) of the time that the operation takes.
  bool counts_once = false;
};

/// Groups of experts, of `groups` equal ones, that a token of `top_k` random experts reaches; at most `most` if that is
/// not 0. `groups` of 1 or less: 1.
double distinct_groups(int groups, int experts, int top_k, int most = 0);

/// Of the call as it is, `counts_once` included. The parts' sum is `us`: of the three ways only the longest is a part,
/// and "overlap" is what the blending adds.
struct ExpertTime {
  double us = 0;
  double nodes_of_token = 1, ranks_of_token = 1;
  std::vector<TimePart> parts;
};
ExpertTime expert_time(const Machine& machine, const ExpertCall& call);

}  // namespace meshbed::models
