#include "testbed/report/ring_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "plugin/base/counted.h"
#include "plugin/ring/telemetry/recorded_work.h"
#include "testbed/report/report.h"

namespace meshbed::testbed {
namespace {

std::string ring_time_text(const RingTime& time) {
  const std::string name = time.name;
  const bool is_rate = name == "memory_rate_bps";
  const std::string amount =
      is_rate ? time.ns == 0 ? "unbounded" : fmt::format("{} GB/s", time.ns / 1e9) : fmt::format("{} ns", time.ns);
  return fmt::format("{} {} ({})", is_rate ? "memory rate" : name, amount,
                     time.source.substr(0, time.source.find(" in profile ")));
}

std::string ring_name_of(const RingOutcome& rings, int rank, int ring) {
  return rings.rings == 1 ? fmt::format("{}", rank) : fmt::format("{}.{}", rank, ring);
}

/// One line a ring.
void add_ring_table(const RingOutcome& rings, std::vector<std::string>& lines) {
  bool waits = false;
  for (const RingRank& one : rings.ranks) waits = waits || one.credit_waits.count > 0;
  lines.push_back(fmt::format("  {:>6} {:>9} {:>11} {:>7} {:>9} {:>6} {:>8} {:>6} {:>6}  {}{}", "rank", "slots",
                              "slots/s", "depth", "most", "idle", "fairness", "skew", "looks", "watchdog",
                              waits ? "  waits for credit" : ""));
  for (const RingRank& one : rings.ranks) {
    if (!one.reached) continue;
    std::string line = fmt::format(
        "  {:>6} {:>9} {:>11.0f} {:>7.1f} {:>9} {:>6} {:>8} {:>6} {:>6}  {}", ring_name_of(rings, one.rank, one.ring),
        one.ended, one.slots_per_s(), one.depth_mean, one.depth_most,
        one.saw_lanes ? fmt::format("{:.1f}%", 100 * one.lanes_idle) : "-", one.watch.counters.tenant_fairness,
        one.watch.counters.tenant_fairness_skew, one.watch.looks, one.watch.health);
    if (waits) {
      line += fmt::format("  {}, {}", counted(one.credit_waits.count, "wait"), duration_text(one.credit_waits.time_ps));
    }
    lines.push_back(line);
  }
}

nlohmann::ordered_json ring_rank_json(const RingRank& one) {
  nlohmann::ordered_json json{{"rank", one.rank},
                              {"ring", one.ring},
                              {"lanes", one.lanes},
                              {"slots", one.slots},
                              {"published", one.published},
                              {"ended", one.ended},
                              {"slots_per_s", one.slots_per_s()},
                              {"span_ns", static_cast<double>(one.span_ps) / 1e3},
                              {"queue_depth_mean", one.depth_mean},
                              {"queue_depth_most", one.depth_most},
                              {"lanes_idle", one.saw_lanes ? nlohmann::ordered_json(one.lanes_idle) : nullptr}};
  json.update(ring_counters_json(one.watch.counters));
  json["watchdog"] = {{"looks", one.watch.looks},
                      {"in_vain", one.watch.in_vain},
                      {"ancestor_suspected", one.watch.suspected},
                      {"health", one.watch.health}};
  json["credit_waits"] = one.credit_waits.count;
  json["credit_wait_ns"] = static_cast<double>(one.credit_waits.time_ps) / 1e3;
  return json;
}

nlohmann::ordered_json waits_json(const ring::WaitChain& waits) {
  nlohmann::ordered_json json{{"cycle", waits.is_cycle}, {"text", waits.text()}};
  json["links"] = nlohmann::ordered_json::array();
  for (const ring::WaitLink& link : waits.links) {
    json["links"].push_back({{"rank", link.rank},
                             {"ring", link.ring},
                             {"slot", link.slot},
                             {"opcode", link.opcode},
                             {"block", link.block ? nlohmann::ordered_json(*link.block) : nullptr},
                             {"text", link.text}});
  }
  return json;
}

std::string words_of_initiation(const std::string& initiation) {
  if (initiation == "device") return "device doorbell";
  return initiation == "launch" ? "launch per operation" : "host proxy";
}

std::string recording_text(const ring::RecordedWork& work) {
  std::string text = fmt::format("  published as recorded: {} over {}", counted(work.items.size(), "item"),
                                 duration_text(static_cast<Picoseconds>(work.span_ns) * kPicosecondsPerNanosecond));
  if (work.unseen > 0) {
    text += fmt::format("; {} more came and went between two snapshots: record more often", work.unseen);
  }
  return text;
}

std::vector<std::string> token_lines(const RingOutcome& rings) {
  if (rings.tokens.empty()) return {};
  std::vector<std::string> lines{fmt::format("  a token of {}, mean over ranks and tokens, and where its time goes:",
                                             counted(rings.layers, "layer")),
                                 fmt::format("  {:<22}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}", "initiation", "token us",
                                             "launch", "compute", "wire", "queue", "waiting")};
  for (const RingToken& token : rings.tokens) {
    std::string line = fmt::format("  {:<22}{:>12.3f}", words_of_initiation(token.initiation),
                                   static_cast<double>(token.token_ps) / 1e6);
    for (const Picoseconds part : token.parts) line += fmt::format("{:>12.3f}", static_cast<double>(part) / 1e6);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

nlohmann::ordered_json ring_counters_json(const ring::RuntimeCounters& counters) {
  return {{"gpu_idle_ppm", counters.gpu_idle_ppm},
          {"frontier_density_bps", counters.frontier_density_bps},
          {"occupancy_proxy_bps", counters.occupancy_proxy_bps},
          {"drained_slots", counters.drained_slots},
          {"unreclaimed_done_slots", counters.unreclaimed_done},
          {"tenant_fairness_total", counters.tenant_fairness},
          {"tenant_fairness_skew", counters.tenant_fairness_skew},
          {"priority_fairness_total", counters.priority_fairness}};
}

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
    const std::string whom = verdict.waits_for < 0 ? "" : fmt::format(", of rank {}", verdict.waits_for);
    lines.push_back(fmt::format("  rank {} at {}: {}: {}{}; queue depth {}; the ancestor's watchdog suspects {}",
                                ring_name_of(rings, verdict.rank, verdict.ring), duration_text(verdict.at_ps),
                                ring::name_of(verdict.cause), verdict.text, whom, verdict.queue_depth,
                                verdict.ancestor_suspects ? "a stall" : "nothing"));
  }
  if (!rings.waits.links.empty()) {
    lines.push_back(fmt::format("  who waits for whom: {}", rings.waits.text()));
  }
  for (const auto& [name, count] : well) lines.push_back(fmt::format("  {} {}", count, name));
  add_ring_table(rings, lines);
  if (rings.recorded) lines.push_back(recording_text(*rings.recorded));
  std::vector<std::string> times;
  for (const RingTime& time : rings.times) times.push_back(ring_time_text(time));
  for (const std::string& line : token_lines(rings)) lines.push_back(line);
  const bool by_profile = std::any_of(rings.times.begin(), rings.times.end(), [](const RingTime& time) {
    return time.source.find(" in profile ") != std::string::npos;
  });
  lines.push_back(fmt::format("  parameters{}: {}", by_profile ? "" : ", not measured", fmt::join(times, ", ")));
  return lines;
}

nlohmann::ordered_json rings_json(const RingOutcome& rings) {
  nlohmann::ordered_json json{{"slots_done", rings.slots_done}, {"events", rings.trace.events().size()}};
  json["verdicts"] = nlohmann::ordered_json::array();
  for (const RingVerdict& verdict : rings.verdicts) {
    if (!verdict.reached) continue;
    json["verdicts"].push_back({{"rank", verdict.rank},
                                {"ring", verdict.ring},
                                {"at_ns", static_cast<double>(verdict.at_ps) / 1e3},
                                {"verdict", ring::name_of(verdict.cause)},
                                {"text", verdict.text},
                                {"waits_for_rank", verdict.waits_for},
                                {"queue_depth", verdict.queue_depth},
                                {"ancestor_suspects_stall", verdict.ancestor_suspects}});
  }
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RingRank& one : rings.ranks) {
    if (one.reached) json["ranks"].push_back(ring_rank_json(one));
  }
  if (!rings.waits.links.empty()) json["waits"] = waits_json(rings.waits);
  json["parameters"] = nlohmann::ordered_json::array();
  for (const RingTime& time : rings.times) {
    json["parameters"].push_back({{"name", time.name}, {"value", time.ns}, {"source", time.source}});
  }
  if (rings.recorded) {
    json["recorded"] = {{"items", rings.recorded->items.size()},
                        {"span_ns", rings.recorded->span_ns},
                        {"unseen", rings.recorded->unseen}};
  }
  if (rings.tokens.empty()) return json;
  json["layers"] = rings.layers;
  json["tokens"] = nlohmann::ordered_json::array();
  for (const RingToken& token : rings.tokens) {
    nlohmann::ordered_json one{{"initiation", token.initiation},
                               {"token_ns", static_cast<double>(token.token_ps) / 1e3}};
    for (std::size_t part = 0; part < token.parts.size(); ++part) {
      one[std::string(name_of(static_cast<RingPart>(part))) + "_ns"] = static_cast<double>(token.parts[part]) / 1e3;
    }
    json["tokens"].push_back(one);
  }
  return json;
}

}  // namespace meshbed::testbed
