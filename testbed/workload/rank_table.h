#pragma once
// RankTable: a net plugin's table on one rank, from the rank's own copy of the file.

#include <memory>
#include <string>

#include "plugin/base/log.h"
#include "plugin/coll/transport/transport.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

struct RankTable {
  std::unique_ptr<coll::NetTable> table;  // nullptr: the file has no such version
  void* symbol = nullptr;                 // what it was wrapped from
};

/// `version` 0: the newest that the file has. Loaded and complete, and its WARN lines go to plugin_log.h; not
/// initialised.
Result<RankTable> open_rank_table(RankHost& host, const std::string& plugin, int version);

/// The same and init()ed, for a workload that cannot do without: a file without that version is an error, too.
Result<RankTable> begin_rank_table(RankHost& host, const std::string& plugin, int version);

/// What --net-version asks for; throws std::runtime_error with what is accepted.
int net_version_from(const std::string& text);

/// How much plugins say that have no NCCL_DEBUG of their rank's: what this process's asks for, `otherwise` without it.
void set_log_level_of_plugins(LogLevel otherwise);

/// "ncclNetPlugin_v12: init: ncclSystemError: REASON", of a call that came back with `code`.
Error table_error(const coll::NetTable& table, const std::string& call, int code, std::uint64_t warns_before);

}  // namespace meshbed::testbed
