// How a schedule was replayed; absent in runs of the real plugin.

#include <fmt/format.h>

#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

Section replay_shape() {
  Section section{.title = "Replay"};
  section.with(
      {text("mode", "replay: a schedule ran without plugin code").or_absent(),
       text("detail",
            "data: data messages alone; plugin: also what the net plugin adds; recorded: all messages of a run that "
            "`meshbed record` recorded")
           .or_absent(),
       text("replayed_algorithm", "ring, tree, halving-doubling, torus or pairs; absent with detail recorded")
           .or_absent(),
       text("schedule", "the file of a recorded run").or_absent(),
       text("recorded_from", "the scenario of the run that was recorded").or_absent(),
       flag("folded", "one rank stood for all, which are provably alike").or_absent(),
       flag("contended", "messages shared links; their times are the chunk fabric's").or_absent(),
       integer("simulated_messages", "", "messages that were events of their own").or_absent(),
       integer("skipped_messages", "", "messages in periods that repeated exactly, to the picosecond").or_absent()});
  section.with(Table{
      .key = "replay_choices",
      .meaning = "what algorithm = auto chose from",
      .columns = {text("algorithm", "its name"),
                  number("time_ns", "ns", "of one iteration; null: longer than the fastest, or refused").or_null(),
                  text("refused", "why it cannot run on this network").or_null()},
      .may_be_absent = true});
  return section;
}

void fill_recorded(Section& section, const RunView& run) {
  const ReplayFacts& replay = *run.result.replay;
  section.set("schedule", replay.schedule);
  section.set("recorded_from", replay.recorded_from);
  section.set("simulated_messages", replay.events);
  section.blank();
  section.line("replay of {} messages of a run of {}, as {} has them: without plugin code, and without data",
               replay.events, replay.recorded_from, replay.schedule);
  if (!replay.has_calls) section.line("its time is that of the whole run, connecting included: no calls were recorded");
}

void fill_replay(Section& section, const RunView& run) {
  if (!run.result.replay) return;
  const ReplayFacts& replay = *run.result.replay;
  section.set("mode", "replay");
  section.set("detail", replay.detail);
  if (!replay.schedule.empty()) return fill_recorded(section, run);
  section.set("replayed_algorithm", replay.algorithm);
  section.set("folded", replay.folded);
  section.set("contended", replay.contended);
  section.set("simulated_messages", replay.events);
  section.set("skipped_messages", replay.skipped);
  section.blank();
  section.line("replay of {} messages, {}, detail {}: {} simulated one by one{}{}{}", run.result.messages.messages,
               replay.algorithm, replay.detail, replay.events,
               replay.skipped > 0 ? fmt::format(", {} in periods that repeat exactly", replay.skipped) : "",
               replay.folded ? "; one rank stands for all" : "", replay.contended ? "; links were shared" : "");
  std::string times;
  for (const ReplayChoice& each : replay.choices) {
    const bool is_known = each.time_ps > 0;
    const Value time_ns = is_known ? Value(static_cast<double>(each.time_ps) / 1e3) : Value();
    section.table("replay_choices")
        .add({each.algorithm, time_ns, each.refused.empty() ? Value() : Value(each.refused)});
    times += fmt::format("{}{} {}", times.empty() ? "" : ", ", each.algorithm,
                         is_known                ? fmt::format("{:.3f} us", static_cast<double>(each.time_ps) / 1e6)
                         : !each.refused.empty() ? "cannot run here"
                                                 : "takes longer");
  }
  if (!times.empty()) section.line("auto took the fastest: {}", times);
}

const RunSection replay_here(410, replay_shape, fill_replay);

}  // namespace
}  // namespace meshbed::testbed::document
