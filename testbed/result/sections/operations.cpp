// For each collective the algorithm, protocol, channels and pairs of ports that carried it out.

#include "testbed/workload/operations.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/units.h"
#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

constexpr std::size_t kLinesShown = 16, kPathsShown = 12;

std::set<sim::PairKey> keys_of(const Carried& pairs) {
  std::set<sim::PairKey> keys;
  for (const auto& [key, usage] : pairs) keys.insert(keys.end(), key);
  return keys;
}

const Carried& paths_of(const RunResult& result, const OperationRecord& record) {
  return result.world.virtual_time ? record.paths : result.pairs;
}

std::string plan_text(const EnginePlan& plan) {
  if (plan.algorithm.empty()) return "not carried out";
  return fmt::format("{}, {}, {}", plan.algorithm, plan.protocol,
                     counted(static_cast<std::uint64_t>(plan.channels), "channel"));
}

/// "iterations 3 to 7", "warm-up".
std::string which_text(const OperationRecord& record) {
  if (!record.operation.timed) return record.count == 1 ? "warm-up" : fmt::format("{} warm-ups", record.count);
  if (record.count == 1) return fmt::format("iteration {}", record.first);
  return fmt::format("iterations {} to {}", record.first, record.first + record.count - 1);
}

std::string paths_text(const Scenario& scenario, const Carried& paths) {
  std::vector<std::string> texts;
  for (const auto& [key, usage] : paths) {
    if (texts.size() == kPathsShown) {
      texts.push_back(fmt::format("and {} more", paths.size() - kPathsShown));
      break;
    }
    texts.push_back(fmt::format("{} > {}", sim::endpoint_name(scenario.cluster, key.source),
                                sim::endpoint_name(scenario.cluster, key.destination)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// A line for each, with the paths where they are not all those of the run.
std::vector<std::string> operation_lines(const Scenario& scenario, const RunResult& result) {
  std::vector<std::string> lines;
  const std::set<sim::PairKey> all = keys_of(result.pairs);
  const auto how = [&](const OperationRecord& record) {
    const Carried& paths = paths_of(result, record);
    std::string text = plan_text(record.plan);
    if (record.failed) text += ", failed";
    if (paths.empty()) return text;
    if (keys_of(paths) == all) return text + " over the paths above";
    return text + " over " + paths_text(scenario, paths);
  };
  for (std::size_t index = 0; index < result.operations.size();) {
    const OperationRecord& record = result.operations[index];
    const std::string text = how(record);
    std::string which = which_text(record);
    // The warm-up and what follows it mostly go the same way.
    std::size_t next = index + 1;
    for (; next < result.operations.size(); ++next) {
      const OperationRecord& other = result.operations[next];
      const bool same = other.operation.name == record.operation.name &&
                        other.operation.bytes == record.operation.bytes && how(other) == text;
      if (!same) break;
      which += ", " + which_text(other);
    }
    if (lines.size() == kLinesShown) {
      lines.push_back(fmt::format("... and {} more, all in summary.json", result.operations.size() - index));
      break;
    }
    lines.push_back(fmt::format("{} of {} B, {}: {}", record.operation.name, record.operation.bytes, which, text));
    index = next;
  }
  return lines;
}

Section operations_shape() {
  Section section{.title = "Operations"};
  section.with(
      Table{.key = "operations",
            .meaning = "each collective; equal ones in a row are one row",
            .columns = {
                text("operation", "its name"), integer("bytes", "B", "of each rank"), flag("timed", "false: a warm-up"),
                integer("first_iteration", "", "of the row"), integer("iterations", "", "in the row"),
                text("algorithm", "of the engine; empty: it was not carried out"), text("protocol", "of the engine"),
                integer("channels", "", "that it used"), flag("failed", "whether a rank had an error in it"),
                text("paths_of", "\"operations\", or \"run\": the paths are those of the whole run"),
                objects("paths", "what carried it",
                        {integer("source_rank", "", "-1: not known"), integer("destination_rank", "", "-1: not known"),
                         text("source", "the sending port"), text("destination", "the receiving port"),
                         integer("messages", "", "their number"), integer("payload_bytes", "B", "without headers")})}});
  return section;
}

void fill_operations(Section& section, const RunView& run) {
  for (const OperationRecord& record : run.result.operations) {
    Value paths = Value::array();
    for (const auto& [key, usage] : paths_of(run.result, record)) {
      paths.push_back({{"source_rank", key.source_rank},
                       {"destination_rank", key.destination_rank},
                       {"source", sim::endpoint_name(run.scenario.cluster, key.source)},
                       {"destination", sim::endpoint_name(run.scenario.cluster, key.destination)},
                       {"messages", usage.messages},
                       {"payload_bytes", usage.payload_bytes}});
    }
    section.table("operations")
        .add({record.operation.name, record.operation.bytes, record.operation.timed, record.first, record.count,
              record.plan.algorithm, record.plan.protocol, record.plan.channels, record.failed,
              run.result.world.virtual_time ? "operations" : "run", std::move(paths)});
  }
  const std::vector<std::string> lines = operation_lines(run.scenario, run.result);
  if (!run.result.simulation.ended_well() && !lines.empty()) section.blank();
  for (const std::string& line : lines) section.line("{}", line);
}

const RunSection operations_here(500, operations_shape, fill_operations);

}  // namespace
}  // namespace meshbed::testbed::document
