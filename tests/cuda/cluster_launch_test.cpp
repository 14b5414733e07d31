// Launches with attributes: clusters, how many fit, the event of a launch's begin; and packed arguments.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/entry.h"
#include "tests/cuda/gpus.h"

namespace cluster_launch_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

/// `ranks` adds 1 and its rank in the cluster; `fixed` has clusters of 2 by its text; `polls` waits for a word; `sums`
/// writes the sum of its three arguments.
constexpr char kKernels[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry ranks(.param .u64 out) { .reg .b64 %l; .reg .b32 "
    "%r<3>; ld.param.u64 %l, [out]; barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r0, %cluster_ctarank; "
    "add.u32 %r0, %r0, 1; red.global.add.u32 [%l], %r0; ret; }\n.visible .entry fixed(.param .u64 out) "
    ".explicitcluster "
    ".reqnctapercluster 2, 1, 1 { .reg .b64 %l; .reg .b32 %r; ld.param.u64 %l, [out]; mov.u32 %r, %cluster_nctarank; "
    "red.global.add.u32 [%l], %r; ret; }\n.visible .entry polls(.param .u64 word) { .reg .b64 %l; .reg .b32 %r; .reg "
    ".pred %p; ld.param.u64 %l, [word]; again: ld.volatile.global.u32 %r, [%l]; setp.eq.u32 %p, %r, 0; @%p bra again; "
    "ret; }\n.visible .entry sums(.param .u64 out, .param .u32 a, .param .u32 b) { .reg .b64 %l; .reg .b32 %r<3>; "
    "ld.param.u64 %l, [out]; ld.param.u32 %r0, [a]; ld.param.u32 %r1, [b]; add.u32 %r0, %r0, %r1; st.global.u32 [%l], "
    "%r0; ret; }\n";

struct Kernels {
  Kernels() {
    CHECK(cuModuleLoadData(&module, kKernels) == 0);
    CHECK(cuMemsetD32_v2(out, 0, 1) == 0);
  }
  CUfunction find(const char* name) const {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, name) == 0);
    return function;
  }
  unsigned result() const {
    CHECK(cuCtxSynchronize() == 0);
    unsigned value = 0;
    CHECK(cuMemcpyDtoH_v2(&value, out, 4) == 0);
    return value;
  }
  const Gpu gpu;
  CUmodule module = nullptr;
  CUdeviceptr out = allocate(4);
};

cuda::LaunchAttribute cluster_of(unsigned x, unsigned y = 1, unsigned z = 1) {
  cuda::LaunchAttribute attribute{};
  attribute.id = cuda::kAttributeClusterDimension;
  attribute.value.dimension[0] = x;
  attribute.value.dimension[1] = y;
  attribute.value.dimension[2] = z;
  return attribute;
}

cuda::CUlaunchConfig shape(unsigned blocks, unsigned threads, std::vector<cuda::LaunchAttribute>& attributes,
                           CUstream stream = nullptr) {
  return {.grid = {blocks, 1, 1},
          .block = {threads, 1, 1},
          .shared_bytes = 0,
          .stream = handle_of(stream),
          .attributes = attributes.data(),
          .attribute_count = static_cast<unsigned>(attributes.size())};
}

CUresult launch(CUfunction function, CUdeviceptr argument, unsigned blocks,
                std::vector<cuda::LaunchAttribute> attributes, CUstream stream = nullptr) {
  const cuda::CUlaunchConfig config = shape(blocks, 32, attributes, stream);
  void* arguments[] = {&argument};
  return DRIVER_CALL(cuLaunchKernelEx, "cuLaunchKernelEx")(&config, handle_of(function), arguments, nullptr);
}

}  // namespace

TEST_CASE("blocks are launched in clusters, from a call or as their kernel requires") {
  run_gpus({}, [] {
    const Kernels kernels;
    CHECK(launch(kernels.find("ranks"), kernels.out, 4, {cluster_of(2)}) == 0);
    CHECK(kernels.result() == 32 * 2 * (1 + 2));
    CHECK(cuMemsetD32_v2(kernels.out, 0, 1) == 0);
    CHECK(launch(kernels.find("fixed"), kernels.out, 4, {}) == 0);
    CHECK(launch(kernels.find("fixed"), kernels.out, 4, {cluster_of(2)}) == 0);
    CHECK(kernels.result() == 2 * 4 * 32 * 2);
    CHECK(launch(kernels.find("fixed"), kernels.out, 3, {}) == 1);
    CHECK(launch(kernels.find("ranks"), kernels.out, 4, {cluster_of(3)}) == 1);
    // 8 is what every GPU with clusters has; 16 is asked for.
    const auto set = DRIVER_CALL(cuFuncSetAttribute, "cuFuncSetAttribute");
    CHECK(launch(kernels.find("ranks"), kernels.out, 16, {cluster_of(16)}) == 912);
    CHECK(set(handle_of(kernels.find("ranks")), 14, 1) == 0);
    CHECK(cuMemsetD32_v2(kernels.out, 0, 1) == 0);
    CHECK(launch(kernels.find("ranks"), kernels.out, 16, {cluster_of(16)}) == 0);
    CHECK(kernels.result() == 32 * 16 * 17 / 2);
  });
}

