// ring import: task graphs of MPK, traces of kernels and command lines of benchmarks, as programs of the work rings.
#include "testbed/import/rings/ring_import.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/megakernel/graph_order.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/scenario.h"
#include "tests/fuzz/mutations.h"

namespace ring_import_test {

using namespace meshbed::testbed;
using meshbed::Picoseconds;
using nlohmann::json;

namespace {

constexpr std::uint64_t kNoEvent = 0x7ffffffffffffffe, kOtherGpu = 0x1e00000000000000;
constexpr int kLinear = 253, kCopy = 199, kReduce = 107;

/// As MPK's print_task_graph writes it (src/kernel/runtime.cc at e458892f), with an all-reduce: each of `tiles` tasks
/// is followed by a copy to each other GPU, these by a task that adds up, and all of these by a last task.
class TaskGraph {
 public:
  TaskGraph(std::uint64_t gpus, std::uint64_t gpu, std::uint64_t tiles) : gpu_(gpu) {
    event(911, 1, 0, 0);
    task(0, kNoEvent, kNoEvent);
    task(10, own(1), kNoEvent);
    event(903, 1, 0, 0);
    for (std::uint64_t tile = 0; tile < tiles; ++tile) task(kLinear, own(2 + tile), own(1));
    for (std::uint64_t tile = 0; tile < tiles; ++tile) {
      const std::uint64_t first = tasks_.size();
      for (std::uint64_t other = 0; other < gpus; ++other) {
        if (other != gpu) task(kCopy, (other << 32U) | (2 + tiles + tile) | kOtherGpu, kNoEvent);
      }
      event(901, 1, first, tasks_.size());
    }
    constexpr std::uint64_t kRows = 8;  // each row of a strided copy triggers
    for (std::uint64_t tile = 0; tile < tiles; ++tile) {
      event(901, (gpus - 1) * kRows, tasks_.size(), tasks_.size() + 1);
      task(kReduce, own(2 + 2 * tiles), kNoEvent);
    }
    event(901, tiles, tasks_.size(), tasks_.size() + 1);
    task(kLinear, own(3 + 2 * tiles), kNoEvent);
    event(910, 1, 0, 0);
  }

  json value() const { return {{"all_tasks", tasks_}, {"all_events", events_}, {"first_tasks", {1}}}; }
  std::string text() const { return value().dump(2); }

 private:
  std::uint64_t own(std::uint64_t event) const { return (gpu_ << 32U) | event; }
  void event(int type, std::uint64_t triggers, std::uint64_t first, std::uint64_t last) {
    events_.push_back(
        {{"event_type", type}, {"num_triggers", triggers}, {"first_task_id", first}, {"last_task_id", last}});
  }
  void task(int type, std::uint64_t triggers, std::uint64_t needs) {
    json outputs = json::array();
    if (type == kCopy) outputs.push_back({{"base_ptr", "x"}, {"offset", 0}, {"data_type", 940}, {"dims", {8, 64}}});
    tasks_.push_back({{"task_type", type},
                      {"variant_id", 0},
                      {"inputs", json::array()},
                      {"outputs", outputs},
                      {"trigger_event", triggers},
                      {"dependent_event", needs},
                      {"request_id", -1}});
  }

