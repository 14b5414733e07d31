#include "testbed/world/metal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/base/environment.h"
#include "testbed/base/json_text.h"
#include "testbed/workload/outcome.h"
#include "testbed/world/metal_session.h"
#include "testbed/world/metal_trace.h"

namespace meshbed::testbed {
namespace {

std::string findings_key(int rank) { return fmt::format("findings {}", rank); }

/// Sends the findings to rank 0, which collects them and adds the messages of all ranks to its recorder.
Result<void> share_findings(MetalHost& host, const Scenario& scenario, const WorldProgram& program,
                            const nlohmann::json& trace, RunResult& result) {
  add_process_usage(result);
  if (host.rank() != 0) {
    const nlohmann::json findings{{"program", program.findings()},
                                  {"cpu_s", result.cpu_s},
                                  {"peak_rss_bytes", result.peak_rss_bytes},
                                  {"pid", getpid()},
                                  {"trace", trace}};
    if (const Result<void> sent = host.hand_over(findings_key(host.rank()), json_text(findings)); !sent) return sent;
    return host.rendezvous();
  }
  std::vector<nlohmann::json> traces{trace};
  for (int rank = 1; rank < host.ranks(); ++rank) {
    const Result<std::string> text = host.take_over(findings_key(rank));
    if (!text) return text.error();
    const nlohmann::json findings = nlohmann::json::parse(*text);
    program.take_in(findings.at("program"));
    traces.push_back(findings.at("trace"));
    result.simulation.process_ids.at(static_cast<std::size_t>(rank)) = findings.at("pid").get<std::uint32_t>();
    result.cpu_s += findings.at("cpu_s").get<double>();
    result.peak_rss_bytes = std::max(result.peak_rss_bytes, findings.at("peak_rss_bytes").get<std::uint64_t>());
  }
  if (program.traced) replay_traces(scenario, traces, *program.recorder);
  return host.rendezvous();
}

}  // namespace

RunResult run_metal(const Scenario& scenario, const WorldProgram& program) {
  const MetalPlace place = metal_place(from_environment);
  if (program.traced) {
    if (const Result<void> traced = start_verbs_trace(built_files().verbs_trace); !traced) {
      throw std::runtime_error("--world metal: " + traced.error().text);
    }
  }
  const nlohmann::json common = program.common();
  MetalSession session(scenario, place, program.time_limit_s);

  RunResult result;
  result.simulation.process_ids.resize(static_cast<std::size_t>(place.ranks));  // 0: not known
  result.simulation.process_ids.at(static_cast<std::size_t>(place.rank)) = static_cast<std::uint32_t>(getpid());
  result.simulation.errors = session.run(common, [&](MetalHost& host) -> Result<void> {
    const std::int64_t zero_ns = host.now_ps() / kPicosecondsPerNanosecond;
    if (const Result<void> done = program.run_rank(host); !done || !program.findings) return done;
    const nlohmann::json trace = program.traced ? verbs_trace(zero_ns, session.devices()) : nlohmann::json();
    return share_findings(host, scenario, program, trace, result);
  });
  result.simulation.elapsed_ps = session.elapsed_ps();
  result.simulation.plugin_sha256 = common.at("net plugin");
  result.simulation.engine_sha256 = common.value("engine", "");
  return result;
}

}  // namespace meshbed::testbed
