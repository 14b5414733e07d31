#pragma once
// A collective's size in elements, as nccl-tests counts, and the names of types, reductions, algorithms and protocols.

#include <cstdint>
#include <string>
#include <vector>

#include "models/algorithm.h"
#include "plugin/coll/plan/datatype.h"

namespace meshbed::testbed {

/// What shares are rounded down to, as nccl-tests does.
inline constexpr std::uint64_t kShareBytes = 16;

/// What a case comes to in elements. Operations on a share of each rank's round down to shares of 16 bytes a rank, as
/// nccl-tests does.
struct CollectiveShape {
  std::uint64_t count = 0;       // nccl-tests' `count` column: what the caller passes
  std::uint64_t send_count = 0;  // elements that one rank gives
  std::uint64_t recv_count = 0;  // elements that one rank gets
  std::uint64_t bytes = 0;       // nccl-tests' `size` column: the larger of the two
};
CollectiveShape shape_of(models::Collective op, std::uint64_t bytes, int ranks,
                         coll::DataType type = coll::DataType::kFloat32);
/// The same of `count` elements that the caller passes.
CollectiveShape shape_of_count(models::Collective op, std::uint64_t count, int ranks, coll::DataType type);
/// The fewest bytes of which every rank has an element.
std::uint64_t smallest_bytes(models::Collective op, int ranks, coll::DataType type = coll::DataType::kFloat32);

/// nccl-tests' names.
std::vector<std::string> data_type_names();
std::vector<std::string> reduction_names();
std::vector<std::string> algorithm_names();  // of the engine, and "auto"
std::vector<std::string> protocol_names();   // likewise
/// Of these; throw std::runtime_error, with `option` and what is accepted, for another.
coll::DataType parse_data_type(const std::string& option, const std::string& name);
coll::ReduceOp parse_reduction(const std::string& option, const std::string& name);

}  // namespace meshbed::testbed
