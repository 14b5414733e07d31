#pragma once
// PluginFile: checks that a file is a net plugin by reading its bytes. It is not loaded, so none of its code runs.

#include <string>

namespace meshbed::testbed {

/// Returns its absolute path. Throws std::runtime_error with the path as given if it does not exist, is not a regular
/// file, is not a shared object for this machine, or exports none of ncclNetPlugin_v8 to v12. A file without section
/// headers does not list its exports and is accepted.
std::string require_plugin_file(const std::string& path);

}  // namespace meshbed::testbed
