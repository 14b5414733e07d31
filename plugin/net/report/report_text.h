#pragma once
// The document of a report (job_report.h) as text, and its file. Without any verbs.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plugin/base/json_text.h"
#include "plugin/base/result.h"
#include "plugin/net/process/state.h"

namespace meshbed::net {

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

/// One connection in a report.
struct ReportAccount {
  ConnectionState state;  // as it was before it was closed
  std::int64_t begun_ns = 0, ended_ns = 0;
  bool is_open = false;  // NCCL has not closed it
};

/// What went each way, and when.
struct ReportCarried {
  std::uint64_t connections = 0, sends = 0, receives = 0, sent_bytes = 0, received_bytes = 0;
  std::uint64_t failovers = 0, failbacks = 0, resumed = 0, failed = 0;
  std::int64_t begun_ns = 0, ended_ns = 0;
};

/// What all connections of a process come to; it grows with its cables and peers, and not with its connections.
class ReportSums {
 public:
  void add(const ReportAccount& account);
  /// One JSON object and a newline. `open_ns`: how long the process has had its devices open.
  std::string text(const ProcessState& process, std::int64_t open_ns) const;

 private:
  struct Cable {
    CableState cable;
    std::uint64_t peer_node = 0;
    ReportCarried carried;
  };
  struct Peer {
    std::uint64_t node = 0;
    std::string name;
    std::set<std::string> ways;
    ReportCarried carried;
  };
  void add_cable(const ReportAccount& account, const CableState& used);
  void add_peer(const ReportAccount& account);
  static void write(JsonText& json, const Cable& one);
  static void write(JsonText& json, const Peer& peer);
  void write(JsonText& json, const NicState& nic) const;

  ReportCarried all_;
  std::uint64_t open_ = 0;
  std::vector<Cable> cables_;
  std::vector<Peer> peers_;
};

/// Writes PATH.partial-PID beside it and renames that. Errors: kSystem, with the file, the cause and the fix.
Result<void> write_report_file(const std::string& path, const std::string& text);

}  // namespace meshbed::net
