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
    CHECK(calls_test::cuLinkComplete(link, &image, &size) == 1);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, broken.data(), broken.size() + 1, "broken", 0, nullptr, nullptr) ==
          218);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, text.data(), text.size() + 1, "text", 0, nullptr, nullptr) == 0);
    CHECK(calls_test::cuLinkAddData_v2(link, kPtx, text.data(), text.size() + 1, "text", 0, nullptr, nullptr) == 801);
    CHECK(calls_test::cuLinkComplete(link, &image, &size) == 0);
    CHECK(size == text.size() + 1);
    CHECK(find_function(static_cast<const char*>(image), "nobody") != nullptr);
    CHECK(calls_test::cuLinkDestroy(link) == 0);
    CHECK(calls_test::cuLinkDestroy(link) == 400);
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

TEST_CASE("two devices have no path to one another, whoever asks") {
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
  CHECK(log.empty());
}

TEST_CASE("a stream remembers its hints") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kAccessPolicy = 1, kUnknown = 77;
    const CUstream stream = make_stream();
    char policy[64], found[64]{};
    std::memset(policy, 7, sizeof policy);
    CHECK(cudaStreamGetAttribute(stream, kAccessPolicy, found) == 801);
    CHECK(cudaStreamSetAttribute(stream, kAccessPolicy, policy) == 0);
    CHECK(cudaStreamGetAttribute(stream, kAccessPolicy, found) == 0);
    CHECK(std::memcmp(policy, found, sizeof found) == 0);
    CHECK(cudaStreamSetAttribute(stream, kUnknown, policy) == 801);
  });
}

}  // namespace calls_test
