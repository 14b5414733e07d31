#pragma once
// Plugin log: the logger that we hand to a net plugin's init. NCCL's logger carries no context, so this is one board
// per copy of the library: it prints what the level admits and keeps the last WARN, which is the plugin's own reason
// for the error code that follows ("no path: ..."). Any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "plugin/base/log.h"
#include "plugin/nccl/net_abi.h"

namespace meshbed::coll {

/// Lines of plugins come with `rank`, at the level of NCCL_DEBUG: INFO and TRACE admit more than warnings.
void begin_plugin_log(int rank);

/// One of several ranks that share this copy.
struct Speaker {
  int rank = -1;
  const char* debug = nullptr;  // its NCCL_DEBUG; nullptr: not set
};
/// If ranks share this copy: the rank of the calling thread, which then prints at its own level. nullopt: no rank's
/// thread.
using SpeakerOfThread = std::optional<Speaker> (*)();
void set_speaker_of_thread(SpeakerOfThread find);

/// Receives the lines instead of the log, without the rank; any thread. `level`: a LogLevel.
using PluginLogWriter = void (*)(void* context, int level, int rank, const char* text);
/// nullptr: the log again. The context must live as long.
void set_plugin_log_writer(PluginLogWriter writer, void* context);

/// What a value of NCCL_DEBUG admits. Its case does not matter to NCCL either.
LogLevel plugin_log_level(const char* debug);

/// An ncclDebugLogger_t.
nccl::LogFunction plugin_logger();

/// The number of WARN lines; read it before a call, for last_warn() after it.
std::uint64_t warn_count();
/// The last WARN line after the first `since` ones; empty where there is none.
std::string last_warn(std::uint64_t since);

}  // namespace meshbed::coll
