// What the run cost, its verdict and its digest.

#include <string>

#include "testbed/base/exit_status.h"
#include "testbed/base/units.h"
#include "testbed/result/run_document.h"
#include "testbed/result/verdict.h"

namespace meshbed::testbed::document {
namespace {

Section end_shape() {
  Section section{.title = "End"};
  section.with({number("simulated_ns", "ns", "from the start to the end of the last rank, in the world's own time"),
                number("cpu_s", "s", "of CPU time").varying(),
                integer("peak_rss_bytes", "B", "resident memory, at most").varying(),
                flag("passed", "proofs, promises and data hold, and no rank had an error: exit status 0"),
                text("digest", "over every message, datum and error; 16 hexadecimal digits, equal for equal runs")});
  return section;
}

void fill_end(Section& section, const RunView& run) {
  const RunResult& result = run.result;
  section.set("simulated_ns", static_cast<double>(result.simulation.elapsed_ps) / 1e3);
  section.set("cpu_s", result.cpu_s);
  section.set("peak_rss_bytes", result.peak_rss_bytes);
  section.set("passed", exit_status(result) == kExitOk);
  section.set("digest", result.digest);
  section.blank();
  section.line("{} {}, {:.2f} CPU s, {} MiB", result.world.virtual_time ? "simulated" : "took",
               duration_text(result.simulation.elapsed_ps), result.cpu_s, result.peak_rss_bytes / kMiB);
  if (!run.results_folder.empty()) section.line("results in {}", run.results_folder);
  if (const std::string verdict = verdict_line(result); !verdict.empty()) section.line("{}", verdict);
  section.line("digest {}", result.digest);
}

const RunSection end_here(1400, end_shape, fill_end);

}  // namespace
}  // namespace meshbed::testbed::document
