#pragma once
// Calls of NCCL's interface by a rank's program, with their virtual times: what the program imports or looks up by name
// (ncclAllReduce, ...) leads over functions that keep the call and then call the library's. Times are of the calls, as
// the program's thread sees them: work that a call puts into a stream may end later.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plugin/base/units.h"

namespace meshbed::sim {

struct ProcessState;

struct NcclCall {
  int rank = 0;
  const char* name = "";     // "ncclAllReduce"
  std::uint64_t thread = 0;  // within the process, from 1
  Picoseconds start_ps = 0;
  Picoseconds end_ps = -1;  // -1: it did not return
  std::uint64_t count = 0;  // of elements, as the call's argument
  int datatype = -1;        // ncclDataType_t; -1: the call has none
  int peer = -1;            // or the root; -1: the call has none
};

struct NcclCalls {
  static constexpr std::size_t kMost = 1'000'000;
  std::vector<NcclCall> calls{};  // in the order of their starts
  std::uint64_t lost = 0;         // over the most
};

/// What the program calls as `name` where calls are kept (HostOptions::nccl_calls), in place of the library's
/// `function`; nullptr where they are not, or `name` is not a call of NCCL's that takes part.
void* kept_nccl_call(ProcessState& state, std::string_view name, void* function);

}  // namespace meshbed::sim
