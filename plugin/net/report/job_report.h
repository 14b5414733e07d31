#pragma once
// The report of a process: what it carried for its peers and over which cables, as one JSON file, written when NCCL has
// closed everything. Schema: docs/telemetry.md.
//
// Nothing is counted for it alone. It looks at a connection when it is made and once more before it is closed, so a
// job without NCCL_MESH_REPORT pays for none of it. Any thread.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/state.h"
#include "plugin/net/report/report_text.h"

namespace meshbed::net {

class Endpoint;

/// Format number of the document. A reader refuses newer ones; fields may be added without a new number.
inline constexpr int kReportFormat = 1;

/// What the file's name is made of.
struct ReportName {
  std::string name;    // NCCL_MESH_REPORT
  std::string folder;  // for a name without one; empty: the current folder
  std::string host;
  std::int64_t pid = 0;
};
/// "report.json" becomes "report.HOST-PID.json"; %h and %p are replaced, and with %p in it nothing is added. A process
/// that begins anew after finalize() has a second report (`number` 2), "report.HOST-PID-2.json".
std::string report_path(const ReportName& name, unsigned number);

class JobReport {
 public:
  explicit JobReport(std::string path);

  /// A connection was made.
  void begin(const Endpoint& endpoint);
  /// It is about to be closed: takes its turn, and its account.
  void end(Endpoint& endpoint);
  /// Replaces the file as a whole. `process` has its identity, its NICs and the connections that are still open.
  /// Errors: kSystem, with the file's name and the cause.
  Result<void> write(const ProcessState& process);

 private:
  struct Begun {
    const Endpoint* endpoint = nullptr;
    std::int64_t at_ns = 0;
  };
  std::string path_;
  std::int64_t opened_ns_;
  std::mutex mutex_;
  std::vector<Begun> begun_;
  std::vector<ReportAccount> ended_;
};

}  // namespace meshbed::net