TEST_CASE("a GPU before compute capability 9.0 has clusters of one block alone") {
  run_gpus({.model = "A100"}, [] {
    const Gpu gpu;
    int has = 1;
    CHECK(cuDeviceGetAttribute(&has, 120, 0) == 0);
    CHECK(has == 0);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    REQUIRE(cuModuleLoadData(&module,
                             ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) { ret; "
                             "}\n") == 0);
    CHECK(cuModuleGetFunction(&function, module, "k") == 0);
    CHECK(launch(function, 0, 4, {cluster_of(1)}) == 0);
    CHECK(launch(function, 0, 4, {cluster_of(2)}) == 801);
    CHECK(cuCtxSynchronize() == 0);
  });
}

TEST_CASE("how many clusters fit follows from the blocks that an SM holds") {
  run_gpus({.simulated = true}, [] {
    const Kernels kernels;
    const auto most = DRIVER_CALL(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters");
    const auto size = DRIVER_CALL(cuOccupancyMaxPotentialClusterSize, "cuOccupancyMaxPotentialClusterSize");
    cuda::Kernel* const kernel = handle_of(kernels.find("ranks"));
    std::vector<cuda::LaunchAttribute> attributes{cluster_of(4)};
    const cuda::CUlaunchConfig config = shape(8, 1024, attributes);
    int found = 0, sms = 0, held = 0;
    CHECK(cuDeviceGetAttribute(&sms, 16, 0) == 0);
    CHECK(DRIVER_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor")(
              &held, kernel, 1024, 0) == 0);
    CHECK(most(&found, kernel, &config) == 0);
    CHECK(found == sms * held / 4);
    CHECK(size(&found, kernel, &config) == 0);
    CHECK(found == 8);
    CHECK(size(&found, handle_of(kernels.find("fixed")), &config) == 0);
    CHECK(found == 2);
    const auto get = DRIVER_CALL(cuFuncGetAttribute, "cuFuncGetAttribute");
    CHECK(get(&found, 11, handle_of(kernels.find("fixed"))) == 0);
    CHECK(found == 2);
    CHECK(get(&found, 10, kernel) == 0);
    CHECK(found == 0);
  });
}

TEST_CASE("the event of a launch's begin is there while the kernel still runs; hints change nothing") {
  run_gpus({}, [] {
    const Kernels kernels;
    unsigned* word = nullptr;
    CHECK(cuMemHostAlloc(reinterpret_cast<void**>(&word), 4, 0) == 0);
    *word = 0;
    CUevent begun = nullptr, timed = nullptr;
    CHECK(cuEventCreate(&begun, 2) == 0);
    CHECK(cuEventCreate(&timed, 0) == 0);
    CUstream stream = nullptr;
    CHECK(cuStreamCreate(&stream, 1) == 0);
    cuda::LaunchAttribute completion{}, policy{}, links{};
    completion.id = cuda::kAttributeCompletionEvent;
    completion.value.completion = {handle_of(begun), 0};
    policy.id = cuda::kAttributeClusterPolicy;
    policy.value.integer = 1;
    links.id = cuda::kAttributeNvlinkScheduling;
    links.value.integer = 1;
    CHECK(launch(kernels.find("polls"), reinterpret_cast<CUdeviceptr>(word), 3, {completion, policy, links}, stream) ==
          0);
    CHECK(cuEventSynchronize(begun) == 0);
    CHECK(cuStreamQuery(stream) == 600);
    // Other streams go on behind it, too.
    CUstream other = nullptr;
    CHECK(cuStreamCreate(&other, 1) == 0);
    CHECK(cuStreamWaitEvent(other, begun, 0) == 0);
    CHECK(cuStreamSynchronize(other) == 0);
    __atomic_store_n(word, 1U, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(stream) == 0);
    completion.value.completion = {handle_of(timed), 0};
    CHECK(launch(kernels.find("polls"), reinterpret_cast<CUdeviceptr>(word), 1, {completion}, stream) == 1);
    policy.value.integer = 9;
    CHECK(launch(kernels.find("polls"), reinterpret_cast<CUdeviceptr>(word), 1, {policy}, stream) == 1);
  });
}

TEST_CASE("packed arguments that end before the kernel's last parameter are taken as they are") {
  run_gpus({}, [] {
    const Kernels kernels;
    struct {
      CUdeviceptr out;
      unsigned a, b;
    } packed{kernels.out, 40, 2};
    const auto run = [&](std::size_t bytes) {
      void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes, nullptr};
      return cuLaunchKernel(kernels.find("sums"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
    };
    CHECK(run(16) == 0);
    CHECK(kernels.result() == 42);
    CHECK(run(12) == 0);
    CHECK(cuCtxSynchronize() == 0);
    if (!genuine_gpu()) CHECK(kernels.result() == 40);  // what was left out has no value on a GPU
  });
}

TEST_CASE("a GPU has one UUID, by the call of each version") {
  run_gpus({}, [] {
    const Gpu gpu;
    std::array<char, 16> first{}, second{};
    const auto v1 = DRIVER_CALL_AT(cuDeviceGetUuid, "cuDeviceGetUuid", 9020);
    CHECK(v1(reinterpret_cast<cuda::CUuuid*>(first.data()), 0) == 0);
    CHECK(DRIVER_CALL(cuDeviceGetUuid_v2, "cuDeviceGetUuid")(reinterpret_cast<cuda::CUuuid*>(second.data()), 0) == 0);
    CHECK(first == second);
    CHECK(v1(reinterpret_cast<cuda::CUuuid*>(first.data()), 1) == 101);
  });
}

}  // namespace cluster_launch_test
