#include "cli/world/metal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/common/environment.h"
#include "cli/common/json_text.h"
#include "cli/workload/outcome.h"
#include "cli/workload/workload.h"
#include "cli/world/metal_session.h"
#include "cli/world/metal_trace.h"

namespace meshbed::cli {
namespace {

std::string run_findings_key(int rank) { return fmt::format("findings {}", rank); }

/// What is gathered at rank 0 after a run that came to its end.
struct Gathering {
  const Scenario& scenario;
  WorkloadRun& run;
  const MetalDevices& devices;
  std::int64_t zero_ns = 0;
  sim::Recorder* recorder = nullptr;  // rank 0's
};

Result<void> share_findings(MetalHost& host, const Gathering& gathering, RunResult& result) {
  WorkloadRun& run = gathering.run;
  add_process_usage(result);
  std::vector<nlohmann::json> traces{verbs_trace(gathering.zero_ns, gathering.devices)};
  if (host.rank() != 0) {
    const nlohmann::json findings{{"workload", run.findings()},
                                  {"cpu_s", result.cpu_s},
                                  {"peak_rss_bytes", result.peak_rss_bytes},
                                  {"pid", getpid()},
                                  {"trace", traces.front()}};
    if (const Result<void> told = host.hand_over(run_findings_key(host.rank()), json_text(findings)); !told)
      return told;
    return host.rendezvous();
  }
  for (int rank = 1; rank < host.ranks(); ++rank) {
    const Result<std::string> text = host.take_over(run_findings_key(rank));
    if (!text) return text.error();
    const nlohmann::json findings = nlohmann::json::parse(*text);
    run.take_in(findings.at("workload"));
    traces.push_back(findings.at("trace"));
    result.simulation.process_ids.at(static_cast<std::size_t>(rank)) = findings.at("pid").get<std::uint32_t>();
    result.cpu_s += findings.at("cpu_s").get<double>();
    result.peak_rss_bytes = std::max(result.peak_rss_bytes, findings.at("peak_rss_bytes").get<std::uint64_t>());
  }
  replay_traces(gathering.scenario, traces, *gathering.recorder);
  return host.rendezvous();
}

Result<void> run_rank(MetalHost& host, Gathering& gathering, RunResult& result) {
  gathering.zero_ns = host.now_ps() / kPicosecondsPerNanosecond;
  if (const Result<void> done = gathering.run.run_rank(host); !done) return done;
  return share_findings(host, gathering, result);
}

}  // namespace

std::string metal_world_name() { return from_environment(kWorldNameVariable).value_or("metal"); }

RunResult run_metal(const Scenario& scenario, const MetalPlace& place, const MetalOptions& options,
                    sim::Recorder* recorder) {
  if (const Result<void> traced = start_verbs_trace(options.files.verbs_trace); !traced) {
    throw std::runtime_error("--world metal: " + traced.error().text);
  }
  const nlohmann::json common = common_ground(scenario, options.files);
  const auto run = make_workload(scenario, options.files, {place.rank, 1});
  MetalSession session(scenario, place, options.time_limit_s);

  RunResult result;
  result.world = metal_world_name();
  result.simulation.process_ids.resize(static_cast<std::size_t>(place.ranks));  // 0: not heard of
  result.simulation.process_ids.at(static_cast<std::size_t>(place.rank)) = static_cast<std::uint32_t>(getpid());
  Gathering gathering{.scenario = scenario, .run = *run, .devices = session.devices(), .recorder = recorder};
  result.simulation.errors = session.run(common, [&](MetalHost& host) { return run_rank(host, gathering, result); });
  result.simulation.elapsed_ps = session.elapsed_ps();
  result.simulation.plugin_sha256 = common.at("net plugin");
  if (runs_engine(scenario.workload.kind)) result.simulation.engine_sha256 = common.at("engine");
  if (recorder != nullptr) {
    result.messages = recorder->totals();
    result.pairs = recorder->pairs();
    result.connections = recorder->connections();
  }
  run->conclude(result);
  if (result.simulation.errors.empty() && recorder != nullptr) {
    result.proofs.push_back(sim::subnets_true(scenario.cluster, result.pairs));
    result.proofs.push_back(one_plugin_file(result.simulation));
  }
  sim::Digest digest;
  digest.add(result.workload);
  digest.add(result.bytes);
  digest_data(digest, result);
  for (const RankError& error : result.simulation.errors) digest.add(error.text);
  result.digest = digest.hex();
  return result;
}

}  // namespace meshbed::cli
