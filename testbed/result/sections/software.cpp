// What the software of the run costs.

#include "testbed/result/run_document.h"
#include "testbed/result/software_section.h"

namespace meshbed::testbed::document {
namespace {

void fill_software(Section& section, const RunView& run) {
  // nullptr if the run called no collective, or many.
  const bool has_one = run.scenario.workload.kind == WorkloadKind::kCollective && run.result.simulation.ended_well();
  if (run.result.world.virtual_time) {
    section = software_section(run.scenario, has_one ? &run.result.calls.collective : nullptr, run.result.time_ps);
  } else {
    section.has_values = false;
  }
  if (section.has_values) section.blocks.insert(section.blocks.begin(), Block{});
}

const RunSection software_here(600, software_section_shape, fill_software);

}  // namespace
}  // namespace meshbed::testbed::document
