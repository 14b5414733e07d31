// Runs a scenario's collective: warm-up, then the timed and checked iterations; proofs against the closed forms.

#include <stdexcept>

#include "cli/bounds.h"
#include "cli/collective.h"
#include "cli/progress.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

models::Collective collective_of(const Scenario& scenario) {
  const auto op = models::parse_collective(scenario.workload.collective);
  if (!op) throw std::runtime_error("no collective \"" + scenario.workload.collective + "\"");
  return *op;
}

constexpr std::uint32_t kTimedSalt = 1'000'003;  // away from every warm-up's

Result<void> run_rank(RankHost& host, CollectiveBuffers& buffers, const EngineOptions& options,
                      const CollectiveCase& warmup, const CollectiveCase& timed, std::uint32_t salt, CaseBoard& board,
                      Progress& progress) {
  Result<Engine> engine = Engine::open(host, options);
  if (!engine) return engine.error();
  CaseBoard unread;
  const auto step = [&] { progress.step(); };
  if (const Result<void> warm = run_case(host, *engine, buffers, warmup, salt, unread, step); !warm) return warm;
  if (const Result<void> done = run_case(host, *engine, buffers, timed, salt + kTimedSalt, board, step); !done)
    return done;
  // Nobody closes a connection that a slower rank still needs.
  if (const Result<void> all = host.rendezvous(); !all) return all;
  return engine->close();
}

}  // namespace

EngineOptions engine_options(const Scenario& scenario, const BuiltFiles& files) {
  const Workload& workload = scenario.workload;
  return {.library = files.engine,
          .net_plugin = net_plugin_of(scenario, files),
          .net_version = workload.net_version,
          .channels = workload.channels,
          .channel_devices = workload.channel_devices,
          .slice_bytes = workload.slice_bytes};
}

void run_collective(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    RunResult& result) {
  const Workload& workload = scenario.workload;
  const CollectiveCase timed{.op = collective_of(scenario),
                             .bytes = workload.bytes,
                             .in_place = workload.in_place,
                             .iterations = workload.iterations,
                             .check = true,
                             .root = workload.root,
                             .shift = workload.shift};
  CollectiveCase warmup = timed;
  warmup.iterations = workload.warmup;
  CaseBoard board;
  std::vector<CollectiveBuffers> buffers =
      buffers_for(ranks_of(scenario), timed.bytes, !timed.in_place, "workload.bytes");
  {
    Progress progress(workload.collective, workload.warmup + workload.iterations);
    const EngineOptions engine = engine_options(scenario, options.files);
    result.simulation = simulate(scenario, options, recorder, [&](RankHost& host) {
      return run_rank(host, buffers[static_cast<std::size_t>(host.rank())], engine, warmup, timed,
                      first_salt(scenario.seed), board, progress);
    });
  }

  const CollectiveShape shape = shape_of(timed.op, timed.bytes, ranks_of(scenario));
  result.workload = models::name_of(timed.op);
  result.bytes = shape.bytes;
  result.iterations = timed.iterations;
  result.warmup = workload.warmup;
  result.wrong = board.wrong;
  result.checked = board.checked;
  result.first_wrong = board.first_wrong;
  result.data = board.results;
  result.busbw_factor = models::bus_factor(timed.op, ranks_of(scenario));
  if (!result.simulation.ended_well()) return;

  result.time_ps = board.average_ps();
  const BoundTable table(scenario, result.simulation, recorder.pairs());
  const Bounds bounds = table.of(timed.op, shape.bytes, timed.root, timed.shift);
  const models::RingBound& ring = bounds.ring;
  result.bound_ps = ring.time_ps > 0 ? ring.time_ps : bounds.any_algorithm_ps;
  if (ring.time_ps > 0) {
    const char* const label = ring.equal_shares ? "no ring of equal shares is faster" : "no ring is faster";
    result.proofs.push_back(sim::bound_kept(label, board.fastest_ps(), ring.time_ps));
  }
  result.proofs.push_back(sim::bound_kept("no algorithm is faster", board.fastest_ps(), bounds.any_algorithm_ps));
  result.proofs.push_back(sim::data_right(board.wrong, board.checked, shape.recv_count > 0));
}

}  // namespace meshbed::cli
