#include "cli/inspector.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/files.h"
#include "cli/json_text.h"
#include "sim/host/clocks.h"

namespace meshbed::cli {
namespace {

using nlohmann::ordered_json;

/// NCCL's own names of what was called.
const char* nccl_name(models::Collective op) {
  switch (op) {
    case models::Collective::kAllReduce:
      return "AllReduce";
    case models::Collective::kAllGather:
      return "AllGather";
    case models::Collective::kReduceScatter:
      return "ReduceScatter";
    case models::Collective::kBroadcast:
      return "Broadcast";
    case models::Collective::kReduce:
      return "Reduce";
    case models::Collective::kAllToAll:
      return "AlltoAll";
    case models::Collective::kGather:
      return "Gather";
    case models::Collective::kScatter:
      return "Scatter";
    case models::Collective::kSendRecv:
      break;
  }
  return "SendRecv";
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
  return {{"header",
           {{"id", fmt::format("{:#x}", XXH3_64bits(communicator.data(), communicator.size()))},
            {"comm_name", scenario.name},
            {"rank", rank},
            {"n_ranks", ranks},
            {"nnodes", ranks / scenario.workload.ranks_per_node}}},
          {"metadata",
           {{"inspector_output_format_version", "v4.2"},
            {"git_rev", ""},
            {"rec_mechanism", "meshbed"},
            {"dump_timestamp_us", sim::kRealtimeStartSeconds * kMicrosecondsPerSecond +
                                      result.simulation.elapsed_ps / kPicosecondsPerMicrosecond},
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

std::vector<std::string> inspector_lines(const Scenario& scenario, const RunResult& result, int rank) {
  const CollectiveCase& collective = result.calls.collective;
  const int ranks = ranks_of(scenario);
  const CollectiveShape shape = shape_of(collective.op, collective.bytes, ranks, collective.type);
  const std::uint64_t message_bytes = shape.count * coll::size_of(collective.type);
  const ordered_json start = line_start(scenario, result, rank);

  std::vector<ordered_json> records;
  std::uint64_t calls = 0;
  const auto add_message = [&](const char* direction, int peer, const CallTime& call) {
    if (peer < 0) return;
    ordered_json line = start;
    ordered_json& perf = line["p2p_perf"] = {{"p2p", direction}, {"p2p_sn", calls}, {"p2p_peer", peer}};
    add_times(perf, "p2p", call, message_bytes, message_bytes, 1);
    records.push_back(std::move(line));
  };
  for (const CallTime& call : result.calls.times) {
    if (call.rank != rank) continue;
    ++calls;
    if (collective.op == models::Collective::kSendRecv) {
      add_message("Send", target_of(collective, rank, ranks), call);
      add_message("Recv", source_of(collective, rank, ranks), call);
      continue;
    }
    ordered_json line = start;
    // Algorithm and protocol have NCCL's names there; the engine's are its own.
    ordered_json& perf = line["coll_perf"] = {
        {"coll", nccl_name(collective.op)}, {"coll_algo", "unknown"}, {"coll_proto", "unknown"}, {"coll_sn", calls}};
    add_times(perf, "coll", call, message_bytes, shape.bytes, models::bus_factor(collective.op, ranks));
    records.push_back(std::move(line));
  }
  if (records.empty()) return {};

  const bool messages = collective.op == models::Collective::kSendRecv;
  ordered_json stats = start;
  stats["dump_stats"] = {
      {"coll_records", messages ? 0 : records.size()}, {"coll_dropped_total", 0}, {"coll_dropped_since_last_dump", 0},
      {"p2p_records", messages ? records.size() : 0},  {"p2p_dropped_total", 0},  {"p2p_dropped_since_last_dump", 0}};
  std::vector<std::string> lines{json_text(stats)};
  for (const ordered_json& record : records) lines.push_back(json_text(record));
  return lines;
}

void write_inspector_logs(const Scenario& scenario, const RunResult& result, const std::string& folder) {
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const std::vector<std::string> lines = inspector_lines(scenario, result, rank);
    if (lines.empty()) continue;
    write_text_file(fmt::format("{}/{}-pid{}.log", folder, node_name(scenario, rank), process_of(result, rank)),
                    fmt::format("{}\n", fmt::join(lines, "\n")));
  }
}

}  // namespace meshbed::cli
