#include "testbed/workload/engine.h"

#include <fmt/format.h>

#include "testbed/workload/plugin_lines.h"

namespace meshbed::testbed {
namespace {

/// Looks one symbol up; its name goes into `missing` where there is none.
template <typename Function>
void bind(RankHost& host, void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(host.symbol(library, name));
  if (function == nullptr) missing += missing.empty() ? name : std::string(", ") + name;
}

Result<EngineCalls> bind_calls(RankHost& host, const std::string& path) {
  const Result<void*> library = host.load(path);
  if (!library) return library.error();
  EngineCalls calls;
  std::string missing;
  bind(host, *library, "meshcoll_init", calls.init, missing);
  bind(host, *library, "meshcoll_destroy", calls.destroy, missing);
  bind(host, *library, "meshcoll_last_error", calls.last_error, missing);
  bind(host, *library, "meshcoll_get_stats", calls.get_stats, missing);
  bind(host, *library, "meshcoll_get_plan", calls.get_plan, missing);
#define MESHBED_COLLECTIVE(constant, number, c_constant, name, call, ...) \
  bind(host, *library, "meshcoll_" #call, calls.call, missing);
#include "plugin/base/collectives.def"
#undef MESHBED_COLLECTIVE
  bind(host, *library, "meshcoll_start", calls.start, missing);
  bind(host, *library, "meshcoll_wait", calls.wait, missing);
  bind(host, *library, "meshcoll_get_async_error", calls.async_error, missing);
  bind(host, *library, "meshcoll_set_log", calls.set_log, missing);
  bind(host, *library, "meshcoll_register", calls.register_memory, missing);
  if (!missing.empty()) {
    return Error{.code = ErrorCode::kUnsupported, .scope = Scope::kJob, .text = path + " does not export " + missing};
  }
  return calls;
}

ErrorCode code_of(meshcoll_result result) {
  switch (result) {
    case MESHCOLL_INVALID_ARGUMENT:
      return ErrorCode::kInvalidArgument;
    case MESHCOLL_SYSTEM:
      return ErrorCode::kSystem;
    case MESHCOLL_NET:
      return ErrorCode::kRemote;
    case MESHCOLL_TIMEOUT:
      return ErrorCode::kTimeout;
    case MESHCOLL_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

Result<Engine> Engine::open(RankHost& host, const EngineOptions& options) {
  const Result<EngineCalls> calls = bind_calls(host, options.library);
  if (!calls) return calls.error();
  if (options.warnings != nullptr) calls->set_log(&take_plugin_line, options.warnings.get());

  meshcoll_options wanted{};
  wanted.struct_bytes = sizeof wanted;
  wanted.rank = host.rank();
  wanted.world = host.ranks();
  wanted.bootstrap = host.bootstrap().c_str();
  wanted.net_plugin = options.net_plugin.c_str();
  wanted.net_version = options.net_version;
  wanted.channels = options.channels;
  std::vector<int> devices = options.channel_devices;
  if (!options.rank_devices.empty()) {
    const std::vector<int>& own = options.rank_devices[static_cast<std::size_t>(host.rank())];
    for (int channel = 0; channel < options.channels && !own.empty(); ++channel) {
      devices.push_back(own[static_cast<std::size_t>(channel) % own.size()]);
    }
  }
  wanted.channel_devices = devices.empty() ? nullptr : devices.data();
  wanted.slice_bytes = options.slice_bytes;
  wanted.algorithm = options.algorithm.c_str();
  wanted.protocol = options.protocol.c_str();
  wanted.tuning = options.tuning.empty() ? nullptr : options.tuning.c_str();
  wanted.link_mbps = options.link_mbps;
  wanted.message_ns = options.message_ns;
  wanted.hop_ns = options.hop_ns;
  wanted.hops_per_mille = options.hops_per_mille;
  std::vector<meshcoll_cable> cables;
  for (const coll::MeshCable& cable : options.cables) cables.push_back({cable.a, cable.b, cable.mbps});
  wanted.cables = cables.empty() ? nullptr : cables.data();
  wanted.cable_count = cables.size();
  wanted.shape = options.shape.empty() ? nullptr : options.shape.c_str();
  wanted.rank_mbps = options.rank_mbps.empty() ? nullptr : options.rank_mbps.data();
  wanted.on_break = [](void* rank, const char*) { static_cast<RankHost*>(rank)->about_to_fail(); };
  wanted.on_break_context = &host;
  meshcoll_comm* comm = nullptr;
  const meshcoll_result result = calls->init(&wanted, &comm);
  const Engine engine(*calls, result == MESHCOLL_OK ? comm : nullptr);
  if (const Result<void> outcome = engine.outcome(result); !outcome) return outcome.error();
  return engine;
}

Result<void> Engine::outcome(meshcoll_result result) const {
  if (result == MESHCOLL_OK) return ok();
  const char* text = calls_.last_error(comm_);
  return Error{
      .code = code_of(result),
      .scope = Scope::kJob,
      .text = text != nullptr && text[0] != '\0' ? text : fmt::format("engine result {}", static_cast<int>(result))};
}

Result<void> Engine::health() const {
  meshcoll_error error{};
  error.struct_bytes = sizeof error;
  if (const Result<void> outcome = this->outcome(calls_.async_error(comm_, &error)); !outcome) return outcome;
  if (error.result == MESHCOLL_OK) return ok();
  return Error{.code = code_of(error.result), .scope = Scope::kJob, .text = error.text};
}

Result<meshcoll_stats> Engine::stats() const {
  meshcoll_stats stats{};
  stats.struct_bytes = sizeof stats;
  if (const Result<void> outcome = this->outcome(calls_.get_stats(comm_, &stats)); !outcome) return outcome.error();
  return stats;
}

Result<EnginePlan> Engine::plan(const meshcoll_args* args) const {
  meshcoll_plan plan{};
  plan.struct_bytes = sizeof plan;
  if (const Result<void> outcome = this->outcome(calls_.get_plan(comm_, args, &plan)); !outcome) return outcome.error();
  return EnginePlan{.algorithm = plan.algorithm, .protocol = plan.protocol, .channels = plan.channels};
}

Result<EnginePlan> Engine::last_plan() const { return plan(nullptr); }
Result<EnginePlan> Engine::plan_of(const meshcoll_args& args) const { return plan(&args); }

Result<void> Engine::close() {
  const Result<void> outcome = this->outcome(calls_.destroy(comm_));
  comm_ = nullptr;
  return outcome;
}

}  // namespace meshbed::testbed
