// Runs a thinned matrix of collectives. Each is checked once with numbers whose results are exact. If the order of a
// reduction affects the result's bits, it runs again with numbers that are not exact, to compare the worlds.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "testbed/base/progress.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/matrix.h"
#include "testbed/workload/software.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

struct CaseRun {
  MatrixCase wanted;
  CaseResults exact, rough;
};

class MatrixRun final : public WorkloadRun {
 public:
  MatrixRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : ranks_(ranks),
        largest_bytes_(scenario.workload.bytes),
        gpu_memory_(scenario.workload.gpu_memory),
        local_ranks_(local_ranks(scenario)),
        salt_(first_salt(scenario.seed)) {
    const int world = ranks_of(scenario);
    std::uint64_t most_bytes = 0;
    Scenario asked = scenario;
    asked.software.own_protocol = false;  // each case sets its own
    for (MatrixCase& each : matrix_cases(scenario.seed, scenario.workload.cases, world, largest_bytes_)) {
      most_bytes = std::max(most_bytes, shape_of(each.collective, world).bytes);
      asked.workload.algorithm = each.algorithm;
      asked.workload.protocol = each.protocol;
      if (cases_.empty() || cases_.back().wanted.algorithm != each.algorithm ||
          cases_.back().wanted.protocol != each.protocol) {
        engines_.push_back(engine_options(asked, files));
      }
      each.collective = with_software(asked, each.collective);
      cases_.push_back({.wanted = std::move(each), .exact = {}, .rough = {}});
    }
    buffers_ = buffers_for(ranks.count, most_bytes, true, "workload.bytes");
    progress_.emplace("matrix", static_cast<int>(cases_.size()));
  }

  Result<void> run_rank(RankHost& host) override;
  nlohmann::json findings() const override;
  void take_in(const nlohmann::json& findings) override;
  void conclude(RunResult& result) override;

 private:
  /// The cases of one algorithm and protocol from `first` on; sets `first` to the next group.
  Result<void> run_engine(RankHost& host, const EngineOptions& options, std::size_t& first);

  RankRange ranks_;
  std::uint64_t largest_bytes_;
  bool gpu_memory_;
  std::vector<int> local_ranks_;
  std::uint32_t salt_;
  std::vector<CaseRun> cases_;
  std::vector<EngineOptions> engines_;      // in the order of the cases
  std::vector<CollectiveBuffers> buffers_;  // kept until the run has ended, as in workload_collective.cpp
  OperationLog log_{ranks_.count};
  std::optional<Progress> progress_;  // until conclude()
};

Result<void> MatrixRun::run_rank(RankHost& host) {
  std::size_t next = 0;
  for (const EngineOptions& options : engines_) {
    if (const Result<void> done = run_engine(host, options, next); !done) return done;
  }
  return ok();
}

Result<void> MatrixRun::run_engine(RankHost& host, const EngineOptions& options, std::size_t& first) {
  CollectiveBuffers& buffers = buffers_[static_cast<std::size_t>(host.rank() - ranks_.first)];
  if (gpu_memory_) {
    const int device = local_ranks_[static_cast<std::size_t>(host.rank())];
    if (const Result<void> entered = buffers.enter_gpu(device); !entered) return entered;
  }
  Result<Engine> engine = Engine::open(host, options);
  if (!engine) return engine.error();
  const auto step = [this] { progress_->step(); };
  for (; first < cases_.size(); ++first) {
    CaseRun& each = cases_[first];
    if (each.wanted.algorithm != options.algorithm || each.wanted.protocol != options.protocol) break;
    // A result of one case must not match another's.
    const std::uint32_t salt = salt_ + static_cast<std::uint32_t>(2 * first);
    CollectiveCase wanted = each.wanted.collective;
    wanted.log = &log_;
    wanted.label = each.wanted.text();
    const auto failed = [&each](Error error) {
      error.text = each.wanted.text() + ": " + error.text;
      return error;
    };
    if (const Result<void> done = run_case(host, *engine, buffers, wanted, salt, each.exact, step); !done) {
      return failed(done.error());
    }
    if (!rounds(wanted)) continue;
    wanted.rough = true;
    if (const Result<void> done = run_case(host, *engine, buffers, wanted, salt + 1, each.rough); !done) {
      return failed(done.error());
    }
  }
  // A slower rank may still need its connections: close them only after all ranks are done.
  if (const Result<void> all = host.rendezvous(); !all) return all;
  buffers.leave_gpu();
  return engine->close();
}

nlohmann::json MatrixRun::findings() const {
  nlohmann::json found = nlohmann::json::array();
  for (const CaseRun& each : cases_) found.push_back({board_findings(each.exact), board_findings(each.rough)});
  return found;
}

void MatrixRun::take_in(const nlohmann::json& findings) {
  for (std::size_t index = 0; index < cases_.size(); ++index) {
    take_in_findings(cases_[index].exact, findings.at(index).at(0));
    take_in_findings(cases_[index].rough, findings.at(index).at(1));
  }
}

void MatrixRun::conclude(RunResult& result) {
  progress_.reset();
  result.workload = name_of(WorkloadKind::kMatrix);
  result.bytes = largest_bytes_;
  result.iterations = static_cast<int>(cases_.size());
  result.operations = log_.take();
  for (const CaseRun& each : cases_) {
    MatrixOutcome outcome{.collective = models::name_of(each.wanted.collective.op),
                          .text = each.wanted.text(),
                          .wrong = each.exact.wrong,
                          .checked = each.exact.checked,
                          .time_ps = each.exact.total_ps(),
                          .data = each.exact.results};
    outcome.data.insert(outcome.data.end(), each.rough.results.begin(), each.rough.results.end());
    result.wrong += outcome.wrong;
    result.checked += outcome.checked;
    result.time_ps += outcome.time_ps;
    result.data.insert(result.data.end(), outcome.data.begin(), outcome.data.end());
    if (result.first_wrong.empty() && outcome.wrong > 0) {
      result.first_wrong = outcome.text + ": " + each.exact.first_wrong;
    }
    result.matrix.push_back(std::move(outcome));
  }
  if (!result.simulation.ended_well()) return;
  const bool any =
      std::any_of(cases_.begin(), cases_.end(), [](const CaseRun& each) { return *each.wanted.collective.count > 0; });
  result.proofs.push_back(sim::data_right(result.wrong, result.checked, any));
  GpuWork gpu;
  std::uint64_t gpu_calls = 0, direct_calls = 0;
  for (const CaseRun& each : cases_) {
    for (const CaseResults* board : {&each.exact, &each.rough}) {
      gpu.copies += board->gpu.copies;
      gpu.copied_bytes += board->gpu.copied_bytes;
      gpu.device_syncs += board->gpu.device_syncs;
      gpu.host_copies += board->gpu.host_copies;
      gpu_calls += board->gpu_calls;
      direct_calls += board->gpu_direct_calls;
    }
  }
  if (gpu_calls > 0) result.proofs.push_back(gpu_kept_going(gpu, gpu_calls, direct_calls));
}

}  // namespace

std::unique_ptr<WorkloadRun> make_matrix(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<MatrixRun>(scenario, files, ranks);
}

}  // namespace meshbed::testbed
