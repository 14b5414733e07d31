#pragma once
// Plugin files: how NCCL finds one by the name that a variable gives (v2.30.7-1, src/plugin/plugin_open.cc,
// openPluginLib).

#include <string>

#include "plugin/base/result.h"

namespace meshbed {

/// The library of that name, else PREFIX-NAME.so where it is a bare name ("mesh"); "STATIC_PLUGIN": the program itself.
/// `prefix`: "libnccl-net". Errors: kSystem, with the dynamic linker's message for each.
Result<void*> open_plugin(const std::string& name, const std::string& prefix);

}  // namespace meshbed
