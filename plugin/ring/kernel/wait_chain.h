#pragma once
// WaitChain: the waits between slots when megakernels make no progress, over all ranks' rings at one moment: the
// shortest cycle of slots that wait for each other or, if there is none, the shortest path from a waiting slot to its
// end, which will never act.
//
// Nomenclature
//   node   a slot that is not done: rank, ring, slot; its block is the lane that has claimed it or would have to
//   tag    of a message: connection, and its number on it; two ends number a connection each for itself
//   edge   a slot waits for another one, and for all that it waits for: a slot it names (kAfter, kAlsoAfter), the
//          SIGNAL of the message that its WAIT waits for, the slot that its block is at meanwhile
//   end    a state that no slot will change: a faulted slot, a masked tenant, a stopped kernel, a block that has no
//          place, a queue pair that does not deliver
//
// Of a priority kernel, whose blocks look at each level's slots, a published slot's block is the one that scans it.
// Pure; for moments at which nothing is under way. Every cycle has a claimed slot, so the search begins at those: cost
// slots + (claimed slots) x (slots that are not done).

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugin/ring/kernel/mesh_ops.h"

namespace meshbed::ring {

/// "PUT", "SIGNAL": opcode_name() has no names for the operations of mesh_ops.h, which are a user's to it.
std::string operation_name(Word op);

/// A connection's other end, as it is numbered there.
struct PeerConnection {
  int rank = -1;
  int ring = 0;
  Word connection = 0;
};

/// One ring as it stands; the pointers are the caller's.
struct RingWaits {
  int rank = 0, ring = 0;
  const Kernel* kernel = nullptr;
  std::span<const KernelLane> lanes;
  MeshBoard board;
  std::vector<PeerConnection> sends, receives;  // by connection
  std::vector<Word> completed;                  // by sending connection: puts that may be overwritten
  std::vector<bool> resident;                   // by lane: has a place on the GPU; empty: all have
  std::string stands_still;                     // why no lane of it does anything, "stopped after 5 slots"; empty: may
};

struct WaitLink {
  int rank = 0, ring = 0;
  Word slot = 0;
  Word opcode = 0;
  std::optional<Word> block;  // that has claimed it; nothing: published
  std::string text;           // what it waits for
};

struct WaitChain {
  bool is_cycle = false;        // the last link waits for the first one
  std::vector<WaitLink> links;  // none: nothing waits
  /// In one line; empty where nothing waits.
  std::string text() const;
};

/// Equal rings give the same chain: ties go to the lower rank, ring and slot.
WaitChain shortest_wait_chain(std::span<const RingWaits> rings);

}  // namespace meshbed::ring
