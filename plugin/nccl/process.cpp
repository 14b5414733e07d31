#include "plugin/nccl/process.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "plugin/base/log.h"

namespace meshbed::nccl {
namespace {

constexpr int kTraceFrom = 2;  // of NCCL_MESH_DEBUG

// constinit and trivially destroyed: nothing runs when the library is loaded or when the process exits.
constinit std::mutex g_mutex;
constinit net::Transport* g_transport = nullptr;
constinit int g_contexts = 0;
constinit unsigned g_transports = 0;             // that this process has opened
constinit std::atomic<std::int64_t> g_owner{0};  // the process that opened the transport; 0: none has
constinit net::Context* g_shared = nullptr;

/// Each init() starts the log anew; NCCL_MESH_DEBUG holds for all of them.
void apply_debug_level() {
  if (g_transport->config().number(net::Variable::kDebug) >= kTraceFrom) set_log_level(LogLevel::kTrace);
}

net::Context* new_context(const net::ContextSettings& settings) {
  if (g_contexts++ == 0) g_transport->come_back();
  return new net::Context(*g_transport, settings);
}

Result<net::Context*> add_locked(const net::ContextSettings& settings) {
  if (g_transport != nullptr && is_fork()) {
    // The parent's, whose threads are not here: it is left as it is, and this process begins anew.
    g_transport = nullptr;
    g_shared = nullptr;
    g_contexts = 0;
    g_transports = 0;
  }
  if (g_transport == nullptr) {
    auto opened = net::Transport::open(net::Config::from_environment(), ++g_transports);
    if (!opened) {
      MESHBED_WARN("%s", opened.error().text.c_str());
      return opened.error();
    }
    g_transport = opened->release();
    g_owner.store(g_transport->pid());
  }
  apply_debug_level();
  return new_context(settings);
}

}  // namespace

bool is_fork() {
  const std::int64_t owner = g_owner.load();
  return owner != 0 && owner != ::getpid();
}

Result<net::Context*> add_context(const net::ContextSettings& settings) {
  const std::lock_guard lock(g_mutex);
  return add_locked(settings);
}

net::Context* add_context_if_open() {
  const std::lock_guard lock(g_mutex);
  return g_transport != nullptr ? new_context({}) : nullptr;
}

Result<void> remove_context(net::Context* context) {
  const std::lock_guard lock(g_mutex);
  g_transport->abandon(*context);
  delete context;
  if (--g_contexts > 0) return ok();
  g_transport->write_report();
  if (const std::size_t open = g_transport->open_objects(); open > 0) {
    MESHBED_WARN("finalize: %zu connections or listeners are still open, so the devices stay open too", open);
    return ok();
  }
  // Under the lock, so that no thread begins to use a transport that is about to end; another thread's init waits as
  // long. NCCL's never does so here: it calls init and finalize one at a time (netPluginMutex in its
  // src/plugin/net.cc).
  if (!g_transport->wait_for_others()) {
    MESHBED_INFO("finalize: others may still need this process, so its relay stays while the process lives");
    return ok();
  }
  delete std::exchange(g_transport, nullptr);
  return ok();
}

Result<net::Context*> shared_process_context(net::EventFunction profiler) {
  const std::lock_guard lock(g_mutex);
  if (g_shared == nullptr || is_fork()) {
    auto context = add_locked({.profiler = profiler});
    if (!context) return context.error();
    g_shared = *context;
  }
  apply_debug_level();
  return g_shared;
}

net::Context* shared_process_context_if_any() {
  const std::lock_guard lock(g_mutex);
  return g_shared;
}

std::string state_while_frozen(std::int64_t now_ns) {
  return g_transport != nullptr ? net::to_json(g_transport->state_while_frozen(now_ns)) : "";
}

net::Transport* transport() {
  const std::lock_guard lock(g_mutex);
  return g_transport;
}

}  // namespace meshbed::nccl
