// The field tables of a slot graph's file.
#include "testbed/scenario/megakernel/slot_graph_spec.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {
namespace {

constexpr std::int64_t kLoopMost = 1'000'000;

const Section<GraphSlotSpec> kSlot{
    "[[slot]]",
    "A slot of one rank's ring.",
    {
        {"rank", "integer", "0", "whose",
         [](const Value& v, GraphSlotSpec& s) {
           v.integer(s.rank, {0, kGraphRanksMost - 1});
         }},
        {"id", "name", "''", "by which others need it", [](const Value& v, GraphSlotSpec& s) { v.text(s.id); }},
        {"op", "text", "'compute'", "what it does",
         [](const Value& v, GraphSlotSpec& s) {
           v.choice(s.op, {kGraphOps.begin(), kGraphOps.end()});
         }},
        {"needs", "list of texts", "[]", "ID or RANK:ID", [](const Value& v, GraphSlotSpec& s) { v.texts(s.needs); }},
        {"time", "time", "'0s'", "compute: how long", [](const Value& v, GraphSlotSpec& s) { v.time(s.time_ps); }},
        {"peer", "integer", "-1", "put: to which rank",
         [](const Value& v, GraphSlotSpec& s) {
           v.integer(s.peer, {-1, kGraphRanksMost - 1});
         }},
        {"channel", "integer", "0", "put: connections of its own, on which messages keep their order",
         [](const Value& v, GraphSlotSpec& s) {
           v.integer(s.channel, {0, kGraphChannelsMost - 1});
         }},
        {"bytes", "size", "0", "put, copy", [](const Value& v, GraphSlotSpec& s) { v.size(s.bytes); }},
        {"elements", "integer", "0", "reduce",
         [](const Value& v, GraphSlotSpec& s) {
           v.integer(s.elements, {0, 0xffff'ffff});
         }},
        {"form", "text", "'only'", "reduce: which of a chain of reductions",
         [](const Value& v, GraphSlotSpec& s) {
           v.choice(s.form, {kGraphForms.begin(), kGraphForms.end()});
         }},
        {"from", "text", "''", "put, copy, reduce: SPACE+OFFSET",
         [](const Value& v, GraphSlotSpec& s) { v.text(s.from); }},
        {"with", "text", "''", "reduce: SPACE+OFFSET", [](const Value& v, GraphSlotSpec& s) { v.text(s.with); }},
        {"to", "text", "''", "wait, copy, reduce: SPACE+OFFSET",
         [](const Value& v, GraphSlotSpec& s) { v.text(s.to); }},
        {"on_chip", "boolean", "false", "reduce, all forms but only: its partial result takes no time in memory",
         [](const Value& v, GraphSlotSpec& s) { v.boolean(s.on_chip); }},
        {"loop", "name", "''", "it is written out once for each iteration of that [[loop]]",
         [](const Value& v, GraphSlotSpec& s) { v.text(s.loop); }},
        {"tenant", "name", "''", "whose request it is part of",
         [](const Value& v, GraphSlotSpec& s) { v.text(s.tenant); }},
        {"priority", "text", "(its tenant's, else normal)", "kernel = 'priority': critical, high, normal, low or idle",
         [](const Value& v, GraphSlotSpec& s) {
           v.choice(s.priority, {kGraphLevels.begin(), kGraphLevels.end()});
         }},
        {"at", "time", "'0s'", "it arrives so long after its request, or after the iteration's start",
         [](const Value& v, GraphSlotSpec& s) { v.time(s.at_ps); }},
        {"begins", "boolean", "false", "an operation, which a kernel of its own may do",
         [](const Value& v, GraphSlotSpec& s) { v.boolean(s.begins); }},
    }};

const Section<GraphLoopSpec> kLoop{
    "[[loop]]",
    "Slots that are there once for each iteration.",
    {
        {"name", "name", "''", "by which slots are of it", [](const Value& v, GraphLoopSpec& s) { v.text(s.name); }},
        {"count", "integer", "", "iterations",
         [](const Value& v, GraphLoopSpec& s) {
           v.integer(s.count, {1, kLoopMost});
         }},
    }};

const Section<GraphTenantSpec> kTenant{
    "[[tenant]]",
    "Whose slots arrive by a process of their own: a request is an iteration of its loops.",
    {
        {"name", "name", "''", "by which slots are of it", [](const Value& v, GraphTenantSpec& s) { v.text(s.name); }},
        {"priority", "text", "'normal'", "of its slots: critical, high, normal, low or idle",
         [](const Value& v, GraphTenantSpec& s) {
           v.choice(s.priority, {kGraphLevels.begin(), kGraphLevels.end()});
         }},
        {"arrivals", "text", "'all'",
         "all at once; periodic, one each `gap`; poisson, `gap` apart on average; bursts, `burst` at once each `gap`; "
         "recorded, at the `times` of a file",
         [](const Value& v, GraphTenantSpec& s) {
           v.choice(s.arrivals, {"all", "periodic", "poisson", "bursts", "recorded"});
         }},
        {"gap", "time", "'0s'", "between requests, or bursts",
         [](const Value& v, GraphTenantSpec& s) { v.time(s.gap_ps); }},
        {"burst", "integer", "", "bursts: requests that arrive at once",
         [](const Value& v, GraphTenantSpec& s) {
           v.integer(s.burst, {1, kLoopMost});
         }},
        {"first", "time", "'0s'", "when the first one arrives, after the iteration's start",
         [](const Value& v, GraphTenantSpec& s) { v.time(s.first_ps); }},
        {"seed", "integer", "1", "poisson: of its draws",
         [](const Value& v, GraphTenantSpec& s) {
           v.integer(s.seed, {0, 1'000'000'000});
         }},
        {"times", "text", "''", "recorded: a file beside this one with a time a line, in order",
         [](const Value& v, GraphTenantSpec& s) { v.text(s.times); }},
    }};

}  // namespace

template <>
const Section<GraphSlotSpec>& section_of<GraphSlotSpec>() {
  return kSlot;
}
template <>
const Section<GraphLoopSpec>& section_of<GraphLoopSpec>() {
  return kLoop;
}
template <>
const Section<GraphTenantSpec>& section_of<GraphTenantSpec>() {
  return kTenant;
}

}  // namespace meshbed::testbed
