#pragma once
// Plugin lines: what ranks' net plugins log, on its way to standard error. Warnings are counted rather than repeated
// (testbed/base/repeated_lines.h); INFO and TRACE, which NCCL_DEBUG has to ask for, are all
// written.

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
