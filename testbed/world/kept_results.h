#pragma once
// KeptResults: the files that the ranks of a program left in MESHBED_RESULTS, copied out of their nodes' folders.
//
// Any program may have filled those folders: a link may lead anywhere, so the link is copied and not its target.

#include <string>
#include <vector>

#include "emu/outcome.h"

namespace meshbed::testbed {

/// Copies each node's folders rank-N into `folder`, which must exist. Links are copied as links; a file replaces an
/// existing entry of its name. Pipes, sockets and devices are not copied. Returns one line for each entry that could
/// not be copied; the others are copied.
std::vector<std::string> keep_results(const std::string& folder, const emu::ClusterOutcome& outcome);

/// Copies the plugin's reports (NCCL_MESH_REPORT=NAME, plugin/net/report) that lie in the nodes' folders into `folder`,
/// in place of those of an earlier run.
void keep_job_reports(const std::string& folder, const emu::ClusterOutcome& outcome);

}  // namespace meshbed::testbed
