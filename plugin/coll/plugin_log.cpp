#include "plugin/coll/plugin_log.h"

#include <strings.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "plugin/base/log.h"

namespace meshbed::coll {
namespace {

// The second state of this copy beside the log sink: a logger without a context pointer cannot find another.
struct WarnBoard {
  std::mutex mutex;
  std::uint64_t count = 0;
  std::string last;
};
WarnBoard g_warns;
std::atomic<int> g_rank{-1};

void log_from_plugin(int level, unsigned long /*flags*/, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

void log_from_plugin(int level, unsigned long /*flags*/, const char* file, int line, const char* format, ...) {
  const LogLevel ours = level <= nccl::kNcclLogWarn   ? LogLevel::kWarn
                        : level <= nccl::kNcclLogInfo ? LogLevel::kInfo
                                                      : LogLevel::kTrace;
  if (ours != LogLevel::kWarn && !log_enabled(ours)) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (ours == LogLevel::kWarn) {
    const std::lock_guard<std::mutex> lock(g_warns.mutex);
    ++g_warns.count;
    g_warns.last = text;
  }
  if (log_enabled(ours)) log_line(ours, file, line, "rank %d: %s", g_rank.load(std::memory_order_relaxed), text);
}

}  // namespace

void begin_plugin_log(int rank) {
  // In a group a rank has another number, and is the same process.
  int unknown = -1;
  g_rank.compare_exchange_strong(unknown, rank, std::memory_order_relaxed);
  // NCCL's levels; case does not matter there either.
  const char* wanted = std::getenv("NCCL_DEBUG");
  if (wanted == nullptr) return;
  if (strcasecmp(wanted, "INFO") == 0) set_log_level(LogLevel::kInfo);
  if (strcasecmp(wanted, "TRACE") == 0) set_log_level(LogLevel::kTrace);
}

nccl::LogFunction plugin_logger() { return &log_from_plugin; }

std::uint64_t warn_count() {
  const std::lock_guard<std::mutex> lock(g_warns.mutex);
  return g_warns.count;
}

std::string last_warn(std::uint64_t since) {
  const std::lock_guard<std::mutex> lock(g_warns.mutex);
  return g_warns.count > since ? g_warns.last : std::string();
}

}  // namespace meshbed::coll
