// [workload] memory = "gpu" by the command line: the same bits as in host memory, and what is refused.
#include <doctest/doctest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"

namespace gpu_memory_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult run(const std::string& scenario, const std::string& words, const std::string& environment = "") {
  return run_command_line(environment + meshbed_program() + " run " + scenario_file(scenario) +
                          " --json --no-trace --results '" + scratch_folder("gpu_memory") + "' " + words + " 2>&1");
}

json summary_of(const CommandResult& result) {
  REQUIRE_MESSAGE(result.status == 0, result.output);
  return json::parse(result.output.substr(result.output.find('{')));
}

/// The proof that only calls on GPU memory have; its text.
std::string gpu_proof(const json& summary) {
  for (const json& proof : summary.at("proofs")) {
    if (proof.at("name").get<std::string>().starts_with("GPUs copy twice")) {
      CHECK(proof.at("ok") == true);
      return proof.at("detail");
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every collective gives the bits on GPU memory that it gives on host memory, at other times") {
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall",
                                 "gather", "scatter", "sendrecv"}) {
    CAPTURE(collective);
    const std::string words =
        std::string("--set expect.max_over_bound=1000 --set workload.bytes=300K --set workload.collective=") +
        collective;
    const json gpu = summary_of(run("triangle-gpu", words));
    const json host = summary_of(run("triangle-gpu", words + " --set workload.memory=host"));
    CHECK(gpu.at("wrong") == 0);
    CHECK(gpu.at("data") == host.at("data"));
    CHECK(gpu.at("time_ns") > host.at("time_ns"));
    CHECK(gpu_proof(gpu).find(" 0 waits for a whole device") != std::string::npos);
    CHECK(gpu_proof(host).empty());
  }
}

TEST_CASE("an all-reduce copies each rank's bytes in and out once, and waits for no device") {
  const json summary = summary_of(run("triangle-gpu", ""));
  // 3 ranks, 2 timed iterations; 16 MiB in and 16 MiB out.
  CHECK(gpu_proof(summary) == "6 calls: 12 copies of 201326592 bytes, 0 waits for a whole device");
}

TEST_CASE("what adapters send from GPU memory and receive there are host memory's bits, without a copy by a host") {
  for (const char* collective : {"all_gather", "broadcast", "alltoall", "gather", "scatter", "sendrecv"}) {
    CAPTURE(collective);
    const std::string words = std::string("--set expect.max_over_bound=1000 --set workload.bytes=300K ") +
                              "--set workload.in_place=false --set workload.collective=" + collective;
    const json direct = summary_of(run("triangle-gpu-direct", words));
    const json copied = summary_of(run("triangle-gpu-direct", words + " --set environment.MESHBED_GPU_DIRECT=0"));
    const json host = summary_of(run("triangle-gpu-direct", words + " --set workload.memory=host"));
    CHECK(direct.at("wrong") == 0);
    CHECK(direct.at("data") == host.at("data"));
    CHECK(copied.at("data") == host.at("data"));
    CHECK(direct.at("time_ns") < copied.at("time_ns"));
    CHECK(gpu_proof(direct).find("; 6 calls by GPUDirect, 0 copies from and to the hosts") != std::string::npos);
    CHECK(gpu_proof(copied).find("GPUDirect") == std::string::npos);
    CHECK(summary_of(run("triangle-gpu-direct", words)).at("digest") == direct.at("digest"));
  }
  const std::string words = "--set workload.cases=45 --set expect.unreachable=[]";
  const json direct =
      summary_of(run("engine-matrix", words + " --set topology.gpu_model=GB10 --set topology.functions=separate --set "
                                              "workload.memory=gpu --set topology.gpu_direct=dma-buf"));
  const json host = summary_of(run("engine-matrix", words));
  REQUIRE(direct.at("cases").size() == host.at("cases").size());
  for (std::size_t at = 0; at < direct.at("cases").size(); ++at) {
    CHECK_MESSAGE(direct.at("cases")[at].at("data") == host.at("cases")[at].at("data"), direct.at("cases")[at].dump());
  }
  CHECK(gpu_proof(direct).find(" calls by GPUDirect, ") != std::string::npos);
}

TEST_CASE("a matrix of types, reductions, algorithms and protocols gives the same bits as in host memory; it repeats") {
  const std::string words = "--set workload.cases=45 --set expect.unreachable=[]";
  const json gpu = summary_of(
      run("engine-matrix",
          words + " --set topology.gpu_model=GB10 --set topology.functions=separate --set workload.memory=gpu"));
  const json host = summary_of(run("engine-matrix", words));
  REQUIRE(gpu.at("cases").size() == host.at("cases").size());
  for (std::size_t at = 0; at < gpu.at("cases").size(); ++at) {
    CHECK_MESSAGE(gpu.at("cases")[at].at("data") == host.at("cases")[at].at("data"), gpu.at("cases")[at].dump());
  }
  CHECK(summary_of(
            run("engine-matrix",
                words + " --set topology.gpu_model=GB10 --set topology.functions=separate --set workload.memory=gpu"))
            .at("digest") == gpu.at("digest"));
}

