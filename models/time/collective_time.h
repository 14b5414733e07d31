#pragma once
// Collective time: what a collective of a library of NCCL's kind takes on a machine, from mechanisms. Pure.
//
// Nomenclature: n ranks on N nodes, S bytes as nccl-tests counts them; steps - dependent messages of one after the
// other: 2(n-1) of a ring's all_reduce, n-1 of its other collectives, 2 (g-1 + log2 N) of a tree's with g ranks a node;
// W - bytes that a node sends (models/algorithm.h); share - S/n.
// Time = launch + steps * hop + W/rate + fill + ramp + reduce, where (each line a part of the answer)
//   hop    latency of one step by protocol, between nodes or within one (NCCL tuning.cc: the two kinds of steps), and
//          what the transport adds to each between nodes (its latencyInter)
//   rate   the slower of the NICs that the node's ranks use (machine.h: nics_used) and what feeds them, times the
//          protocol's share: LL half around a ring and 1/3.8 on a tree, LL128 120/128; LL and LL128 of a tree count W
//          twice, up and down; never above the NICs' own. W of a tree moves at NCCL's treeCorrectionFactor of it, by
//          size (tuning.cc), read between its entries, and from 1 GiB on all of it. A class that has channels moves no
//          more than those that its size takes (channels.h). LL between nodes, where no share of it was fitted, is at
//          most NCCL's llMaxBws (tuning.cc:177): 39 GB/s on two nodes, 20.4 on more
//   fill   steps * stages * min(share, slice)/rate: a slice is stored whole before it goes on, and is not yet
//          overlapped with the next (Simple only)
//   ramp   depth * ramp * (1 - exp(-(W/rate)/ramp)): the first part of a long transfer is slower (Simple only)
//   copy   S over the copy rate: an all_gather into separate tensors
//   spill  what of a share is beyond LL's window, at its own rate
//   pairs  the set-up of a call that is made of sends and receives, all peers at once (NCCL); peers: of each peer,
//          where a message is a kernel of its own (libsircl's README: one launch of its pack a message)
//          Calls with a root are what the library makes of them (rooted_as_all; libsircl's STATUS.md: a broadcast is an
//          all-gather of the root's tiles, a reduce the all-reduce kept on the root)
//   skew   ranks that begin a test apart wait for one another once, and nccl-tests divides what all its iterations
//          take by their number (src/common.cu, BenchTime @a0b82b2)
//   waves  (ceil(bytes of a rank's own loads / wave) - 1) * wave time, where none was fitted a hop within the node: a
//          kernel of few blocks within a node, which loads S itself (direct) or S/n of it (two-shot); as long as a wave
//          is enough, time does not depend on S
// Protocol and algorithm are the cheapest by latency and rate alone, which is what NCCL's cost table knows, unless the
// machine has thresholds. A ring between nodes posts each of its steps within one, too: none is shorter than NCCL's
// getNetOverhead (tuning.cc:228), 1 us, and 3 of Simple. Calls made of sends and receives between nodes have Simple
// only: NCCL allocates no LL buffers for them (src/init.cc:859, NCCL_ALLOC_P2P_NET_LL_BUFFERS). Lines are those of NCCL
// @5067397. Cost: O(1).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/algorithm.h"
#include "models/time/machine.h"

namespace meshbed::models {

enum class CollectiveProtocol : std::uint8_t { kLl, kLl128, kSimple };
enum class CollectiveAlgorithm : std::uint8_t {
  kRing,
  kTree,
  kDirect,   // everyone to everyone at once, all_reduce as n-1 whole buffers; only where it is forced
  kTwoShot,  // an all_reduce as reduce_scatter and all_gather, each everyone to everyone; only where it is forced
};
const char* name_of(CollectiveProtocol protocol);
const char* name_of(CollectiveAlgorithm algorithm);

/// What variables of NCCL's forbid or limit of its own choice (nccl_settings.h).
struct CollectiveLimits {
  std::uint8_t refused_protocols = 0;   // a bit each, by CollectiveProtocol
  std::uint8_t refused_algorithms = 0;  // likewise; those of CollectiveAlgorithm that are NCCL's
  int most_channels = 0;                // 0: as many as the class has
  std::uint64_t buffer_bytes = 0;       // of a channel; 0: NCCL's 4 MiB
};

struct CollectiveCall {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;  // two or more
  int nodes = 2;
  std::uint64_t bytes = 0;
  std::optional<CollectiveProtocol> protocol{};    // forced
  std::optional<CollectiveAlgorithm> algorithm{};  // forced
  bool eager = false;                              // launched by itself, where the machine's usual is a graph
  bool barrier = false;                            // the kernel meets all others before and behind its work
  int iterations = 0;                              // of the test of nccl-tests that it is one of; 0: of none
  CollectiveLimits limits{};
};

struct TimePart {
  const char* name;
  double us = 0;
};

struct CollectiveTime {
  CollectiveProtocol protocol = CollectiveProtocol::kSimple;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  std::vector<TimePart> parts;
  double us = 0;  // their sum
};

/// Of the node that has most.
int ranks_of_node(const CollectiveCall& call);

/// A library makes them of sends and receives, one for each peer.
bool is_of_pairs(const CollectiveCall& call);
/// Whether a tree is a choice at all.
bool may_tree(const CollectiveCall& call);

/// Dependent steps of the call by a ring: all, and those of them between nodes.
struct Steps {
  double all = 0, between_nodes = 0;
};
Steps steps_of(const CollectiveCall& call, CollectiveAlgorithm algorithm);

/// Hops on average from a node of a ring to each other one, the shorter way round: N^2 / (4 (N-1)) of an even N, else
/// (N+1) / 4.
double mean_ring_hops(int nodes);

/// W: bytes that a node sends to others, or a rank where there is one node only. Of an alltoall around a ring, with
/// those that it forwards for others.
double sent_bytes(const CollectiveCall& call, CollectiveAlgorithm algorithm, Cabling cabling);

/// Never more than that of a larger call, but for kinds and sizes that the class was fitted to: where thresholds or
/// tables say so, the larger call's way and parts.
CollectiveTime collective_time(const Machine& machine, const CollectiveCall& call);
/// The same without its parts.
double collective_us(const Machine& machine, const CollectiveCall& call);
/// By the way that the machine takes for this size, although a larger call may take less: for searches, which ask
/// often.
double collective_us_of_size(const Machine& machine, const CollectiveCall& call);
/// The estimate of NCCL's cost table for the cheapest way: launch, hops and wire, with all channels.
double cost_table_us(const Machine& machine, const CollectiveCall& call);

}  // namespace meshbed::models
