#pragma once
// Tuning table: measured choices that replace the cost function, for operations whose algorithm or protocol is "auto".
// Pure.
//
// Lines as NCCL's example tuner reads them (plugins/tuner/example/README.md); the first that fits counts, and where
// none does the cost function:
//   collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]
// allreduce, allgather, reducescatter, broadcast, reduce, alltoall, gather, scatter. Bytes as nccl-tests counts them,
// both ends included: of an allgather the whole output, of a reducescatter or alltoall the whole input. The algorithms
// are the engine's (algorithm.h), the protocols protocol.h's. nRanks -1: any. Channels, nodes, pipelines and registered
// buffers are not the engine's to choose or to know: they are -1. '#' begins a comment; a line that begins with
// collective_type is a heading.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/protocol.h"

namespace meshbed::coll {

struct TuningRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes_min = 0, bytes_max = UINT64_MAX;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  int ranks = -1;
  bool operator==(const TuningRow&) const = default;
};
using TuningTable = std::vector<TuningRow>;

/// Errors name line and field.
Result<TuningTable> parse_tuning(std::string_view text);
/// One line, with its end.
std::string to_text(const TuningRow& row);
/// Of columns: a heading for a table's begin.
std::string tuning_heading();

/// Bytes of an operation as the table counts them.
std::uint64_t tuned_bytes(const PlanRequest& request);
/// nullptr: the table has no matching line.
const TuningRow* find_row(const TuningTable& table, const PlanRequest& request);

}  // namespace meshbed::coll
