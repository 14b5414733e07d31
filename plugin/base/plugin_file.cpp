#include "plugin/base/plugin_file.h"

#include <dlfcn.h>

namespace meshbed {
namespace {

bool is_bare_name(const std::string& name) {
  const bool has_suffix = name.size() >= 3 && name.compare(name.size() - 3, 3, ".so") == 0;
  return name.find('/') == std::string::npos && name.rfind("lib", 0) != 0 && !has_suffix;
}

std::string reason_of_linker() {
  const char* message = ::dlerror();
  return message != nullptr ? message : "dlopen failed";
}

}  // namespace

Result<void*> open_plugin(const std::string& name, const std::string& prefix) {
  const bool is_program = name == "STATIC_PLUGIN";
  if (void* library = ::dlopen(is_program ? nullptr : name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  std::string reasons = reason_of_linker();
  if (!is_program && is_bare_name(name)) {
    const std::string file = prefix + "-" + name + ".so";
    if (void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reasons += "; " + reason_of_linker();
  }
  return Error{ErrorCode::kSystem, Scope::kDevice, reasons};
}

}  // namespace meshbed
