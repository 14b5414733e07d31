#pragma once
// PluginFile: is a file a net plugin at all? Asked of its bytes: nothing is loaded, so that none of its code runs here.

#include <string>

namespace meshbed::testbed {

/// Its absolute path. Throws std::runtime_error with the path as it was given where there is no such file, where it is
/// a folder or another thing that is no file, no shared object of this kind of machine, or one that exports no
/// ncclNetPlugin_v8 to v12. A file without section headers tells nobody what it exports, and is let through.
std::string require_plugin_file(const std::string& path);

}  // namespace meshbed::testbed
