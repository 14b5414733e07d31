#pragma once
// Sweep: measured points of one set-up, and what a machine or a plain line makes of them. Pure.
//
// Nomenclature: error - |predicted / measured - 1|; percentile p of k values - the value at place ceil(p k), ascending.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/time/collective_time.h"
#include "models/time/expert_time.h"
#include "models/time/interval.h"
#include "models/time/message_time.h"

namespace meshbed::models {

struct SweepPoint {
  bool is_message = false;  // then `message` or, where there is one, `expert` holds, else `call`
  CollectiveCall call;      // its bytes, ranks and nodes hold for all
  MessageTest message;
  std::optional<ExpertCall> expert{};  // dispatch or combine of a mixture of experts
  int at_once = 1;                     // so many such calls started together; `time_us` until the last ended
  double time_us = 0;                  // measured
};

struct Sweep {
  std::string name;  // of its file
  std::vector<SweepPoint> points;
};

/// Of all sweeps, in their order.
std::vector<SweepPoint> points_of(const std::vector<Sweep>& sweeps);

/// Whether the machine's transport is of such points: messages, experts, or collectives.
bool is_of_kind(const Machine& machine, const SweepPoint& point);

double predicted_us(const Machine& machine, const SweepPoint& point);
/// What a fit compares with the measured time: collective_us_of_size(), else the same.
double fitted_us(const Machine& machine, const SweepPoint& point);
/// "all_reduce, 4 ranks on 4 nodes", "stream", "ep_dispatch low latency, 16 ranks on 2 nodes".
std::string measured_kind(const SweepPoint& point);
/// What of that is neither ranks nor settings: "all_reduce", "stream", "ep_dispatch low latency".
std::string measured_operation(const SweepPoint& point);
/// Around that, for how the machine was chosen.
Interval interval_of(const Machine& machine, const SweepPoint& point, Standing standing,
                     const IntervalTable& table = shipped_interval_table());
/// By kind of call, the sizes of the sweeps: what a profile that was fitted to them states as measured.
std::map<std::string, MeasuredSizes> measured_of(const std::vector<Sweep>& sweeps);

struct ErrorSummary {
  double median = 0, p90 = 0, max = 0;  // 0.06: 6 %
};
/// Of no errors at all: zeros.
ErrorSummary summarise(std::vector<double> errors);
std::vector<double> errors_of(const Machine& machine, const std::vector<SweepPoint>& points);

/// t = step * steps + W / rate: what a plain line knows.
struct Line {
  double step_us = 0, us_per_byte = 0;
  double at(double steps, double bytes) const { return step_us * steps + us_per_byte * bytes; }
};

/// Relative least squares: of sum ((step * steps + W * per byte) / t - 1)^2, both at least 0.
Line fit_line(const std::vector<SweepPoint>& points);

/// Errors of three naive models, one a point, in no particular order.
struct NaiveErrors {
  std::vector<double> own_line;      // fitted to the sweep itself, for each kind of call of its own
  std::vector<double> carried_line;  // the machine's naive_step_us and naive_GBps, which come from elsewhere
  std::vector<double> two_regime;    // own lines below and above the best size to part them
};
NaiveErrors naive_errors(const Machine& machine, const std::vector<SweepPoint>& points);

/// Of `line`, one a point, in their order.
std::vector<double> line_errors(const Line& line, const std::vector<SweepPoint>& points);

}  // namespace meshbed::models
