#include "plugin/dropin/profiler.h"

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "plugin/base/collective.h"
#include "plugin/base/log.h"
#include "plugin/base/plugin_file.h"
#include "plugin/coll/store/environment.h"

namespace meshbed::dropin {
namespace {

constexpr const char* kVariable = "NCCL_PROFILER_PLUGIN";

/// As NCCL v2.30.7-1 writes them (src/misc/utils.cc, ncclDatatypeToString), by ncclDataType_t.
constexpr std::array<const char*, 12> kTypes{"ncclInt8",    "Unknown",      "ncclInt32",      "ncclUint32",
                                             "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                             "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

const char* name_of_type(meshcoll_dtype type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index] : "Unknown";
}

/// nullptr: no collective.
const char* name_of_call(meshcoll_call call) {
  if (call == MESHCOLL_SEND_RECV) return nullptr;
  for (const CollectiveInfo& each : kCollectives) {
    if (static_cast<int>(each.collective) == static_cast<int>(call)) return each.nccl_name;
  }
  return nullptr;
}

const nccl::Profiler* load() {
  const auto name = coll::variable(kVariable);
  if (!name || name->empty() || *name == "none") return nullptr;
  const auto library = open_plugin(*name, "libnccl-profiler");
  if (!library) {
    MESHBED_WARN("%s=%s: calls are announced to no profiler: %s", kVariable, name->c_str(),
                 library.error().text.c_str());
    return nullptr;
  }
  for (const char* table : {"ncclProfiler_v6", "ncclProfiler_v5"}) {
    if (const void* found = ::dlsym(*library, table)) return static_cast<const nccl::Profiler*>(found);
  }
  MESHBED_WARN("%s=%s: it has no table ncclProfiler_v6 or v5; calls are announced to no profiler", kVariable,
               name->c_str());
  ::dlclose(*library);
  return nullptr;
}

/// The process's: found when its first communicator is made, and kept.
const nccl::Profiler* loaded_profiler() {
  static const nccl::Profiler* const only = load();
  return only;
}

/// Logs a profiler's warnings; its messages of lower levels are dropped.
void log_of_profiler(int level, unsigned long, const char*, int, const char* format, ...) {
  constexpr int kWarn = 2;
  if (level != kWarn) return;
  std::array<char, 1024> text{};
  va_list values;
  va_start(values, format);
  std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  MESHBED_WARN("profiler: %s", text.data());
}

}  // namespace

std::unique_ptr<Profiling> Profiling::of(meshcoll_comm* engine) {
  const nccl::Profiler* profiler = loaded_profiler();
  if (profiler == nullptr) return nullptr;
  std::unique_ptr<Profiling> made(new Profiling(*profiler, engine));
  const int ranks = meshcoll_world(engine);
  const auto id = reinterpret_cast<std::uintptr_t>(engine);
  const int code = profiler->init(&made->context_, id, &made->events_, nullptr, ranks, ranks, meshcoll_rank(engine),
                                  &log_of_profiler);
  made->has_begun_ = code == nccl::kNcclSuccess;
  if (made->has_begun_) return made;
  MESHBED_WARN("profiler %s does not begin (%d): calls are announced to no profiler", profiler->name, code);
  return nullptr;
}

Profiling::~Profiling() {
  if (has_begun_) static_cast<void>(profiler_.finalize(context_));
}

void Profiling::announce(nccl::ProfilerEvent event) const {
  if ((static_cast<std::uint64_t>(events_) & event.type) == 0) return;
  event.rank = meshcoll_rank(engine_);
  void* handle = nullptr;
  if (profiler_.start_event(context_, &handle, &event) != nccl::kNcclSuccess || handle == nullptr) return;
  static_cast<void>(profiler_.stop_event(handle));
}

void Profiling::announce(const meshcoll_args& args) const {
  const char* type = name_of_type(args.dtype);
  meshcoll_plan plan{};
  plan.struct_bytes = sizeof plan;
  const bool has_plan = meshcoll_get_plan(engine_, &args, &plan) == MESHCOLL_OK;
  const auto channels = static_cast<std::uint8_t>(has_plan ? plan.channels : 0);
  if (args.call == MESHCOLL_SEND_RECV) {
    const auto half = [&](const char* name, const void* buffer, std::size_t count, int peer) {
      if (peer < 0) return;
      nccl::ProfilerEvent event{};
      event.type = nccl::kProfileMessage;
      event.message = {name, const_cast<void*>(buffer), type, count, peer, channels, nullptr};
      announce(event);
    };
    half("Send", args.send, args.count, args.to);
    half("Recv", args.recv, args.recv_count, args.from);
    return;
  }
  const char* name = name_of_call(args.call);
  if (name == nullptr) return;
  nccl::ProfilerEvent called{};
  called.type = nccl::kProfileCall;
  called.call = {name, args.count, type, args.root, args.stream, false};
  announce(called);
  if (!has_plan) return;
  nccl::ProfilerEvent decided{};
  decided.type = nccl::kProfileCollective;
  decided.collective = {.sequence = 0,
                        .operation = name,
                        .send = args.send,
                        .receive = args.recv,
                        .count = args.count,
                        .root = args.root,
                        .datatype = type,
                        .channels = channels,
                        .warps = 0,
                        .algorithm = plan.algorithm,
                        .protocol = plan.protocol,
                        .group = nullptr};
  announce(decided);
}

}  // namespace meshbed::dropin
