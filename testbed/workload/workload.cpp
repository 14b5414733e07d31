#include "testbed/workload/workload.h"

#include <nlohmann/json.hpp>

#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

/// Loads the plugin on every rank and leaves: what a cluster costs before anything runs on it.
class IdleRun final : public WorkloadRun {
 public:
  explicit IdleRun(std::string plugin) : plugin_(std::move(plugin)) {}

  Result<void> run_rank(RankHost& host) override {
    const Result<void*> library = host.load(plugin_);
    if (!library) return library.error();
    return host.rendezvous();
  }
  nlohmann::json findings() const override { return nlohmann::json::object(); }
  void take_in(const nlohmann::json&) override {}
  void conclude(RunResult& result) override { result.workload = name_of(WorkloadKind::kIdle); }

 private:
  std::string plugin_;
};

}  // namespace

std::unique_ptr<WorkloadRun> make_workload(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  switch (scenario.workload.kind) {
    case WorkloadKind::kCollective:
      return make_collective(scenario, files, ranks);
    case WorkloadKind::kMatrix:
      return make_matrix(scenario, files, ranks);
    case WorkloadKind::kNcclCalls:
      return make_nccl_calls(scenario, files, ranks);
    case WorkloadKind::kReconnect:
      return make_reconnect(scenario, files, ranks);
    case WorkloadKind::kMegakernel:
      return scenario.workload.gpu_memory ? make_megakernel_on_gpus(scenario, files, ranks)
                                          : make_megakernel(scenario, files, ranks);
    case WorkloadKind::kProgram:
      return make_program(scenario);
    case WorkloadKind::kIdle:
      break;
  }
  return std::make_unique<IdleRun>(net_plugin_of(scenario, files));
}

void digest_data(sim::Digest& digest, const RunResult& result) {
  digest.add(result.wrong);
  digest.add(result.checked);
  for (const std::uint64_t hash : result.data) digest.add(hash);
}

}  // namespace meshbed::testbed
