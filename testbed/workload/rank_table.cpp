#include "testbed/workload/rank_table.h"

#include <fmt/format.h>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/base/checked_text.h"
#include "testbed/base/environment.h"

namespace meshbed::testbed {

Result<RankTable> open_rank_table(RankHost& host, const std::string& plugin, int version) {
  const Result<void*> library = host.load(plugin);
  if (!library) return library.error();
  RankTable result;
  for (int candidate = coll::kNewestNetVersion; candidate >= coll::kOldestNetVersion && result.symbol == nullptr;
       --candidate) {
    if (version != 0 && version != candidate) continue;
    result.symbol = host.symbol(*library, fmt::format("ncclNetPlugin_v{}", candidate).c_str());
    if (result.symbol != nullptr) result.table = coll::wrap_table(candidate, result.symbol);
  }
  if (result.table == nullptr) return result;
  if (const char* missing = result.table->missing_entry()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .scope = Scope::kJob,
                 .text = fmt::format("ncclNetPlugin_v{} has no {}", result.table->version(), missing)};
  }
  coll::begin_plugin_log(host.rank());
  return result;
}

Result<RankTable> begin_rank_table(RankHost& host, const std::string& plugin, int version) {
  Result<RankTable> opened = open_rank_table(host, plugin, version);
  if (!opened) return opened;
  if (opened->table == nullptr) {
    return Error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = plugin + ": no such table"};
  }
  const std::uint64_t warns = coll::warn_count();
  if (const int code = opened->table->init(1); code != nccl::kNcclSuccess) {
    return table_error(*opened->table, "init", code, warns);
  }
  return opened;
}

int net_version_from(const std::string& text) {
  return static_cast<int>(parse_count("--net-version", text, coll::kOldestNetVersion, coll::kNewestNetVersion));
}

void set_log_level_of_plugins(LogLevel otherwise) {
  const std::optional<std::string> debug = from_environment("NCCL_DEBUG");
  set_log_level(debug ? coll::plugin_log_level(debug->c_str()) : otherwise);
}

Error table_error(const coll::NetTable& table, const std::string& call, int code, std::uint64_t warns_before) {
  return {.code = ErrorCode::kRemote,
          .scope = Scope::kJob,
          .text = fmt::format("ncclNetPlugin_v{}: {}: {}", table.version(), call,
                              coll::explain_net_error(code, warns_before))};
}

}  // namespace meshbed::testbed
