#include "plugin/ring/telemetry/policy.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/common/document_output.h"
#include "cli/ring/ring.h"
#include "testbed/base/exit_status.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

/// One number of a request: its option, its help text, and the member that it sets.
struct PolicyField {
  const char* option;
  const char* meaning;
  const char* fallback;
  std::uint64_t most;
  void (*set)(ring::LaunchRequest& request, std::uint64_t value);
};

constexpr std::uint64_t kWord = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kDoubleWord = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kAllBps = 10'000;

template <auto member>
void assign(ring::LaunchRequest& request, std::uint64_t value) {
  request.*member = static_cast<std::remove_reference_t<decltype(request.*member)>>(value);
}

constexpr PolicyField kFields[] = {
    {"queue", "slots that wait", "0", kWord, assign<&ring::LaunchRequest::queue_length>},
    {"workers", "requested workgroups; 0: by the limits; default: 64", "64", kWord,
     assign<&ring::LaunchRequest::requested_worker_groups>},
    {"max-x", "invocations that the device takes in a workgroup's x; default: 256", "256", kWord,
     assign<&ring::LaunchRequest::max_workgroup_size_x>},
    {"max-groups", "workgroups that it takes in a dimension; default: --workers, or 64", "", kWord,
     assign<&ring::LaunchRequest::max_workgroups_per_dimension>},
    {"max-invocations", "invocations that it takes in a workgroup; default: --max-x", "", kWord,
     assign<&ring::LaunchRequest::max_invocations_per_workgroup>},
    {"hit-capacity", "hits to make room for; 0: worked out", "0", kWord,
     assign<&ring::LaunchRequest::requested_hit_capacity>},
    {"hits-per-item", "hits that a slot is expected to make", "1", kWord,
     assign<&ring::LaunchRequest::expected_hits_per_item>},
    {"hot-opcodes", "different opcodes in use", "0", kWord, assign<&ring::LaunchRequest::hot_opcode_count>},
    {"hot-windows", "route windows of four slots and more", "0", kWord, assign<&ring::LaunchRequest::hot_window_count>},
    {"requeues", "slots that were put back", "0", kDoubleWord, assign<&ring::LaunchRequest::requeue_count>},
    {"age", "ticks that the oldest priority work has waited", "0", kWord,
     assign<&ring::LaunchRequest::max_priority_age>},
    {"nodes", "nodes of the graph", "0", kWord, assign<&ring::LaunchRequest::graph_node_count>},
    {"edges", "edges of the graph", "0", kWord, assign<&ring::LaunchRequest::graph_edge_count>},
    {"density", "share of the graph that is queued, in 1/10000; 0: from --queue and --nodes", "0", kAllBps,
     assign<&ring::LaunchRequest::frontier_density_bps>},
    {"memory-pressure", "share of device memory in use, in 1/10000; 0: from --resident and --budget", "0", kAllBps,
     assign<&ring::LaunchRequest::memory_pressure_bps>},
    {"resident", "bytes of device memory that are in use", "0", kDoubleWord,
     assign<&ring::LaunchRequest::resident_device_bytes>},
    {"budget", "bytes of device memory that may be; 0: no budget", "0", kDoubleWord,
     assign<&ring::LaunchRequest::device_memory_budget_bytes>},
};

/// The policy's decisions, in order.
document::Document policy_document(const ring::LaunchRecommendation& launch) {
  using document::flag, document::integer, document::text;
  document::Section section{.title = "Launch policy"};
  const auto add = [&](document::Field field, document::Value value) {
    section.fields.emplace_back(std::move(field), std::move(value));
  };
  add(text("topology", "of the launch"), name_of(launch.topology));
  add(text("mode", "of the kernel"), name_of(launch.mode));
  add(text("queue_pressure", "slots that wait against workers"), name_of(launch.pressure));
  add(integer("worker_groups", "", "workgroups of the launch"), launch.worker_groups);
  add(integer("workgroup_size_x", "", "invocations of a workgroup"), launch.workgroup_size_x);
  add(integer("slot_count", "", "of the ring"), launch.slot_count);
  add(integer("grid_x", "", "workgroups in x"), launch.grid_x);
  add(integer("lanes", "", "of the kernel"), launch.lanes);
  add(integer("hit_capacity", "", "hits that there is room for"), launch.hit_capacity);
  add(integer("peak_device_bytes", "B", "of device memory"), launch.peak_device_bytes);
  add(integer("frontier_density_bps", "1/10000", "share of the graph that is queued"), launch.frontier_density_bps);
  add(integer("memory_pressure_bps", "1/10000", "share of device memory in use"), launch.memory_pressure_bps);
  add(flag("promote_hot_opcodes", "into kernels of their own"), launch.promote_hot_opcodes);
  add(flag("promote_hot_windows", "likewise"), launch.promote_hot_windows);
  add(flag("age_priority_work", "raise what has waited long"), launch.age_priority_work);
  section.show_fields(22);
  return {.title = "ring policy", .sections = {std::move(section)}};
}

}  // namespace

int ring_policy_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::vector<std::string> texts;
  for (const PolicyField& field : kFields) texts.emplace_back(field.fallback);
  std::string previous;
  bool json = false;
  Syntax syntax("ring policy [options]");
  for (std::size_t index = 0; index < texts.size(); ++index) {
    syntax.options.add_options()(kFields[index].option, po::value(&texts[index])->value_name("N"),
                                 kFields[index].meaning);
  }
  syntax.options.add_options()  //
      ("previous", po::value(&previous)->value_name("TOPOLOGY"),
       "topology of the previous launch, for the hysteresis: empty, memory-constrained, sparse-frontier, "
       "hybrid-frontier, "
       "dense-frontier or fused-dense")  //
      ("json", po::bool_switch(&json), "one JSON object");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  ring::LaunchRequest request;
  for (std::size_t index = 0; index < texts.size(); ++index) {
    const PolicyField& field = kFields[index];
    if (texts[index].empty()) continue;
    field.set(request, parse_count(std::string("--") + field.option, texts[index], 0, field.most));
  }
  // Without device limits, the device is assumed to support the request.
  const auto given = [&](const char* option) {
    for (std::size_t index = 0; index < texts.size(); ++index) {
      if (std::string(option) == kFields[index].option) return !texts[index].empty();
    }
    return false;
  };
  if (!given("max-groups")) {
    constexpr std::uint32_t kWorkersByDefault = 64;
    const std::uint32_t workers = request.requested_worker_groups;
    request.max_workgroups_per_dimension = workers > 0 ? workers : kWorkersByDefault;
  }
  if (!given("max-invocations")) request.max_invocations_per_workgroup = request.max_workgroup_size_x;
  if (!previous.empty()) {
    request.previous = ring::topology_named(previous);
    if (!request.previous) {
      require_choice(
          "--previous", "topology", previous,
          {"empty", "memory-constrained", "sparse-frontier", "hybrid-frontier", "dense-frontier", "fused-dense"});
    }
  }
  const Result<ring::LaunchRecommendation> launch = ring::recommend_launch(request);
  if (!launch) {
    err << "meshbed: ring policy: " << launch.error().text << "\n";
    return kExitUsage;
  }
  DocumentOutput output{.json = json, .indent = kOneLine};
  output.finish(policy_document(*launch), out);
  return kExitOk;
}

}  // namespace meshbed::testbed
