// nccl-tests' JSON, file version 3, as its src/util.cu at 2.19.6 writes it, with the same names, nesting and types of
// fields: booleans are the texts "true" and "false", and a root is a text of six characters.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/bench/perf_sweep.h"
#include "plugin/dropin/nccl.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/result/verdict.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFileVersion = 3;

const char* truth(bool value) { return value ? "true" : "false"; }

/// The machine's own date and time, as nccl-tests' formatNow.
std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

Json devices_json(const Scenario& scenario, const RunResult& result) {
  Json devices = Json::array();
  std::vector<int> taken(scenario.cluster.nodes.size(), 0);
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const auto at = static_cast<std::size_t>(node_of(scenario, rank));
    const models::Node& node = scenario.cluster.nodes[at];
    const int device = taken[at]++;
    const auto& process_ids = result.simulation.process_ids;
    const auto index = static_cast<std::size_t>(rank);
    const bool has_gpu = static_cast<std::size_t>(device) < node.gpus.size();
    devices.push_back({{"rank", rank},
                       {"group", 0},
                       {"pid", index < process_ids.size() ? process_ids[index] : 0},
                       {"hostname", node.name},
                       {"device", device},
                       // As the simulated driver names its devices (sim/cuda/device.cpp).
                       {"device_hex", fmt::format("0000:{:02x}:00", 0x10 + device)},
                       {"device_info", has_gpu ? node.gpus[static_cast<std::size_t>(device)].model : ""}});
  }
  return devices;
}

Json config_json(const PerfOptions& options, const Scenario& scenario, const RunResult& result) {
  const SweepOptions& sweep = options.sweep;
  Json config{{"nthreads", 1}, {"ngpus", 1}, {"minimum_bytes", sweep.min_bytes}, {"maximum_bytes", sweep.max_bytes}};
  sweep.step_factor > 1 ? config["step_factor"] = sweep.step_factor : config["step_bytes"] = sweep.step_bytes;
  config["warmup_iters"] = options.warmup;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.pacing.operations;
  config["validation"] = options.checks;
  config["graph"] = options.graph_launches;
  config["blocking_collectives"] = truth(options.pacing.wait != Pacing::Wait::kQueued);
  config["per_iter_timing"] = truth(options.per_iteration.has_value());
  config["per_iter_skip"] = options.per_iteration.value_or(0);
  config["parallel_init"] = truth(false);
  config["devices"] = devices_json(scenario, result);
  return config;
}

Json placement_json(const CollectiveShape& shape, const CaseResults& board, double bus_factor, bool checked) {
  const auto time_ps = static_cast<double>(board.average_ps());
  const double algbw_GBps = time_ps > 0 ? static_cast<double>(shape.bytes) / time_ps * 1e3 : 0;
  return {{"time", time_ps / 1e6},
          {"alg_bw", algbw_GBps},
          {"bus_bw", algbw_GBps * bus_factor},
          {"nwrong", checked ? Json(static_cast<double>(board.wrong)) : Json(nullptr)}};
}

Json iterations_json(const CaseResults& board, int skip) {
  const IterationStatistics times = iteration_statistics(board, skip);
  return {{"skipped_iterations", skip}, {"min_us", times.min_us},         {"max_us", times.max_us},
          {"avg_us", times.average_us}, {"p50_us", times.p50_us},         {"p95_us", times.p95_us},
          {"p99_us", times.p99_us},     {"stdev_us", times.deviation_us}, {"cv_pct", times.deviation_percent()},
          {"times_us", times.times_us}};
}

Json row_json(const PerfOptions& options, const SizeRun& run, double bus_factor) {
  Json row{{"size", run.shape.bytes},
           {"count", run.shape.count},
           {"type", name_of(run.in_place.type)},
           {"redop", reduction_text(run.in_place)},
           {"root", fmt::format("{:>6}", root_text(run.in_place))}};
  const auto add = [&](const char* name, const CaseResults& board) {
    row[name] = placement_json(run.shape, board, bus_factor, options.checks > 0);
    if (options.per_iteration) {
      row[std::string(name) + "_per_iter"] = iterations_json(board, *options.per_iteration);
    }
  };
  add("out_of_place", run.out_of_place_board);
  add("in_place", run.in_place_board);
  row["actual_iterations"] = options.iterations;
  row["experiment_name"] = "";
  return row;
}

/// Those that rank 0 has.
Json environment_json(const Scenario& scenario) {
  Json lines = Json::array();
  const models::Node& node = scenario.cluster.at(node_of(scenario, 0));
  for (const auto& [name, value] : node.environment) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace

PerfJsonFile::PerfJsonFile(const std::string& path) : path_(path), began_(now_text()) {
  constexpr const char* kSuffix = ".json";
  if (path.size() <= std::strlen(kSuffix) ||
      path.compare(path.size() - std::strlen(kSuffix), path.npos, kSuffix) != 0) {
    throw std::runtime_error(
        fmt::format("-J {}: what is written follows from the suffix, and only .json is known", path));
  }
  int file = -1;
  for (int tries = 0; (file = open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666)) < 0; ++tries) {
    if (errno != EEXIST) throw std::runtime_error(fmt::format("-J {}: {}", path_, std::strerror(errno)));
    path_ = fmt::format("{}.{}", path, tries);
  }
  close(file);
  unfinished_.emplace(path_);
}

PerfJsonFile::~PerfJsonFile() {
  if (!written_) unlink(path_.c_str());
}

void PerfJsonFile::take(const std::string& text) {
  write_text_file(path_, text);
  written_ = true;
  unfinished_.reset();
}

void PerfJsonFile::write(const PerfOptions& options, const Scenario& scenario, const RunResult& result,
                         const std::vector<SizeRun>& runs, const std::vector<std::string>& command_line) {
  const bool well = result.simulation.ended_well();
  Json json{{"version", kFileVersion},
            {"start_time", began_},
            {"args", command_line},
            {"env", environment_json(scenario)},
            {"nccl_version", NCCL_VERSION_CODE},  // what ncclGetVersion of our libnccl.so.2 says
            {"config", config_json(options, scenario, result)},
            {"results", Json::array()}};
  int wrong_placements = 0;
  for (const SizeRun& run : runs) {
    if (well) json["results"].push_back(row_json(options, run, result.busbw_factor));
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      wrong_placements += board->wrong > 0 ? 1 : 0;
    }
  }
  json["out_of_bounds"] = {{"count", wrong_placements}, {"okay", truth(wrong_placements == 0)}};
  json["average_bus_bandwidth"] = {{"bandwidth", well ? average_busbw(runs, result.busbw_factor) : 0},
                                   {"okay", "unchecked"}};
  // nccl-tests puts NCCL's last error there, an empty text where there was none.
  json["errors"] = Json::array({well ? "" : failure_line(result)});
  json["end_time"] = now_text();
  take(json_text(json, kIndent) + "\n");
}

}  // namespace meshbed::testbed
