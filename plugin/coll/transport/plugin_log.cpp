#include "plugin/coll/transport/plugin_log.h"

#include <strings.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

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
std::atomic<SpeakerOfThread> g_speaker_of_thread{nullptr};

struct Writer {
  PluginLogWriter write = nullptr;
  void* context = nullptr;
};
// Set before plugins are called, and not while they are.
Writer g_writer;

std::optional<Speaker> speaker_of_thread() {
  const SpeakerOfThread find = g_speaker_of_thread.load(std::memory_order_acquire);
  return find != nullptr ? find() : std::nullopt;
}

void log_from_plugin(int level, unsigned long /*flags*/, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

void log_from_plugin(int level, unsigned long /*flags*/, const char* file, int line, const char* format, ...) {
  const LogLevel ours = level <= nccl::kNcclLogWarn   ? LogLevel::kWarn
                        : level <= nccl::kNcclLogInfo ? LogLevel::kInfo
                                                      : LogLevel::kTrace;
  const std::optional<Speaker> speaker = speaker_of_thread();
  const bool is_shown =
      speaker && speaker->debug != nullptr ? ours <= plugin_log_level(speaker->debug) : log_enabled(ours);
  if (ours != LogLevel::kWarn && !is_shown) return;
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
  if (!is_shown) return;
  const int rank = speaker ? speaker->rank : g_rank.load(std::memory_order_relaxed);
  if (g_writer.write != nullptr) return g_writer.write(g_writer.context, static_cast<int>(ours), rank, text);
  log_line(ours, file, line, "rank %d: %s", rank, text);
}

}  // namespace

void begin_plugin_log(int rank) {
  // In a group a rank has another number, although it is the same process.
  int unknown = -1;
  g_rank.compare_exchange_strong(unknown, rank, std::memory_order_relaxed);
  if (speaker_of_thread()) return;  // its variables are not this process's
  if (const char* const debug = std::getenv("NCCL_DEBUG")) set_log_level(plugin_log_level(debug));
}

void set_speaker_of_thread(SpeakerOfThread find) { g_speaker_of_thread.store(find, std::memory_order_release); }

void set_plugin_log_writer(PluginLogWriter writer, void* context) { g_writer = {writer, context}; }

LogLevel plugin_log_level(const char* debug) {
  if (strcasecmp(debug, "INFO") == 0) return LogLevel::kInfo;
  return strcasecmp(debug, "TRACE") == 0 ? LogLevel::kTrace : LogLevel::kWarn;
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
