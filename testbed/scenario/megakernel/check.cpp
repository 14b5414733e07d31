// Checks of a megakernel's fields against each other.

#include "testbed/scenario/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugin/ring/abi/abi.h"
#include "plugin/ring/queue/ibgda_wqe.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/units.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/megakernel/graph_generators.h"
#include "testbed/scenario/megakernel/graph_order.h"
#include "testbed/scenario/megakernel/names.h"
#include "testbed/scenario/megakernel/rank_ring.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

constexpr int kProgramRanksLeast = 2, kProgramRanksMost = 64;  // for which programs are compared with the engine
/// Each slot's arguments are words, and each message is in the trace.
constexpr std::uint64_t kProgramBytesMost = 1ULL << 30U;
/// A COMPUTE's time is a word of nanoseconds.
constexpr Picoseconds kComputeMost_ps = Picoseconds{0xffff'ffff} * kPicosecondsPerNanosecond;

// Fields that some programs do not read. Setting one for such a program is an error, so that it is not ignored
// silently.
constexpr const char* kOfQueues[] = {"items", "arrivals", "arrival_gap", "tenants",  "priorities",
                                     "mix",   "quota",    "faulty_item", "recording"};
constexpr const char* kOfPrograms[] = {
    "initiation",  "exchange",        "forward",          "doorbell", "flag", "memory_rate", "queue",
    "queue_depth", "doorbell_every",  "proxies",          "reserve",  "post", "proxy_pass",  "put_and_signal",
    "credit",      "device_doorbell", "operation_launch", "flag_qp"};
constexpr const char* kOfNamedPrograms[] = {"exchange",      "forward",       "layers",  "parts",   "compute",
                                            "splits",        "speed",         "routing", "top_k",   "dispatch_dtype",
                                            "combine_dtype", "hidden",        "tokens",  "experts", "dispatch_extra",
                                            "phase",         "message_tokens"};
constexpr const char* kOfRoutings[] = {"top_k", "hidden", "dispatch_dtype", "combine_dtype", "dispatch_extra",
                                       "phase", "tokens", "experts",        "message_tokens"};
constexpr const char* kOfOtherWorkloads[] = {"collective", "tuning",   "in_place",  "root",           "shift",
                                             "senders",    "late_by",  "late_rank", "late_iteration", "differing_rank",
                                             "cases",      "receives", "parts",     "recording",      "other_devices"};
constexpr const char* kOfWorkloadsPrograms[] = {"bytes",       "dtype",      "op",          "iterations",
                                                "slice_bytes", "net_plugin", "net_version", "memory"};
// For memory = "gpu": a PTX kernel does it, in the time of the GPU model.
constexpr const char* kOfModelledKernels[] = {"mode",
                                              "initiation",
                                              "exchange",
                                              "forward",
                                              "queue",
                                              "queue_depth",
                                              "doorbell_every",
                                              "proxies",
                                              "reserve",
                                              "put_and_signal",
                                              "proxy_pass",
                                              "rings",
                                              "masked_tenant",
                                              "masked_at",
                                              "stopped_rank",
                                              "stopped_after",
                                              "ordering",
                                              "slot_order",
                                              "unordered_delay",
                                              "sms",
                                              "held_sms",
                                              "blocks_per_sm",
                                              "profile",
                                              "launch",
                                              "claim",
                                              "poll",
                                              "doorbell",
                                              "flag",
                                              "visibility",
                                              "post",
                                              "credit",
                                              "memory_rate",
                                              "device_doorbell",
                                              "operation_launch",
                                              "flag_qp"};

struct MegakernelCheck {
  const Scenario& scenario;
  const ScenarioSpec& spec;
  Diagnostics& diagnostics;
  const Workload& workload = scenario.workload;
  const Megakernel& kernel = workload.megakernel;
  const MegakernelSpec& said = spec.workload.megakernel;
  bool is_queue = kernel.program == "queue";
  bool is_file = is_slot_graph_file(kernel.program);

  void add(const char* key, const std::string& text) const {
    diagnostics.add(said.at(key), fmt::format("{}: {}", key, text));
  }

  /// Adds findings for fields that are set and never read.
  void ignored() const {
    for (const char* key : kOfOtherWorkloads) {
      if (!spec.workload.has(key)) continue;
      diagnostics.add(spec.workload.at(key),
                      fmt::format("{}: megakernels do not read it; it goes with another kind of workload", key));
    }
    if (is_queue) {
      for (const char* key : kOfWorkloadsPrograms) {
        if (!spec.workload.has(key)) continue;
        diagnostics.add(spec.workload.at(key),
                        fmt::format("{}: program = \"queue\" moves no data; it goes with the other programs", key));
      }
      for (const char* key : kOfPrograms) {
        if (said.has(key)) add(key, "program = \"queue\" sends no messages; it goes with the other programs");
      }
    } else {
      for (const char* key : kOfQueues) {
        if (said.has(key)) add(key, fmt::format("goes with program = \"queue\", and this is {}", kernel.program));
      }
    }
    const auto only = [&](const char* key, bool read, const char* readers) {
      if (said.has(key) && !read) add(key, fmt::format("goes with {}, and this is {}", readers, kernel.program));
    };
    if (is_file) {
      for (const char* key : kOfNamedPrograms) {
        if (said.has(key)) add(key, "the slots of a file are what it says; leave it out");
      }
      for (const char* key : {"bytes", "slice_bytes"}) {
        if (!spec.workload.has(key)) continue;
        diagnostics.add(spec.workload.at(key),
                        fmt::format("{}: the slots of a file are what it says; leave it out", key));
      }
      return;
    }
    const bool computes = kernel.program != "all_reduce" && kernel.program != "all_gather";
    const bool has_tasks = kernel.program == "task_graph", decodes = kernel.program == "decode";
    const bool in_parts = kernel.program == "fused_all_reduce" || kernel.program == "pipeline" || has_tasks;
    only("parts", in_parts, "program = \"fused_all_reduce\", \"pipeline\" or \"task_graph\"");
    only("compute", computes, "programs that compute: fused_all_reduce, pipeline, moe, decode, task_graph, queue");
    only("speed", computes && !is_queue, "programs that compute: fused_all_reduce, pipeline, moe, decode, task_graph");
    only("layers", decodes || has_tasks, "program = \"decode\" or \"task_graph\"");
    only("splits", decodes, "program = \"decode\"");
    only("routing", kernel.program == "moe", "program = \"moe\"");
    for (const char* key : kOfRoutings) {
      if (said.has(key) && kernel.routing.empty()) add(key, "goes with routing, a matrix of tokens and experts");
    }
    for (const char* key : {"tokens", "experts"}) {
      if (said.has(key) && !kernel.routing.empty() && kernel.routing != kRandomRouting) {
        add(key, "goes with routing = \"random\"; a matrix has a line a token and a column an expert");
      }
    }
    if (said.has("compute") && kernel.phase != "both") {
      add("compute", "experts compute between dispatch and combine; leave out phase, or compute");
    }
    for (const char* key : {"bytes", "slice_bytes"}) {
      if (!spec.workload.has(key) || kernel.routing.empty()) continue;
      diagnostics.add(spec.workload.at(key),
                      fmt::format("{}: messages are as large as the tokens of the routing; leave it out", key));
    }
    if (said.has("arrival_gap") && kernel.arrivals == "all" && is_queue) {
      add("arrival_gap", "goes with arrivals = \"constant\" or \"poisson\"; all come at once");
    }
    if (said.has("masked_at") && kernel.masked_tenant < 0) add("masked_at", "goes with masked_tenant");
    if (said.has("stopped_after") && kernel.stopped_rank < 0) add("stopped_after", "goes with stopped_rank");
  }

  void queues_to_the_proxy() const {
    const int depth = kernel.queue_depth;
    if (kernel.queue == "direct" && said.has("queue_depth")) {
      add("queue_depth", "goes with queue = \"gin\", \"fifo\" or \"ibgda\"; messages that go directly have no queue");
    }
    if (kernel.queue == "direct" && said.has("reserve")) {
      add("reserve", "goes with queue = \"gin\", \"fifo\" or \"ibgda\"; messages that go directly have no queue");
    }
    if (kernel.queue == "direct" && said.has("put_and_signal")) {
      add("put_and_signal",
          "goes with queue = \"gin\", \"fifo\" or \"ibgda\"; messages that go directly have no descriptors");
    }
    const bool is_ibgda = kernel.queue == "ibgda";
    if (is_ibgda && depth > static_cast<int>(ring::kWqeRingMost)) {
      add("queue_depth",
          fmt::format("{}: a WQE's index has 16 bits, so that a send queue has at most {}", depth, ring::kWqeRingMost));
    }
    if (kernel.doorbell_every > 1 && !is_ibgda) add("doorbell_every", "goes with queue = \"ibgda\"");
    const int places = depth > 0 ? depth : static_cast<int>(ring::kWqeRingDefault);
    if (is_ibgda && kernel.doorbell_every > places) {
      add("doorbell_every", fmt::format("{} WQEs do not fit a queue of {}: its lanes would wait for ever",
                                        kernel.doorbell_every, places));
    }
    if (is_ibgda && kernel.proxies > 1) add("proxies", "queue = \"ibgda\" leads to the NIC; leave it out");
    if ((depth & (depth - 1)) != 0) {
      add("queue_depth", fmt::format("{} is not a power of two: a place in the queue is an index's lower bits", depth));
    }
  }

  void rings() const {
    const int items = kernel.items;
    if (is_queue && kernel.rings > items) {
      add("rings", fmt::format("{} rings, and {} items for them", kernel.rings, items));
    }
    if (kernel.rings > 1 && kernel.program == "decode") {
      add("rings", "goes with the other programs: a token's layers are one after the other, in one ring");
    }
  }

  void on_gpu() const {
    if (!workload.gpu_memory) return;
    const Place& place = spec.workload.at("memory");
    if (kernel.program != "all_reduce" && kernel.program != "all_gather") {
      diagnostics.add(place, fmt::format("memory: gpu goes with program = \"all_reduce\" or \"all_gather\", and this "
                                         "is {}",
                                         kernel.program));
      return;
    }
    for (const char* key : kOfModelledKernels) {
      if (!said.has(key)) continue;
      add(key,
          "goes with memory = \"host\", where the kernel is modelled; with \"gpu\" it runs, as the GPU's model has it: "
          "leave it out");
    }
    const coll::DataType type = parse_data_type("dtype", workload.dtype);
    const bool whole = type == coll::DataType::kInt32 || type == coll::DataType::kUint32 ||
                       type == coll::DataType::kInt64 || type == coll::DataType::kUint64 ||
                       type == coll::DataType::kFloat32 || type == coll::DataType::kFloat64;
    if (kernel.program == "all_gather") return;
    if (!whole) {
      diagnostics.add(
          spec.workload.at("dtype"),
          fmt::format("dtype: the megakernel on a GPU reduces numbers of 4 and 8 bytes; {} goes with memory "
                      "= \"host\"",
                      workload.dtype));
    }
    if (workload.op == "avg") {
      diagnostics.add(spec.workload.at("op"),
                      "op: the megakernel on a GPU has sum, prod, max and min; avg goes with memory = \"host\"");
    }
  }

  void compute() const {
    if (kernel.compute_ps % kPicosecondsPerNanosecond != 0) {
      add("compute", fmt::format("{} ps are not a whole number of nanoseconds, the unit of slots", kernel.compute_ps));
    } else if (kernel.compute_ps > kComputeMost_ps) {
      add("compute", fmt::format("a slot says at most {} s", kComputeMost_ps / kPicosecondsPerSecond));
    }
  }

  void program() const {
    const int ranks = ranks_of(scenario);
    if (is_queue || ranks == 0) return;
    if (!kernel.speed.empty() && kernel.speed.size() != static_cast<std::size_t>(ranks)) {
      add("speed", fmt::format("{} numbers for {} ranks", kernel.speed.size(), ranks));
    }
    if (kernel.graph) return graph(ranks);
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
    const std::uint64_t share =
        coll::size_of(type) * static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(kernel.rings);
    const std::uint64_t most =
        kProgramBytesMost / (kernel.program == "decode" ? static_cast<std::uint64_t>(kernel.layers) : 1);
    if (workload.bytes < share || workload.bytes % share != 0 || workload.bytes > most) {
      diagnostics.add(spec.workload.at("bytes"),
                      fmt::format("bytes: {} expects a multiple of {} (an element of each rank{}) up to {}; {} is none",
                                  kernel.program, share, kernel.rings > 1 ? " and ring" : "", most, workload.bytes));
    }
    if (workload.slice_bytes % coll::size_of(type) != 0) {
      diagnostics.add(spec.workload.at("slice_bytes"),
                      fmt::format("slice_bytes: {} is not a multiple of {}, the bytes of a {}", workload.slice_bytes,
                                  coll::size_of(type), workload.dtype));
    }
    if (kernel.one_shot && spec.workload.has("slice_bytes")) {
      diagnostics.add(spec.workload.at("slice_bytes"),
                      "slice_bytes: exchange = \"one-shot\" sends each input whole; leave it out");
    }
    // The engine's results, for comparison.
    if (workload.algorithm != "auto" && workload.algorithm != "ring") {
      diagnostics.add(
          spec.workload.at("algorithm"),
          fmt::format("algorithm: a program's slots go round the ring, never by {}; leave it out", workload.algorithm));
    }
    if (workload.channels > 1) {
      diagnostics.add(spec.workload.at("channels"), "channels: a program's slots have one; leave it out");
    }
    if (kernel.one_shot && kernel.program != "all_reduce" && kernel.program != "all_gather" &&
        kernel.program != "decode") {
      add("exchange",
          fmt::format("one-shot is for all_reduce, all_gather and decode; {} has steps of its own", kernel.program));
    }
    if (said.has("forward") && !kernel.one_shot) add("forward", "goes with exchange = \"one-shot\"");
    if (said.has("forward") && kernel.forward == "ranks" && !is_rank_ring(scenario)) {
      add("forward",
          "ranks pass on to the one before and the one after them: each needs a cable to both, one rank a node, and "
          "four ranks or more; leave it out");
    }
    if (kernel.by_priority) add("kernel", "a program's slots have an order and no levels; say plain");
    if (kernel.strict && kernel.lanes > 0) {
      add("lanes", "in strict mode the plain kernel's lane i owns slot i: a program needs one a slot; leave lanes out");
    }
  }

  void graph(int ranks) const {
    const std::size_t written = kernel.graph->ranks.size();
    Diagnostics problems(kernel.graph->path);
    if (is_file) check_graph_order(*kernel.graph, coll::size_of(parse_data_type("dtype", workload.dtype)), problems);
    try {
      problems.throw_if_any();
    } catch (const ScenarioError& error) {
      for (const ScenarioProblem& problem : error.problems()) {
        add("program", fmt::format("{}: {}", problem.place, problem.text));
      }
    }
    if (written != static_cast<std::size_t>(ranks)) {
      add("program", fmt::format("{} is for {} ranks, and there are {}", kernel.program, written, ranks));
    }
    if (kernel.rings > 1) add("rings", kernel.program + " is a slot graph, of one ring a rank; leave it out");
    constexpr std::uint64_t kWordsBytes = 1ULL << 32U;
    const GraphMemory memory = memory_of(*kernel.graph, coll::size_of(parse_data_type("dtype", workload.dtype)));
    if (memory.largest_bytes >= kWordsBytes) {
      add(kernel.routing.empty() ? "program" : "routing",
          fmt::format("its messages fill {} of a rank's buffer, and slots name places by words, below 4 GiB: {}",
                      size_text(memory.largest_bytes),
                      kernel.routing.empty() ? "fewer bytes" : "fewer or smaller tokens (tokens, top_k, hidden)"));
    }
    if (kernel.strict && kernel.lanes > 0 && !kernel.by_priority) {
      add("lanes", "in strict mode the plain kernel's lane i owns slot i: a program needs one a slot; leave lanes out");
    }
  }

  void decode() const {
    if (kernel.initiation == "device" && kernel.queue != "ibgda" && kernel.proxies > 1) {
      add("proxies", "initiation = \"device\" has no proxy that posts; leave it out");
    }
    if (kernel.program == "decode") {
      const bool fits = kernel.queue == "ibgda" ? kernel.initiation == "device" || kernel.initiation == "host"
                                                : kernel.initiation == "host";
      if (kernel.queue != "direct" && !fits) {
        add("queue", kernel.queue == "ibgda"
                         ? "ibgda: say initiation = \"device\", or \"host\" for a doorbell by a proxy"
                         : kernel.queue + " leads to a proxy; say initiation = \"host\"");
      }
      return;
    }
    if (kernel.initiation == "all") add("initiation", "all goes with program = \"decode\"");
    if (kernel.initiation == "launch" && !is_file && kernel.program != "all_reduce" && kernel.program != "all_gather") {
      add("initiation", "launch goes with program = \"decode\", \"all_reduce\" or \"all_gather\"");
    }
    if (kernel.queue == "ibgda" && kernel.initiation == "device" && said.has("proxy_pass")) {
      add("proxy_pass", "queue = \"ibgda\" has no proxy, unless initiation is \"host\"; leave it out");
    }
    if (kernel.initiation == "launch" && kernel.queue != "direct") {
      add("queue", kernel.queue + " is a persistent kernel's; say initiation = \"host\"");
    }
    if (kernel.initiation == "device" && kernel.queue != "direct" && kernel.queue != "ibgda") {
      add("queue", kernel.queue + " leads to a proxy, and initiation = \"device\" has none; say host");
    }
  }

  void places() const {
    if (said.has("blocks_per_sm") && kernel.sms == 0) add("blocks_per_sm", "goes with sms, how many there are");
    if (kernel.held_sms > 0 && kernel.sms == 0) add("held_sms", "goes with sms, of which other grids hold some");
    if (kernel.sms > 0 && kernel.held_sms > kernel.sms) {
      add("held_sms",
          fmt::format("{} of {} SMs; other grids cannot hold more than there are", kernel.held_sms, kernel.sms));
    }
  }

  void queue() const {
    for (const auto& [text, place] : said.mix) {
      if (ring_weight_of(text)) continue;
      diagnostics.add(place, fmt::format("mix: '{}' is not a kind with a weight, as in 'add:3'; kinds are: {}",
                                         text.substr(0, 64), list_names(ring_mix_names())));
    }
    if (!kernel.priorities.empty() && kernel.priorities.size() != ring::priority::kLevels) {
      add("priorities", fmt::format("{} weights; there are {} levels, CRITICAL to IDLE", kernel.priorities.size(),
                                    ring::priority::kLevels));
    }
    if (!kernel.priorities.empty() && !kernel.by_priority) add("priorities", "goes with kernel = \"priority\"");
    if (!kernel.priorities.empty() &&
        std::all_of(kernel.priorities.begin(), kernel.priorities.end(), [](int weight) { return weight == 0; })) {
      add("priorities", "all weights are 0: no item has a level; give one of them a weight, or leave priorities out");
    }
    if (kernel.by_priority && kernel.slots > 0 && kernel.slots < static_cast<int>(ring::priority::kLevels)) {
      add("slots", fmt::format("the priority kernel's ring has {} levels; {} slots are too few",
                               ring::priority::kLevels, kernel.slots));
    }
    if (kernel.arrivals != "all" && kernel.arrival_gap_ps == 0) add("arrival_gap", kernel.arrivals + " needs one");
    if (kernel.quota > 0 && kernel.strict) add("quota", "quotas are not read in strict mode");
  }

  void faults() const {
    if (kernel.masked_tenant >= kernel.tenants) {
      add("masked_tenant", fmt::format("there is no tenant {}; there are {}", kernel.masked_tenant, kernel.tenants));
    }
    if (kernel.stopped_rank >= ranks_of(scenario) && ranks_of(scenario) > 0) {
      add("stopped_rank", fmt::format("{} is not a rank; there are {} ranks", kernel.stopped_rank, ranks_of(scenario)));
    }
    if (kernel.faulty_item >= kernel.items) {
      add("faulty_item", fmt::format("{} never comes; there are {} items", kernel.faulty_item, kernel.items));
    }
    if (kernel.ordering != "ordered" && is_queue) add("ordering", "a queue has no messages; leave it out");
    if (kernel.ordering != "ordered" && kernel.unordered_delay_ps == 0) {
      add("unordered_delay", kernel.ordering + " needs one: how long may data be behind their flag?");
    }
    if (kernel.ordering == "ordered" && kernel.unordered_delay_ps > 0) {
      add("unordered_delay", "goes with ordering = \"unordered\" or \"counted\"");
    }
    if (kernel.ordering != "ordered" && kernel.other_flag_qp) {
      add("flag_qp", "other has an order of its own; leave ordering out");
    }
    if (kernel.ordering != "ordered" && kernel.queue != "direct") {
      add("ordering", kernel.ordering + " goes with queue = \"direct\"");
    }
    if ((kernel.waits_first || kernel.when_ready) && is_queue)
      add("slot_order", "a queue's items come as they arrive; leave it out");
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
  check.ignored();
  check.program();
  check.on_gpu();
  check.decode();
  check.places();
  check.queue();
  check.queues_to_the_proxy();
  check.rings();
  check.compute();
  check.faults();
}

}  // namespace meshbed::testbed
