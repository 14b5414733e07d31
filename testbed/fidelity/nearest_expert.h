#pragma once
// Nearest expert: the profile for dispatch and combine if no profile matches the file's class, or if a profile of
// collectives is given for them.
//
// Score: the profile of the same library (3 for each common name of deepep, hybrid-ep, uccl, pplx, mori, nccl ep,
// nvshmem), mode (3), way of posting (GPU or CPU proxy: 2), links within a node (NVLink, xGMI, PCIe: 2) and fabric
// (EFA, InfiniBand, RoCE: 1). Gates: only a profile with NICs for a file of several nodes, and only one with links
// within a node for a file of one. The rates of the adapters and of the GPU's links are then the header's own, if it
// names them.

#include <optional>
#include <string>
#include <vector>

#include "models/time/machine.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

struct NearestExpert {
  models::Machine machine;
  std::string why;
};
/// Nothing where no profile passes the gates.
std::optional<NearestExpert> nearest_expert(const MeasuredFile& file, const std::vector<models::Machine>& profiles);

/// A machine of dispatch and combine with the NICs and links of `machine`, which is of collectives: launch, hop and
/// shares of the rates are the medians of the expert classes among `profiles`, with basis "other classes". A machine of
/// experts stays as it is.
models::Machine as_expert(const models::Machine& machine, const std::vector<models::Machine>& profiles);

}  // namespace meshbed::testbed
