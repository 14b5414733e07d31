#pragma once
// Call signature: what all ranks of a communicator must have in common for their n-th collective operation. Pure.
//
// It travels as the tag of every message of the operation: a receiver announces its tag, a sender that has another one
// finds no receive of its own, and nothing is written. So ranks that call different operations never mix their data;
// they wait, and what each of them called is compared (call_ledger.h).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/plan.h"

namespace meshbed::coll {

struct CallSignature {
  enum class Kind : std::uint8_t { kCollective, kBarrier, kPairs };
  std::uint64_t number = 0;  // of the collective operations of its communicator, from 1; 0: pairs, which have none
  std::uint64_t count = 0;   // elements, as plan.h has them
  std::int32_t root = -1;    // -1: the operation has none
  Kind kind = Kind::kCollective;
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;  // kSum where nothing is reduced
  bool operator==(const CallSignature&) const = default;
};

/// Leaves out what the collective does not look at.
CallSignature signature_of(std::uint64_t number, Collective collective, DataType type, ReduceOp op, int root,
                           std::uint64_t count);
CallSignature barrier_signature(std::uint64_t number);
CallSignature pairs_signature();

/// "all_reduce 1, 1 MiB float sum", "broadcast 2, 12 bytes int32, root 0", "barrier 3", "send_recv".
std::string to_text(const CallSignature& signature);
/// "all_reduce 1"
std::string short_text(const CallSignature& signature);

/// Of the messages of a collective. Two signatures that differ in kind, type or reduction, or in one other field by
/// less than 2^17, have different tags; any other two have the same with a probability of 2^-19. Never below 2^30, so
/// that no tag of a pair (a rank) is one.
int tag_of(const CallSignature& signature);

/// The last calls of a rank, the one under way first.
std::string encode_calls(const std::vector<CallSignature>& calls);
/// nullopt: not encode_calls()'s, or more than kCallsReported.
std::optional<std::vector<CallSignature>> decode_calls(std::string_view text);
inline constexpr std::size_t kCallsReported = 16;

}  // namespace meshbed::coll
