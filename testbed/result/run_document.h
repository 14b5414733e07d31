#pragma once
// The document of a run. Each source in testbed/result/sections registers one section, or a few that belong together:
// its place in the text, its shape, and the function that fills it from a run. Nothing else lists the sections.

#include <string>

#include "testbed/result/document.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed::document {

struct RunView {
  const Scenario& scenario;
  const RunResult& result;
  std::string results_folder{};  // empty: nothing is kept
  bool each_iteration = false;   // the table of iterations is part of the text
};

class RunSection {
 public:
  using Shape = Section (*)();
  using Fill = void (*)(Section&, const RunView&);
  /// At static initialisation. Sections come in the order of `place`, which no two share.
  RunSection(int place, Shape shape, Fill fill);
};

/// Every section, filled.
Document run_document(const RunView& run);
/// Every section, without values.
Document run_document_shape();

}  // namespace meshbed::testbed::document
