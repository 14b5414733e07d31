// Replays a recording of NCCL's own calls on the scenario's cluster, and proves that all of it happened.

#include <fmt/format.h>

#include <stdexcept>

#include "cli/nccl_replay.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

void check_fits(const Scenario& scenario, const Recording& recording) {
  const int ranks = ranks_of(scenario);
  if (static_cast<int>(recording.ranks.size()) == ranks &&
      recording.gpus_per_node == scenario.workload.ranks_per_node) {
    return;
  }
  throw std::runtime_error(fmt::format("{} was recorded on {} ranks, {} a node; {} has {} ranks, {} a node",
                                       recording.name, recording.ranks.size(), recording.gpus_per_node, scenario.name,
                                       ranks, scenario.workload.ranks_per_node));
}

sim::Proof all_happened(const Recording& recording, const ReplayBoard& board) {
  const bool all = board.connections == recording.connections() && board.requests == recording.requests();
  return {"every recorded call was made", all,
          fmt::format("{} of {} connections, {} of {} requests completed", board.connections, recording.connections(),
                      board.requests, recording.requests())};
}

sim::Proof payloads_right(const Recording& recording, const ReplayBoard& board) {
  if (board.wrong > 0) {
    return {"sizes and payloads as recorded", false,
            fmt::format("{} wrong, first: {}", board.wrong, board.first_wrong)};
  }
  return {"sizes and payloads as recorded", recording.requests() == 0 || board.checked_bytes > 0,
          fmt::format("{} bytes sent, {} bytes checked", board.sent_bytes, board.checked_bytes)};
}

}  // namespace

void run_nccl_calls(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    RunResult& result) {
  const Recording recording = read_recording(recording_path(scenario));
  check_fits(scenario, recording);
  ReplayBoard board;
  board.seed = scenario.seed;
  board.data.resize(recording.ranks.size());
  board.handles.resize(static_cast<std::size_t>(recording.listeners));
  const std::string plugin = net_plugin_of(scenario, options.files);

  // Kept until the simulation is over: what a failed rank leaves registered may still be written to.
  std::vector<std::unique_ptr<Replay>> replays(recording.ranks.size());
  result.simulation = simulate(scenario, options, recorder, [&](RankHost& host) -> Result<void> {
    const auto rank = static_cast<std::size_t>(host.rank());
    replays[rank] = std::make_unique<Replay>(host, recording.ranks[rank], board);
    return replays[rank]->run(plugin);
  });

  result.workload = "nccl-calls " + recording.name;
  result.iterations = 1;
  result.bytes = board.sent_bytes;
  result.time_ps = board.ended_ps > board.started_ps ? board.ended_ps - board.started_ps : 0;
  result.wrong = board.wrong;
  result.checked = board.checked_bytes;
  result.first_wrong = board.first_wrong;
  result.data = board.data;
  result.connections = board.connections;
  if (!result.simulation.ended_well()) return;
  result.proofs.push_back(all_happened(recording, board));
  result.proofs.push_back(payloads_right(recording, board));
}

}  // namespace meshbed::cli
