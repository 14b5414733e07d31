// Replays a recording of NCCL's own calls on the scenario's cluster, and proves that all of it happened.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/scenario/placement.h"
#include "testbed/workload/nccl/nccl_replay.h"
#include "testbed/workload/plugin_lines.h"
#include "testbed/workload/software.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

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

class NcclCallsRun final : public WorkloadRun {
 public:
  NcclCallsRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : ranks_(ranks),
        recording_(read_recording(path_beside(scenario, scenario.workload.recording))),
        plugin_(net_plugin_of(scenario, files)),
        other_devices_(scenario.workload.other_devices) {
    const std::string misfit = recording_misfit(scenario, recording_);
    if (!misfit.empty()) throw std::runtime_error(misfit);
    board_.seed = scenario.seed;
    if (scenario.software.machine != nullptr) {
      const models::Machine& machine = *scenario.software.machine;
      for (std::size_t protocol = 0; protocol < board_.hops_ps.size(); ++protocol) {
        const auto cost = models::software_cost_of_messages(machine, static_cast<models::CollectiveProtocol>(protocol));
        board_.launch_ps = cost.call_ps;
        board_.hops_ps.at(protocol) = cost.hop_ps;
      }
    }
    board_.data.resize(recording_.ranks.size());
    board_.listeners = static_cast<std::size_t>(recording_.listeners);
    replays_.resize(static_cast<std::size_t>(ranks.count));
  }

  Result<void> run_rank(RankHost& host) override {
    const auto rank = static_cast<std::size_t>(host.rank());
    auto& replay = replays_[rank - static_cast<std::size_t>(ranks_.first)];
    replay = std::make_unique<Replay>(host, recording_.ranks[rank], board_, other_devices_);
    return replay->run(plugin_);
  }

  nlohmann::json findings() const override {
    nlohmann::json data = nlohmann::json::object();
    for (int rank = ranks_.first; rank < ranks_.first + ranks_.count; ++rank) {
      data[std::to_string(rank)] = board_.data[static_cast<std::size_t>(rank)];
    }
    return {{"duration_ps", duration()},
            {"data", data},
            {"connections", board_.connections},
            {"requests", board_.requests},
            {"sent_bytes", board_.sent_bytes},
            {"checked_bytes", board_.checked_bytes},
            {"wrong", board_.wrong},
            {"first_wrong", board_.first_wrong}};
  }

  void take_in(const nlohmann::json& findings) override {
    board_.ended_ps = board_.started_ps + std::max(duration(), findings.at("duration_ps").get<Picoseconds>());
    for (const auto& [rank, hash] : findings.at("data").items()) {
      board_.data.at(static_cast<std::size_t>(std::stoi(rank))) = hash.get<std::uint64_t>();
    }
    board_.connections += findings.at("connections").get<std::uint64_t>();
    board_.requests += findings.at("requests").get<std::uint64_t>();
    board_.sent_bytes += findings.at("sent_bytes").get<std::uint64_t>();
    board_.checked_bytes += findings.at("checked_bytes").get<std::uint64_t>();
    if (board_.wrong == 0) board_.first_wrong = findings.at("first_wrong").get<std::string>();
    board_.wrong += findings.at("wrong").get<std::uint64_t>();
  }

  void conclude(RunResult& result) override {
    result.workload = "nccl-calls " + recording_.name;
    result.iterations = 1;
    result.bytes = board_.sent_bytes;
    // Where no message was recorded there is no time of theirs.
    const Picoseconds messages_ps = std::max<Picoseconds>(board_.messages_until_ps - board_.messages_from_ps, 0);
    result.time_ps = board_.launch_ps ? messages_ps : duration();
    result.wrong = board_.wrong;
    result.checked = board_.checked_bytes;
    result.first_wrong = board_.first_wrong;
    result.data = board_.data;
    result.connections = board_.connections;
    if (!result.simulation.ended_well()) return;
    result.proofs.push_back(all_happened(recording_, board_));
    result.proofs.push_back(payloads_right(recording_, board_));
  }

 private:
  Picoseconds duration() const { return board_.ended_ps > board_.started_ps ? board_.ended_ps - board_.started_ps : 0; }

  PluginLines plugin_lines_;
  RankRange ranks_;
  Recording recording_;
  std::string plugin_;
  bool other_devices_;
  ReplayBoard board_;
  // Kept until the run has ended: memory that a failed rank leaves registered may still be written to.
  std::vector<std::unique_ptr<Replay>> replays_;
};

}  // namespace

std::unique_ptr<WorkloadRun> make_nccl_calls(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<NcclCallsRun>(scenario, files, ranks);
}

}  // namespace meshbed::testbed
