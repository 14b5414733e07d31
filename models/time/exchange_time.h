#pragma once
// Exchange time: what a matrix of point-to-point messages takes, with all sends and receives in one group. Pure.
//
// Nomenclature: n ranks on N nodes, rank r on node r / (n/N rounded up); m(i,j) - bytes from rank i to rank j, of which
// m(i,i) stays on its GPU and costs nothing here; relay - a node that forwards messages of two others; carrier - what
// messages share: a node's adapters in one direction, one rank's part of them, what joins two nodes in one direction,
// a trunk or router (exchange_fabric.h), or a rank's links within its node.
// Time = that of the uniform call (collective_time.h) whose busiest carrier has as many bytes: sendrecv where no rank
// sends to or receives from more than one other rank, else alltoall; with the peers of the rank that has most, and with
// wire_us for each relay of the longest way. So a matrix of equal entries is an alltoall and a permutation a sendrecv,
// but for relays, which those models do not have.
// Grouped sends and receives go out together: NCCL runs 8 of them at a time in each channel (v2.30.7-1,
// src/include/device.h:391, src/enqueue.cc:1051), and lowers the channels of a peer until all peers fit into one round
// (src/graph/paths.cc:993). So one hop is counted for any number of peers.
//
// A carrier's load: all bytes that cross it. Messages between nodes without a path of their own take a shortest way; of
// several, the one that adds least to the sum of all hops' and relays' squared times, which balances them. A relay's
// adapters have its forwarded bytes in both directions. Links within a node count where the profile has their rate, and
// where no byte leaves a node.
//
// Not modelled: ranks that start late, and messages of one rank that wait for one another.
// Cost: O(n^2), and for each pair of nodes without a path of its own O(hops of the cabling).

#include <cstdint>
#include <string>
#include <vector>

#include "models/time/collective_time.h"
#include "models/time/exchange_fabric.h"
#include "models/time/interval.h"
#include "plugin/base/result.h"

namespace meshbed::models {

/// Bytes from each rank to each.
struct ExchangeMatrix {
  int ranks = 0;
  std::vector<std::uint64_t> bytes;  // [from * ranks + to]

  std::uint64_t at(int from, int to) const {
    return bytes[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)];
  }
};

/// The busiest carrier.
struct ExchangeLoad {
  std::string what;             // "adapters of rank 2, out"
  std::uint64_t bytes = 0;      // that cross it
  std::uint64_t forwarded = 0;  // of them, of other nodes' messages
  double GBps = 0;              // that it reaches; 0: of links within a node without a rate of their own
};

struct ExchangeTime {
  CollectiveCall as;     // the uniform call that it is predicted as
  bool is_call = false;  // it is that call: all entries but the diagonal are equal, or it is a permutation
  std::vector<TimePart> parts;
  double us = 0;
  double bound_us = 0;  // no library takes less: bytes without headers over the line's rates, no launch, no hop
  ExchangeLoad busiest;
  int most_peers = 0;                          // of a rank
  int relays = 0;                              // of the longest way
  bool split = false;                          // over equal trunks, of which a hash of flows may use fewer
  std::uint64_t bytes = 0, between_nodes = 0;  // of all messages to other ranks, and of those to other nodes
};

/// Refused where the matrix has no byte for another rank, where the fabric has no way between two nodes that exchange
/// bytes, and for a machine of single messages or experts.
Result<ExchangeTime> exchange_time(const Machine& machine, const ExchangeMatrix& matrix, const ExchangeFabric& fabric);

/// That of the uniform call where the matrix is one; else that of an operation which was not measured on its ranks.
/// `standing`: kNearClass on a fabric that is not the class's own.
Interval interval_of(const Machine& machine, const ExchangeTime& time, Standing standing = Standing::kOwnClass);

}  // namespace meshbed::models
