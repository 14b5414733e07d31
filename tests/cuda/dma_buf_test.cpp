// Device memory as dma-bufs, which the adapters of a simulated node register.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sim/host/device_memory.h"
#include "tests/cuda/ranks.h"

namespace dma_buf_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;
namespace sim = meshbed::sim;

namespace {

constexpr int kDmaBuf = 1;

CUresult get(int* descriptor, CUdeviceptr address, std::size_t size, int type = kDmaBuf, unsigned long long flags = 0) {
  return DRIVER_CALL(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange")(descriptor, address, size, type,
                                                                                     flags);
}

/// The drop-in's verb.
template <typename Verb>
Verb verb(const char* name) {
  void* library = ::dlopen(MESHBED_BINARY_DIR "/sim-lib/libibverbs.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  return reinterpret_cast<Verb>(::dlsym(library, name));
}
#define VERB(name) verb<decltype(&::name)>(#name)

}  // namespace

TEST_CASE("whole pages of a GPU's memory become a dma-buf, which an adapter registers; nothing else does") {
  run_gpu_ranks(
      {{.node = 0, .body = [] {
          const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
          int value = 0, descriptor = -1;
          CHECK(cuDeviceGetAttribute(&value, 124, 0) == 0);
          CHECK(value == 1);
          const CUdeviceptr memory = allocate(4 * page);
          CHECK(cuMemsetD32_v2(memory, 1, page) == 0);
          CHECK(cuCtxSynchronize() == 0);  // it does not wait for what it fills
          CHECK(get(&descriptor, memory + 1, page) == 1);
          CHECK(get(&descriptor, memory, page + 1) == 1);
          CHECK(get(&descriptor, memory, 0) == 1);
          CHECK(get(&descriptor, memory, 5 * page) == 1);
          CHECK(get(&descriptor, memory, page, 2) == 1);
          CHECK(get(&descriptor, memory, page, kDmaBuf, 2) == 1);
          CHECK(get(&descriptor, 0, page) == 1);
          CHECK(get(&descriptor, reinterpret_cast<CUdeviceptr>(allocate_pinned(page)), page) == 801);
          CHECK(get(&descriptor, memory + page, 2 * page, kDmaBuf, 1) == 0);

          sim::DmaBuf found;
          CHECK(sim::find_dma_buf(*sim::World::current_process(), descriptor, found) == 0);
          CHECK(found.offset_bytes == page);
          CHECK(found.size_bytes == 2 * page);
          const int written = 41;
          std::memcpy(found.memory->bytes + page, &written, sizeof(written));  // as an adapter does
          CHECK(number_at(memory + page) == 41);

          ibv_device** devices = VERB(ibv_get_device_list)(nullptr);
          CHECK(devices != nullptr);
          ibv_context* context = VERB(ibv_open_device)(devices[0]);
          CHECK(context != nullptr);
          ibv_pd* pd = VERB(ibv_alloc_pd)(context);
          ibv_mr* mr = VERB(ibv_reg_dmabuf_mr)(pd, 0, 2 * page, memory + page, descriptor, IBV_ACCESS_LOCAL_WRITE);
          CHECK(mr != nullptr);
          errno = 0;
          CHECK(VERB(ibv_reg_dmabuf_mr)(pd, 0, 3 * page, memory + page, descriptor, IBV_ACCESS_LOCAL_WRITE) == nullptr);
          CHECK(errno == EINVAL);
          CHECK(VERB(ibv_dereg_mr)(mr) == 0);
          CHECK(VERB(ibv_dealloc_pd)(pd) == 0);
        }}});
}

TEST_CASE("memory that is mapped apart from its addresses becomes a dma-buf, one mapping at a time") {
  run_gpu_ranks({{.node = 0, .body = [] {
                    constexpr std::size_t kGranularity = std::size_t{2} << 20U;
                    const CUdeviceptr place = map_twice(kGranularity);
                    int descriptor = -1;
                    CHECK(get(&descriptor, place, 2 * kGranularity) == 801);
                    CHECK(get(&descriptor, place + kGranularity, kGranularity) == 0);
                    sim::DmaBuf found;
                    CHECK(sim::find_dma_buf(*sim::World::current_process(), descriptor, found) == 0);
                    const int written = 7;
                    std::memcpy(found.memory->bytes, &written, sizeof(written));
                    CHECK(number_at(place + kGranularity) == 7);
                  }}});
}

}  // namespace dma_buf_test
