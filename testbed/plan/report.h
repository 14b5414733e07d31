#pragma once
// The report of a plan.

#include "testbed/plan/plan.h"
#include "testbed/result/document.h"

namespace meshbed::testbed::plan {

/// A row for each finalist, the best first, and why.
document::Document report_of(const Request& request, const Outcome& outcome);

}  // namespace meshbed::testbed::plan
