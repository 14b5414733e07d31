#pragma once
// The ncclProfiler plugin ABI, of what loads a profiler and of a profiler itself, as C-layout types, versions 5
// (NCCL 2.28 on) and 6 (NCCL 2.30 on), which differ in what only copy engines do. Written from the ABI's facts (NCCL
// v2.30.7-1, src/include/plugin/profiler/profiler_v5.h and profiler_v6.h); every offset is asserted. NCCL looks for the
// newest first.
//
// Threads: init and finalize on the thread that makes or ends a communicator; collectives and messages are announced on
// the thread that calls ncclGroupEnd.

#include <cstddef>
#include <cstdint>

#include "plugin/nccl/net_abi.h"

namespace meshbed::nccl {

/// Bits of the mask that init sets: which events NCCL announces.
inline constexpr std::uint64_t kProfileCollective = 1U << 1U, kProfileMessage = 1U << 2U, kProfileCall = 1U << 9U;

struct ProfilerCollective {
  std::uint64_t sequence;
  const char* operation;  // "AllReduce"
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;  // "ncclFloat32"
  std::uint8_t channels, warps;
  const char* algorithm;  // "RING"
  const char* protocol;   // "LL128"
  void* group;
};
struct ProfilerMessage {
  const char* operation;  // "Send", "Recv"
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};
/// A collective as the program called it, before NCCL decides anything.
struct ProfilerCall {
  const char* operation;  // "Broadcast"
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct ProfilerEvent {
  std::uint64_t type;  // one bit
  void* parent;
  int rank;
  union {
    ProfilerCollective collective;
    ProfilerMessage message;
    ProfilerCall call;
  };
};
static_assert(offsetof(ProfilerEvent, collective) == 24 && offsetof(ProfilerCollective, count) == 32);
static_assert(offsetof(ProfilerCollective, datatype) == 48 && offsetof(ProfilerCollective, channels) == 56);
static_assert(offsetof(ProfilerCollective, algorithm) == 64 && offsetof(ProfilerCollective, protocol) == 72);
static_assert(offsetof(ProfilerMessage, count) == 24 && offsetof(ProfilerMessage, peer) == 32);
static_assert(offsetof(ProfilerMessage, channels) == 36);
static_assert(offsetof(ProfilerCall, datatype) == 16 && offsetof(ProfilerCall, root) == 24);

/// Of both versions.
struct Profiler {
  const char* name;
  int (*init)(void** context, std::uint64_t comm_id, int* events, const char* comm_name, int nodes, int ranks, int rank,
              LogFunction log);
  int (*start_event)(void* context, void** handle, const ProfilerEvent* event);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

}  // namespace meshbed::nccl
