#include "testbed/world/loaded_nccl.h"

#include <cstddef>
#include <string>
#include <vector>

#include "plugin/base/log.h"
#include "sim/host/host.h"
#include "testbed/scenario/nccl/library.h"
#include "testbed/workload/nccl/decisions.h"

namespace meshbed::testbed {
namespace {

/// Of all ranks.
std::vector<NcclDecision> all_decisions(const sim::World& world, const std::string& profiler) {
  using TextFunction = std::size_t (*)(char* text, std::size_t size_bytes);
  std::vector<NcclDecision> all;
  for (const auto& process : world.processes()) {
    void* library = process->rank >= 0 ? sim::loaded_by(*process, profiler) : nullptr;
    if (library == nullptr) continue;
    const auto function = reinterpret_cast<TextFunction>(sim::symbol_of(library, "meshbedNcclDecisions"));
    if (function == nullptr) continue;  // another plugin of that name
    std::string text(function(nullptr, 0) + 1, '\0');
    text.resize(function(text.data(), text.size()));
    add_decisions(&all, read_decisions(text));
  }
  return all;
}

}  // namespace

LoadedNccl loaded_nccl(const sim::World& world, const std::string& file, const std::string& profiler) {
  for (const auto& process : world.processes()) {
    void* library = sim::loaded_by(*process, file);
    if (library == nullptr) continue;
    LoadedNccl loaded{.file = file, .version = "unknown", .sha256 = sim::loaded_sha256(file)};
    int code = 0;
    auto* version = reinterpret_cast<int (*)(int*)>(sim::symbol_of(library, "ncclGetVersion"));
    if (version != nullptr && version(&code) == 0) loaded.version = nccl_version_text(code);
    loaded.decisions = all_decisions(world, profiler);
    return loaded;
  }
  return {};
}

std::vector<NcclCallSpan> nccl_call_spans(const sim::NcclCalls& kept) {
  if (kept.lost > 0) {
    MESHBED_WARN("the trace has the first %zu calls of NCCL; %llu later ones are left out", kept.calls.size(),
                 static_cast<unsigned long long>(kept.lost));
  }
  std::vector<NcclCallSpan> spans;
  spans.reserve(kept.calls.size());
  for (const sim::NcclCall& call : kept.calls) {
    const NcclDatatype* datatype = nccl_datatype(call.datatype);
    spans.push_back({.rank = call.rank,
                     .name = call.name,
                     .thread = call.thread,
                     .start_ps = call.start_ps,
                     .end_ps = call.end_ps,
                     .count = call.count,
                     .bytes = datatype != nullptr ? call.count * datatype->bytes : 0,
                     .datatype = datatype != nullptr ? datatype->name : "",
                     .peer = call.peer});
  }
  return spans;
}

}  // namespace meshbed::testbed
