#include "cli/report/ring_report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/report/report.h"
#include "plugin/base/counted.h"

namespace meshbed::cli {
namespace {

std::string ring_time_text(const RingTime& time) {
  const std::string name = time.name;
  const bool is_rate = name == "memory_rate_bps";
  const std::string amount =
      is_rate ? time.ns == 0 ? "unbounded" : fmt::format("{} GB/s", time.ns / 1e9) : fmt::format("{} ns", time.ns);
  return fmt::format("{} {} ({})", is_rate ? "memory rate" : name, amount, time.source);
}

}  // namespace

std::vector<std::string> ring_lines(const RingOutcome& rings) {
  std::vector<std::string> lines{"", fmt::format("rings: {} done", counted(rings.slots_done, "slot"))};
  std::map<std::string, int> well;
  for (const RingVerdict& verdict : rings.verdicts) {
    if (!verdict.reached) {
      ++well["did not come to an end"];
      continue;
    }
    if (verdict.cause == ring::Cause::kDrained) {
      ++well["drained"];
      continue;
    }
    lines.push_back(fmt::format("  rank {} at {}: {}: {}; queue depth {}; the ancestor's watchdog suspects {}",
                                verdict.rank, duration_text(verdict.at_ps), ring::name_of(verdict.cause), verdict.text,
                                verdict.queue_depth, verdict.ancestor_suspects ? "a stall" : "nothing"));
  }
  for (const auto& [name, count] : well) lines.push_back(fmt::format("  {} {}", count, name));
  std::vector<std::string> times;
  for (const RingTime& time : rings.times) times.push_back(ring_time_text(time));
  lines.push_back(fmt::format("  parameters, not measured: {}", fmt::join(times, ", ")));
  return lines;
}

nlohmann::ordered_json rings_json(const RingOutcome& rings) {
  nlohmann::ordered_json json{{"slots_done", rings.slots_done}, {"events", rings.trace.events().size()}};
  json["verdicts"] = nlohmann::ordered_json::array();
  for (const RingVerdict& verdict : rings.verdicts) {
    if (!verdict.reached) continue;
    json["verdicts"].push_back({{"rank", verdict.rank},
                                {"at_ns", static_cast<double>(verdict.at_ps) / 1e3},
                                {"verdict", ring::name_of(verdict.cause)},
                                {"text", verdict.text},
                                {"queue_depth", verdict.queue_depth},
                                {"ancestor_suspects_stall", verdict.ancestor_suspects}});
  }
  json["parameters"] = nlohmann::ordered_json::array();
  for (const RingTime& time : rings.times) {
    json["parameters"].push_back({{"name", time.name}, {"value", time.ns}, {"source", time.source}});
  }
  return json;
}

}  // namespace meshbed::cli
