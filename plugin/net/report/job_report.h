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
  ReportSums ended_;
};

}  // namespace meshbed::net
