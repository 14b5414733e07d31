#pragma once
// The ranks of a scenario as processes of this machine, each with the simulated CUDA and a GPU of its node's model.
// They meet over the loopback, and Meshbed's net plugin carries their data over TCP: real threads at real speed, where
// `sim` has virtual time. Times of messages and kernels do not represent the scenario's hardware.

#include <iosfwd>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct HostRanks {
  std::string library, version;      // the ranks' libnccl.so.2, beside a link of that name
  std::vector<std::string> program;  // a file, and its arguments
  std::string results;               // a folder for what each rank writes: rank-0/, rank-1/, ...
};

/// Runs them to their end. Their output, both streams, goes to `err`, each line with its rank; NCCL's decisions to
/// `out`. A rank that ends badly ends the others 2 s later. The first bad status, or 0.
int run_on_host(const Scenario& scenario, const HostRanks& ranks, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed
