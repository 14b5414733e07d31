// Programs that were compiled for a default stream of each thread's own.
#include <thread>

#include "tests/cuda/entry.h"

namespace per_thread_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

extern "C" {
cudaError_t cudaMemsetAsync_ptsz(void* target, int value, std::size_t size, CUstream stream);
cudaError_t cudaStreamSynchronize_ptsz(CUstream stream);
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags, int* status);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned version,
                                                  unsigned long long flags, int* status);
cudaError_t cudaMemcpy_ptds(void* target, const void* source, std::size_t size, int kind);
}

namespace {

constexpr unsigned long long kLegacy = 1, kPerThread = 2;

#define OWN_CALL(call, name) find_entry<decltype(cuda::call)>(name, 13000, kPerThread)

}  // namespace

TEST_CASE("no stream means the thread's own one, which other threads' are not behind") {
  run_gpus({}, [] {
    constexpr unsigned kEqual = 1;
    const Gpu gpu;
    auto* word = static_cast<volatile int*>(allocate_pinned(4));
    *word = 0;
    const CUdeviceptr place = allocate(8);
    const auto query = OWN_CALL(cuStreamQuery, "cuStreamQuery");
    CHECK(OWN_CALL(cuStreamWaitValue32_v2, "cuStreamWaitValue32")(
              nullptr, reinterpret_cast<CUdeviceptr>(const_cast<int*>(word)), 1, kEqual) == 0);
    CHECK(OWN_CALL(cuMemsetD32Async, "cuMemsetD32Async")(place, 5, 1, nullptr) == 0);
    CHECK(query(nullptr) == 600);
    CHECK(cuStreamQuery(reinterpret_cast<CUstream>(2)) == 600);  // by its name
    std::thread([&] {
      CHECK(cuCtxSetCurrent(gpu.context) == 0);
      CHECK(query(nullptr) == 0);
      CHECK(OWN_CALL(cuMemsetD32_v2, "cuMemsetD32")(place + 4, 6, 1) == 0);
      int number = 0;
      CHECK(OWN_CALL(cuMemcpyDtoH_v2, "cuMemcpyDtoH")(&number, place + 4, 4) == 0);
      CHECK(number == 6);
      CHECK(cuStreamQuery(nullptr) == 600);  // the context's one waits for every thread's
    }).join();
    *word = 1;
    CHECK(OWN_CALL(cuStreamSynchronize, "cuStreamSynchronize")(nullptr) == 0);
    CHECK(number_at(place) == 5);
  });
}

TEST_CASE("the own default stream can be recorded, the context's cannot") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUdeviceptr place = allocate(4);
    cuda::Graph* graph = nullptr;
    cuda::GraphExec* executable = nullptr;
    CHECK(DRIVER_CALL(cuStreamBeginCapture_v2, "cuStreamBeginCapture")(nullptr, 0) == 900);
    CHECK(OWN_CALL(cuStreamBeginCapture_v2, "cuStreamBeginCapture")(nullptr, 0) == 0);
    CHECK(OWN_CALL(cuMemsetD32Async, "cuMemsetD32Async")(place, 3, 1, nullptr) == 0);
    CHECK(OWN_CALL(cuStreamEndCapture, "cuStreamEndCapture")(nullptr, &graph) == 0);
    CHECK(OWN_CALL(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")(&executable, graph, 0) == 0);
    CHECK(OWN_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, nullptr) == 0);
    CHECK(OWN_CALL(cuStreamSynchronize, "cuStreamSynchronize")(nullptr) == 0);
    CHECK(number_at(place) == 3);
  });
}

TEST_CASE("cuGetProcAddress gives the calls of either kind, as it is asked; the runtime has both by name") {
  run_gpus({}, [] {
    using Copy = decltype(cuda::cuMemcpyHtoD_v2);
    Copy* const plain = find_entry<Copy>("cuMemcpyHtoD", 13000);
    CHECK((find_entry<Copy>("cuMemcpyHtoD", 13000, kLegacy) == plain));
    CHECK((find_entry<Copy>("cuMemcpyHtoD", 13000, kPerThread) != plain));
    using Allocate = decltype(cuda::cuMemAlloc_v2);
    CHECK((find_entry<Allocate>("cuMemAlloc", 13000, kPerThread) == find_entry<Allocate>("cuMemAlloc", 13000)));
    void* place = nullptr;
    int seen = 0;
    CHECK(cudaMalloc(&place, 4) == 0);
    CHECK(cudaMemsetAsync_ptsz(place, 7, 4, nullptr) == 0);
    CHECK(cudaStreamSynchronize_ptsz(nullptr) == 0);
    CHECK(cudaMemcpy_ptds(&seen, place, 4, 2) == 0);
    CHECK(seen == 0x07070707);
  });
}

TEST_CASE("the runtime gives the driver's calls by their names, too") {
  run_gpus({}, [] {
    void *plain = nullptr, *own = nullptr, *none = &plain;
    int status = -1;
    CHECK(cudaGetDriverEntryPointByVersion("cuMemcpyHtoD", &plain, 12000, 0, &status) == 0);
    CHECK(status == 0);
    CHECK(plain == reinterpret_cast<void*>(&cuMemcpyHtoD_v2));
    CHECK(cudaGetDriverEntryPointByVersion_ptsz("cuMemcpyHtoD", &own, 12000, 0, nullptr) == 0);
    CHECK(own ==
          reinterpret_cast<void*>(find_entry<decltype(cuda::cuMemcpyHtoD_v2)>("cuMemcpyHtoD", 12000, kPerThread)));
    CHECK(cudaGetDriverEntryPointByVersion("cuNothing", &none, 12000, 0, &status) == 0);
    CHECK(none == nullptr);
    CHECK(status == 1);
    CHECK(cudaGetDriverEntryPointByVersion("cuInit", &none, 14000, 0, &status) == 1);
  });
}

}  // namespace per_thread_test