  std::uint64_t gpu_;
  json tasks_ = json::array(), events_ = json::array();
};

std::vector<rings::ImportText> task_graphs(std::uint64_t gpus, std::uint64_t tiles) {
  std::vector<rings::ImportText> files;
  for (std::uint64_t gpu = 0; gpu < gpus; ++gpu) {
    files.push_back({fmt::format("gpu{}.json", gpu), TaskGraph(gpus, gpu, tiles).text()});
  }
  return files;
}

constexpr Picoseconds kFiveUs = 5'000'000;
const rings::TaskTimes kTimes{{"LINEAR_SM100", kFiveUs}, {"all", kFiveUs / 5}};

/// The graph as its file is read, with no access out of order.
SlotGraph read_back(const rings::ImportedGraph& imported) {
  Diagnostics diagnostics("graph.toml");
  SlotGraph graph = parse_slot_graph(slot_graph_text(imported.graph, "test"), "graph.toml", diagnostics);
  if (diagnostics.empty()) check_graph_order(graph, imported.element_bytes, diagnostics);
  CHECK_NOTHROW(diagnostics.throw_if_any());
  for (int rank = 0; rank < static_cast<int>(graph.ranks.size()); ++rank) CHECK(program_of(graph, rank).has_value());
  return graph;
}

std::uint64_t sent_bytes(const SlotGraph& graph) {
  std::uint64_t bytes = 0;
  for (const auto& slots : graph.ranks) {
    for (const GraphSlot& slot : slots) bytes += slot.op == GraphOp::kPut ? slot.bytes : 0;
  }
  return bytes;
}

std::string error_of(const std::vector<rings::ImportText>& files, const rings::TaskTimes& times = kTimes) {
  try {
    rings::import_task_graph(files, times);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

rings::TracedKernel kernel(double start_us, double duration_us, const std::string& stream = "7") {
  return {.name = "gemm", .stream = stream, .start_us = start_us, .duration_us = duration_us};
}

rings::TracedKernel exchange(double start_us, double duration_us, const std::string& collective, std::uint64_t bytes,
                             std::uint64_t group_size = 0) {
  rings::TracedKernel made = kernel(start_us, duration_us, "20");
  made.exchange = {.collective = collective, .bytes = bytes, .group_size = group_size};
  return made;
}

const GraphSlot& slot_named(const SlotGraph& graph, std::size_t rank, const std::string& id) {
  for (const GraphSlot& slot : graph.ranks[rank]) {
    if (slot.id == id) return slot;
  }
  FAIL("there is no slot ", id);
  return graph.ranks[rank].front();
}

std::vector<std::string> needs_of(const SlotGraph& graph, std::size_t rank, const std::string& id) {
  std::vector<std::string> names;
  for (const GraphNeed& need : slot_named(graph, rank, id).needs) {
    names.push_back(graph.ranks[static_cast<std::size_t>(need.rank)][need.slot].id);
  }
  return names;
}

}  // namespace

TEST_CASE("a task graph of MPK: tasks with their type's time, copies as messages, events as what joins them") {
  for (const std::uint64_t gpus : {2, 3, 5}) {
    const rings::ImportedGraph imported = rings::import_task_graph(task_graphs(gpus, 4), kTimes);
    const SlotGraph graph = read_back(imported);
    CHECK(graph.ranks.size() == gpus);
    CHECK(sent_bytes(graph) == gpus * (gpus - 1) * 4 * (8 * 64 * 2));
    for (std::size_t rank = 0; rank < gpus; ++rank) {
      CHECK(slot_named(graph, rank, "LINEAR_SM100.2").time_ns == 5000);
      std::uint64_t computing_ns = 0, waits = 0;
      for (const GraphSlot& slot : graph.ranks[rank]) {
        computing_ns += slot.time_ns;
        waits += slot.op == GraphOp::kWait ? 1 : 0;
      }
      CHECK(computing_ns == 5 * 5000 + 4 * 1000);
      CHECK(waits == 4 * (gpus - 1));
      // The last task needs the event that all four additions trigger.
      CHECK(needs_of(graph, rank, "event10").size() == 4);
    }
  }
}

TEST_CASE("a task graph that cannot run is refused with its file and place") {
  CHECK(error_of(task_graphs(2, 4), {}) ==
        "gpu0.json: the file has no times; give one for each type of task, as in --time REDUCE=5us, or --time all=5us "
        "for "
        "the others; without one are REDUCE (8 tasks), LINEAR_SM100 (10 tasks)");
  CHECK(error_of({task_graphs(2, 4).front()}) ==
        "gpu0.json: all_tasks[6] of GPU 0 triggers an event of GPU 1, and there are 1 files: give one for each GPU, in "
        "the order of their numbers");
  CHECK(error_of({{"x.json", "{\"all_tasks\": 3}"}}) ==
        "x.json: there is no list 'all_tasks'; expected is MPK's task graph, with all_tasks and all_events");
  const std::string broken = error_of({{"x.json", "{\"all_tasks\": [\n {,"}});
  CHECK_MESSAGE(broken.find("x.json: ") == 0, broken);
  CHECK_MESSAGE(broken.find("line 2") != std::string::npos, broken);

  auto files = task_graphs(2, 4);
  json graph = TaskGraph(2, 0, 4).value();
  graph["all_events"][10]["num_triggers"] = 5;
  files[0].text = graph.dump();
  CHECK(
      error_of(files) ==
      "gpu0.json: all_events[10] waits for 5 triggers, and 4 tasks trigger it: the tasks that wait for it would never "
      "run");

  // The last task's event launches what it waits for.
  graph = TaskGraph(2, 0, 4).value();
  graph["all_tasks"][10]["dependent_event"] = 11;
  files[0].text = graph.dump();
  const std::string circle = error_of(files);
  CHECK_MESSAGE(circle.find("wait for one another in a circle") != std::string::npos, circle);

  graph = TaskGraph(2, 0, 4).value();
  graph["all_tasks"][6]["outputs"][0]["dims"][0] = 0;
  files[0].text = graph.dump();
  CHECK(error_of(files) ==
        "gpu0.json: all_tasks[6].outputs[0]: 'dims' has a size that is no number from 1, or the tensor "
        "has more than 4 GiB");
}

TEST_CASE("a time of a type that no task has is an error, with the type that may be meant") {
  CHECK_THROWS_WITH(rings::import_task_graph(task_graphs(2, 1), {{"LINEAR_SM10", kFiveUs}, {"all", kFiveUs}}),
                    "gpu0.json: --time LINEAR_SM10: no task has this type; did you mean LINEAR_SM100?");
}

TEST_CASE("traced kernels: what began after an end needs it, and the time between them stays") {
  const std::vector<rings::TracedKernel> kernels{kernel(100, 10), kernel(105, 20, "8"), kernel(112, 3), kernel(130, 5)};
  const rings::ImportedGraph imported = rings::import_kernels({kernels}, "trace.json");
  const SlotGraph graph = read_back(imported);
  // Beside the first one on another stream, 5 us after the trace's begin.
  CHECK(needs_of(graph, 0, "gap1").empty());
  CHECK(slot_named(graph, 0, "gap1").time_ns == 5000);
  CHECK(needs_of(graph, 0, "kernel1") == std::vector<std::string>{"gap1"});
  CHECK(needs_of(graph, 0, "gap2") == std::vector<std::string>{"kernel0"});
  CHECK(slot_named(graph, 0, "gap2").time_ns == 2000);
  // The one on the other stream ended last; its own stream's one is needed as well.
  CHECK(needs_of(graph, 0, "gap3") == std::vector<std::string>{"kernel1", "kernel2"});
  CHECK(slot_named(graph, 0, "gap3").time_ns == 5000);
  CHECK(slot_named(graph, 0, "kernel3").time_ns == 5000);
}

TEST_CASE("collectives of a trace become messages of as many bytes as a ring has, in an order without races") {
  for (std::uint64_t ranks = 2; ranks <= 6; ++ranks) {
    const std::uint64_t bytes = ranks * 1024, chunk = 1024;
    const std::vector<std::pair<std::string, std::uint64_t>> expected{{"all_reduce", 2 * (ranks - 1) * ranks * chunk},
                                                                      {"all_gather", (ranks - 1) * ranks * chunk},
                                                                      {"reduce_scatter", (ranks - 1) * ranks * chunk},
                                                                      {"all_to_all", (ranks - 1) * ranks * chunk},
                                                                      {"broadcast", (ranks - 1) * bytes},
                                                                      {"reduce", (ranks - 1) * bytes}};
    for (const auto& [collective, sent] : expected) {
      CAPTURE(collective);
      CAPTURE(ranks);
      // Five of them, of two sizes: their buffers take turns.
      std::vector<rings::TracedKernel> kernels{kernel(0, 10)};
      for (int number = 0; number < 5; ++number) {
        kernels.push_back(exchange(20 + number * 50, 30, collective, number % 2 == 0 ? bytes : bytes / 2));
        kernels.push_back(kernel(52 + number * 50, 10));
      }
      const rings::ImportedGraph imported =
          rings::import_kernels(std::vector<std::vector<rings::TracedKernel>>(ranks, kernels), "trace.json");
      CHECK(imported.notes.empty());
      CHECK(sent_bytes(read_back(imported)) == 3 * sent + 2 * (sent / 2));
    }
  }
}

TEST_CASE("a collective smaller than its ranks, and ones of several types, become messages too") {
  const std::vector<rings::TracedKernel> kernels{exchange(0, 5, "all_reduce", 2), exchange(10, 5, "all_gather", 6)};
  const rings::ImportedGraph imported =
      rings::import_kernels(std::vector<std::vector<rings::TracedKernel>>(4, kernels), "trace.json");
  CHECK(sent_bytes(read_back(imported)) == 2 * 3 * 2 + 3 * 6);
}

TEST_CASE("a collective of less than an element is an error") {
  CHECK_THROWS_WITH(
      rings::import_kernels({{exchange(0, 5, "all_reduce", 1)}, {exchange(0, 5, "all_reduce", 1)}}, "t.json"),
      "t.json: all_reduce of 1 bytes: an element has 2");
}

TEST_CASE("a collective without bytes, of another group, or unlike on the ranks keeps its measured time") {
  const auto notes = [](const std::vector<std::vector<rings::TracedKernel>>& ranks) {
    const rings::ImportedGraph imported = rings::import_kernels(ranks, "trace.json");
    CHECK(sent_bytes(read_back(imported)) == 0);
    return imported.notes;
  };
  const std::vector<rings::TracedKernel> unknown{kernel(0, 1), exchange(2, 5, "all_gather", 0)};
  CHECK(notes({unknown, unknown}) ==
        std::vector<std::string>{"1 x all_gather keeps its measured time: the trace does not "
                                 "have its bytes (--bytes all_gather=SIZE gives them)"});
  const std::vector<rings::TracedKernel> grouped{kernel(0, 1), exchange(2, 5, "all_gather", 64, 8)};
  CHECK(notes({grouped, grouped}) ==
        std::vector<std::string>{"1 x all_gather of a group of 8 keeps its measured time: there are 2 ranks"});
  const std::vector<rings::TracedKernel> one{exchange(0, 5, "all_reduce", 64)}, other{exchange(0, 5, "all_reduce", 32)};
  CHECK(notes({one, other}) ==
        std::vector<std::string>{
            "collectives keep their measured times: collective 0 of rank 0 is all_reduce of 64 bytes "
            "in a group of 0, and that of rank 1 is all_reduce of 32 in a group of 0"});
  CHECK(notes({one}) == std::vector<std::string>{"collectives keep their measured times: there is one rank"});
}

TEST_CASE(
    "a kernel that begins before the one in front of it has ended does not wait for it; lanes for what overlaps") {
  std::vector<rings::TracedKernel> kernels;
  for (int index = 0; index < 3; ++index) kernels.push_back(kernel(100 + 20 * index, 30));
  const rings::ImportedGraph imported = rings::import_kernels({kernels}, "trace.json");
  // The first and the third: 30 us after 40; the second begins 20 us after the first.
  std::vector<double> ends_us;
  const std::vector<GraphSlot>& slots = imported.graph.ranks[0];
  for (const GraphSlot& slot : slots) {
    double begins_us = 0;
    for (const GraphNeed& need : slot.needs) begins_us = std::max(begins_us, ends_us[need.slot]);
    ends_us.push_back(begins_us + static_cast<double>(slot.time_ns) / 1000);
  }
  CHECK(*std::max_element(ends_us.begin(), ends_us.end()) == doctest::Approx(70));
  CHECK(imported.lanes == 8);
  std::vector<rings::TracedKernel> streams;
  for (int index = 0; index < 12; ++index) {
    streams.push_back(kernel(index, 50));
    streams.back().stream = fmt::format("{}", index);
  }
  CHECK(rings::import_kernels({streams}, "trace.json").lanes == 32);
}

TEST_CASE("command lines of benchmarks of expert parallelism: their settings, and their defaults") {
  const auto deepep = rings::read_expert_settings(
      {"x",
       "MASTER_ADDR=a WORLD_SIZE=2 RANK=0 python tests/test_low_latency.py --num-tokens=64 --num-processes 8 "
       "--disable-nvlink --pressure"});
  CHECK(deepep.benchmark == "DeepEP");
  CHECK(deepep.ranks == 16);
  CHECK(deepep.tokens == 64);
  CHECK(deepep.hidden == 7168);
  CHECK(deepep.top_k == 8);
  CHECK(deepep.experts == 288);
  CHECK(deepep.dispatch_extra == 240);  // 56 scales and the header
  CHECK(deepep.not_known == std::vector<std::string>{"--pressure"});
  CHECK(deepep.token_by_token);
  const auto nccl = rings::read_expert_settings({"x", "mpirun -np 8 ./ep_bench -a ht -k 4 --experts 64 -w 5"});
  CHECK(nccl.benchmark == "NCCL EP");
  CHECK(nccl.ranks == 8);
  CHECK(nccl.tokens == 4096);
  CHECK(nccl.not_known.empty());  // -a ht is heeded
  CHECK_FALSE(nccl.token_by_token);
  const Scenario of_deepep = parse_scenario(rings::expert_scenario(deepep, 8, "400Gb/s", "x"), "x.toml", {});
  CHECK(of_deepep.workload.megakernel.queue == "ibgda");
  CHECK(of_deepep.workload.megakernel.doorbell_every == 4);
  CHECK(of_deepep.workload.megakernel.message_tokens == 1);
  CHECK(parse_scenario(rings::expert_scenario(nccl, 8, "400Gb/s", "x"), "x.toml", {}).workload.megakernel.queue ==
        "direct");
  CHECK(nccl.top_k == 4);
  CHECK(nccl.experts == 64);
  CHECK(nccl.dispatch_dtype == "bfloat16");
  for (const rings::ExpertSettings& each : {deepep, nccl}) {
    const Scenario scenario = parse_scenario(rings::expert_scenario(each, 8, "400Gb/s", "x"), "x.toml", {});
    CHECK(scenario.workload.megakernel.graph->ranks.size() == 8);
  }
  CHECK_THROWS_WITH(rings::read_expert_settings({"x", "ep_bench --top-k 0"}),
                    "x: --top-k expects a number from 1 to 1048576, not '0'");
  CHECK_THROWS_WITH(rings::read_expert_settings({"x", "ep_bench --experts 4"}),
                    "x: 8 experts for each token, and there are 4");
  CHECK_THROWS_WITH(rings::read_expert_settings({"x", "ls"}),
                    "x: expected are MPK's task graph, a trace of kernels, or the command line of DeepEP's "
                    "test_low_latency.py or of NCCL EP's ep_bench");
  CHECK_THROWS_WITH(rings::expert_scenario(nccl, 7, "400Gb/s", ""),
                    "64 experts do not divide evenly over 7 ranks, which NCCL EP asks for");
}

TEST_CASE("mutated task graphs, traces and tables are read or refused in words") {
  const std::string graph = TaskGraph(2, 0, 2).text(), other = TaskGraph(2, 1, 2).text();
  const std::string trace =
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 1, "dur": 2, "pid": 0,
      "args": {"stream": 7, "Collective name": "allreduce", "In msg nelems": 64, "dtype": "Float", "Group size": 2}}]})";
  const std::string table = "Start (ns),Duration (ns),Device,Strm,Name\n1000,500,a,7,\"gemm, 2\"\n";
  meshbed::Prng prng = meshbed::test::mutation_prng();
  std::size_t read = 0;
  for (std::size_t number = 0; number < meshbed::test::mutations(); ++number) {
    const std::string text = meshbed::test::mutated({graph, trace, table, "mpirun -np 8 ep_bench --tokens 64"}, prng);
    const auto attempt = [&](const auto& reads) {
      try {
        reads();
        ++read;
      } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find("x: ") == 0);
      }
    };
    attempt([&] { read_back(rings::import_task_graph({{"x", text}, {"x", other}}, kTimes)); });
    attempt([&] {
      const auto kernels = rings::read_kernels({"x", text}, {});
      read_back(rings::import_kernels({kernels.front(), kernels.front()}, "x"));
    });
    attempt([&] { rings::read_expert_settings({"x", text}); });
  }
  CHECK(read > 0);
}

}  // namespace ring_import_test
