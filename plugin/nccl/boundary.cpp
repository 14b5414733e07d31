#include "plugin/nccl/boundary.h"

#include <atomic>

namespace meshbed::nccl {
namespace {

// Where this copy of the library sends its lines; set by init, read by every thread.
constinit std::atomic<LogFunction> g_logger{nullptr};
constinit std::atomic<const char*> g_who{""};

void pass_on(LogLevel level, const char* file, int line, const char* text) {
  const LogFunction logger = g_logger.load(std::memory_order_acquire);
  if (logger == nullptr) return;
  const char* who = g_who.load(std::memory_order_relaxed);
  switch (level) {
    case LogLevel::kNone:
      return;
    case LogLevel::kError:
    case LogLevel::kWarn:
      logger(kNcclLogWarn, kNcclLogInit | kNcclLogNet, file, line, "%s : %s", who, text);
      return;
    case LogLevel::kInfo:
      logger(kNcclLogInfo, kNcclLogInit | kNcclLogNet, file, line, "%s : %s", who, text);
      return;
    case LogLevel::kTrace:
      logger(kNcclLogTrace, kNcclLogNet, file, line, "%s : %s", who, text);
      return;
  }
}

}  // namespace

void send_log_to(LogFunction logger, const char* who) {
  g_who.store(who, std::memory_order_relaxed);
  g_logger.store(logger, std::memory_order_release);
  set_log_sink(logger != nullptr ? &pass_on : nullptr);
  set_log_level(logger != nullptr ? LogLevel::kInfo : LogLevel::kWarn);
}

Error refuse(const char* entry, const char* what) {
  MESHBED_WARN("%s: %s", entry, what);
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = what, .os_errno = 0};
}

NcclResult to_nccl(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kNcclInvalidArgument;
    case ErrorCode::kSystem:
      return kNcclSystemError;
    case ErrorCode::kUnreachable:
    case ErrorCode::kTimeout:
    case ErrorCode::kRemote:
      return kNcclRemoteError;
    case ErrorCode::kUnsupported:
    case ErrorCode::kClosed:
      return kNcclInvalidUsage;
    case ErrorCode::kInternal:
      return kNcclInternalError;
  }
  return kNcclInternalError;
}

}  // namespace meshbed::nccl
