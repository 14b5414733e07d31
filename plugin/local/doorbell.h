#pragma once
// Doorbell: what wakes the thread that polls for a communicator, in memory that its peers map as well.
//
// Ranks may outnumber processors, so that whoever has nothing to do must not spin. A peer that has done something for
// us counts on our bell, which costs no system call while nobody sleeps. Whoever sleeps wakes after a millisecond by
// himself: a peer that dies rings no more.

#include <cstdint>
#include <memory>

#include "plugin/base/result.h"
#include "plugin/local/shared_memory.h"

namespace meshbed::local {

class Doorbell {
 public:
  static Result<Doorbell> create();
  /// A peer's.
  static Result<Doorbell> map(Descriptor descriptor);

  int descriptor() const { return memory_.descriptor.number(); }
  void ring() const;
  std::uint32_t times_rung() const;
  /// Returns when it was rung more often than `seen`, or after a millisecond.
  void wait(std::uint32_t seen) const;

 private:
  struct Page;
  explicit Doorbell(SharedMemory memory) : memory_(std::move(memory)) {}
  Page& page() const;

  SharedMemory memory_;
};

}  // namespace meshbed::local
