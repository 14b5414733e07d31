#include "cli/bench/cost/null_plugin.h"

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <stdexcept>

namespace meshbed::cost {
namespace {

std::string g_last_warning;  // of the plugin, which talks through one function for all

void keep_warning(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != nccl::kNcclLogWarn) return;
  std::array<char, 1024> text;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  g_last_warning = text.data();
}

}  // namespace

void require(bool good, const char* what) {
  if (good) return;
  throw std::runtime_error(std::string(what) + (g_last_warning.empty() ? "" : ": " + g_last_warning));
}

void require_success(int result, const char* what) {
  if (result == nccl::kNcclSuccess) return;
  require(false, result == nccl::kNcclInProgress ? (std::string(what) + " had nothing to show").c_str() : what);
}

NullPlugin::NullPlugin(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("cannot load the plugin: ") + ::dlerror());
  net_ = static_cast<const nccl::NetV11*>(::dlsym(library, "ncclNetPlugin_v11"));
  require(net_ != nullptr, "the plugin has no ncclNetPlugin_v11");
  nccl::CommConfig config{.trafficClass = nccl::kTrafficClassUndefined};
  require_success(net_->init(&context_, 1, &config, &keep_warning, nullptr), "init");
  int devices = 0;
  require_success(net_->devices(&devices), "devices");
  require(devices == 1, "there is not just the null wire's device: is another libibverbs.so.1 in its place?");
}

NullPlugin::~NullPlugin() {
  if (context_ != nullptr) net_->finalize(context_);
}

}  // namespace meshbed::cost
