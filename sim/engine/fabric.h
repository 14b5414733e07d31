#pragma once
// Fabric: the seam behind which the network's sharing lives. Two stand behind it:
//   fluid - SimGrid flows (CM02, bandwidth only): max-min sharing; exact, slow under contention
//   chunk - our own event core: links serve chunks of the flows that wait, in turn; the default at scale
// Propagation and acknowledgements are timers above the seam, so that work requests on one queue pair pipeline.

#include <cstdint>
#include <memory>

#include "sim/engine/network.h"
#include "sim/engine/timeline.h"

namespace meshbed::sim {

class World;

class Fabric {
 public:
  virtual ~Fabric() = default;

  /// Puts `wire_bytes` (> 0) on the wire along `path`; calls done(self, argument) as an event when the last bit has
  /// left the last link (propagation and switch latency not included). Transfers of one `flow` on one path must not
  /// overlap: the caller starts the next one when the last is done. `flow` is a number that is unique to the sender's
  /// queue pair; fairness is between flows.
  virtual void transfer(const Path& path, std::uint64_t wire_bytes, std::uint64_t flow, EventFunction done, void* self,
                        std::uint64_t argument) = 0;

  /// From now on the link carries `rate_bps` (> 0). What it is sending at this moment may end at the old rate, a chunk
  /// at most. (Fluid: a transfer that is under way never gets faster, for SimGrid bounds a flow by the bandwidth that
  /// it met at its start.)
  virtual void set_rate(int link, std::uint64_t rate_bps) = 0;
};

/// Lives in SimGrid's time, which a World paces.
std::unique_ptr<Fabric> make_fluid_fabric(World& world, Network& network);
/// On any timeline; both must outlive it.
std::unique_ptr<Fabric> make_chunk_fabric(Timeline& timeline, Network& network);

}  // namespace meshbed::sim
