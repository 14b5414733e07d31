// Checks of a scenario's workload on its machine, and of its expectations about that machine.

#include <algorithm>
#include <stdexcept>

#include "plugin/base/counted.h"
#include "testbed/scenario/build.h"
#include "testbed/scenario/findings/finder.h"
#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/scenario/megakernel/slot_programs.h"
#include "testbed/scenario/nccl/recording.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/plugin_file.h"

namespace meshbed::testbed {

/// Fewer ranks than GPUs on a node that runs some.
void Finder::idle_gpus() {
  const std::vector<int> all = ranks_by_node(scenario_);
  for (std::size_t index = 0; index < cluster_.nodes.size(); ++index) {
    const auto gpus = cluster_.nodes[index].gpus.size();
    const auto ranks = static_cast<std::size_t>(all[index]);
    if (ranks == 0 || gpus <= ranks) continue;
    add(FindingCode::kIdleGpus, Severity::kNote, cluster_.nodes[index].name,
        fmt::format("gpus = {}, and it runs {} (ranks_per_node): the other GPUs do nothing", gpus,
                    counted(ranks, "rank")));
  }
}

void Finder::assumed() {
  for (const std::string& each : scenario_.assumed) {
    const std::size_t colon = each.find(": "), end = each.find("; ");
    const bool has_question = end != std::string::npos && end + 2 < each.size();
    add(FindingCode::kAssumed, Severity::kNote, each.substr(0, std::min(colon, end)),
        colon < end ? "assumed: " + each.substr(colon + 2, end - colon - 2) : "assumed",
        has_question ? each.substr(end + 2) : "");
  }
}

/// A name without a slash is looked up by the loader when the ranks run.
void Finder::net_plugin() {
  const std::string& plugin = scenario_.workload.net_plugin;
  if (plugin.find('/') == std::string::npos) return;
  try {
    (void)require_plugin_file(plugin);
  } catch (const std::runtime_error& error) {
    add_failure(FindingCode::kNetPlugin, "workload.net_plugin", error.what(), "name a net plugin's file",
                scenario_.expect.error.has_value());
  }
}

void Finder::recording() {
  if (scenario_.workload.kind != WorkloadKind::kNcclCalls) return;
  std::string problem;
  try {
    problem = recording_misfit(scenario_, read_recording(path_beside(scenario_, scenario_.workload.recording)));
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  if (problem.empty()) return;
  add_failure(FindingCode::kRecording, "workload.recording", problem, "run it on the ranks that it was recorded on",
              scenario_.expect.error.has_value());
}

void Finder::rings() {
  const Workload& workload = scenario_.workload;
  if (workload.kind != WorkloadKind::kMegakernel) return;
  const int ranks = ranks_of(scenario_);
  if (const auto problem = ring_slots_problem(workload, ranks)) {
    add_failure(FindingCode::kRingSlots, "workload.megakernel.slots", *problem, "leave it out, or set it higher",
                scenario_.expect.error.has_value());
  }
  if (const auto finding = residency_finding(workload, ranks)) {
    add_failure(FindingCode::kNotResident, "workload.megakernel", *finding, "use fewer lanes, or more SMs",
                scenario_.expect.error.has_value() || scenario_.expect.watchdog.has_value());
  }
}

void Finder::promises() {
  for (const auto& [left, right] : scenario_.expect.unreachable) {
    const auto paths = models::direct_paths(topology_, find_node(cluster_, left), find_node(cluster_, right));
    if (paths.empty()) continue;
    add(FindingCode::kBrokenPromise, Severity::kError, "expect.unreachable",
        fmt::format("{} and {} do have a direct path, {} to {}", left, right, name(paths.front().from),
                    name(paths.front().to)),
        "remove the pair");
  }
}

}  // namespace meshbed::testbed
