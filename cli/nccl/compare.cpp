#include "cli/nccl/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "emu/process.h"
#include "testbed/base/files.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/bounds.h"
#include "testbed/workload/nccl/decisions.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;
constexpr double kPicosecondsPerMicrosecond = 1e6;

/// The object behind "rank0: "; discarded where the line has none.
nlohmann::json object_in(const std::string& line) {
  const std::size_t begin = line.rfind("rank", 0) == 0 ? line.find(": {") : std::string::npos;
  if (begin == std::string::npos) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(line.substr(begin + 2), nullptr, false);
}

std::vector<NcclPoint> compared_points(const std::vector<models::Collective>& operations,
                                       const std::vector<std::uint64_t>& sizes_bytes, int ranks) {
  std::vector<NcclPoint> points;
  for (const models::Collective operation : operations) {
    for (const std::uint64_t asked_bytes : sizes_bytes) {
      const NcclPoint point{operation, testbed::shape_of(operation, asked_bytes, ranks).bytes};
      if (point.bytes == 0) {
        throw std::runtime_error(fmt::format("nccl compare: {} of {} bytes: not an element for each rank; at least {}",
                                             models::name_of(operation), asked_bytes,
                                             smallest_bytes(operation, ranks)));
      }
      // Sizes that differ by less than an element of each rank come to the same.
      if (std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
    }
  }
  return points;
}

/// Of the run whose results are in `folder`.
nlohmann::json summary_in(const std::string& folder, const Scenario& scenario) {
  return nlohmann::json::parse(
      read_text_file(fmt::format("{}/{}/{}/summary.json", folder, scenario.name, name_of(WorldKind::kSimulated))));
}

/// The children go on as another command, whose words may be wrong: here it is said once, before any starts.
Scenario scenario_of(const ProgramRun& run) { return read_scenario(run.scenario, cluster_overrides(run)); }

}  // namespace

std::vector<std::string> compared_operations() { return {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}; }

NcclChoice choice_of(const nlohmann::json& summary, const NcclPoint& point) {
  NcclChoice most;
  const nlohmann::json nccl = summary.value("nccl", nlohmann::json());
  if (!nccl.is_object()) return most;
  for (const nlohmann::json& one : nccl.at("decisions")) {
    const bool is_its = one.at("operation") == nccl_name_of(point.operation) && one.at("size_bytes") == point.bytes;
    if (!is_its || one.at("algorithm").is_null() || one.at("channels").is_null()) continue;
    const auto calls = one.at("calls").get<std::uint64_t>();
    if (most && most->calls >= calls) continue;
    most = NcclDecision{.operation = one.at("operation"),
                        .datatype = one.at("datatype"),
                        .bytes = point.bytes,
                        .ranks = one.at("ranks"),
                        .algorithm = one.at("algorithm"),
                        .protocol = one.at("protocol"),
                        .channels = one.at("channels"),
                        .calls = calls};
  }
  return most;
}

std::string text_of(const NcclChoice& choice) {
  return choice ? fmt::format("{} {} {}", choice->algorithm, choice->protocol, choice->channels) : "-";
}

NcclTimes read_sweep(const std::string& output, int status, const std::vector<NcclPoint>& points, int ranks) {
  NcclTimes times;
  times.time_us.resize(points.size());
  std::vector<int> ranks_seen(points.size());
  std::string others;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) {
    const nlohmann::json object = object_in(line);
    if (!object.is_object() || !object.contains("operation") || !object.contains("ns")) {
      others += line + "\n";
      continue;
    }
    for (std::size_t index = 0; index < points.size(); ++index) {
      const NcclPoint& point = points[index];
      if (object["operation"] != models::name_of(point.operation) || object["bytes"] != point.bytes) continue;
      const double time_us = object["ns"].get<double>() / kNanosecondsPerMicrosecond;
      times.time_us[index] = std::max(times.time_us[index].value_or(0), time_us);
      ++ranks_seen[index];
      if (object["wrong"] != 0) others += line + "\n";
    }
  }
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (ranks_seen[index] == ranks) continue;
    times.time_us[index].reset();
    if (status == 0) {
      others += fmt::format("{} of {} ranks printed a time of {}, {} bytes\n", ranks_seen[index], ranks,
                            models::name_of(points[index].operation), points[index].bytes);
    }
  }
  const bool whole = std::all_of(times.time_us.begin(), times.time_us.end(), [](const auto& time) { return time; });
  if (status != 0 || !whole) times.failure = others.empty() ? fmt::format("status {}\n", status) : others;
  return times;
}

NcclComparison compare_nccl(const ProgramRun& run, const std::vector<models::Collective>& operations,
                            const std::vector<std::uint64_t>& sizes_bytes) {
  const Scenario scenario = scenario_of(run);
  NcclComparison comparison;
  comparison.ranks = ranks_of(scenario);
  const std::vector<NcclPoint> points = compared_points(operations, sizes_bytes, comparison.ranks);
  ProgramRun each = run;
  each.program = built_files().nccl_sweep;
  for (const NcclPoint& point : points) {
    each.arguments.push_back(fmt::format("{}:{}", models::name_of(point.operation), point.bytes));
  }
  std::array<NcclTimes, 2> times;
  std::array<nlohmann::json, 2> summaries;
  for (const bool dropin : {false, true}) {
    each.library = dropin ? kDropInNccl : run.library;
    each.results = run.results + (dropin ? "/drop-in" : "/nccl");
    Arguments words = simulated_words(each);
    words.insert(words.begin(), built_files().command);
    const emu::ProgramResult ended = emu::run_program(words);
    times[dropin ? 1 : 0] = read_sweep(ended.output + ended.errors, ended.status, points, comparison.ranks);
    if (const std::string& failure = times[dropin ? 1 : 0].failure; !failure.empty()) {
      comparison.failure = fmt::format("the run on {} ended with status {}:\n{}", each.library, ended.status, failure);
      return comparison;
    }
    summaries[dropin ? 1 : 0] = summary_in(each.results, scenario);
  }
  const BoundTable bounds(scenario, {}, {});
  for (std::size_t index = 0; index < points.size(); ++index) {
    const Picoseconds bound_ps = bounds.of({.op = points[index].operation}, points[index].bytes).any_algorithm_ps;
    comparison.points.push_back({.point = points[index],
                                 .nccl_us = *times[0].time_us[index],
                                 .dropin_us = *times[1].time_us[index],
                                 .bound_us = static_cast<double>(bound_ps) / kPicosecondsPerMicrosecond,
                                 .nccl_chose = choice_of(summaries[0], points[index]),
                                 .dropin_chose = choice_of(summaries[1], points[index])});
  }
  return comparison;
}

}  // namespace meshbed::testbed
