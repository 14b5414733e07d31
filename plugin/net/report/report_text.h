#pragma once
// The document of a report (job_report.h) as text, and its file.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/state.h"

namespace meshbed::net {

/// One connection in a report.
struct ReportAccount {
  ConnectionState state;  // as it was before it was closed
  std::int64_t begun_ns = 0, ended_ns = 0;
  bool is_open = false;  // NCCL has not closed it
};

/// One JSON object and a newline. `open_ns`: how long the process has had its devices open.
std::string report_text(const ProcessState& process, const std::vector<ReportAccount>& accounts, std::int64_t open_ns);

/// Writes PATH.partial-PID beside it and renames that. Errors: kSystem, with the file, the cause and the fix.
Result<void> write_report_file(const std::string& path, const std::string& text);

}  // namespace meshbed::net
