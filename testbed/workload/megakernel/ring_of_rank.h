#pragma once
// QueueRing, ProgramRing: all parts of one ring of a rank. The parts refer to each other and are not moved.

#include <utility>

#include "testbed/workload/megakernel/landings.h"
#include "testbed/workload/megakernel/programs.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

/// A kernel is on the board as long as this lives.
class KernelAtWork {
 public:
  KernelAtWork(const RingKernel*& place, const RingKernel& kernel) : place_(place) { place_ = &kernel; }
  ~KernelAtWork() { place_ = nullptr; }
  KernelAtWork(const KernelAtWork&) = delete;
  KernelAtWork& operator=(const KernelAtWork&) = delete;

 private:
  const RingKernel*& place_;
};

struct QueueRing {
  template <typename KernelOf>
  QueueRing(RingBuffers&& made, const KernelOf& kernel_of, const RingKernel*& place)
      : buffers(std::move(made)), kernel(kernel_of(buffers)), at_work(place, kernel) {}
  RingBuffers buffers;  // the buffers' words stay where they are when this is moved into
  RingKernel kernel;
  KernelAtWork at_work;
};
struct ProgramRing {
  template <typename KernelOf, typename LandingsOf, typename ProxyOf>
  ProgramRing(RingProgram&& wanted, RingBuffers&& made, const KernelOf& kernel_of, const LandingsOf& landings_of,
              const ProxyOf& proxy_of, const RingKernel*& place)
      : program(std::move(wanted)),
        buffers(std::move(made)),
        kernel(kernel_of(buffers, program)),
        landings(landings_of(program.slots, kernel)),
        proxy(proxy_of(program.slots, kernel)),
        at_work(place, kernel) {}
  RingProgram program;
  RingBuffers buffers;
  RingKernel kernel;
  RingLandings landings;
  RingProxy proxy;
  KernelAtWork at_work;
};

}  // namespace meshbed::testbed
