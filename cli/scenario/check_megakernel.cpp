// What a megakernel's fields must make sense of together.

#include <fmt/format.h>

#include "cli/common/closest_name.h"
#include "cli/scenario/check.h"
#include "cli/scenario/collective_shape.h"
#include "cli/scenario/megakernel_names.h"
#include "cli/scenario/placement.h"
#include "plugin/ring/abi/abi.h"

namespace meshbed::cli {
namespace {

constexpr int kProgramRanksLeast = 2, kProgramRanksMost = 16;  // what programs are held against the engine for
/// Each slot's arguments are words, and each message is in the trace.
constexpr std::uint64_t kProgramBytesMost = 1ULL << 30U;

struct MegakernelCheck {
  const Scenario& scenario;
  const ScenarioSpec& spec;
  Diagnostics& diagnostics;
  const Workload& workload = scenario.workload;
  const Megakernel& kernel = workload.megakernel;
  const MegakernelSpec& said = spec.workload.megakernel;
  bool is_queue = kernel.program == "queue";

  void add(const char* key, const std::string& text) const {
    diagnostics.add(said.at(key), fmt::format("{}: {}", key, text));
  }

  void program() const {
    const int ranks = ranks_of(scenario);
    if (is_queue || ranks == 0) return;
    if (ranks < kProgramRanksLeast || ranks > kProgramRanksMost) {
      add("program", fmt::format("{} is for {} to {} ranks, and there are {}", kernel.program, kProgramRanksLeast,
                                 kProgramRanksMost, ranks));
    }
    const coll::DataType type = parse_data_type("dtype", workload.dtype);
    const bool moves_alone = kernel.program == "all_gather";
    if (!moves_alone && !is_reducible(type)) {
      diagnostics.add(spec.workload.at("dtype"),
                      fmt::format("dtype: {} is moved, never reduced, and {} reduces", workload.dtype, kernel.program));
    }
    if (kernel.program == "pipeline" && workload.op != "sum") {
      diagnostics.add(spec.workload.at("op"),
                      fmt::format("op: stages of a pipeline add; there is no {} of them", workload.op));
    }
    if (kernel.program == "pipeline" && accumulator_of(type) != type) {
      diagnostics.add(spec.workload.at("dtype"),
                      fmt::format("dtype: stages of a pipeline hand on whole elements; {} would be rounded at each",
                                  workload.dtype));
    }
    const std::uint64_t share = coll::size_of(type) * static_cast<std::uint64_t>(ranks);
    if (workload.bytes < share || workload.bytes % share != 0 || workload.bytes > kProgramBytesMost) {
      diagnostics.add(spec.workload.at("bytes"),
                      fmt::format("bytes: {} expects a multiple of {} (an element of each rank) up to {}; {} is none",
                                  kernel.program, share, kProgramBytesMost, workload.bytes));
    }
    if (workload.slice_bytes % coll::size_of(type) != 0) {
      diagnostics.add(spec.workload.at("slice_bytes"),
                      fmt::format("slice_bytes: {} is not a multiple of {}, the bytes of a {}", workload.slice_bytes,
                                  coll::size_of(type), workload.dtype));
    }
    // What the engine is to give for comparison.
    if (workload.algorithm != "auto" && workload.algorithm != "ring") {
      diagnostics.add(
          spec.workload.at("algorithm"),
          fmt::format("algorithm: a program's slots go round the ring, never by {}; leave it out", workload.algorithm));
    }
    if (workload.channels > 1) {
      diagnostics.add(spec.workload.at("channels"), "channels: a program's slots have one; leave it out");
    }
    if (kernel.by_priority) add("kernel", "a program's slots have an order and no levels; say plain");
    if (kernel.strict && kernel.lanes > 0) {
      add("lanes", "in strict mode the plain kernel's lane i owns slot i: a program needs one a slot; leave lanes out");
    }
  }

  void queue() const {
    for (const auto& [text, place] : said.mix) {
      if (ring_weight_of(text)) continue;
      diagnostics.add(place, fmt::format("mix: '{}' is no kind with a weight, as in 'add:3'; kinds are: {}",
                                         text.substr(0, 64), list_names(ring_mix_names())));
    }
    if (!kernel.priorities.empty() && kernel.priorities.size() != ring::priority::kLevels) {
      add("priorities", fmt::format("{} weights; there are {} levels, CRITICAL to IDLE", kernel.priorities.size(),
                                    ring::priority::kLevels));
    }
    if (!kernel.priorities.empty() && !kernel.by_priority) add("priorities", "goes with kernel = \"priority\"");
    if (kernel.by_priority && kernel.slots > 0 && kernel.slots < static_cast<int>(ring::priority::kLevels)) {
      add("slots", fmt::format("the priority kernel's ring has {} levels; {} slots are too few",
                               ring::priority::kLevels, kernel.slots));
    }
    if (kernel.arrivals != "all" && kernel.arrival_gap_ps == 0) add("arrival_gap", kernel.arrivals + " needs one");
    if (kernel.quota > 0 && kernel.strict) add("quota", "nobody reads quotas in strict mode");
  }

  void faults() const {
    if (kernel.masked_tenant >= kernel.tenants) {
      add("masked_tenant", fmt::format("there is no tenant {}; there are {}", kernel.masked_tenant, kernel.tenants));
    }
    if (kernel.stopped_rank >= ranks_of(scenario) && ranks_of(scenario) > 0) {
      add("stopped_rank", fmt::format("{} is no rank; there are {} ranks", kernel.stopped_rank, ranks_of(scenario)));
    }
    if (kernel.faulty_item >= 0 && !is_queue) add("faulty_item", "goes with program = \"queue\"");
    if (kernel.faulty_item >= kernel.items) {
      add("faulty_item", fmt::format("{} never comes; there are {} items", kernel.faulty_item, kernel.items));
    }
    if (kernel.watchdog_ps <= 0) add("watchdog", "a watchdog that looks all the time stops time; say '10ms'");
  }
};

}  // namespace

void check_megakernel(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const bool has_one = scenario.workload.kind == WorkloadKind::kMegakernel;
  if (spec.workload.has("megakernel") && !has_one) {
    diagnostics.add(spec.workload.at("megakernel"), "megakernel: goes with kind = \"megakernel\"");
  }
  if (scenario.expect.watchdog && !has_one) {
    diagnostics.add(spec.expect.at("watchdog"), "watchdog: goes with kind = \"megakernel\"");
  }
  if (!has_one) return;
  if (scenario.workload.warmup > 0) {
    diagnostics.add(spec.workload.at("warmup"),
                    "warmup: a megakernel is launched once, which is part of its time; leave it out");
  }
  const MegakernelCheck check{.scenario = scenario, .spec = spec, .diagnostics = diagnostics};
  check.program();
  check.queue();
  check.faults();
}

}  // namespace meshbed::cli
