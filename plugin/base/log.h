#pragma once
// Log: levels and one sink a copy of the library. The sink is NCCL's own logger inside NCCL, standard error elsewhere.
// The first function that knows that something is an error logs it, once.

#include <cstdarg>
#include <cstdint>

namespace meshbed {

enum class LogLevel { kNone = 0, kError = 1, kWarn = 2, kInfo = 3, kTrace = 4 };

/// Called with a complete line, without a newline.
using LogSink = void (*)(LogLevel level, const char* file, int line, const char* text);

void set_log_sink(LogSink sink);  // nullptr: standard error, kWarn and above
/// Lines above `level` are dropped before they are formatted.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
/// Warnings and errors that were logged so far, whether or not the sink printed them.
std::uint64_t warnings_logged();
void log_line(LogLevel level, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

}  // namespace meshbed

#define MESHBED_LOG(level, ...) \
  (::meshbed::log_enabled(level) ? ::meshbed::log_line((level), __FILE__, __LINE__, __VA_ARGS__) : void(0))
#define MESHBED_WARN(...) MESHBED_LOG(::meshbed::LogLevel::kWarn, __VA_ARGS__)
#define MESHBED_INFO(...) MESHBED_LOG(::meshbed::LogLevel::kInfo, __VA_ARGS__)