// Every algorithm, form of reduction and protocol.
TEST_CASE("what the GPUs reduce themselves are the bits of the processor's reductions in host memory; it repeats") {
  const std::string words = "--set workload.cases=45 --set expect.unreachable=[]";
  const std::string sums = words +
                           " --set topology.gpu_model=GB10 --set topology.functions=separate --set workload.memory=gpu "
                           "--set environment.MESHBED_GPU_SUMS=1";
  const json gpu = summary_of(run("engine-matrix", sums));
  const json host = summary_of(run("engine-matrix", words));
  CHECK(gpu.at("wrong") == 0);
  REQUIRE(gpu.at("cases").size() == host.at("cases").size());
  for (std::size_t at = 0; at < gpu.at("cases").size(); ++at) {
    CHECK_MESSAGE(gpu.at("cases")[at].at("data") == host.at("cases")[at].at("data"), gpu.at("cases")[at].dump());
  }
  CHECK(gpu_proof(gpu).find(" 0 waits for a whole device") != std::string::npos);
  CHECK(summary_of(run("engine-matrix", sums)).at("digest") == gpu.at("digest"));
}

// The length of a path that the simulator keeps shifts what comes after it in the heap.
TEST_CASE("what GPUs reduce does not depend on where in the heap the driver's objects lie") {
  const std::string sums =
      "--set workload.cases=14 --set expect.unreachable=[] --set topology.gpu_model=GB10 --set "
      "topology.functions=separate --set workload.memory=gpu --set environment.MESHBED_GPU_SUMS=1";
  const std::string scratch = scratch_folder("gpu_memory_cache");
  const auto digest_of = [&](std::size_t length) {
    const CommandResult result =
        run("engine-matrix", sums, "CUDA_CACHE_PATH='" + scratch + std::string(length, 'x') + "' ");
    return summary_of(result).at("digest").get<std::string>();
  };
  const std::string first = digest_of(0);
  for (std::size_t length = 1; length <= 12; ++length) CHECK_MESSAGE(digest_of(7 * length) == first, length);
}

TEST_CASE("a node without a GPU, a GPU without a model and a workload without buffers of its own are refused") {
  const auto refused = [](const std::string& words, const std::string& why) {
    const CommandResult result = run("triangle-gpu", words);
    CHECK(result.status == 2);
    CHECK_MESSAGE(result.output.find(why) != std::string::npos, result.output);
  };
  refused("--set topology.gpus=0", "memory: node0 has no GPU: set gpus to 1 or more");
  refused("--set topology.gpu_model=Voodoo2",
          "gpu_model: there is no model of a GPU 'Voodoo2'; there are GB10, H100, A100, H200, and a profile's file");
  refused("--set workload.kind=idle", "memory: gpu is for collective, matrix, reconnect, megakernel");
}

TEST_CASE("a megakernel on GPUs, its persistent kernel in PTX, gives the bits of host memory's, and repeats") {
  for (const char* shape :
       {"--set workload.megakernel.program=all_reduce", "--set workload.megakernel.program=all_gather",
        "--set workload.dtype=int32 --set workload.op=max --set workload.megakernel.lanes=1",
        "--set workload.dtype=double --set workload.slice_bytes=256 --set workload.megakernel.lanes=40"}) {
    CAPTURE(shape);
    const std::string words =
        std::string("--set topology.nodes=3 --set workload.bytes=6K --set workload.iterations=2 ") + shape;
    const json gpu = summary_of(run("megakernel-ring8-gpu", words));
    const json host = summary_of(run("megakernel-ring8-gpu", words + " --set workload.memory=host"));
    CHECK(gpu.at("wrong") == 0);
    CHECK(gpu.at("data") == host.at("data"));
    CHECK(gpu.at("rings").at("slots_done") == host.at("rings").at("slots_done"));
    CHECK(summary_of(run("megakernel-ring8-gpu", words)).at("digest") == gpu.at("digest"));
    const std::string proofs = gpu.at("proofs").dump();
    CHECK(proofs.find("3 ranks: 3 launches, 0 waits for a whole device") != std::string::npos);
  }
}

TEST_CASE("what a megakernel on a GPU does not read or cannot do is refused") {
  const auto refused = [](const std::string& words, const std::string& why) {
    const CommandResult result = run("megakernel-ring8-gpu", words);
    CHECK(result.status == 2);
    CHECK_MESSAGE(result.output.find(why) != std::string::npos, result.output);
  };
  refused("--set workload.megakernel.program=moe", "memory: gpu goes with program = \"all_reduce\" or \"all_gather\"");
  refused("--set workload.megakernel.flag=1us", "flag: goes with memory = \"host\"");
  refused("--set workload.megakernel.rings=2", "rings: goes with memory = \"host\"");
  refused("--set workload.dtype=half", "dtype: the megakernel on a GPU reduces numbers of 4 and 8 bytes");
  refused("--set workload.op=avg", "op: the megakernel on a GPU has sum, prod, max and min");
  refused("--set topology.gpus=0", "memory: node0 has no GPU");
  refused("--set workload.megakernel.program=queue", "memory: program = \"queue\" moves no data");
}

TEST_CASE("a megakernel on GPUs of which nothing comes ends for all its ranks, and says which slot waits") {
  const CommandResult result = run("megakernel-ring8-gpu", "--set workload.megakernel.watchdog=1us");
  CHECK(result.status != 0);
  CHECK_MESSAGE(result.output.find("no slot of the megakernel has ended") != std::string::npos, result.output);
}

}  // namespace gpu_memory_command_test
