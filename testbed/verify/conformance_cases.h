#pragma once
// The conformance suite for ncclNet plugins: one case for each rule that NCCL relies on. Sources: nccl.h and the net
// plugins' README of NVIDIA/nccl (ext-net), recorded calls of NCCL 2.28 and 2.30 (scenarios/nccl-calls), and the
// behaviour of net_ib, NCCL's own transport.
//
// A case runs on two ranks, each on its own node, that have initialised the plugin. Cases do not depend on the world or
// on the plugin; all devices are assumed to reach each other, whatever their number.

#include <vector>

#include "testbed/verify/conformance_rank.h"

namespace meshbed::testbed {

struct ConformanceCase {
  const char* name;
  const char* rule;
  void (*body)(CaseRank& rank);
  bool needs_device = true;  // on both ranks; without, the rule is not looked at
};

/// In the order in which they are run.
std::vector<ConformanceCase> conformance_cases();

// By what they are about, each in a file of its own.
std::vector<ConformanceCase> conformance_setup_cases();
std::vector<ConformanceCase> conformance_message_cases();
std::vector<ConformanceCase> conformance_group_cases();
std::vector<ConformanceCase> conformance_gpu_cases();
std::vector<ConformanceCase> conformance_closing_cases();

}  // namespace meshbed::testbed
