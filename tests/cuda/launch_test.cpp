// Modules, launches, kernels that go wrong, graphs.
#include <string>

#include "models/gpu.h"
#include "tests/cuda/entry.h"

using namespace meshbed;
using namespace meshbed::test;

namespace launch_test {
namespace {

MeshbedKernel kernel_named(const char* name, int (*run)(const MeshbedLaunch*)) {
  static const unsigned kSizes[] = {sizeof(CUdeviceptr), sizeof(unsigned)};
  MeshbedKernel kernel{};
  kernel.size_bytes = sizeof(kernel);
  kernel.name = name;
  kernel.argument_count = 2;
  kernel.argument_bytes = kSizes;
  kernel.run = run;
  return kernel;
}

}  // namespace

TEST_CASE("an image is PTX, a cubin or a fat binary; PTX has the kernels that it names") {
  run_gpus({}, [] {
    const Gpu gpu;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    CHECK(cuModuleLoadData(&module, nullptr) == 1);
    CHECK(cuModuleLoadData(&module, "") == 200);
    CHECK(cuModuleLoadData(&module, "int main() {}") == 200);
    CHECK(cuModuleLoadData(&module, kImage) == 0);
    CHECK(cuModuleGetFunction(&function, module, "empty") == 0);
    CHECK(cuModuleGetFunction(&function, module, "other") == 500);
    CHECK(cuModuleUnload(module) == 0);
    CHECK(cuModuleUnload(module) == 400);
    CHECK(cuModuleGetFunction(&function, module, "empty") == 400);
  });
}

TEST_CASE("shapes and arguments that no kernel can have are refused") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUfunction function = find_function(kImage, "add_one");
    CUdeviceptr address = allocate(4);
    unsigned microseconds = 0;
    void* arguments[] = {&address, &microseconds};
    const unsigned shapes[][6] = {{0, 1, 1, 1, 1, 1},   {1, 1, 1, 0, 1, 1},     {1, 1, 1, 1025, 1, 1},
                                  {1, 1, 1, 64, 32, 1}, {1, 65536, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 65}};
    for (const auto& s : shapes) {
      CHECK(cuLaunchKernel(function, s[0], s[1], s[2], s[3], s[4], s[5], 0, nullptr, arguments, nullptr) == 1);
    }
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 228 << 10, nullptr, arguments, nullptr) == 1);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == 1);
    CHECK(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == 400);
    CHECK(cuLaunchCooperativeKernel(function, 265, 1, 1, 1024, 1, 1, 0, nullptr, arguments) == 720);
    CHECK(cuLaunchCooperativeKernel(function, 264, 1, 1, 1024, 1, 1, 0, nullptr, arguments) == 0);
    CHECK(number_at(address) == 1);
    if (!genuine_gpu()) CHECK(counters().launches == 1);
  });
}

TEST_CASE("arguments may stand packed in a buffer, each at its own alignment") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    struct {
      CUdeviceptr address;
      unsigned microseconds = 1;
    } packed{.address = allocate(4)};
    std::size_t size = 12, shorter = 11;
    void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &size, nullptr};
    CUfunction function = find_function(kImage, "add_one");
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) == 0);
    CHECK(number_at(packed.address) == 1);
    extra[3] = &shorter;
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) == 0);
  });
}

TEST_CASE("a launch's attributes: those that only make it faster are taken, one that changes what runs is not") {
  run_gpus({}, [] {
    namespace cuda = sim::cuda;
    register_add_one();
    const Gpu gpu;
    const CUdeviceptr address = allocate(4);
    CUdeviceptr place = address;
    unsigned microseconds = 1;
    void* arguments[] = {&place, &microseconds};
    CUfunction function = find_function(kImage, "add_one");
    const CUstream stream = make_stream();
    const auto launch = [&](int id, unsigned value) {
      cuda::LaunchAttribute attribute{};
      attribute.id = id;
      attribute.value.dimension[0] = attribute.value.dimension[1] = attribute.value.dimension[2] = value;
      const cuda::CUlaunchConfig config{.grid = {1, 1, 1},
                                        .block = {1, 1, 1},
                                        .shared_bytes = 0,
                                        .stream = handle_of(stream),
                                        .attributes = &attribute,
                                        .attribute_count = 1};
      return DRIVER_CALL(cuLaunchKernelEx, "cuLaunchKernelEx")(&config, handle_of(function), arguments, nullptr);
    };
    // thrust's kernels are launched so, by CUDA 13's CUB.
    CHECK(launch(cuda::kAttributeProgrammaticSerialization, 1) == 0);
    CHECK(launch(cuda::kAttributeProgrammaticSerialization, 1) == 0);
    CHECK(launch(cuda::kAttributeClusterDimension, 1) == 0);
    CHECK(launch(cuda::kAttributeClusterDimension, 2) == 1);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(address) == 3);
  });
}

