#pragma once
// A measured file beside its profiles' predictions, as a document.

#include "testbed/fidelity/validated.h"
#include "testbed/result/document.h"

namespace meshbed::testbed {

/// Every row with its prediction, interval and what these rest on, the rows that were left out, and the summary.
document::Document validated_document(const Validated& validated);

}  // namespace meshbed::testbed
