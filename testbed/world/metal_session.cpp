#include "testbed/world/metal_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/outcome.h"
#include "testbed/world/metal_place.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kDisableRdmaVariable = "NCCL_MESH_DISABLE_RDMA";

void check_ranks(const Scenario& scenario, const MetalPlace& place) {
  if (place.ranks == ranks_of(scenario)) return;
  throw std::runtime_error(fmt::format("--world metal: {} has {} ranks ({} nodes, {} a node), {} say {}", scenario.name,
                                       ranks_of(scenario), scenario.cluster.nodes.size(), ranks_per_node_text(scenario),
                                       place.said_by, place.ranks));
}

std::string identity_key(int rank) { return fmt::format("identity {}", rank); }

/// Rank 0 compares; the first difference breaks the run for all.
Result<void> agree(MetalHost& host, const nlohmann::json& ours) {
  if (host.rank() != 0) return host.hand_over(identity_key(host.rank()), json_text(ours));
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
                                       rank, what, json_text(theirs.value(what, nlohmann::json())), json_text(value))};
    }
  }
  return ok();
}

Result<void> run_rank(MetalHost& host, const nlohmann::json& common, const std::set<std::string>& points,
                      const std::function<Result<void>(MetalHost&)>& program) {
  try {
    if (const Result<void> same = agree(host, common); !same) return same;
    if (const Result<void> all = host.rendezvous(); !all) return all;
    if (const Result<void> started = reach_if_used(host, points, kPointStart); !started) return started;
    return program(host);
  } catch (const std::exception& error) {
    return Error{.code = ErrorCode::kInternal, .scope = Scope::kJob, .text = error.what()};
  }
}

bool is_error_class(const std::string& word) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    if (word == class_of(static_cast<ErrorCode>(code))) return true;
  }
  return false;
}

/// A failure as a rank reports it to the store: "remote: text".
std::string failure_text(const Error& error) { return fmt::format("{}: {}", class_of(error.code), error.text); }

/// "rank 2: remote: text" as the store passes a failure on.
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
  const std::string rest = text.substr(from);
  // Failures that the store itself finds (a lost rank) have no class in front.
  const std::size_t colon = rest.find(": ");
  const std::string word = rest.substr(0, colon);
  if (colon == std::string::npos || !is_error_class(word)) return {rank, at_ps, rest, class_of(ErrorCode::kClosed)};
  return {rank, at_ps, rest.substr(colon + 2), word};
}

/// Checked before waiting for the other ranks. An idle workload needs no device, another net plugin may not need RDMA,
/// and our own can be set to use only TCP.
void require_devices(const Scenario& scenario) {
  if (scenario.workload.kind == WorkloadKind::kIdle || !scenario.workload.net_plugin.empty()) return;
  if (from_environment(kDisableRdmaVariable).value_or("0") != "0") return;
  if (!machine_devices().empty()) return;
  throw std::runtime_error(fmt::format(
      "--world metal: this machine has no RDMA device (none in {}); meshbed doctor says what is missing, and "
      "{}=1 sends everything over TCP",
      kDevicesFolder, kDisableRdmaVariable));
}

}  // namespace

Watchdog::Watchdog(int rank, double limit_s)
    : thread_([this, rank, limit_s] {
        std::unique_lock lock(mutex_);
        if (ended_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return over_; })) return;
        fmt::print(stderr, "meshbed: rank {}: the run has not ended in {} s (--time-limit); it is given up\n", rank,
                   limit_s);
        std::fflush(stderr);
        _exit(kExitNoProgress);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

nlohmann::json common_ground(const Scenario& scenario, const BuiltFiles& files) {
  return {{"meshbed", kVersion},
          {"scenario", sha256_of_file(scenario.path)},
          {"--set", scenario.overrides},
          {"seed", scenario.seed},
          {"net plugin", sha256_of_file(net_plugin_of(scenario, files))},
          {"engine", sha256_of_file(files.engine)},
          // The cost for the ranks: to record their calls, and to start them before they wait.
          {"telemetry", {scenario.workload.tell_calls, scenario.workload.start_and_wait}}};
}

sim::Proof one_plugin_file(const Simulation& simulation) {
  return {"one plugin file", true, fmt::format("every rank has SHA-256 {}", simulation.plugin_sha256.substr(0, 16))};
}

MetalSession::MetalSession(const Scenario& scenario, const MetalPlace& place, double time_limit_s)
    : place_(place), points_(points_of(scenario)), watchdog_(place.rank, time_limit_s) {
  check_ranks(scenario, place);
  const models::Node& node = scenario.cluster.at(node_of(scenario, place.rank));
  for (const auto& [name, value] : node.environment) setenv(name.c_str(), value.c_str(), 1);
  require_devices(scenario);
  devices_ = MetalDevices::parse(from_environment(kDevicesVariable).value_or(""));
  if (!devices_.empty()) {
    const std::string asked = from_environment(kDeviceListVariable).value_or("");
    setenv(kDeviceListVariable, devices_.device_list(asked).c_str(), 1);
  }
  auto host = MetalHost::meet(place, Deadline::after_ms(static_cast<std::int64_t>(time_limit_s * 1e3)));
  if (!host) throw std::runtime_error("--world metal: the ranks do not meet: " + host.error().text);
  host_ = std::move(*host);
  start_ps_ = host_->now_ps();
}

std::vector<RankError> MetalSession::run(const nlohmann::json& common,
                                         const std::function<Result<void>(MetalHost&)>& program) {
  const Result<void> outcome = run_rank(*host_, common, points_, program);
  if (outcome) return {};
  // A rank that only learned of another's failure adds no information, and the store keeps the first.
  if (!host_->others_failed()) host_->announce_failure(failure_text(outcome.error()));
  const std::string first = host_->failure();
  return {parse_failure(first.empty() ? failure_text(outcome.error()) : first, place_.rank, elapsed_ps())};
}

}  // namespace meshbed::testbed
