#pragma once
// What the net plugin tells NCCL's profiler of a transfer: the data of an event of type NetPlugin, for profiler plugins
// to read. Self-contained; C and C++.
//
// An event begins when a send or a receive is posted, one for each part of a grouped receive, and ends when it is done,
// when it failed, or when its connection is closed under it: once in any case. It exists only where NCCL gave a parent
// (phandle), and ends only where the profiler gave a handle for it. The callback is called where the transfer moves: on
// NCCL's progress thread, and on the plugin's service thread while a connection that lost its cable is taken up again.
// The record stays where it is from the beginning to the end of its event, and its last two fields are filled in before
// the end.

#include <stdint.h>

/// The pluginId of these events: type 'M' (77) in the upper bits, version in the lower 16.
#define MESHBED_TRANSFER_EVENT_ID ((INT64_C(77) << 16) | 1)

/// Version 1. Later ones only add fields at the end, and say so by `record_bytes`.
typedef struct MeshbedTransferEvent {
  uint32_t record_bytes;  // sizeof of what the plugin wrote
  uint8_t sends;          // 1: a send, 0: a receive
  uint8_t relayed;        // 1: the peer is reached through relays
  uint8_t part, parts;    // of a grouped receive; sends: 0, 1
  int32_t tag;            // NCCL's
  uint32_t qp, peer_qp;   // queue pair numbers, of the next hop; 0: over TCP
  uint64_t size_bytes;    // sends: of the message; receives: of the buffer
  char nic[16];           // ours, cut off where it is longer; over TCP the network interface
  char peer_address[48];  // of the next hop, as text
  uint64_t moved_bytes;   // when it has ended: of the message
  int32_t failed;         // when it has ended: 0: done, 1: failed or closed before
  int32_t reserved;
} MeshbedTransferEvent;
