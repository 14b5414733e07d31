#pragma once
// Doorbell: wakes the thread that polls for a communicator, in memory that its peers map as well.
//
// There may be more ranks than processors, so an idle thread must not spin. A peer that has done something for us
// increments our bell's counter, which costs no system call while no thread sleeps. A sleeping thread wakes by itself
// after a millisecond, because a peer that dies does not ring.

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
