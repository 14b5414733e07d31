// What was run: scenario, files, machine.

#include "testbed/result/bonds.h"
#include "testbed/result/run_document.h"
#include "testbed/result/tables.h"
#include "testbed/scenario/cluster_lines.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed::document {
namespace {

Section cluster_shape() {
  Section section{.title = "Scenario"};
  section.with(
      {text("scenario", "the scenario's name"), text("world", "sim, emu or metal"),
       integer("seed", "", "of everything random"), text("plugin_sha256", "of the net plugin that the ranks loaded"),
       text("engine_sha256", "of libmeshcoll.so that the ranks loaded"), integer("ranks", "", "how many there are"),
       text("collective", "the workload"), integer("bytes", "B", "of each rank, as nccl-tests counts them"),
       any("emu", "the machines of the emulated world").or_absent(),
       text("fabric", "how the network is computed; null where it is not simulated").or_null()});
  section.with(finding_rows_shape());
  section.with(bond_table_shape());
  return section;
}

void fill_cluster(Section& section, const RunView& run) {
  const RunResult& result = run.result;
  section.set("scenario", run.scenario.name);
  section.set("world", result.world.name);
  section.set("seed", run.scenario.seed);
  section.set("plugin_sha256", result.simulation.plugin_sha256);
  section.set("engine_sha256", result.simulation.engine_sha256);
  section.set("ranks", ranks_of(run.scenario));
  section.set("collective", result.workload);
  section.set("bytes", result.bytes);
  section.set("fabric", known_value(result.world.virtual_time, fabric_name(run.scenario)));
  // They are about what the plugin makes of the cluster.
  if (!result.replay) section.table("findings") = finding_rows(findings_of(run.scenario));
  if (const std::string line = assumed_line(run.scenario); !line.empty()) section.line("{}", line);
  section.line("{}{}", topology_line(run.scenario),
               result.world.virtual_time ? fmt::format(", fabric {}", fabric_name(run.scenario)) : "");
  section.table("bonds") = bond_table(run.scenario.cluster);
  for (const std::string& line : bond_lines(run.scenario.cluster)) section.line("{}", line);
}

const RunSection cluster_here(100, cluster_shape, fill_cluster);

}  // namespace
}  // namespace meshbed::testbed::document
