// How a schedule was replayed; absent in runs of the real plugin.

#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

Section replay_shape() {
  Section section{.title = "Replay"};
  section.with({text("mode", "replay: a schedule ran without plugin code").or_absent(),
                text("detail", "data: data messages alone; plugin: also what the net plugin adds").or_absent(),
                text("replayed_algorithm", "ring, tree or pairs").or_absent(),
                flag("folded", "one rank stood for all, which are provably alike").or_absent(),
                flag("contended", "messages shared links; their times are the chunk fabric's").or_absent(),
                integer("simulated_messages", "", "messages that were events of their own").or_absent()});
  return section;
}

void fill_replay(Section& section, const RunView& run) {
  if (!run.result.replay) return;
  const ReplayFacts& replay = *run.result.replay;
  section.set("mode", "replay");
  section.set("detail", replay.detail);
  section.set("replayed_algorithm", replay.algorithm);
  section.set("folded", replay.folded);
  section.set("contended", replay.contended);
  section.set("simulated_messages", replay.events);
  section.blank();
  section.line("replay of {} messages, {}, detail {}: {} simulated one by one{}{}", run.result.messages.messages,
               replay.algorithm, replay.detail, replay.events, replay.folded ? "; one rank stands for all" : "",
               replay.contended ? "; links were shared" : "");
}

const RunSection replay_here(410, replay_shape, fill_replay);

}  // namespace
}  // namespace meshbed::testbed::document