TEST_CASE("a kernel that strays fails its context: what follows does not happen, and every call says why") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUcontext other = nullptr;
    CUfunction of_first = find_function(kImage, "add_one");
    CHECK(cuCtxCreate_v2(&other, 0, 0) == 0);
    CUfunction function = find_function(kImage, "add_one");
    const CUdeviceptr address = allocate(4);
    CUstream stream = make_stream();
    CHECK(add_one(of_first, address, 0, stream) == 400);
    CHECK(add_one(function, address + 1, 0, stream) == 0);  // the last byte is not its own
    auto* host = static_cast<int*>(allocate_pinned(4));
    *host = 7;
    CHECK(cuMemcpyDtoHAsync_v2(host, address, 4, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 700);
    CHECK(*host == 7);
    CUdeviceptr more = 0;
    CHECK(cuMemAlloc_v2(&more, 4) == 700);
    CHECK(cuCtxDestroy_v2(other) == 0);  // and that is the way out
    CHECK(cuMemFree_v2(allocate(4)) == 0);
  });
}

TEST_CASE("a registration that says too little is refused") {
  run_gpus({}, [] {
    const auto run = [](const MeshbedLaunch*) { return 0; };
    const MeshbedKernel whole = kernel_named("k", run);
    CHECK(register_kernel(whole) == 0);
    MeshbedKernel wrong = whole;
    wrong.size_bytes -= 8;
    CHECK(register_kernel(wrong) == 1);
    wrong = whole;
    wrong.name = "";
    CHECK(register_kernel(wrong) == 1);
    wrong = whole;
    wrong.run = nullptr;
    CHECK(register_kernel(wrong) == 1);
    wrong = whole;
    wrong.argument_bytes = nullptr;
    CHECK(register_kernel(wrong) == 1);
    wrong = whole;
    wrong.flags = 1;
    CHECK(register_kernel(wrong) == 1);
  });
}

TEST_CASE("what a stream recorded happens at each launch of the graph, and not while it is recorded") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream(), side = make_stream();
    const CUdeviceptr address = allocate(8);
    CUfunction function = find_function(kImage, "add_one");
    CUgraph graph = nullptr;
    CHECK(cuStreamBeginCapture_v2(nullptr, 0) == 900);
    CHECK(cuStreamEndCapture(stream, &graph) == 401);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CUevent fork = make_event(), join = make_event();
    CHECK(add_one(function, address, 10, stream) == 0);
    CHECK(cuEventRecord(fork, stream) == 0);
    CHECK(cuStreamWaitEvent(side, fork, 0) == 0);
    CHECK(add_one(function, address + 4, 100, side) == 0);
    CHECK(cuEventRecord(join, side) == 0);
    CHECK(cuStreamWaitEvent(stream, join, 0) == 0);
    CHECK(add_one(function, address + 4, 10, stream) == 0);
    CHECK(cuStreamEndCapture(side, &graph) == 903);
    CHECK(cuStreamEndCapture(stream, &graph) == 0);
    if (!genuine_gpu()) CHECK(counters().launches == 0);
    CHECK(number_at(address) == 0);
    CUgraphExec executable = nullptr;
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    CHECK(cuGraphDestroy(graph) == 0);
    for (int time = 1; time <= 3; ++time) {
      CHECK(cuGraphLaunch(executable, stream) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      CHECK(number_at(address) == time);
      CHECK(number_at(address + 4) == 2 * time);
    }
    if (!genuine_gpu()) CHECK(counters().launches == 9);
    CHECK(cuGraphExecDestroy(executable) == 0);
    CHECK(cuGraphLaunch(executable, stream) == 1);
  });
}

TEST_CASE("a recording is lost by a call that waits, and one whose branches do not come back is refused") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    CUstream stream = make_stream(), side = make_stream();
    const CUdeviceptr address = allocate(4);
    CUfunction function = find_function(kImage, "add_one");
    CUgraph graph = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuStreamSynchronize(stream) == 900);
    CHECK(add_one(function, address, 1, stream) == 901);
    CHECK(cuStreamEndCapture(stream, &graph) == 901);
    CHECK(graph == nullptr);
    CHECK(add_one(function, address, 1, stream) == 0);  // it works again

    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CUevent recorded = make_event();
    CHECK(cuEventRecord(recorded, stream) == 0);
    CHECK(cuEventQuery(recorded) == 907);
    CHECK(cuStreamEndCapture(stream, &graph) == 901);

    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CUevent fork = make_event();
    CHECK(add_one(function, address, 1, stream) == 0);
    CHECK(cuEventRecord(fork, stream) == 0);
    CHECK(cuStreamWaitEvent(side, fork, 0) == 0);
    CHECK(add_one(function, address, 1, side) == 0);
    CHECK(cuStreamEndCapture(stream, &graph) == 904);

    CUstream blocking = make_stream(0);
    CHECK(cuStreamBeginCapture_v2(blocking, 0) == 0);
    CHECK(cuMemsetD32_v2(address, 0, 1) == 906);  // the default stream would have to wait for it
    CHECK(cuStreamEndCapture(blocking, &graph) == 901);
  });
}

}  // namespace launch_test
