#include "testbed/world/run_workload.h"

#include <nlohmann/json.hpp>

#include "testbed/scenario/placement.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/workload.h"
#include "testbed/world/metal_session.h"

namespace meshbed::testbed {
namespace {

void digest_rings(sim::Digest& digest, const RingOutcome& rings) {
  rings.trace.add_to(digest);
  for (const RingVerdict& verdict : rings.verdicts) {
    digest.add(static_cast<std::uint64_t>(verdict.at_ps));
    digest.add(ring::name_of(verdict.cause));
    digest.add(verdict.text);
  }
}

/// Of real time nothing goes in: there only what was asked for and what came of it repeats.
std::string finish_digest(sim::Digest& digest, const RunResult& result) {
  const bool timed = result.world.virtual_time;
  digest.add(result.workload);
  digest.add(result.bytes);
  if (timed) digest.add(static_cast<std::uint64_t>(result.time_ps));
  digest_data(digest, result);
  if (result.rings != nullptr) digest_rings(digest, *result.rings);
  if (timed) {
    digest.add(static_cast<std::uint64_t>(result.simulation.outcome.kind));
    digest.add(static_cast<std::uint64_t>(result.simulation.elapsed_ps));
  }
  for (const RankError& error : result.simulation.errors) {
    if (timed) {
      digest.add(static_cast<std::uint64_t>(error.rank));
      digest.add(static_cast<std::uint64_t>(error.at_ps));
    }
    digest.add(error.repeatable.empty() ? error.text : error.repeatable);
  }
  return digest.hex();
}

}  // namespace

RunResult run_workload(const RunWorld& world, const Scenario& scenario, WorldProgram program) {
  const BuiltFiles files = built_files();
  const RankRange here = world.ranks_here(ranks_of(scenario));
  const auto run = make_workload(scenario, files, here);
  program.run_rank = [&run](RankHost& host) { return run->run_rank(host); };
  program.common = [&] { return common_ground(scenario, files); };
  program.findings = [&run] { return run->findings(); };
  program.take_in = [&run](const nlohmann::json& findings) { run->take_in(findings); };
  program.traced = true;
  sim::Recorder& recorder = *program.recorder;
  RunResult result = world.run(scenario, program).result;
  result.messages = recorder.totals();
  result.pairs = recorder.pairs();
  run->conclude(result);
  if (result.connections == 0) result.connections = recorder.connections();
  if (result.world.virtual_time) {
    if (result.simulation.ended_well()) run->prove_times(scenario, result);
    add_common_proofs(result, scenario, files);
    result.digest = finish_digest(recorder.digest(), result);
    return result;
  }
  if (!runs_engine(scenario.workload.kind)) result.simulation.engine_sha256.clear();  // compared, but never loaded
  if (result.simulation.errors.empty() && here.first == 0) {
    result.proofs.push_back(sim::subnets_true(scenario.cluster, result.pairs));
    result.proofs.push_back(one_plugin_file(result.simulation));
  }
  // The messages have times of their own: theirs is not this digest.
  sim::Digest digest;
  result.digest = finish_digest(digest, result);
  return result;
}

}  // namespace meshbed::testbed
