#pragma once
// Decode plan: tokens per second of a model that several ranks compute together, from the time of a step on one rank
// and from a class's times for the communication.
//
// A step of one rank has two parts: the weights, which are read once (at the GPU's memory rate), and the rest
// (attention, sampling, the framework). Split over t tensor x p pipeline ranks, the weights take 1/t of their time,
// except the part that each rank repeats (kWeightsRepeated: norms, router, embedding, and experts with uneven load);
// most of the rest is repeated (kRestRepeated). Pipeline stages of one token run one after the other, so p does not
// shorten a step. Both shares were fitted to cal_decode_spark.csv (models --decode --measured shows the errors, also
// with each model left out of the fit). Communication: layers x calls all_reduces of batch x hidden x 2 bytes over the
// tensor ranks; p-1 messages of that size and one back; with e expert ranks one of the all_reduces of a layer becomes a
// dispatch and a combine in low latency. Not modelled: speculative decoding (several tokens a step), attention over a
// longer context than in the one-rank time, queueing of requests, concurrent prefill, CUDA graphs on only one side. Of
// computing, the share `overlap` runs beside the communication (models/time/concurrent_time.h: exposed_us).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/time/machine.h"

namespace meshbed::testbed {

struct DecodePlan {
  int layers = 62, calls_per_layer = 2;
  double hidden = 3072, batch = 1;
  int tensor = 1, pipeline = 1, expert = 1;
  int top_k = 8, experts = 256;
  double compute_us = 0;  // a step of one rank
  double weights_us = 0;  // of it, reading weights; not more than it
  double overlap = 0;     // of the split computing, what does not wait for the communication, 0 to 1
  double held = 0;        // part of a GPU's SMs that the communication's kernels hold, where they overlap
};

struct DecodeShares {
  double weights_repeated = 0.1, rest_repeated = 0.75;
};

struct DecodeTime {
  double compute_us = 0, reduces_us = 0, pipeline_us = 0, experts_us = 0;
  double exposed_us = 0;  // what communication adds to the computing: all of it without overlap
  double communication_us() const { return reduces_us + pipeline_us + experts_us; }
  double step_us() const { return compute_us + exposed_us; }
};

/// `profiles`: for as_expert() where a machine of collectives has to dispatch.
DecodeTime decode_time(const DecodePlan& plan, const models::Machine& machine,
                       const std::vector<models::Machine>& profiles, const DecodeShares& shares = {});

/// The least time of reading the weights of a step: of a dense model all of them; of one with experts those that
/// `batch` random tokens reach. Rates in bytes a second; parameters in billions.
double weights_us(double total_b, double active_b, double bits, double batch, double memory_bytes_per_second);

/// Measured tokens per second beside the same engine on one node: a table of ratios, then the median error; and what
/// has no such partner. The file: columns as in models/data/decode/cal_decode_spark.csv. Throws std::runtime_error with
/// the line and the cause.
std::string decode_ratio_table(const std::string& path, const std::vector<models::Machine>& profiles);

}  // namespace meshbed::testbed
