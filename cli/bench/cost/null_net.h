#pragma once
// Null net: an ncclNet v11 plugin in the program itself ("STATIC_PLUGIN") that moves no data: each request is accepted
// at once and done at its first test, with the size that was posted. So the measured cost is the engine's own.

namespace meshbed::cost {

/// The table's functions are named so, for callgrind to leave them out.
inline constexpr const char* kNullNetPrefix = "null_net_";

/// What the engine's progress thread does for a call: plugin/coll/run/executor.h. Not what comes before and after it,
/// once a call.
inline constexpr const char* kEngineWorkPrefix = "meshbed::coll::execute";

}  // namespace meshbed::cost
