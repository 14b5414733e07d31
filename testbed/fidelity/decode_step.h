#pragma once
// Decode step: the communication of one token, for a model with the given layers, on several DGX Sparks in a ring, for
// each kind of software with a class for them, with the class's own errors.

#include <cstdint>
#include <string>
#include <vector>

#include "models/time/collective_time.h"
#include "models/time/interval.h"
#include "plugin/base/units.h"

namespace meshbed::testbed {

struct DecodeStep {
  int layers = 62, calls_per_layer = 2;  // all_reduces, one after the other
  std::uint64_t bytes = 48 * kKiB;       // of each
  int ranks = 4;                         // nodes around a ring, one rank each
  double overlap = 0;                    // of the computing, what does not wait for the communication, 0 to 1
  int gpu_sms = 48;                      // of each rank's GPU, which the communication's kernels share
};

/// One kind of software's part.
struct DecodeRow {
  std::string software, profile;
  double call_us = 0, step_us = 0;
  double held = 0;            // part of the GPU's SMs that its kernels are expected to hold
  models::Interval interval;  // of call_us; a step's is as wide: errors of calls of one kind go together
};

/// NCCL eager, NCCL in a CUDA graph, one-shot kernels, persistent kernels, in this order; those of them that `machines`
/// has.
std::vector<DecodeRow> decode_rows(const DecodeStep& step, const std::vector<models::Machine>& machines);

/// The rows as a Markdown table: a call, a step with its bar, and its share of a token that also computes for 20 and
/// for 40 ms, each from the bar's lower to its upper end; with overlap, the share of what is exposed.
std::string decode_table(const DecodeStep& step, const std::vector<models::Machine>& machines);

}  // namespace meshbed::testbed
