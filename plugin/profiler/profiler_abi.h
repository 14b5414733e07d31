#pragma once
// The ncclProfiler plugin ABI as C-layout types, versions 5 (NCCL 2.28 on) and 6 (NCCL 2.30 on), which differ in what
// only copy engines do. Written from the ABI's facts (NCCL v2.30.7-1, src/include/plugin/profiler/profiler_v5.h and
// profiler_v6.h); every offset is asserted. NCCL looks for the newest first.
//
// Threads: init and finalize on the thread that makes or ends a communicator; collectives and messages are announced on
// the thread that calls ncclGroupEnd.

#include <cstddef>
#include <cstdint>

#include "plugin/nccl/net_abi.h"

namespace meshbed::profiler {

/// Bits of the mask that init sets: which events NCCL announces.
inline constexpr std::uint64_t kCollective = 1U << 1U, kMessage = 1U << 2U, kCall = 1U << 9U;

struct CollectiveEvent {
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
struct MessageEvent {
  const char* operation;  // "Send", "Recv"
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};
/// A collective as the program called it, before NCCL decides anything.
struct CallEvent {
  const char* operation;  // "Broadcast"
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct Event {
  std::uint64_t type;  // one bit
  void* parent;
  int rank;
  union {
    CollectiveEvent collective;
    MessageEvent message;
    CallEvent call;
  };
};
static_assert(offsetof(Event, collective) == 24 && offsetof(CollectiveEvent, count) == 32);
static_assert(offsetof(CollectiveEvent, datatype) == 48 && offsetof(CollectiveEvent, channels) == 56);
static_assert(offsetof(CollectiveEvent, algorithm) == 64 && offsetof(CollectiveEvent, protocol) == 72);
static_assert(offsetof(MessageEvent, count) == 24 && offsetof(MessageEvent, peer) == 32);
static_assert(offsetof(MessageEvent, channels) == 36);
static_assert(offsetof(CallEvent, datatype) == 16 && offsetof(CallEvent, root) == 24);

/// Of both versions.
struct Profiler {
  const char* name;
  int (*init)(void** context, std::uint64_t comm_id, int* events, const char* comm_name, int nodes, int ranks, int rank,
              nccl::LogFunction log);
  int (*start_event)(void* context, void** handle, const Event* event);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

}  // namespace meshbed::profiler

#define MESHBED_EXPORT extern "C" __attribute__((visibility("default")))

MESHBED_EXPORT const meshbed::profiler::Profiler ncclProfiler_v5;
MESHBED_EXPORT const meshbed::profiler::Profiler ncclProfiler_v6;

/// What NCCL has decided in this process as one line of JSON (docs/nccl.md), in the order in which each was first met.
/// Writes as much as `size_bytes` takes, with a final zero; returns the length of the whole text.
MESHBED_EXPORT std::size_t meshbedNcclDecisions(char* text, std::size_t size_bytes);
