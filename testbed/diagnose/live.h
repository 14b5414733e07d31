#pragma once
// Live: this host as a source of evidence. Looks, and changes nothing.

#include "testbed/diagnose/evidence.h"

namespace meshbed::testbed::diagnose {

/// RDMA ports of /sys/class/infiniband with state and rate, /dev/infiniband, the limit of locked memory, kernel
/// modules, and what the mesh plugins of running jobs wait for (as `meshbed state`). What cannot be read is a fact
/// "missing".
void read_this_host(Case& found);

}  // namespace meshbed::testbed::diagnose
