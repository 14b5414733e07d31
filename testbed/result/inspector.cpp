#include "testbed/result/inspector.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <stdexcept>
#include <vector>

#include "plugin/base/collective.h"
#include "sim/host/thread/clocks.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kMechanism = "meshbed";  // rec_mechanism: whose line it is

/// What a reader of the folder takes for logs: <node>-pid<process>.log.
std::vector<std::string> logs_in(const std::string& folder) {
  static const std::regex kName(".+-pid[0-9]+\\.log");
  std::vector<std::string> logs;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (std::regex_match(entry.path().filename().string(), kName)) logs.push_back(entry.path());
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

/// Of this program, by its first line.
bool is_ours(const std::string& log) {
  std::ifstream file(log);
  std::string line;
  std::getline(file, line);
  const auto first = nlohmann::json::parse(line, nullptr, false);
  const auto mechanism = nlohmann::json::json_pointer("/metadata/rec_mechanism");
  return first.is_object() && first.contains(mechanism) && first.at(mechanism) == kMechanism;
}

const std::string& node_name(const Scenario& scenario, int rank) {
  return scenario.cluster.nodes[static_cast<std::size_t>(node_of(scenario, rank))].name;
}

std::uint32_t process_of(const RunResult& result, int rank) {
  return result.simulation.process_ids[static_cast<std::size_t>(rank)];
}

/// header and metadata, which every line begins with.
ordered_json line_start(const Scenario& scenario, const RunResult& result, int rank) {
  constexpr std::int64_t kMicrosecondsPerSecond = 1'000'000;
  const int ranks = ranks_of(scenario);
  const std::string communicator = fmt::format("{} {}", scenario.name, scenario.seed);
  const std::int64_t now_us = result.world.virtual_time ? sim::kRealtimeStartSeconds * kMicrosecondsPerSecond +
                                                              result.simulation.elapsed_ps / kPicosecondsPerMicrosecond
                                                        : std::time(nullptr) * kMicrosecondsPerSecond;
  return {{"header",
           {{"id", fmt::format("{:#x}", XXH3_64bits(communicator.data(), communicator.size()))},
            {"comm_name", scenario.name},
            {"rank", rank},
            {"n_ranks", ranks},
            {"nnodes", nodes_with_ranks(scenario)}}},
          {"metadata",
           {{"inspector_output_format_version", "v4.2"},
            {"git_rev", ""},
            {"rec_mechanism", kMechanism},
            {"dump_timestamp_us", now_us},
            {"hostname", node_name(scenario, rank)},
            {"pid", process_of(result, rank)}}}};
}

/// Adds what a collective and a message have in common, under keys that begin with `prefix`.
void add_times(ordered_json& perf, const std::string& prefix, const CallTime& call, std::uint64_t message_bytes,
               std::uint64_t counted_bytes, double bus_factor) {
  const Picoseconds time_ps = call.end_ps - call.start_ps;
  // Bytes per picosecond are TB/s; six decimals, as the plugin writes.
  const auto rounded = [](double value) { return std::round(value * 1e6) / 1e6; };
  const double bandwidth_GBps =
      time_ps > 0 ? static_cast<double>(counted_bytes) / static_cast<double>(time_ps) * 1e3 : 0;
  perf[prefix + "_msg_size_bytes"] = message_bytes;
  perf[prefix + "_exec_time_us"] = time_ps / kPicosecondsPerMicrosecond;
  perf[prefix + "_timing_source"] = "collective_cpu";  // the caller's clock, from the call to its result
  perf[prefix + "_algobw_gbs"] = rounded(bandwidth_GBps);
  perf[prefix + "_busbw_gbs"] = rounded(bandwidth_GBps * bus_factor);
}

}  // namespace

void write_inspector_log(const Scenario& scenario, const RunResult& result, int rank, std::ostream& out) {
  const CollectiveCase& collective = result.calls.collective;
  const int ranks = ranks_of(scenario);
  const bool messages = collective.op == models::Collective::kSendRecv;
  const CollectiveShape shape = shape_of(collective.op, collective.bytes, ranks, collective.type);
  const std::uint64_t message_bytes = shape.count * coll::size_of(collective.type);
  const ordered_json start = line_start(scenario, result, rank);
  const int target = messages ? target_of(collective, rank, ranks) : -1;
  const int source = messages ? source_of(collective, rank, ranks) : -1;

  const std::vector<CallTime>& times = result.calls.times;
  const auto calls_of_rank = static_cast<std::uint64_t>(
      std::count_if(times.begin(), times.end(), [&](const CallTime& call) { return call.rank == rank; }));
  const std::uint64_t ends = (target >= 0 ? 1U : 0U) + (source >= 0 ? 1U : 0U);
  ordered_json stats = start;
  stats["dump_stats"] = {
      {"coll_records", messages ? 0 : calls_of_rank}, {"coll_dropped_total", 0}, {"coll_dropped_since_last_dump", 0},
      {"p2p_records", calls_of_rank * ends},          {"p2p_dropped_total", 0},  {"p2p_dropped_since_last_dump", 0}};
  out << json_text(stats) << '\n';

  std::uint64_t calls = 0;
  const auto add_message = [&](const char* direction, int peer, const CallTime& call) {
    if (peer < 0) return;
    ordered_json line = start;
    ordered_json& perf = line["p2p_perf"] = {{"p2p", direction}, {"p2p_sn", calls}, {"p2p_peer", peer}};
    add_times(perf, "p2p", call, message_bytes, message_bytes, 1);
    out << json_text(line) << '\n';
  };
  for (const CallTime& call : times) {
    if (call.rank != rank) continue;
    ++calls;
    if (messages) {
      add_message("Send", target, call);
      add_message("Recv", source, call);
      continue;
    }
    ordered_json line = start;
    // Algorithm and protocol have NCCL's names there; the engine's are its own.
    ordered_json& perf = line["coll_perf"] = {
        {"coll", nccl_name_of(collective.op)}, {"coll_algo", "unknown"}, {"coll_proto", "unknown"}, {"coll_sn", calls}};
    add_times(perf, "coll", call, message_bytes, shape.bytes, models::bus_factor(collective.op, ranks));
    out << json_text(line) << '\n';
  }
}

void check_inspector_folder(const std::string& folder) {
  for (const std::string& log : logs_in(folder)) {
    if (is_ours(log)) continue;
    throw std::runtime_error(fmt::format(
        "--inspector-out {}: {} is an Inspector log of something else, which would be read with this run's; "
        "name another folder",
        folder, log));
  }
}

EarlierLogs::EarlierLogs(const std::string& folder) {
  for (const std::string& log : logs_in(folder)) {
    if (is_ours(log)) left_.insert(log);
  }
  count_ = static_cast<int>(left_.size());
}

int EarlierLogs::remove_others() {
  for (const std::string& log : left_) fs::remove(log);
  return count_;
}

int write_inspector_logs(const Scenario& scenario, const RunResult& result, const std::string& folder) {
  EarlierLogs earlier(folder);
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const auto& times = result.calls.times;
    if (std::none_of(times.begin(), times.end(), [&](const CallTime& call) { return call.rank == rank; })) continue;
    const std::string log =
        fs::path(folder) / fmt::format("{}-pid{}.log", node_name(scenario, rank), process_of(result, rank));
    ReplacingFile file(log);
    write_inspector_log(scenario, result, rank, file.stream());
    file.publish();
    earlier.replaced(log);
  }
  return earlier.remove_others();
}

}  // namespace meshbed::testbed
