#pragma once
// Plugin log: the logger that we hand to a net plugin's init. NCCL's logger carries no context, so this is one board
// per copy of the library: it prints what the level admits and keeps the last WARN, which is the plugin's own reason
// for the error code that follows ("no path: ..."). Any thread.

#include <cstdint>
#include <string>

#include "plugin/nccl/net_abi.h"

namespace meshbed::coll {

/// Lines of plugins come with `rank`, at the level of NCCL_DEBUG: INFO and TRACE admit more than warnings.
void begin_plugin_log(int rank);

/// An ncclDebugLogger_t.
nccl::LogFunction plugin_logger();

/// Counts WARN lines; note it before a call, to ask afterwards what was said since.
std::uint64_t warn_count();
/// The last WARN line after the first `since` ones; empty where there is none.
std::string last_warn(std::uint64_t since);

}  // namespace meshbed::coll
