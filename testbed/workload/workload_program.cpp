// A user's program on every rank: its calls of NCCL, CUDA, sockets and threads are simulated, and its exit status is
// its proof.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/scenario/placement.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

class ProgramWorkload final : public WorkloadRun {
 public:
  explicit ProgramWorkload(const Scenario& scenario)
      : path_(std::filesystem::absolute(path_beside(scenario, scenario.workload.program)).lexically_normal()),
        arguments_(scenario.workload.arguments),
        ranks_(ranks_of(scenario)) {}

  Result<void> run_rank(RankHost& host) override {
    const Picoseconds began_ps = host.now_ps();
    const Result<int> status = host.run_program(path_, arguments_);
    if (!status) return status.error();
    duration_ps_ = std::max(duration_ps_, host.now_ps() - began_ps);
    if (*status == 0) {
      ++ended_well_;
      return ok();
    }
    return Error{.code = ErrorCode::kInternal,
                 .scope = Scope::kJob,
                 .text = fmt::format("{} ended with status {}", path_, *status)};
  }

  // One process runs all ranks.
  nlohmann::json findings() const override { return nlohmann::json::object(); }
  void take_in(const nlohmann::json&) override {}

  void conclude(RunResult& result) override {
    result.workload = "program " + std::filesystem::path(path_).filename().string();
    result.iterations = 1;
    result.time_ps = duration_ps_;
    if (!result.simulation.ended_well()) return;
    result.proofs.push_back({"every rank's program ended with status 0", ended_well_ == ranks_,
                             fmt::format("{} of {}", ended_well_, ranks_)});
  }

 private:
  std::string path_;
  std::vector<std::string> arguments_;
  int ranks_;
  int ended_well_ = 0;
  Picoseconds duration_ps_ = 0;
};

}  // namespace

std::unique_ptr<WorkloadRun> make_program(const Scenario& scenario) {
  return std::make_unique<ProgramWorkload>(scenario);
}

}  // namespace meshbed::testbed
