// Devices, contexts, errors.
#include <string>
#include <thread>

#include "tests/cuda/gpus.h"

using namespace meshbed::test;

namespace device_test {

TEST_CASE("before cuInit every call says that it was not called") {
  run_gpus({}, [] {
    int count = -1;
    CUcontext context = nullptr;
    CHECK(cuDeviceGetCount(&count) == 3);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 3);
    CHECK(count == -1);
    CHECK(cuInit(1) == 1);
    CHECK(cuInit(0) == 0);
    CHECK(cuDeviceGetCount(&count) == 0);
    CHECK(count == 1);
  });
}

TEST_CASE("outside a simulation, and on a node without GPUs, there is no device") {
  CHECK(cuInit(0) == 100);
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == 100);
  run_gpus({.gpus = 0}, [] {
    CHECK(cuInit(0) == 100);
    int devices = -1;
    CHECK(cudaGetDeviceCount(&devices) == 100);
    CHECK(devices == 0);
  });
}

TEST_CASE("CUDA_VISIBLE_DEVICES chooses and orders, up to the first entry that is no device") {
  const struct {
    const char* list;
    int count;
    int first_bus;
  } rows[] = {{"2,0", 2, 0x12}, {"1", 1, 0x11}, {"0,9,1", 1, 0x10}, {"3,3", 1, 0x13}, {"x", 0, 0}, {"1,x,0", 1, 0x11}};
  for (const auto& row : rows) {
    CAPTURE(row.list);
    run_gpus({.gpus = 4, .visible = row.list}, [row] {
      CHECK(cuInit(0) == (row.count > 0 ? 0 : 100));
      int count = 0;
      if (row.count > 0) CHECK(cuDeviceGetCount(&count) == 0);
      CHECK(count == row.count);
      int bus = 0;
      if (row.count > 0) CHECK(cuDeviceGetAttribute(&bus, 33, 0) == 0);
      CHECK(bus == row.first_bus);
    });
  }
}

TEST_CASE("a device's name says that it is simulated, and its attributes are its model's") {
  run_gpus({.model = "GB10"}, [] {
    const Gpu gpu;
    char name[64] = "";
    CHECK(cuDeviceGetName(name, sizeof(name), 0) == 0);
    CHECK(std::string(name) == "Meshbed simulated GB10");
    int value = 0;
    CHECK(cuDeviceGetAttribute(&value, 16, 0) == 0);
    CHECK(value == 48);
    CHECK(cuDeviceGetAttribute(&value, 18, 0) == 0);
    CHECK(value == 1);                                    // integrated
    for (const int no_adapter_reaches_it : {116, 124}) {  // GPUDirect RDMA, dma-buf
      CHECK(cuDeviceGetAttribute(&value, no_adapter_reaches_it, 0) == 0);
      CHECK(value == 0);
    }
    int handle = -1;
    CHECK(cuMemGetHandleForAddressRange(&handle, allocate(4096), 4096, 1, 0) == 801);
    CHECK(cuDeviceGetAttribute(&value, 0, 0) == 1);
    CHECK(cuDeviceGetAttribute(&value, 148, 0) == 1);
    CHECK(cuDeviceGetAttribute(&value, 16, 1) == 101);
    CHECK(cuDeviceGetAttribute(nullptr, 16, 0) == 1);
  });
}

TEST_CASE("without a context a call says so; push, pop and set make a stack") {
  run_gpus({}, [] {
    CHECK(cuInit(0) == 0);
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    CHECK(cuMemAlloc_v2(&address, 4) == 201);
    CHECK(cuCtxPopCurrent_v2(&context) == 201);
    CUcontext first = nullptr, second = nullptr;
    CHECK(cuCtxCreate_v2(&first, 0, 0) == 0);
    CHECK(cuCtxCreate_v2(&second, 0, 0) == 0);
    CHECK(cuCtxGetCurrent(&context) == 0);
    CHECK(context == second);
    CHECK(cuCtxPopCurrent_v2(&context) == 0);
    CHECK(context == second);
    CHECK(cuCtxGetCurrent(&context) == 0);
    CHECK(context == first);
    CHECK(cuCtxSetCurrent(second) == 0);  // in the place of the first
    CHECK(cuCtxPopCurrent_v2(&context) == 0);
    CHECK(cuCtxPopCurrent_v2(&context) == 201);
    CHECK(cuCtxDestroy_v2(second) == 0);
    CHECK(cuCtxPushCurrent_v2(second) == 201);
    CHECK(cuCtxDestroy_v2(second) == 201);
    CHECK(cuCtxDestroy_v2(first) == 0);
  });
}

