#pragma once
// Host services: what a rank's own files (net plugin, collective engine) see instead of libc's sockets, threads,
// clocks, interfaces, sysfs and environment. cli/ and tests meet sim/host here.
//
// Each rank gets its own copy of a file through a memfd and dlopen(RTLD_LOCAL); only that copy's GOT entries are
// redirected, in memory. The bytes loaded are the bytes on disk (loaded_sha256 proves it).

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/engine/world.h"
#include "sim/host/load/nccl_calls.h"

namespace meshbed::sim {

struct HostOptions {
  /// Names that a rank's dlopen(), or one of its files, asks for, and what they are: "libnccl-net-mesh.so" -> build/...
  /// Any absolute path is loaded as it is (copied and redirected likewise).
  std::map<std::string, std::string> libraries;
  /// Bytes that one direction of a TCP connection holds, on the wire and unread, before its writer must wait.
  std::size_t tcp_window_bytes = std::size_t{4} << 20U;
  /// Where the programs' calls of NCCL are kept; must outlive the World. nullptr: they are not kept.
  NcclCalls* nccl_calls = nullptr;
};

struct HostCounters {
  std::uint64_t copies = 0;                 // files loaded for ranks
  std::uint64_t redirected_symbols = 0;     // GOT entries changed
  std::uint64_t management_bytes = 0;       // payload over simulated sockets
  std::uint64_t largest_segment_bytes = 0;  // of TCP: one write, as much of it as was taken
  std::uint64_t open_descriptors = 0;       // of all ranks, now and at most
  std::uint64_t peak_descriptors = 0;
  std::uint64_t live_threads = 0;  // that the files of ranks started: neither joined nor, detached, at their end
  // Of connections that strangers began (sim/fault/strangers.h); none of their bytes are in management_bytes.
  std::uint64_t stranger_connections = 0;  // begun
  std::uint64_t stranger_bytes = 0;        // sent
  std::uint64_t strangers_held = 0;        // accepted by ranks and not closed, now and at most
  std::uint64_t peak_strangers_held = 0;
};

/// Prepares host services for `world`; must outlive it.
void install_host(World& world, HostOptions options);

/// Loads a copy of `path` for the current process (call from one of its threads) or for `process`, redirects it, and
/// returns the dlopen handle; throws std::runtime_error with dlerror()'s text. The same path again gives the same copy.
void* load_for(Process& process, const std::string& path);
/// The copy that `process` has of `path`; nullptr if none was loaded for it.
void* loaded_by(Process& process, const std::string& path);
/// dlsym on such a handle; nullptr where it has no such symbol.
void* symbol_of(void* handle, const char* name);

/// SHA-256 (hex) of the bytes that were loaded for `path`, as read back from the mapping's own memfd. Empty: not
/// loaded.
std::string loaded_sha256(const std::string& path);

const HostCounters& host_counters();

/// The result of getpid() in `process`, and of gettid() in the calling simulated thread.
std::uint32_t process_id_of(const Process& process);
std::uint32_t current_thread_id();

}  // namespace meshbed::sim
