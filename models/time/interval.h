#pragma once
// Interval: between which times a measurement of the predicted call lies nine times of ten. Pure.
//
// The interval is what files were off that a fit of the same distance did not know (interval_table.h): no residual of a
// fit is in it. Where a size lies beyond those measured by a factor f, logarithms are multiplied by 1 + log2(f) / 4.
// Cost: O(kinds of calls that the class was fitted to).

#include <cstdint>
#include <string>

#include "models/time/collective_time.h"
#include "models/time/interval_table.h"
#include "models/time/message_time.h"

namespace meshbed::models {

/// How a machine was chosen for a call.
enum class Standing : std::uint8_t {
  kOwnClass,   // a profile of the call's class
  kNearClass,  // a profile of another class, which passes the gates
  kUnseen,     // the profile without its fits, with values of other classes
  kNoClass,    // made from a header, with values of the classes of its transport
  kBare,       // without any fit
};

struct Interval {
  double low_us = 0, high_us = 0;  // low <= predicted <= high
  double half = 0;                 // half of the points are within this part of the prediction
  Distance distance = Distance::kBare;
  std::string profile, gate, sizes;         // gate, sizes: as in the table
  std::string outside;                      // "largest size 1.5 MiB"; empty: within what was measured
  double wider = 1;                         // factor on the logarithms of sizes beyond those measured
  std::size_t left_out = 0, left_from = 0;  // points that the interval rests on, and files that they are of
};

/// "all_reduce, 4 ranks on 4 nodes, LL, eager": what a class may have been measured in.
std::string measured_kind(const CollectiveCall& call);
/// "stream", "latency", "read stream", "two-way stream", "batched read stream".
std::string measured_kind(const MessageTest& test);
/// "4 ranks on 4 nodes"
std::string ranks_text(int ranks, int nodes);

Interval interval_of(const Machine& machine, const CollectiveCall& call, double predicted_us,
                     Standing standing = Standing::kOwnClass, const IntervalTable& table = shipped_interval_table());
/// Of a message, or of dispatch and combine: `kind` as measured_kind() has it.
Interval interval_of(const Machine& machine, const std::string& kind, std::uint64_t bytes, double predicted_us,
                     Standing standing = Standing::kOwnClass, const IntervalTable& table = shipped_interval_table());

/// One line: "class dgxa100-hdr, gate verbs: same class, other ranks; outside what was measured: 16 ranks on 2 nodes".
std::string basis_text(const Interval& interval);

/// The larger of both sides, as a part of the prediction: 0.12 of "+- 12 %".
double larger_side(const Interval& interval, double predicted_us);
/// "-8 % to +14 %".
std::string range_text(const Interval& interval, double predicted_us);

/// How much wider the logarithms are at a size beyond those measured by `factor`, 1 and more.
double widened_by(double factor);
}  // namespace meshbed::models
