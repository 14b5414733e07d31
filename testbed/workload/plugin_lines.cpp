#include "testbed/workload/plugin_lines.h"

#include <fmt/format.h>

#include <iostream>

#include "plugin/base/log.h"
#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::testbed {

void take_plugin_line(void* warnings, int level, int rank, const char* text) {
  if (static_cast<LogLevel>(level) == LogLevel::kWarn) return static_cast<RepeatedLines*>(warnings)->warn(rank, text);
  std::cerr << fmt::format("meshbed: rank {}: {}\n", rank, text);
}

PluginLines::PluginLines() : warnings_(std::cerr) { coll::set_plugin_log_writer(&take_plugin_line, &warnings_); }
PluginLines::~PluginLines() { coll::set_plugin_log_writer(nullptr, nullptr); }

}  // namespace meshbed::testbed
