#pragma once
// What driver_facts.cpp asks a CUDA driver with, and about: its calls by name, and one of everything that they take.
#include <dlfcn.h>

#include <cstddef>
#include <vector>

namespace driver_facts {

using Address = unsigned long long;
using Handle = void*;

inline void* driver = nullptr;

/// The driver's call of that name, with arguments of exactly the types that it takes.
template <typename... Arguments>
int cu(const char* name, Arguments... arguments) {
  void* const function = dlsym(driver, name);
  if (function == nullptr) return -1;
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

inline constexpr const char* kPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
.visible .entry spin(.param .u64 words, .param .u64 nanoseconds)
{
  .reg .pred %p<3>;
  .reg .b32 %r<3>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [words];
  ld.param.u64 %d2, [nanoseconds];
  mov.u64 %d3, %globaltimer;
  add.u64 %d2, %d2, %d3;
AGAIN:
  ld.volatile.global.u32 %r1, [%d1];
  mov.u32 %r2, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra SAY;
  mov.u64 %d3, %globaltimer;
  mov.u32 %r2, 2;
  setp.lt.u64 %p2, %d3, %d2;
  @%p2 bra AGAIN;
SAY:
  st.volatile.global.u32 [%d1+4], %r2;
  ret;
}
)";

struct FillNode {
  Address target;
  std::size_t pitch = 0;
  unsigned value = 0, element_bytes = 4;
  std::size_t width = 1, height = 1;
};

// cudaMemAllocNodeParams and its pool's properties, as cuda.h has them.
struct AllocNode {
  int type = 1, handles = 0, where = 1, device = 0;
  void* security = nullptr;
  std::size_t most = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
  const void* access = nullptr;
  std::size_t access_count = 0, bytes = 4096;
  Address address = 0;
};

struct Things {
  Handle context = nullptr, module = nullptr, empty = nullptr, spin = nullptr, fresh = nullptr;
  Handle stream = nullptr, other = nullptr;  // neither waits for the default stream
  Handle event = nullptr, graph = nullptr, executable = nullptr, spare = nullptr;
  Address memory = 0, freed = 0, managed = 0;
  void *pinned = nullptr, *spare_pinned = nullptr;
  std::vector<char> plain = std::vector<char>(1 << 20);
  std::vector<char> paged = std::vector<char>(1 << 16);

  Things() {
    cu("cuDevicePrimaryCtxRetain", &context, 0);
    cu("cuCtxSetCurrent", context);
    cu("cuModuleLoadData", &module, static_cast<const void*>(kPtx));
    cu("cuModuleGetFunction", &empty, module, "empty");
    cu("cuModuleGetFunction", &spin, module, "spin");
    cu("cuStreamCreate", &stream, 1U);
    cu("cuStreamCreate", &other, 1U);
    cu("cuEventCreate", &event, 0U);
    cu("cuMemAlloc_v2", &memory, std::size_t{1} << 20);
    cu("cuMemAllocManaged", &managed, std::size_t{4096}, 1U);
    cu("cuMemHostAlloc", &pinned, std::size_t{1} << 20, 0U);
    cu("cuGraphCreate", &graph, 0U);
    Handle node = nullptr;
    FillNode fill{.target = memory};
    cu("cuGraphAddMemsetNode", &node, graph, static_cast<const Handle*>(nullptr), std::size_t{0},
       static_cast<const FillNode*>(&fill), context);
    cu("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
    void* no_arguments = nullptr;
    // Both kernels are there, and have run: nothing is loaded later.
    cu("cuLaunchKernel", empty, 1U, 1U, 1U, 1U, 1U, 1U, 0U, other, static_cast<void**>(nullptr), &no_arguments);
    cu("cuGraphLaunch", executable, other);
    cu("cuEventRecord", event, other);
    cu("cuCtxSynchronize");
    start_spinning(0);
    let_go();
    cu("cuCtxSynchronize");
  }
  /// A kernel until let_go(), or until so much has passed by the GPU's clock.
  void start_spinning(unsigned long long nanoseconds) {
    words()[0] = 0;
    words()[1] = 0;
    void* at = pinned;
    void* arguments[] = {&at, &nanoseconds};
    cu("cuLaunchKernel", spin, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, static_cast<void**>(arguments),
       static_cast<void**>(nullptr));
  }
  void let_go() const { words()[0] = 1; }
  /// Whether the last one, which has ended, was not let go before its time was over.
  bool outlasted() const { return words()[1] == 2; }

 private:
  volatile unsigned* words() const { return static_cast<volatile unsigned*>(pinned); }
};

}  // namespace driver_facts
