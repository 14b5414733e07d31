// Calls that programs make beside their kernels: linking, peers, hints of streams, ways to make a context.
#include <cstring>
#include <string>

#include "tests/cuda/gpus.h"

namespace calls_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

extern "C" {
CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, cuda::Link** link);
CUresult cuLinkAddData_v2(cuda::Link* link, int type, void* data, std::size_t size, const char* name, unsigned count,
                          int* options, void** values);
CUresult cuLinkComplete(cuda::Link* link, void** image, std::size_t* size);
CUresult cuLinkDestroy(cuda::Link* link);
CUresult cuCtxCreate_v4(CUcontext* context, void* parameters, unsigned flags, CUdevice device);
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device);
CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice device, CUdevice peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaStreamSetAttribute(CUstream stream, int id, const void* value);
cudaError_t cudaStreamGetAttribute(CUstream stream, int id, void* value);
cudaError_t cudaGraphCreate(cuda::Graph** graph, unsigned flags);
cudaError_t cudaGraphAddMemAllocNode(cuda::GraphNode** node, cuda::Graph* graph, cuda::GraphNode* const* before,
                                     std::size_t count, cuda::cudaMemAllocNodeParams* parameters);
cudaError_t cudaGraphAddMemFreeNode(cuda::GraphNode** node, cuda::Graph* graph, cuda::GraphNode* const* before,
                                    std::size_t count, void* address);
cudaError_t cudaGraphNodeGetType(cuda::GraphNode* node, int* type);
cudaError_t cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value);
cudaError_t cudaDeviceGraphMemTrim(int device);
}

TEST_CASE("one text of PTX is linked, and what comes out is an image; a broken one and a second one are not") {
  const std::string log = run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kPtx = 1;
    std::string text = kImage, broken = ".version 7.0\n.target sm_70\n.address_size 64\nnonsense\n";
    cuda::Link* link = nullptr;
    void* image = nullptr;
    std::size_t size = 0;
    CHECK(calls_test::cuLinkCreate_v2(0, nullptr, nullptr, &link) == 0);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, broken.data(), broken.size() + 1, "broken", 0, nullptr, nullptr) ==
          218);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, text.data(), text.size() + 1, "text", 0, nullptr, nullptr) == 0);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, text.data(), text.size() + 1, "text", 0, nullptr, nullptr) == 801);
    CHECK(calls_test::cuLinkComplete(link, &image, &size) == 0);
    CHECK(size == text.size() + 1);
    CHECK(find_function(static_cast<const char*>(image), "empty") != nullptr);
    CHECK(calls_test::cuLinkComplete(link, &image, &size) == 400);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, text.data(), text.size() + 1, "text", 0, nullptr, nullptr) == 1);
    CHECK(calls_test::cuLinkDestroy(link) == 0);
    CHECK(calls_test::cuLinkDestroy(link) == 400);
    CHECK(calls_test::cuLinkCreate_v2(0, nullptr, nullptr, &link) == 0);
    CHECK(calls_test::cuLinkComplete(link, &image, &size) == 0);  // of nothing: an image without kernels
    CUmodule module = nullptr;
    CHECK(cuModuleLoadData(&module, image) == 0);
  });
  CHECK(log.find("broken:4") != std::string::npos);
}

TEST_CASE("a context is made with parameters that ask for nothing; those that ask for something are refused") {
  run_gpus({}, [] {
    CHECK(cuInit(0) == 0);
    cuda::CUctxCreateParams parameters{};
    CUcontext context = nullptr;
    CHECK(calls_test::cuCtxCreate_v4(&context, &parameters, 0, 0) == 0);
    parameters.affinity_count = 1;
    CHECK(calls_test::cuCtxCreate_v4(&context, &parameters, 0, 0) == 801);
    int major = 0, minor = -1;
    CHECK(cuDeviceComputeCapability(&major, &minor, 0) == 0);
    CHECK(major == 9);
    CHECK(minor == 0);
  });
}

