// The sweep as one process a rank, over real devices.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench/perf_sweep.h"
#include "cli/common/environment.h"
#include "cli/common/json_text.h"
#include "cli/scenario/run_options.h"
#include "cli/workload/outcome.h"
#include "cli/workload/workload.h"
#include "cli/world/metal.h"
#include "cli/world/metal_session.h"

namespace meshbed::cli {
namespace {

std::string sweep_findings_key(int rank) { return fmt::format("sweep findings {}", rank); }

nlohmann::json findings_of(const std::vector<SizeRun>& runs, const RunResult& result) {
  nlohmann::json boards = nlohmann::json::array();
  for (const SizeRun& run : runs) {
    boards.push_back({board_findings(run.out_of_place_board), board_findings(run.in_place_board)});
  }
  return {{"boards", boards}, {"cpu_s", result.cpu_s}, {"peak_rss_bytes", result.peak_rss_bytes}};
}

/// Rank 0 takes in what the others found out.
Result<void> share_findings(MetalHost& host, std::vector<SizeRun>& runs, RunResult& result) {
  add_process_usage(result);
  if (host.rank() != 0) {
    const auto told = host.hand_over(sweep_findings_key(host.rank()), json_text(findings_of(runs, result)));
    if (!told) return told;
    return host.rendezvous();
  }
  for (int rank = 1; rank < host.ranks(); ++rank) {
    const Result<std::string> text = host.take_over(sweep_findings_key(rank));
    if (!text) return text.error();
    const nlohmann::json findings = nlohmann::json::parse(*text);
    for (std::size_t index = 0; index < runs.size(); ++index) {
      const nlohmann::json& boards = findings.at("boards").at(index);
      take_in_findings(runs[index].out_of_place_board, boards.at(0));
      take_in_findings(runs[index].in_place_board, boards.at(1));
    }
    result.cpu_s += findings.at("cpu_s").get<double>();
    result.peak_rss_bytes = std::max(result.peak_rss_bytes, findings.at("peak_rss_bytes").get<std::uint64_t>());
  }
  return host.rendezvous();
}

/// All that a difference in would run another sweep on one of the ranks.
nlohmann::json common_sweep(const PerfOptions& options, const Scenario& scenario, const BuiltFiles& files) {
  nlohmann::json common = common_ground(scenario, files);
  common["OP"] = models::name_of(options.op);
  common["-b"] = options.sweep.min_bytes;
  common["-e"] = options.sweep.max_bytes;
  common["-f"] = options.sweep.step_factor;
  common["-i"] = options.sweep.step_bytes;
  common["-n"] = options.iterations;
  common["-w"] = options.warmup;
  common["-c"] = options.check;
  common["-r"] = options.root;
  return common;
}

double microseconds(const CaseResults& board) { return static_cast<double>(board.average_ps()) / 1e6; }

}  // namespace

RunResult run_metal_sweep(const PerfOptions& options, const Scenario& scenario, std::vector<SizeRun>& runs,
                          const std::function<void(const std::string& line)>& say) {
  const MetalPlace place = metal_place(from_environment);
  const BuiltFiles files = built_files();
  const nlohmann::json common = common_sweep(options, scenario, files);
  const EngineOptions engine = engine_options(scenario, files);
  // Kept until the session is over: what a failed rank leaves registered may still be written to.
  std::vector<CollectiveBuffers> buffers = buffers_for(1, runs.back().in_place.bytes, true, "-e");
  MetalSession session(scenario, place, time_limit_of(options.run));

  std::size_t sizes_done = 0;
  const RankSweep sweep{.engine = engine,
                        .warmup = options.warmup,
                        .salt = first_salt(scenario.seed),
                        .runs = runs,
                        .after_size = [&](const SizeRun& run) {
                          say(
                              fmt::format("{} of {} sizes: {} bytes, {:.1f} us out of place, {:.1f} us in place at "
                                          "rank 0",
                                          ++sizes_done, runs.size(), run.shape.bytes,
                                          microseconds(run.out_of_place_board), microseconds(run.in_place_board)));
                        }};
  RunResult result;
  result.world = metal_world_name();
  result.simulation.errors = session.run(common, [&](MetalHost& host) -> Result<void> {
    if (const Result<void> done = run_rank_sweep(host, buffers.front(), sweep); !done) return done;
    return share_findings(host, runs, result);
  });
  result.simulation.elapsed_ps = session.elapsed_ps();
  result.simulation.plugin_sha256 = common.at("net plugin");
  result.simulation.engine_sha256 = common.at("engine");
  conclude_sweep(options, scenario, runs, result);
  if (result.simulation.ended_well()) {
    result.proofs.push_back(
        sim::data_right(result.wrong, result.checked, options.check && runs.back().shape.recv_count > 0));
    result.proofs.push_back(one_plugin_file(result.simulation));
  }
  sim::Digest digest;
  digest.add(result.workload);
  for (const SizeRun& run : runs) {
    digest.add(run.shape.bytes);
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      digest.add(board->wrong);
      for (const std::uint64_t hash : board->results) digest.add(hash);
    }
  }
  for (const RankError& error : result.simulation.errors) digest.add(error.text);
  result.digest = digest.hex();
  return result;
}

}  // namespace meshbed::cli
