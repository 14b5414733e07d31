#include "cli/world/loaded_nccl.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/scenario/nccl/library.h"
#include "sim/host/host.h"

namespace meshbed::cli {
namespace {

struct TypeName {
  const char* nccl;
  const char* tests;  // nccl-tests' name
  std::uint64_t bytes;
};
// As NCCL v2.30.7-1 writes them (src/misc/utils.cc, ncclDatatypeToString), which has no name for ncclUint8.
constexpr TypeName kTypes[] = {
    {"ncclInt8", "int8", 1},         {"Unknown", "uint8", 1},         {"ncclInt32", "int32", 4},
    {"ncclUint32", "uint32", 4},     {"ncclInt64", "int64", 8},       {"ncclUint64", "uint64", 8},
    {"ncclFloat16", "half", 2},      {"ncclFloat32", "float", 4},     {"ncclFloat64", "double", 8},
    {"ncclBfloat16", "bfloat16", 2}, {"ncclFloat8e4m3", "f8e4m3", 1}, {"ncclFloat8e5m2", "f8e5m2", 1}};

/// What the caller's count comes to: of an all-gather, a reduce-scatter and their like all ranks' shares.
std::uint64_t size_of_call(const std::string& operation, std::uint64_t bytes, int ranks) {
  const bool of_all = operation == "AllGather" || operation == "ReduceScatter" || operation == "Gather" ||
                      operation == "Scatter" || operation == "AlltoAll";
  return of_all ? bytes * static_cast<std::uint64_t>(ranks) : bytes;
}

NcclDecision decision_of(const nlohmann::json& seen) {
  NcclDecision decision{.operation = seen.at("operation"),
                        .datatype = seen.at("datatype"),
                        .ranks = seen.at("ranks"),
                        .algorithm = seen.value("algorithm", ""),
                        .protocol = seen.value("protocol", ""),
                        .channels = seen.at("channels"),
                        .calls = seen.at("calls")};
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeName& one) { return decision.datatype == one.nccl; });
  const std::uint64_t element_bytes = type != std::end(kTypes) ? type->bytes : 1;
  if (type != std::end(kTypes)) decision.datatype = type->tests;
  decision.bytes =
      size_of_call(decision.operation, seen.at("count").get<std::uint64_t>() * element_bytes, decision.ranks);
  return decision;
}

bool same_choice(const NcclDecision& left, const NcclDecision& right) {
  return left.operation == right.operation && left.datatype == right.datatype && left.bytes == right.bytes &&
         left.ranks == right.ranks && left.algorithm == right.algorithm && left.protocol == right.protocol &&
         left.channels == right.channels;
}

/// One rank's, which are calls of the same choice where they differ in peers and roots alone.
std::vector<NcclDecision> decisions_of(void* profiler) {
  using TextFunction = std::size_t (*)(char* text, std::size_t size_bytes);
  const auto function = reinterpret_cast<TextFunction>(sim::symbol_of(profiler, "meshbedNcclDecisions"));
  if (function == nullptr) return {};
  std::string text(function(nullptr, 0) + 1, '\0');
  text.resize(function(text.data(), text.size()));
  std::vector<NcclDecision> found;
  for (const nlohmann::json& seen : nlohmann::json::parse(text)) {
    NcclDecision decision = decision_of(seen);
    const auto known =
        std::find_if(found.begin(), found.end(), [&](const NcclDecision& one) { return same_choice(one, decision); });
    if (known == found.end()) {
      found.push_back(std::move(decision));
    } else {
      known->calls += decision.calls;
    }
  }
  return found;
}

/// Of all ranks.
std::vector<NcclDecision> all_decisions(const sim::World& world, const std::string& profiler) {
  std::vector<NcclDecision> all;
  for (const auto& process : world.processes()) {
    void* library = process->rank >= 0 ? sim::loaded_by(*process, profiler) : nullptr;
    if (library == nullptr) continue;
    for (NcclDecision& decision : decisions_of(library)) {
      const auto known =
          std::find_if(all.begin(), all.end(), [&](const NcclDecision& one) { return same_choice(one, decision); });
      if (known == all.end()) {
        all.push_back(std::move(decision));
      } else {
        known->calls = std::max(known->calls, decision.calls);
      }
    }
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

}  // namespace meshbed::cli