TEST_CASE("two devices have no path to one another, in both directions") {
  const std::string log = run_gpus({.gpus = 2}, [] {
    const Gpu gpu;
    for (const int attribute : {1, 2, 3, 4}) {
      int value = 5;
      CHECK(cuDeviceGetP2PAttribute(&value, attribute, 0, 1) == 0);
      CHECK(value == 0);
    }
    int value = 0;
    CHECK(cuDeviceGetP2PAttribute(&value, 1, 0, 0) == 101);
    CHECK(cuDeviceGetP2PAttribute(&value, 99, 0, 1) == 1);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == 217);
    CHECK(cudaDeviceDisablePeerAccess(1) == 705);
    CHECK(cudaDeviceEnablePeerAccess(7, 0) == 101);
  });
  CHECK(log.find("device 7 does not exist: error 101") != std::string::npos);
}

TEST_CASE("a stream remembers its hints") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kAccessPolicy = 1, kUnknown = 77;
    const CUstream stream = make_stream();
    char policy[64]{}, found[64]{}, nonsense[64];
    std::memset(nonsense, 0x77, sizeof nonsense);
    std::memset(found, 7, sizeof found);
    CHECK(cudaStreamGetAttribute(stream, kAccessPolicy, found) == 0);
    CHECK(std::memcmp(policy, found, sizeof found) == 0);
    CHECK(cudaStreamSetAttribute(stream, kAccessPolicy, nonsense) == 1);
    policy[8] = 64;  // of so many bytes
    CHECK(cudaStreamSetAttribute(stream, kAccessPolicy, policy) == 0);
    CHECK(cudaStreamGetAttribute(stream, kAccessPolicy, found) == 0);
    CHECK(std::memcmp(policy, found, sizeof found) == 0);
    CHECK(cudaStreamSetAttribute(stream, kUnknown, policy) == 1);
    CHECK(cudaStreamGetAttribute(stream, kUnknown, found) == 1);
    constexpr int kSynchronization = 3, kBlocking = 4;
    const int blocking = kBlocking, none = 5;
    std::memcpy(policy, &blocking, sizeof blocking);
    CHECK(cudaStreamSetAttribute(stream, kSynchronization, policy) == 0);
    std::memcpy(policy, &none, sizeof none);
    CHECK(cudaStreamSetAttribute(stream, kSynchronization, policy) == 1);
    CHECK(cudaStreamGetAttribute(stream, kSynchronization, found) == 0);
    CHECK(std::memcmp(found, &blocking, sizeof blocking) == 0);
  });
}

TEST_CASE("memory that a graph's nodes give has one place for all launches, recorded or added by hand") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    CUdeviceptr place = 0;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    const CUdeviceptr kept = allocate(4), plain = allocate(4);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuMemAllocAsync(&place, 4, stream) == 0);
    CHECK(cuMemsetD32Async(place, 41, 1, stream) == 0);
    CHECK(cuMemcpyDtoDAsync_v2(kept, place, 4, stream) == 0);
    CHECK(cuMemFreeAsync(place, stream) == 0);
    CHECK(cuMemFreeAsync(plain, stream) == 1);  // no graph gave it
    CHECK(cuStreamEndCapture(stream, &graph) == 0);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    for (int launch = 0; launch < 2; ++launch) {
      CHECK(cuMemsetD32_v2(kept, 0, 1) == 0);
      CHECK(cuGraphLaunch(executable, stream) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      CHECK(number_at(kept) == 41);
    }
    CHECK(cuMemFreeAsync(place, stream) == 1);  // the graph has freed it
    CUgraphExec again = nullptr;
    CHECK(cuGraphInstantiateWithFlags(&again, graph, 0) == 801);  // once at a time

    cuda::Graph* by_hand = nullptr;
    cuda::GraphNode *begins = nullptr, *ends = nullptr;
    cuda::cudaMemAllocNodeParams parameters{};
    parameters.pool.location = {1, 0};
    parameters.bytes = 64;
    CHECK(calls_test::cudaGraphCreate(&by_hand, 0) == 0);
    CHECK(calls_test::cudaGraphAddMemAllocNode(&begins, by_hand, nullptr, 0, &parameters) == 1);
    parameters.pool.type = 1;
    CHECK(calls_test::cudaGraphAddMemAllocNode(&begins, by_hand, nullptr, 0, &parameters) == 0);
    CHECK(calls_test::cudaGraphAddMemFreeNode(&ends, by_hand, &begins, 1, parameters.address) == 0);
    CHECK(calls_test::cudaGraphAddMemFreeNode(&ends, by_hand, &begins, 1, reinterpret_cast<void*>(plain)) == 1);
    int type = 0;
    CHECK(calls_test::cudaGraphNodeGetType(begins, &type) == 0);
    CHECK(type == 10);
  });
}

