#pragma once
// meshbed::compare(): compares two runs, for example to find the benefit of a second cable.

#include <string>
#include <vector>

#include "meshbed/export.h"
#include "meshbed/result.h"

namespace meshbed {

struct Comparison {
  bool identical = false;  // the same digest: every message, datum and error
  bool same_data = false;  // every rank got the same bytes, in however much time
  double time_ratio = 0;   // right over left: 1.127 is 12.7 % slower; 0: one of them has no time
  double busbw_ratio = 0;
  // What differs beside times, one line each: "messages: 726 and 484", "proof 'data right': kept and broken".
  std::vector<std::string> differences;
};

MESHBED_API Comparison compare(const RunResult& left, const RunResult& right);

}  // namespace meshbed
