#include "cli/metal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "cli/metal_devices.h"
#include "cli/metal_host.h"
#include "cli/metal_trace.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

/// Ends the process where the run does not end by itself: nothing hangs, whatever the hardware does.
class Watchdog {
 public:
  Watchdog(const MetalPlace& place, double limit_s)
      : thread_([this, rank = place.rank, limit_s] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return over_; })) return;
          fmt::print(stderr, "meshbed: rank {}: the run has not ended in {} s (--time-limit); it is given up\n", rank,
                     limit_s);
          std::fflush(stderr);
          _exit(kExitNoProgress);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

void check_ranks(const Scenario& scenario, const MetalPlace& place) {
  if (place.ranks == ranks_of(scenario)) return;
  throw std::runtime_error(fmt::format("--world metal: {} has {} ranks ({} nodes, {} a node), {} say {}", scenario.name,
                                       ranks_of(scenario), scenario.cluster.nodes.size(),
                                       scenario.workload.ranks_per_node, place.said_by, place.ranks));
}

/// What all ranks must have in common; a difference would show as a hang or as wrong data.
nlohmann::json identity_of(const Scenario& scenario, const BuiltFiles& files) {
  return {{"meshbed", kVersion},
          {"scenario", sha256_of_file(scenario.path)},
          {"--set", scenario.overrides},
          {"seed", scenario.seed},
          {"net plugin", sha256_of_file(net_plugin_of(scenario, files))},
          {"engine", sha256_of_file(files.engine)}};
}

std::string identity_key(int rank) { return fmt::format("identity {}", rank); }
std::string findings_key(int rank) { return fmt::format("findings {}", rank); }

/// Rank 0 compares; the first difference breaks the run for all.
Result<void> agree(MetalHost& host, const nlohmann::json& ours) {
  if (host.rank() != 0) return host.hand_over(identity_key(host.rank()), ours.dump());
  for (int rank = 1; rank < host.ranks(); ++rank) {
    const Result<std::string> text = host.take_over(identity_key(rank));
    if (!text) return text.error();
    const nlohmann::json theirs = nlohmann::json::parse(*text);
    for (const auto& [what, value] : ours.items()) {
      if (theirs.value(what, nlohmann::json()) == value) continue;
      return Error{.code = ErrorCode::kInvalidArgument,
                   .scope = Scope::kJob,
                   .text = fmt::format("rank {} has another {}: {} where rank 0 has {}; give all ranks the same files "
                                       "and options",
                                       rank, what, theirs.value(what, nlohmann::json()).dump(), value.dump())};
    }
  }
  return ok();
}

/// "rank 2: text" as the store passes a failure on.
RankError parse_failure(const std::string& text, int own_rank, Picoseconds at_ps) {
  int rank = own_rank;
  constexpr std::string_view kRank = "rank ";
  std::size_t from = 0;
  if (text.rfind(kRank, 0) == 0) {
    const auto [end, problem] = std::from_chars(text.data() + kRank.size(), text.data() + text.size(), rank);
    if (problem == std::errc() && std::string_view(end).rfind(": ", 0) == 0) {
      from = static_cast<std::size_t>(end - text.data()) + 2;
    }
  }
  return {rank, at_ps, text.substr(from)};
}

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
                                  {"trace", traces.front()}};
    if (const Result<void> told = host.hand_over(findings_key(host.rank()), findings.dump()); !told) return told;
    return host.rendezvous();
  }
  for (int rank = 1; rank < host.ranks(); ++rank) {
    const Result<std::string> text = host.take_over(findings_key(rank));
    if (!text) return text.error();
    const nlohmann::json findings = nlohmann::json::parse(*text);
    run.take_in(findings.at("workload"));
    traces.push_back(findings.at("trace"));
    result.cpu_s += findings.at("cpu_s").get<double>();
    result.peak_rss_bytes = std::max(result.peak_rss_bytes, findings.at("peak_rss_bytes").get<std::uint64_t>());
  }
  replay_traces(gathering.scenario, traces, *gathering.recorder);
  return host.rendezvous();
}

Result<void> run_rank(MetalHost& host, Gathering& gathering, const nlohmann::json& identity, RunResult& result) {
  if (const Result<void> same = agree(host, identity); !same) return same;
  if (const Result<void> all = host.rendezvous(); !all) return all;
  gathering.zero_ns = host.now_ps() / kPicosecondsPerNanosecond;
  if (const Result<void> done = gathering.run.run_rank(host); !done) return done;
  return share_findings(host, gathering, result);
}

}  // namespace

std::string metal_world_name() { return from_environment(kWorldNameVariable).value_or("metal"); }

RunResult run_metal(const Scenario& scenario, const MetalPlace& place, const MetalOptions& options,
                    sim::Recorder* recorder) {
  check_ranks(scenario, place);
  const models::Node& node = scenario.cluster.nodes[static_cast<std::size_t>(node_of(scenario, place.rank))];
  for (const auto& [name, value] : node.environment) setenv(name.c_str(), value.c_str(), 1);
  const MetalDevices devices = MetalDevices::parse(from_environment(kDevicesVariable).value_or(""));
  if (!devices.empty()) {
    const std::string asked = from_environment(kDeviceListVariable).value_or("");
    setenv(kDeviceListVariable, devices.device_list(asked).c_str(), 1);
  }

  if (const Result<void> traced = start_verbs_trace(options.files.verbs_trace); !traced) {
    throw std::runtime_error("--world metal: " + traced.error().text);
  }
  const nlohmann::json identity = identity_of(scenario, options.files);
  const auto run = make_workload(scenario, options.files, {place.rank, 1});
  const Watchdog watchdog(place, options.time_limit_s);
  auto host = MetalHost::meet(place, coll::Deadline::after_ms(static_cast<std::int64_t>(options.time_limit_s * 1e3)));
  if (!host) throw std::runtime_error("--world metal: the ranks do not meet: " + host.error().text);

  RunResult result;
  result.world = metal_world_name();
  const Picoseconds start_ps = (*host)->now_ps();
  Result<void> outcome = ok();
  try {
    Gathering gathering{.scenario = scenario, .run = *run, .devices = devices, .recorder = recorder};
    outcome = run_rank(**host, gathering, identity, result);
  } catch (const std::exception& error) {
    outcome = Error{.code = ErrorCode::kInternal, .scope = Scope::kJob, .text = error.what()};
  }
  result.simulation.elapsed_ps = (*host)->now_ps() - start_ps;
  if (!outcome) {
    // Who only heard of another rank's failure has nothing to add, and the store keeps the first.
    if (!(*host)->others_failed()) (*host)->announce_failure(outcome.error().text);
    const std::string first = (*host)->failure();
    result.simulation.errors.push_back(
        parse_failure(first.empty() ? outcome.error().text : first, place.rank, result.simulation.elapsed_ps));
  }
  result.simulation.plugin_sha256 = identity.at("net plugin");
  if (scenario.workload.kind == WorkloadKind::kCollective) result.simulation.engine_sha256 = identity.at("engine");
  if (recorder != nullptr) {
    result.messages = recorder->totals();
    result.pairs = recorder->pairs();
    result.connections = recorder->connections();
  }
  run->conclude(result);
  if (outcome && recorder != nullptr) {
    result.proofs.push_back(sim::subnets_true(scenario.cluster, result.pairs));
    result.proofs.push_back({"one plugin file", true,
                             fmt::format("every rank has SHA-256 {}", result.simulation.plugin_sha256.substr(0, 16))});
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
