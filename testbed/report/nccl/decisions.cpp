#include "testbed/report/nccl/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace meshbed::testbed {

std::vector<std::string> nccl_lines(const LoadedNccl& nccl) {
  if (nccl.file.empty()) return {};
  std::vector<std::string> lines{
      fmt::format("nccl {}: {}, SHA-256 {}", nccl.version, nccl.file, nccl.sha256.substr(0, 16))};
  if (nccl.decisions.empty()) return lines;
  lines.push_back(fmt::format("{:<14} {:<9} {:>12} {:>6}  {:<16} {:<8} {:>8} {:>8}", "nccl decided", "type", "size (B)",
                              "ranks", "algorithm", "protocol", "channels", "calls"));
  for (const NcclDecision& one : nccl.decisions) {
    lines.push_back(fmt::format("{:<14} {:<9} {:>12} {:>6}  {:<16} {:<8} {:>8} {:>8}", one.operation, one.datatype,
                                one.bytes, one.ranks, one.algorithm.empty() ? "-" : one.algorithm,
                                one.protocol.empty() ? "-" : one.protocol,
                                one.is_announced() ? std::to_string(one.channels) : "-", one.calls));
  }
  const bool is_complete = std::all_of(nccl.decisions.begin(), nccl.decisions.end(),
                                       [](const NcclDecision& one) { return one.is_announced(); });
  if (!is_complete) {
    lines.push_back("- in all three: NCCL announced the call to its profiler, and not what it decided (docs/nccl.md)");
  }
  return lines;
}

nlohmann::ordered_json nccl_json(const LoadedNccl& nccl) {
  if (nccl.file.empty()) return nullptr;
  auto decisions = nlohmann::ordered_json::array();
  for (const NcclDecision& one : nccl.decisions) {
    decisions.push_back(
        {{"operation", one.operation},
         {"datatype", one.datatype},
         {"size_bytes", one.bytes},
         {"ranks", one.ranks},
         {"algorithm", one.algorithm.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(one.algorithm)},
         {"protocol", one.protocol.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(one.protocol)},
         {"channels", one.is_announced() ? nlohmann::ordered_json(one.channels) : nlohmann::ordered_json(nullptr)},
         {"calls", one.calls}});
  }
  return {{"file", nccl.file}, {"version", nccl.version}, {"sha256", nccl.sha256}, {"decisions", std::move(decisions)}};
}

}  // namespace meshbed::testbed
