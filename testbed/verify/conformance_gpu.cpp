// Conformance: GPU memory, as dma-buf, and the flush after which the GPU sees what was received. The simulated world
// has such memory where its scenario says so (gpu_direct), with adapters whose writes come there later than their
// completions; elsewhere only the refusals are looked at.

#include <fmt/format.h>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"

namespace meshbed::testbed {
namespace {

constexpr std::uint64_t kGpuBytes = 200'000;

/// nullptr, and the case is not looked at: no GPU memory here that the plugin offers to register as dma-buf.
std::unique_ptr<GpuMemory> offered_memory(CaseRank& rank, const std::string& besides = "") {
  if ((rank.properties(0).pointer_support & nccl::kPtrDmaBuf) == 0) {
    rank.not_looked_at("ptrSupport of device 0 has no DMABUF" + besides);
    return nullptr;
  }
  auto memory = rank.host().gpu_memory(kGpuBytes);
  if (memory == nullptr) rank.not_looked_at("there is no GPU memory here" + besides);
  return memory;
}

void* register_gpu_memory(CaseRank& rank, void* comm, const GpuMemory& memory) {
  void* handle = nullptr;
  const std::uint64_t warns = coll::warn_count();
  rank.succeeded(rank.net().register_dma_buf(comm, memory.address(), kGpuBytes, 0, memory.descriptor(), &handle),
                 "regMrDmaBuf", warns);
  rank.require(handle != nullptr, "regMrDmaBuf succeeds with a handle");
  return handle;
}

void dma_buf(CaseRank& rank) {
  const CasePair pair = rank.connect_both();
  CaseBuffer host(kGpuBytes);
  void* handle = nullptr;
  // Whether DMABUF is offered or not: there is no descriptor -1.
  rank.require(rank.net().register_dma_buf(pair.receive, host.data(), kGpuBytes, 0, -1, &handle) != nccl::kNcclSuccess,
               "regMrDmaBuf without a dma-buf is an error");
  if (const auto memory = offered_memory(rank, "; only that -1 is refused as a descriptor was tried")) {
    for (void* comm : {pair.send, pair.receive}) {
      rank.deregister_memory(comm, register_gpu_memory(rank, comm, *memory));
    }
  }
  rank.exchange(pair, kGpuBytes, 1);  // host memory goes on as before
  rank.meet("exchanged");
  rank.close(pair);
}

void gpu_flush(CaseRank& rank) {
  const CasePair pair = rank.connect_both();
  const auto memory = rank.first() ? nullptr : offered_memory(rank);
  if (!rank.first()) rank.publish("memory", memory != nullptr ? "there" : "none");
  const bool flushed = rank.first() ? rank.await("memory") == "there" : memory != nullptr;
  if (!flushed) return rank.close(pair);
  void* handle = rank.first() ? nullptr : register_gpu_memory(rank, pair.receive, *memory);
  for (std::uint64_t message = 0; message < 20; ++message) {
    const std::uint64_t size_bytes = message % 2 == 0 ? kGpuBytes : 16;
    if (rank.first()) {
      rank.send_one(pair.send, size_bytes, message);
      continue;
    }
    coll::ReceivePart part{.data = memory->address(), .size_bytes = kGpuBytes, .tag = 0, .handle = handle};
    part.size_bytes = rank.finish(rank.receive_group(pair.receive, {part}));
    rank.require(part.size_bytes == size_bytes, "test says how much came into GPU memory");
    void* request = nullptr;
    const std::uint64_t warns = coll::warn_count();
    rank.succeeded(rank.net().flush(pair.receive, {&part, 1}, &request), "iflush", warns);
    if (request != nullptr) rank.finish(request);
    std::uint64_t at = 0;
    while (at < size_bytes && memory->seen(at) == CaseBuffer::pattern(message, at)) ++at;
    rank.require(at == size_bytes,
                 fmt::format("after the flush the GPU sees what was received: byte {} of message {} is an old one", at,
                             message));
  }
  if (handle != nullptr) rank.deregister_memory(pair.receive, handle);
  rank.meet("received");
  rank.close(pair);
}

}  // namespace

std::vector<ConformanceCase> conformance_gpu_cases() {
  return {
      {"dma-buf", "regMrDmaBuf takes a dma-buf where ptrSupport has DMABUF, and nothing that is none", dma_buf},
      {"gpu-flush", "when the request of iflush is done the GPU sees what was received", gpu_flush},
  };
}

}  // namespace meshbed::testbed
