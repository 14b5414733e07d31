// ring import: kernels of traces, as PyTorch's profiler and nsys write them.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "testbed/import/rings/ring_import.h"

namespace kernel_trace_test {

using namespace meshbed::testbed;

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