TEST_CASE("the primary context is one a device, counted, and gone with its last release") {
  run_gpus({}, [] {
    CHECK(cuInit(0) == 0);
    CHECK(cuDevicePrimaryCtxRelease_v2(0) == 201);
    CUcontext first = nullptr, second = nullptr;
    CHECK(cuDevicePrimaryCtxRetain(&first, 0) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&second, 0) == 0);
    CHECK(first == second);
    CHECK(cuCtxDestroy_v2(first) == 201);
    CHECK(cuCtxPushCurrent_v2(first) == 0);
    allocate(1000);
    if (!genuine_gpu()) CHECK(counters().allocated_bytes == 1000);
    unsigned flags = 0;
    int active = 0;
    CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0);
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0);
    CHECK(active == 1);
    CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0);
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0);
    CHECK(active == 0);
    if (!genuine_gpu()) CHECK(counters().allocated_bytes == 0);
    CHECK(cuDevicePrimaryCtxRetain(&first, 1) == 101);
  });
}

TEST_CASE("a thread begins with device 0 and without an error, whatever a thread that has ended had") {
  run_gpus({.gpus = 2}, [] {
    for (int thread = 0; thread < 2; ++thread) {
      std::thread([] {
        int device = -1;
        CHECK(cudaGetDevice(&device) == 0);
        CHECK(device == 0);
        CHECK(cudaPeekAtLastError() == 0);
        CHECK(cudaSetDevice(1) == 0);
        CHECK(cudaSetDevice(7) == 101);
      }).join();
    }
  });
}

TEST_CASE("error codes have the names of both interfaces") {
  run_gpus({}, [] {
    const char* text = nullptr;
    CHECK(cuGetErrorName(801, &text) == 0);
    CHECK(std::string(text) == "CUDA_ERROR_NOT_SUPPORTED");
    CHECK(cuGetErrorString(0, &text) == 0);
    CHECK(std::string(text) == "no error");
    CHECK(cuGetErrorName(98, &text) == 1);  // the runtime's alone
    CHECK(text == nullptr);
    CHECK(std::string(cudaGetErrorName(98)) == "cudaErrorInvalidDeviceFunction");
    CHECK(std::string(cudaGetErrorName(12345)) == "unrecognized error code");
    // The words of NVIDIA's libcudart.so 13.0 and driver.
    CHECK(cuGetErrorString(3, &text) == 0);
    CHECK(std::string(text) == "initialization error");
    CHECK(cuGetErrorString(202, &text) == 0);
    CHECK(std::string(text) == "context already current");
    CHECK(cuGetErrorString(700, &text) == 0);
    CHECK(std::string(text) == "an illegal memory access was encountered");
    CHECK(std::string(cudaGetErrorString(98)) == "invalid device function");
    CHECK(std::string(cudaGetErrorString(400)) == "invalid resource handle");
    CHECK(std::string(cudaGetErrorString(719)) == "unspecified launch failure");
  });
}

TEST_CASE("what is not implemented says so once by its name, and tables of a genuine driver are not there") {
  const std::string said = run_gpus({}, [] {
    const Gpu gpu;
    CHECK(cuMemcpy3DPeer(nullptr) == 801);
    CHECK(cuMemcpy3DPeer(nullptr) == 801);
    const void* table = &gpu;
    CHECK(cuGetExportTable(&table, "0123456789abcdef") == 801);
    CHECK(table == &gpu);
  });
  const std::string warning = "cuMemcpy3DPeer is not implemented in the simulated CUDA: CUDA_ERROR_NOT_SUPPORTED";
  const std::size_t first = said.find(warning);
  CHECK(first != std::string::npos);
  CHECK(said.find(warning, first + 1) == std::string::npos);
  CHECK(said.find("cuGetExportTable is not implemented") != std::string::npos);
}

TEST_CASE("cuGetProcAddress finds the newest version that its caller knows, and nothing that is not implemented") {
  run_gpus({}, [] {
    void* function = nullptr;
    int status = -1;
    CHECK(cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, &status) == 0);
    CHECK(function == reinterpret_cast<void*>(&cuMemAlloc_v2));
    CHECK(status == 0);
    CHECK(cuGetProcAddress_v2("cuCtxCreate", &function, 11030, 0, &status) == 0);
    CHECK(function == reinterpret_cast<void*>(&cuCtxCreate_v2));
    CHECK(cuGetProcAddress_v2("cuCtxCreate", &function, 12000, 0, &status) == 0);
    CHECK(function != reinterpret_cast<void*>(&cuCtxCreate_v2));
    CHECK(cuGetProcAddress_v2("cuMemAllocAsync", &function, 11010, 0, &status) == 0);
    CHECK(function == nullptr);
    CHECK(status == 2);  // CUDA 11.2's
    CHECK(cuGetProcAddress_v2("cuMemcpy3DPeer", &function, 13000, 0, &status) == 0);
    CHECK(function == nullptr);
    CHECK(status == 1);
    CHECK(cuGetProcAddress_v2("cuMemcpy3DPeer", &function, 13000, 0, nullptr) == 500);
    CHECK(cuGetProcAddress_v2("cuInit", &function, 14000, 0, &status) == 1);
  });
}

}  // namespace device_test
