#pragma once
// RingTrace: what the slots of all ranks did, in the order in which it happened: slots.csv of a results folder, part of
// the run's digest, and what the proof reads that every message went its way in order.

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
  kSignal,   // it may go, and raises the other's flag
  kWait,     // the flag was seen
  kRun,      // any other operation came to its end
  kDone,     // the slot's status says so
  kYield,
  kRequeue,
  kFault,
  kAbandoned,  // claimed, masked meanwhile: nobody will look at it again
  kCredit,     // its descriptor finds no room in the proxy's queue: from here on the lane waits for one
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
  Picoseconds arrived_ps = -1;  // when the host had it, and may have had no slot for it
};

class RingTrace {
 public:
  void add(const RingEvent& event) { events_.push_back(event); }
  const std::vector<RingEvent>& events() const { return events_; }

  std::string csv() const;
  void add_to(sim::Digest& digest) const;
  /// Each message that was waited for: claim, put and signal at its source, wait and done at its destination.
  sim::Proof in_order() const;

 private:
  std::vector<RingEvent> events_;
};

}  // namespace meshbed::testbed
