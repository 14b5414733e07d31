#pragma once
// Devices: what a process sees of its node's NICs, and the contexts it opened on them with their asynchronous events.
//
// A device index is the position of the NIC in its node. Every device has one port and one partition key.

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "models/cluster.h"
#include "sim/engine/world.h"
#include "sim/verbs/backend.h"

namespace meshbed::sim::verbs {

struct System;

// Limits, as ibv_query_device reports them. Sizes follow current 100-400 Gb/s adapters; max_sge and inline are the back
// end's own (backend.h).
inline constexpr int kQueuePairsMax = 1 << 20;
inline constexpr std::uint32_t kWorkRequestsMax = 32768;  // of each queue of a queue pair
inline constexpr int kCompletionsMax = (1 << 22) - 1;     // of a completion queue
inline constexpr int kMemoryRegionsMax = (1 << 24) - 1;
inline constexpr std::uint8_t kReadAtomicMax = 16;  // outstanding reads and atomics, each way
inline constexpr std::uint32_t kMessageBytesMax = 1U << 30;

struct Context {
  std::uint32_t handle = 0;
  Process* process = nullptr;
  models::PortRef port;
  int async_fd = -1;
  std::deque<BackendAsyncEvent> events;
  std::vector<Thread*> waiting;  // in get_async_event
};

const models::Nic& nic_of(const System& system, models::PortRef port);
/// The GID table's entry at `index`; nullptr where it is empty.
const models::GidEntry* gid_at(const models::Nic& nic, std::uint32_t index);
bool has_gid(const models::Nic& nic, const models::RawGid& gid);
ibv_mtu active_mtu(const models::Nic& nic);
constexpr std::uint32_t mtu_bytes(ibv_mtu mtu) { return 128U << mtu; }

int query_device(const System& system, models::PortRef port, ibv_device_attr& attr);
int query_port(const System& system, models::PortRef port, std::uint8_t number, ibv_port_attr& attr);
/// ENODATA: an empty entry of the table; EINVAL: outside of it.
int query_gid(const System& system, models::PortRef port, std::uint8_t number, int index, ibv_gid_entry& entry);

int open_device(System& system, Process& process, int device, std::uint32_t& context);
/// Destroys what the context still owns, as the kernel does when the file is closed.
int close_device(System& system, Context& context);

/// Queues an event; `object` is a QP number, CQ handle or port number.
void raise_event(System& system, Context& context, ibv_event_type type, std::uint32_t object);
/// Drops the events about an object that is being destroyed.
void forget_events(System& system, Context& context, bool completion_queue, std::uint32_t object);
/// Blocks until there is one, unless `block` is false or the descriptor is non-blocking: EAGAIN.
int get_async_event(System& system, std::uint32_t context, bool block, BackendAsyncEvent& event);

}  // namespace meshbed::sim::verbs
