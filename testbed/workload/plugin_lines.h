#pragma once
// Plugin lines: writes the log of the ranks' net plugins to standard error. Repeated warnings are counted
// (testbed/base/repeated_lines.h); INFO and TRACE, which NCCL_DEBUG must enable, are all written.

#include "testbed/base/repeated_lines.h"

namespace meshbed::testbed {

/// A coll::PluginLogWriter; `warnings` is a RepeatedLines.
void take_plugin_line(void* warnings, int level, int rank, const char* text);

/// For plugins that are called in this process, not in a rank's own copy of the engine: while it lives.
class PluginLines {
 public:
  PluginLines();
  ~PluginLines();
  PluginLines(const PluginLines&) = delete;
  PluginLines& operator=(const PluginLines&) = delete;

 private:
  RepeatedLines warnings_;
};

}  // namespace meshbed::testbed
