// The results on a board, joined across the processes of the ranks.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/workload/collective.h"

namespace meshbed::testbed {

sim::Proof gpu_kept_going(const GpuWork& work, std::uint64_t calls, std::uint64_t direct_calls) {
  const bool few = work.copies <= 2 * calls && work.host_copies <= 2 * (calls - direct_calls);
  std::string detail = fmt::format("{} calls: {} copies of {} bytes, {} waits for a whole device", calls, work.copies,
                                   work.copied_bytes, work.device_syncs);
  if (direct_calls > 0) {
    detail += fmt::format("; {} calls by GPUDirect, {} copies from and to the hosts", direct_calls, work.host_copies);
  }
  return {.name = "GPUs copy twice a call at most, and never wait for everything",
          .ok = few && work.device_syncs == 0,
          .detail = std::move(detail)};
}

nlohmann::json board_findings(const CaseResults& board) {
  nlohmann::json durations = nlohmann::json::array();
  for (const IterationTime& time : board.iterations) durations.push_back(time.end_ps - time.start_ps);
  nlohmann::json data = nlohmann::json::object();
  for (std::size_t rank = 0; rank < board.results.size(); ++rank) {
    // 0: not a rank of this process (or, once in 2^64, a hash).
    if (board.results[rank] != 0) data[std::to_string(rank)] = board.results[rank];
  }
  return {{"durations_ps", durations},
          {"data", data},
          {"wrong", board.wrong},
          {"checked", board.checked},
          {"first_wrong", board.first_wrong}};
}

/// Clocks of different machines are not one clock: an iteration lasts as long as it did for the rank that it took
/// longest.
void take_in_findings(CaseResults& board, const nlohmann::json& findings) {
  const auto& durations = findings.at("durations_ps");
  board.iterations.resize(std::max(board.iterations.size(), durations.size()));
  for (std::size_t index = 0; index < durations.size(); ++index) {
    IterationTime& time = board.iterations[index];
    time.end_ps = time.start_ps + std::max(time.end_ps - time.start_ps, durations[index].get<Picoseconds>());
  }
  for (const auto& [rank, hash] : findings.at("data").items()) {
    const auto at = static_cast<std::size_t>(std::stoi(rank));
    if (board.results.size() <= at) board.results.resize(at + 1);  // rank 0 may have failed before it had any
    board.results[at] = hash.get<std::uint64_t>();
  }
  if (board.wrong == 0) board.first_wrong = findings.at("first_wrong").get<std::string>();
  board.wrong += findings.at("wrong").get<std::uint64_t>();
  board.checked += findings.at("checked").get<std::uint64_t>();
}

}  // namespace meshbed::testbed
