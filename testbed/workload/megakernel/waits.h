#pragma once
// RingRegistry: the active rings of a run, so that a host that detects no progress can report the chain of waits over
// all of them (plugin/ring/kernel/wait_chain.h).

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/ring/kernel/wait_chain.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

struct RingAtWork {
  int rank = 0, ring = 0;
  const RingBuffers* buffers = nullptr;
  const RingKernel* kernel = nullptr;
  const RingProxy* proxy = nullptr;  // nullptr: it has no connections
  const coll::SlotProgram* program = nullptr;
};

class RingRegistry {
 public:
  /// A ring is listed as long as this lives.
  class Entry {
   public:
    Entry(RingRegistry& registry, const RingAtWork& ring) : registry_(registry), key_(ring.rank, ring.ring) {
      registry.rings_[key_] = ring;
    }
    ~Entry() { registry_.rings_.erase(key_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    RingRegistry& registry_;
    std::pair<int, int> key_;
  };

  /// As they stand now.
  ring::WaitChain waits() const;
  /// "rank 3 has written 2 WQEs for rank 0, and not rung the doorbell".
  std::vector<std::string> doorbells() const;

 private:
  std::map<std::pair<int, int>, RingAtWork> rings_;  // by rank and ring
};

}  // namespace meshbed::testbed
