// One run of an explored program: the world, the ranks, and what must be left of it.

#include "testbed/verify/explore_run.h"

#include <fmt/format.h>

#include <ostream>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/base/units.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/rank_table.h"
#include "testbed/world/simulate.h"

namespace meshbed::testbed {
namespace {

/// What is wrong with the end of a run whose ranks found nothing wrong; empty: nothing.
std::string finding_of(const Simulation& simulation, const sim::MessageTotals& messages) {
  if (!simulation.errors.empty()) {
    return fmt::format("rank {}: {}", simulation.errors.front().rank, simulation.errors.front().text);
  }
  if (simulation.outcome.kind != sim::OutcomeKind::kFinished) {
    return fmt::format("deadlock: {}", fmt::join(simulation.outcome.waiters, "; "));
  }
  if (messages.unmatched > 0) return "a message was not executed exactly once: " + messages.first_unmatched;
  const sim::VerbsCounters& verbs = simulation.verbs;
  const sim::HostCounters& host = simulation.host;
  if (verbs.live_objects + host.open_descriptors + host.live_threads == 0) return "";
  return fmt::format("left behind after finalize: {}, {}, {}", counted(verbs.live_objects, "verbs object"),
                     counted(host.open_descriptors, "descriptor"), counted(host.live_threads, "thread"));
}

}  // namespace

void explore_run(const Scenario& scenario, const ExploreOptions& options, const ExploredProgram& program,
                 Chooser& chooser) {
  Interleaver::Options play{.ranks = 2, .interruptions = options.interruptions, .late = options.late};
  if (options.transcript != nullptr) {
    play.print = [&options](const std::string& line) { *options.transcript << line << "\n" << std::flush; };
  }
  Interleaver interleaver(play, chooser);
  HandleBoard board;
  sim::Recorder recorder(scenario.cluster, "");
  const Simulation simulation =
      simulate(scenario, {.files = built_files(), .contexts = ""}, recorder, [&](RankHost& host) -> Result<void> {
        const Result<RankTable> opened = open_rank_table(host, options.plugin, options.version);
        if (!opened) return opened.error();
        if (opened->table == nullptr) {
          return Error{.code = ErrorCode::kUnsupported,
                       .scope = Scope::kJob,
                       .text = "the file exports none of the requested ncclNetPlugin_v8 to v12"};
        }
        coll::NetTable& table = *opened->table;
        const std::uint64_t warns = coll::warn_count();
        if (const int code = table.init(1); code != nccl::kNcclSuccess) return table_error(table, "init", code, warns);
        interleaver.enter(host.rank());
        ExploredRank rank(host, table, interleaver, board);
        program.body(rank);
        rank.finalize();
        interleaver.leave(host.rank());
        return ok();
      });
  chooser.end({.finding = finding_of(simulation, recorder.totals()),
               .outcome = interleaver.seen(0) + "\n" + interleaver.seen(1)});
}

}  // namespace meshbed::testbed