TEST_CASE("memory that a graph gives and does not free is the program's between launches") {
  run_gpus({}, [] {
    constexpr unsigned kFreeOnLaunch = 1;
    const Gpu gpu;
    const CUstream stream = make_stream();
    const auto used = [] {
      std::uint64_t bytes = 1;
      CHECK(cudaDeviceGetGraphMemAttribute(0, 0, &bytes) == 0);
      return bytes;
    };
    const auto graph_of_one = [](cuda::cudaMemAllocNodeParams& parameters) {
      cuda::Graph* graph = nullptr;
      cuda::GraphNode* node = nullptr;
      CHECK(calls_test::cudaGraphCreate(&graph, 0) == 0);
      CHECK(calls_test::cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters) == 0);
      return reinterpret_cast<CUgraph>(graph);
    };
    cuda::cudaMemAllocNodeParams parameters{};
    parameters.pool.type = 1;
    parameters.pool.location = {1, 0};
    parameters.bytes = 64;
    CUgraphExec executable = nullptr;
    CHECK(cuGraphInstantiateWithFlags(&executable, graph_of_one(parameters), 0) == 0);
    const auto place = reinterpret_cast<CUdeviceptr>(parameters.address);
    CHECK(used() == 0);
    CHECK(cuMemFreeAsync(place, stream) == 1);  // it has not been given
    CHECK(cuGraphLaunch(executable, stream) == 0);
    CHECK(used() == 32 * meshbed::kMiB);
    CHECK(cuMemsetD32Async(place, 1, 16, stream) == 0);
    CHECK(cuGraphLaunch(executable, stream) == 1);
    CHECK(cuMemFreeAsync(place, stream) == 0);
    CHECK(cuMemFreeAsync(place, stream) == 1);
    CHECK(cuGraphLaunch(executable, stream) == 0);
    CHECK(cuMemFree_v2(place) == 0);
    CHECK(cuMemFree_v2(place) == 1);
    CHECK(cuGraphExecDestroy(executable) == 0);
    CHECK(cudaDeviceGraphMemTrim(0) == 0);
    CHECK(used() == 0);

    CHECK(cuGraphInstantiateWithFlags(&executable, graph_of_one(parameters), kFreeOnLaunch) == 0);
    for (int launch = 0; launch < 2; ++launch) CHECK(cuGraphLaunch(executable, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
  });
}

TEST_CASE("a stream that joined a recording may be destroyed before the recording ends; its origin may not") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUdeviceptr place = allocate(4);
    const CUstream first = make_stream(), second = make_stream();
    const CUevent fork = make_event(), join = make_event();
    CHECK(cuStreamBeginCapture_v2(first, 0) == 0);
    CHECK(cuEventRecord(fork, first) == 0);
    CHECK(cuStreamWaitEvent(second, fork, 0) == 0);
    CHECK(cuMemsetD32Async(place, 5, 1, second) == 0);
    CHECK(cuEventRecord(join, second) == 0);
    CHECK(cuStreamWaitEvent(first, join, 0) == 0);
    CHECK(cuStreamDestroy_v2(second) == 0);
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CHECK(cuStreamEndCapture(first, &graph) == 0);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    CHECK(cuGraphLaunch(executable, first) == 0);
    CHECK(cuStreamSynchronize(first) == 0);
    CHECK(number_at(place) == 5);
  });
}

}  // namespace calls_test
