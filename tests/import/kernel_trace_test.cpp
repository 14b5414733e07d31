// ring import: kernels of traces, as PyTorch's profiler and nsys write them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "testbed/import/rings/ring_import.h"

namespace kernel_trace_test {

using namespace meshbed::testbed;
using nlohmann::json;

TEST_CASE(
    "PyTorch's trace: kernels, copies, the step asked for, and bytes from the kernel or the call that launched it") {
  const json args_of_call{{"External id", 9},     {"Collective name", "_allgather_base"},
                          {"In msg nelems", 256}, {"Out msg nelems", 1024},
                          {"Group size", 4},      {"dtype", "BFloat16"}};
  json events{
      {{"ph", "X"}, {"cat", "user_annotation"}, {"name", "ProfilerStep#3"}, {"ts", 90}, {"dur", 20}},
      {{"ph", "X"}, {"cat", "gpu_user_annotation"}, {"name", "ProfilerStep#3"}, {"ts", 100}, {"dur", 100}},
      {{"ph", "X"}, {"cat", "kernel"}, {"name", "early"}, {"ts", 95}, {"dur", 1}, {"args", {{"stream", 7}}}},
      {{"ph", "X"}, {"cat", "kernel"}, {"name", "gemm"}, {"ts", 110.5}, {"dur", 10.25}, {"args", {{"stream", 7}}}},
      {{"ph", "X"}, {"cat", "gpu_memcpy"}, {"name", "Memcpy"}, {"ts", 100}, {"dur", 2}, {"args", {{"stream", 7}}}},
      {{"ph", "X"}, {"cat", "cpu_op"}, {"name", "record_param_comms"}, {"ts", 99}, {"dur", 1}, {"args", args_of_call}},
      {{"ph", "X"},
       {"cat", "kernel"},
       {"name", "ncclDevKernel_AllGather_RING_LL(x)"},
       {"ts", 121},
       {"dur", 20},
       {"args", {{"stream", 20}, {"External id", 9}}}},
      {{"ph", "X"},
       {"cat", "kernel"},
       {"name", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"},
       {"ts", 150},
       {"dur", 20},
       {"args",
        {{"stream", 20},
         {"Collective name", "allreduce"},
         {"In msg nelems", 512},
         {"dtype", "Float"},
         {"Group size", 2}}}},
      {{"ph", "X"}, {"cat", "kernel"}, {"name", "ncclKernel_Broadcast_RING_LL_Sum_int8_t"}, {"ts", 180}, {"dur", 5}},
      {{"ph", "i"}, {"cat", "kernel"}, {"name", "no duration"}, {"ts", 120}}};
  const std::string text = json{{"traceEvents", events}}.dump();
  const auto all = rings::read_kernels({"t.json", text}, {.step = "ProfilerStep#3", .bytes_of = {{"broadcast", 4096}}});
  REQUIRE(all.size() == 1);
  const std::vector<rings::TracedKernel>& kernels = all.front();
  REQUIRE(kernels.size() == 5);
  CHECK(kernels[0].name == "Memcpy");
  CHECK(kernels[1].start_us == 10.5);  // since the first
  CHECK(kernels[1].duration_us == 10.25);
  CHECK(kernels[1].exchange.collective.empty());
  CHECK(kernels[2].exchange.collective == "all_gather");
  CHECK(kernels[2].exchange.bytes == 2048);
  CHECK(kernels[2].exchange.group_size == 4);
  CHECK(kernels[3].exchange.collective == "all_reduce");
  CHECK(kernels[3].exchange.bytes == 2048);
  CHECK(kernels[3].exchange.element_bytes == 4);
  CHECK(kernels[4].exchange.collective == "broadcast");
  CHECK(kernels[4].exchange.bytes == 4096);

  const auto error = [&](const std::string& of, const rings::TraceChoice& choice) -> std::string {
    try {
      rings::read_kernels({"t.json", of}, choice);
    } catch (const std::runtime_error& thrown) {
      return thrown.what();
    }
    return "";
  };
  CHECK(error(text, {.step = "ProfilerStep#4"}) ==
        "t.json: there is no annotation 'ProfilerStep#4'; did you mean "
        "'ProfilerStep#3'?");
  CHECK(error("{\"traceEvents\": []}", {}) ==
        "t.json: has no kernel: neither events of category \"kernel\" nor rows of cuda_gpu_trace");
  CHECK(error("{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"ts\": 1}]}", {}) ==
        "t.json: traceEvents[0]: 'dur' is no number from 0, in microseconds");
  CHECK(error("\x1f\x8b\x08", {}) == "t.json: is compressed: gunzip it first");
}

TEST_CASE("a call is its kernel's by an id that both have, and by the collective in the kernel's name") {
  const auto imported = [](const json& call, const json& kernel_args, const std::string& kernel) {
    const json events{{{"ph", "X"}, {"cat", "cpu_op"}, {"name", "record_param_comms"}, {"args", call}},
                      {{"ph", "X"}, {"cat", "kernel"}, {"name", kernel}, {"ts", 1}, {"dur", 2}, {"args", kernel_args}}};
    return rings::read_kernels({"t.json", json{{"traceEvents", events}}.dump()}, {}).front().front().exchange;
  };
  const json call{{"External id", 9}, {"Collective name", "allreduce"}, {"In msg nelems", 256}, {"dtype", "Half"}};
  json without = call;
  without.erase("External id");
  CHECK(imported(call, {{"External id", 9}}, "ncclDevKernel_AllReduce_x").bytes == 512);
  CHECK(imported(call, {{"External id", 9}}, "ncclDevKernel_SendRecv_x").collective == "all_reduce");
  CHECK(imported(call, {{"External id", 9}}, "ncclDevKernel_AllGather_x").collective == "all_gather");
  CHECK(imported(call, {{"External id", 9}}, "ncclDevKernel_AllGather_x").bytes == 0);
  CHECK(imported(without, json::object(), "ncclDevKernel_AllReduce_x").bytes == 0);
}

TEST_CASE("GPUs come in the order of their numbers, and times since 1970 lose nothing of the gaps") {
  json events = json::array();
  for (int gpu = 0; gpu < 12; ++gpu) {
    for (int index = 0; index < 1000; ++index) {
      events.push_back({{"ph", "X"},
                        {"cat", "kernel"},
                        {"name", fmt::format("of {}", gpu)},
                        {"ts", 1.7e15 + 3.1 * index},
                        {"dur", 2.9},
                        {"args", {{"device", gpu}, {"stream", 7}}}});
    }
  }
  const auto all = rings::read_kernels({"t.json", events.dump()}, {});
  REQUIRE(all.size() == 12);
  CHECK(all[2].front().name == "of 2");
  CHECK(all[11].front().name == "of 11");
  const rings::ImportedGraph imported = rings::import_kernels({all[0]}, "t.json");
  std::uint64_t all_ns = 0;
  for (const GraphSlot& slot : imported.graph.ranks[0]) all_ns += slot.time_ns;
  CHECK(std::abs(static_cast<double>(all_ns) - 3'099'800) < 1000);
}

TEST_CASE("nsys's table: its heading's units, quoted names, a GPU a list") {
  const std::string text =
      "Processing [report1.sqlite] with [cuda_gpu_trace.py]...\n"
      "Start (ns),Duration (us),CorrId,Device,Ctx,Strm,Name\r\n"
      "1000,30.5,1,NVIDIA H100 (0),1,7,\"void gemm<float, (int)2>(float*, int)\"\r\n"
      "33500,40,2,NVIDIA H100 (0),1,20,ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)\n"
      "900,1,2,NVIDIA H100 (1),1,7,[CUDA memcpy HtoD]\n\n";
  CHECK(rings::is_nsys_table(text));
  const auto all = rings::read_kernels({"t.csv", text}, {.step = "", .bytes_of = {{"all_reduce", 65536}}});
  REQUIRE(all.size() == 2);
  REQUIRE(all[0].size() == 2);
  CHECK(all[0][0].name == "void gemm<float, (int)2>(float*, int)");
  CHECK(all[0][0].start_us == doctest::Approx(0.1));  // since the first of all GPUs
  CHECK(all[0][0].duration_us == doctest::Approx(30.5));
  CHECK(all[0][1].exchange.bytes == 65536);
  CHECK(all[1][0].name == "[CUDA memcpy HtoD]");
  const auto error = [](const std::string& of) -> std::string {
    try {
      rings::read_kernels({"t.csv", of}, {});
    } catch (const std::runtime_error& thrown) {
      return thrown.what();
    }
    return "";
  };
  CHECK(rings::is_nsys_table("[3/8] Executing 'cuda_gpu_trace' stats report\n\n" + text));
  CHECK_FALSE(rings::is_nsys_table("[{\"name\": \"Start Duration\"}]\n"));
  CHECK(error("Start (ns),Duration (ns),Name\n1,2\n") == "t.csv: line 2: 2 fields, and the heading has 3");
  CHECK(error("Start (ns),Duration (ns),Name\nx,2,y\n") == "t.csv: line 2: 'x' is no number from 0");
  CHECK(error("Start (ns),Duration,Name\n1,2,y\n") ==
        "t.csv: line 1: expected are the columns Start, Duration and Name of cuda_gpu_trace");
}

}  // namespace kernel_trace_test
