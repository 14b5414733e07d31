// What NCCL decided.

#include "testbed/result/nccl_decisions.h"
#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

void fill_nccl(Section& section, const RunView& run) {
  section = nccl_section(run.result.simulation.nccl);
  if (section.has_values) section.blocks.insert(section.blocks.begin(), Block{});
}

const RunSection nccl_here(1000, nccl_section_shape, fill_nccl);

}  // namespace
}  // namespace meshbed::testbed::document
