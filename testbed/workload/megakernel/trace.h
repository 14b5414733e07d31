#pragma once
// RingTrace: the events of all ranks' slots, in the order in which they happened. It is slots.csv of a results folder,
// part of the run's digest, and the input of the proof that every message passed its steps in order.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/units.h"
#include "plugin/ring/kernel/mesh_ops.h"
#include "sim/trace/digest.h"
#include "sim/trace/proof.h"

namespace meshbed::testbed {

enum class RingEventKind : std::uint8_t {
  kPublish,  // by the host
  kClaim,    // by a lane
  kPut,      // a slot's message is given to the proxy
  kSignal,   // the message may be sent; it raises the receiver's flag
  kWait,     // the flag was seen
  kRun,      // any other operation has ended
  kDone,     // the slot's status says so
  kYield,
  kRequeue,
  kFault,
  kAbandoned,  // claimed, then its tenant was masked: no lane will look at it again
  kCredit,     // no room for its descriptor in the proxy's queue: the lane starts to wait for a credit
};
const char* name_of(RingEventKind kind);

struct RingEvent {
  Picoseconds at_ps = 0;
  int rank = 0, ring = 0;
  std::uint32_t slot = 0, opcode = 0;
  RingEventKind kind = RingEventKind::kPublish;
  // Of PUT, SIGNAL and WAIT; else -1 and 0.
  int source = -1, destination = -1, channel = 0;
  std::uint32_t epoch = 0, message = 0;
  // Of PUBLISH; else -1.
  int tenant = -1, priority = -1;
  Picoseconds arrived_ps = -1;  // when the host received it, possibly before it had a free slot
};

class RingTrace {
 public:
  void add(const RingEvent& event) { events_.push_back(event); }
  const std::vector<RingEvent>& events() const { return events_; }

  std::string csv() const;
  void add_to(sim::Digest& digest) const;
  /// For each message with a wait: claim, put and signal at its source, wait and done at its destination.
  sim::Proof in_order() const;

 private:
  std::vector<RingEvent> events_;
};

}  // namespace meshbed::testbed
