#pragma once
// Tables that several documents have.

#include <string>
#include <vector>

#include "sim/trace/proof.h"
#include "testbed/result/document.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed::document {

/// "faults": the steps that were taken, in order: what happened, where, and when in the world's own time.
Table fault_table(const Scenario& scenario, const std::vector<FaultEvent>& taken);
Table fault_table_shape();

/// "errors": those of ranks, in order.
Table error_table(const std::vector<RankError>& errors);
Table error_table_shape();

/// "findings": equal ones of several places in one row.
Table finding_rows(const std::vector<Finding>& findings);
Table finding_rows_shape();

/// The columns "name", "ok" and "detail" of checks.
Table check_table_shape(std::string key, std::string meaning);

}  // namespace meshbed::testbed::document
