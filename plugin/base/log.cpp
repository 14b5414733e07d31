#include "plugin/base/log.h"

#include <atomic>
#include <cstdio>

namespace meshbed {
namespace {

// The one mutable state of this room: where a copy of the library sends its lines, set at init and read everywhere, and
// how many warnings it sent.
std::atomic<LogSink> g_sink{nullptr};
std::atomic<LogLevel> g_level{LogLevel::kWarn};
std::atomic<std::uint64_t> g_warnings{0};

}  // namespace

void set_log_sink(LogSink sink) { g_sink.store(sink, std::memory_order_release); }
void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
bool log_enabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }

std::uint64_t warnings_logged() { return g_warnings.load(std::memory_order_relaxed); }

void log_line(LogLevel level, const char* file, int line, const char* format, ...) {
  if (level <= LogLevel::kWarn) g_warnings.fetch_add(1, std::memory_order_relaxed);
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (LogSink sink = g_sink.load(std::memory_order_acquire)) {
    sink(level, file, line, text);
  } else {
    std::fprintf(stderr, "meshbed: %s%s\n", level <= LogLevel::kWarn ? "warning: " : "", text);
  }
}

}  // namespace meshbed
