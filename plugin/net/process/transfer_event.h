#pragma once
// The data of an event of type NetPlugin, by which the net plugin reports a transfer to NCCL's profiler plugins.
// Self-contained; C and C++.
//
// An event begins when a send or a receive is posted, one for each part of a grouped receive. It ends exactly once:
// when the request completes or fails, or when its connection is closed first. It exists only if NCCL gave a parent
// (phandle), and ends only if the profiler gave a handle for it. The callback runs on the thread that moves the
// transfer: NCCL's progress thread, or the plugin's service thread while a connection that lost its cable is resumed.
// The record does not move from the beginning to the end of its event; its last two fields are filled in before the
// end.

#include <stdint.h>

/// The pluginId of these events: type 'M' (77) in the upper bits, version in the lower 16.
#define MESHBED_TRANSFER_EVENT_ID ((INT64_C(77) << 16) | 1)

/// Version 1. Later versions only add fields at the end, which `record_bytes` shows.
typedef struct MeshbedTransferEvent {
  uint32_t record_bytes;  // sizeof of what the plugin wrote
  uint8_t sends;          // 1: a send, 0: a receive
  uint8_t relayed;        // 1: the peer is reached through relays
  uint8_t part, parts;    // of a grouped receive; sends: 0, 1
  int32_t tag;            // NCCL's
  uint32_t qp, peer_qp;   // queue pair numbers, of the next hop; 0: over TCP
  uint64_t size_bytes;    // sends: of the message; receives: of the buffer
  char nic[16];           // ours, truncated; over TCP the network interface
  char peer_address[48];  // of the next hop, as text
  uint64_t moved_bytes;   // when it has ended: of the message
  int32_t failed;         // when it has ended: 0: done, 1: failed or closed before
  int32_t reserved;
} MeshbedTransferEvent;
