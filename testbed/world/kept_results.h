#pragma once
// KeptResults: what the ranks of a program have left in MESHBED_RESULTS, copied out of their nodes' folders.
//
// Programs that nobody here wrote have filled those folders: a link may lead anywhere, and only its text is kept.

#include <string>
#include <vector>

#include "emu/outcome.h"

namespace meshbed::testbed {

/// Copies each node's folders rank-N into `folder`, which is there. Links are copied as links; a file takes the place
/// of what has its name there. Pipes, sockets and devices are left behind. One line for each entry that could not be
/// copied; the others are.
std::vector<std::string> keep_results(const std::string& folder, const emu::ClusterOutcome& outcome);

/// Copies the plugin's reports (NCCL_MESH_REPORT=NAME, plugin/net/report) that lie in the nodes' folders into `folder`,
/// in place of those of an earlier run.
void keep_job_reports(const std::string& folder, const emu::ClusterOutcome& outcome);

}  // namespace meshbed::testbed
