// The rings of megakernels: how they ended, what they did, and which times were assumed.

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/counted.h"
#include "plugin/ring/telemetry/recorded_work.h"
#include "testbed/base/units.h"
#include "testbed/result/ring_counters.h"
#include "testbed/result/run_document.h"
#include "testbed/workload/megakernel/latencies.h"
#include "testbed/workload/megakernel/outcome.h"

namespace meshbed::testbed::document {
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
void add_ring_lines(Section& section, const RingOutcome& rings) {
  bool waits = false;
  for (const RingRank& one : rings.ranks) waits = waits || one.credit_waits.count > 0;
  section.line("  {:>6} {:>9} {:>11} {:>7} {:>9} {:>6} {:>8} {:>6} {:>6}  {}{}", "rank", "slots", "slots/s", "depth",
               "most", "idle", "fairness", "skew", "looks", "watchdog", waits ? "  waits for credit" : "");
  for (const RingRank& one : rings.ranks) {
    if (!one.reached) continue;
    std::string line = fmt::format(
        "  {:>6} {:>9} {:>11.0f} {:>7.1f} {:>9} {:>6} {:>8} {:>6} {:>6}  {}", ring_name_of(rings, one.rank, one.ring),
        one.ended, one.slots_per_s(), one.depth_mean, one.depth_most,
        one.saw_lanes ? fmt::format("{:.1f}%", 100 * one.lanes_idle) : "-", one.watch.counters.tenant_fairness,
        one.watch.counters.tenant_fairness_skew, one.watch.looks, one.watch.health);
    if (waits) {
      line += fmt::format("  {}, {}", counted(one.credit_waits.count, "wait"), duration_text(one.credit_waits.time_ps));
      if (const auto beyond = one.credit_waits.overcommitted_most; beyond > 0) {
        line += fmt::format(", {} beyond the queue", counted(beyond, "place"));
      }
    }
    section.line("{}", line);
  }
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

void add_token_lines(Section& section, const RingOutcome& rings) {
  if (rings.tokens.empty()) return;
  section.line("  a token of {}, mean over ranks and tokens, and where its time goes:", counted(rings.layers, "layer"));
  section.line("  {:<22}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}", "initiation", "token us", "launch", "compute", "wire",
               "queue", "waiting");
  for (const RingToken& token : rings.tokens) {
    std::string line = fmt::format("  {:<22}{:>12.3f}", words_of_initiation(token.initiation),
                                   static_cast<double>(token.token_ps) / 1e6);
    for (const Picoseconds part : token.parts) line += fmt::format("{:>12.3f}", static_cast<double>(part) / 1e6);
    section.line("{}", line);
  }
}

/// Of all slots, and by tenant and priority, where a slot's wait depends on whose it is.
void add_latency_lines(Section& section, const std::vector<RingLatency>& latencies) {
  if (latencies.empty()) return;
  section.line("  {:<20}{:>12}{:>9}{:>13}{:>13}{:>13}{:>13}", "latency (us)", "part", "slots", "p50", "p90", "p99",
               "max");
  for (const RingLatency& one : latencies) {
    if (one.group == "rank" || one.group == "opcode") continue;
    const auto us = [](Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e6; };
    section.line("  {:<20}{:>12}{:>9}{:>13.3f}{:>13.3f}{:>13.3f}{:>13.3f}",
                 one.name.empty() ? "all slots" : one.group + " " + one.name, one.part, one.count, us(one.p50_ps),
                 us(one.p90_ps), us(one.p99_ps), us(one.most_ps));
  }
}

void fill_rings_lines(Section& section, const RingOutcome& rings, const std::vector<RingLatency>& latencies) {
  section.blank();
  section.line("rings: {} done", counted(rings.slots_done, "slot"));
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
    section.line("  rank {} at {}: {}: {}{}; queue depth {}; the ancestor's watchdog suspects {}",
                 ring_name_of(rings, verdict.rank, verdict.ring), duration_text(verdict.at_ps),
                 ring::name_of(verdict.cause), verdict.text, whom, verdict.queue_depth,
                 verdict.ancestor_suspects ? "a stall" : "nothing");
  }
  if (!rings.waits.links.empty()) {
    section.line("  who waits for whom: {}", rings.waits.text());
  }
  for (const std::string& doorbell : rings.doorbells) section.line("  {}", doorbell);
  for (const auto& [name, count] : well) section.line("  {} {}", count, name);
  add_ring_lines(section, rings);
  add_latency_lines(section, latencies);
  if (rings.recorded) section.line("{}", recording_text(*rings.recorded));
  std::vector<std::string> times;
  for (const RingTime& time : rings.times) times.push_back(ring_time_text(time));
  add_token_lines(section, rings);
  const bool by_profile = std::any_of(rings.times.begin(), rings.times.end(), [](const RingTime& time) {
    return time.source.find(" in profile ") != std::string::npos;
  });
  section.line("  parameters{}: {}", by_profile ? "" : ", not measured", fmt::join(times, ", "));
}

Section rings_shape() {
  Section section{.key = "rings", .title = "Rings", .empty = Empty::kAbsent};
  section.with({integer("slots_done", "", "of all rings"), integer("events", "", "in slots.csv"),
                object("waits", "which rank waits for which, when the first ring was found stuck",
                       {flag("cycle", "whether the last waits for the first"), text("text", "the chain in words"),
                        objects("links", "the chain",
                                {integer("rank", "", "that waits"), integer("ring", "", "of the rank"),
                                 integer("slot", "", "of the ring"), integer("opcode", "", "of the slot's work"),
                                 integer("block", "", "that it waits for").or_null(), text("text", "in words")})})
                    .or_absent(),
                texts("doorbells", "WQEs that wait for a doorbell, when the first ring was found stuck").or_absent(),
                object("recorded", "what was published as recorded",
                       {integer("items", "", "published"), integer("span_ns", "ns", "from the first to the last"),
                        integer("unseen", "", "items that came and went between two snapshots")})
                    .or_absent(),
                integer("layers", "", "of each token").or_absent()});
  section.with(Table{.key = "verdicts",
                     .meaning = "how each ring ended",
                     .columns = {integer("rank", "", "the rank"), integer("ring", "", "of the rank"),
                                 number("at_ns", "ns", "since the start of the run"), text("verdict", "its name"),
                                 text("text", "in words"), integer("waits_for_rank", "", "-1: for none"),
                                 integer("queue_depth", "", "slots that were not done"),
                                 flag("ancestor_suspects_stall", "by the rule of the ancestor's own watchdog")}});
  Table ranks{.key = "ranks",
              .meaning = "each ring of each rank",
              .columns = {integer("rank", "", "the rank"), integer("ring", "", "of the rank"),
                          integer("lanes", "", "that execute slots"), integer("slots", "", "of the ring"),
                          integer("published", "", "slots"), integer("ended", "", "slots"),
                          number("slots_per_s", "1/s", "that ended"),
                          number("span_ns", "ns", "from the first publication to the last end"),
                          number("queue_depth_mean", "", "slots published and not done, over the span"),
                          integer("queue_depth_most", "", "likewise"),
                          number("lanes_idle", "", "share of the lanes' time; null on a GPU").or_null()}};
  for (Field& field : ring_counter_fields()) ranks.columns.push_back(std::move(field));
  for (Field& field : std::vector<Field>{
           object("watchdog", "of the host",
                  {integer("looks", "", "that it took"), integer("in_vain", "", "looks without progress"),
                   integer("ancestor_suspected", "", "times that the ancestor's rule suspects a stall"),
                   text("health", "its last verdict")}),
           integer("credit_waits", "", "times that the ring waited for credit"),
           number("credit_wait_ns", "ns", "in all"),
           integer("overcommitted_most", "", "places of a queue that were reserved and that it does not have")}) {
    ranks.columns.push_back(std::move(field));
  }
  section.with(std::move(ranks));
  section.with(Table{.key = "parameters",
                     .meaning = "times that the model rests on",
                     .columns = {text("name", "of the parameter"), number("value", "ns", "of a rate: bytes per second"),
                                 text("source", "where it comes from")}});
  section.with(
      Table{.key = "latencies",
            .meaning = "how long slots took",
            .columns = {text("group", "all, rank, opcode, tenant or priority"), text("name", "in the group"),
                        text("part",
                             "queueing: from its arrival until a lane claims it; execution: until it is "
                             "done; completion: both"),
                        integer("slots", "", "that ended"), number("p50_ns", "ns", "half of them took no longer"),
                        number("p90_ns", "ns", "90 % of them"), number("p99_ns", "ns", "99 % of them"),
                        number("max_ns", "ns", "the longest")}});
  Table tokens{.key = "tokens",
               .meaning = "a decode token, mean over ranks and tokens",
               .columns = {text("initiation", "host, device or launch"), number("token_ns", "ns", "of the token")},
               .may_be_absent = true};
  for (std::size_t part = 0; part < kRingParts; ++part) {
    tokens.columns.push_back(
        number(std::string(name_of(static_cast<RingPart>(part))) + "_ns", "ns", "this part of the token's time"));
  }
  return section.with(std::move(tokens));
}

Value waits_value(const ring::WaitChain& waits) {
  Value value{{"cycle", waits.is_cycle}, {"text", waits.text()}, {"links", Value::array()}};
  for (const ring::WaitLink& link : waits.links) {
    value["links"].push_back({{"rank", link.rank},
                              {"ring", link.ring},
                              {"slot", link.slot},
                              {"opcode", link.opcode},
                              {"block", link.block ? Value(*link.block) : Value(nullptr)},
                              {"text", link.text}});
  }
  return value;
}

std::vector<Value> rank_cells(const RingRank& one) {
  std::vector<Value> cells{one.rank,
                           one.ring,
                           one.lanes,
                           one.slots,
                           one.published,
                           one.ended,
                           one.slots_per_s(),
                           static_cast<double>(one.span_ps) / 1e3,
                           one.depth_mean,
                           one.depth_most,
                           known_value(one.saw_lanes, one.lanes_idle)};
  for (Value& value : ring_counter_values(one.watch.counters)) cells.push_back(std::move(value));
  cells.push_back({{"looks", one.watch.looks},
                   {"in_vain", one.watch.in_vain},
                   {"ancestor_suspected", one.watch.suspected},
                   {"health", one.watch.health}});
  cells.emplace_back(one.credit_waits.count);
  cells.emplace_back(static_cast<double>(one.credit_waits.time_ps) / 1e3);
  cells.emplace_back(one.credit_waits.overcommitted_most);
  return cells;
}

void fill_rings(Section& section, const RunView& run) {
  section.has_values = run.result.rings != nullptr;
  if (!section.has_values) return;
  const RingOutcome& rings = *run.result.rings;
  section.set("slots_done", rings.slots_done);
  section.set("events", rings.trace.events().size());
  if (!rings.waits.links.empty()) section.set("waits", waits_value(rings.waits));
  if (!rings.doorbells.empty()) section.set("doorbells", rings.doorbells);
  if (rings.recorded) {
    section.set("recorded", {{"items", rings.recorded->items.size()},
                             {"span_ns", rings.recorded->span_ns},
                             {"unseen", rings.recorded->unseen}});
  }
  if (!rings.tokens.empty()) section.set("layers", rings.layers);
  for (const RingVerdict& verdict : rings.verdicts) {
    if (!verdict.reached) continue;
    section.table("verdicts")
        .add({verdict.rank, verdict.ring, static_cast<double>(verdict.at_ps) / 1e3, ring::name_of(verdict.cause),
              verdict.text, verdict.waits_for, verdict.queue_depth, verdict.ancestor_suspects});
  }
  for (const RingRank& one : rings.ranks) {
    if (one.reached) section.table("ranks").add(rank_cells(one));
  }
  for (const RingTime& time : rings.times) section.table("parameters").add({time.name, time.ns, time.source});
  for (const RingToken& token : rings.tokens) {
    std::vector<Value> cells{token.initiation, static_cast<double>(token.token_ps) / 1e3};
    for (const Picoseconds part : token.parts) cells.emplace_back(static_cast<double>(part) / 1e3);
    section.table("tokens").add(std::move(cells));
  }
  const std::vector<RingLatency> latencies = latencies_of(rings);
  const auto ns = [](Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e3; };
  for (const RingLatency& one : latencies) {
    section.table("latencies")
        .add({one.group, one.name, one.part, one.count, ns(one.p50_ps), ns(one.p90_ps), ns(one.p99_ps),
              ns(one.most_ps)});
  }
  fill_rings_lines(section, rings, latencies);
}

const RunSection rings_here(800, rings_shape, fill_rings);

}  // namespace
}  // namespace meshbed::testbed::document
