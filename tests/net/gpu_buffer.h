#pragma once
// GPU memory for ranks of tests, registered with the real library, and what NCCL does with it.

#include <algorithm>
#include <memory>

#include "sim/host/device_memory.h"
#include "sim/host/file/descriptors.h"
#include "tests/net/mesh_ranks.h"

namespace meshbed::test {

inline models::Cluster with_dma_buf(models::Cluster cluster) {
  for (models::Node& node : cluster.nodes) {
    for (models::Nic& nic : node.nics) nic.dma_buf = true;
  }
  return cluster;
}

inline models::Cluster with_peer_memory(models::Cluster cluster) {
  for (models::Node& node : cluster.nodes) node.peer_memory = true;
  return cluster;
}

enum class RegisteredBy { kDmaBuf, kAddress };

/// Registered GPU memory.
class GpuBuffer {
 public:
  GpuBuffer(MeshRank& rank, void* comm, std::size_t size, RegisteredBy way = RegisteredBy::kDmaBuf)
      : rank_(rank), comm_(comm) {
    buffer_ = sim::allocate_device_memory(*sim::World::current_process(), size);
    if (way == RegisteredBy::kAddress) {
      CHECK(rank.net().regMr(comm, data(), size, nccl::kPtrCuda, &memory) == 0);
      return;
    }
    const int descriptor = sim::export_dma_buf({.memory = buffer_, .size_bytes = buffer_->size_bytes});
    CHECK(rank.net().regMrDmaBuf(comm, data(), size, nccl::kPtrCuda, 0, descriptor, &memory) == 0);
    sim::close_descriptor(*sim::World::current_process(), descriptor);  // NCCL does so as well
  }
  ~GpuBuffer() {
    if (memory != nullptr) CHECK(rank_.net().deregMr(comm_, memory) == 0);
    sim::free_device_memory(*buffer_);
  }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  void* data() const { return reinterpret_cast<void*>(buffer_->address); }
  // --- by the GPU ---
  void fill(std::uint32_t seed) {
    for (std::size_t at = 0; at < buffer_->size_bytes; ++at) byte(at) = MeshRank::pattern(at, seed);
  }
  void clear() { std::fill_n(buffer_->bytes, buffer_->size_bytes, '\xcc'); }
  /// Bytes that are not of the message of `size` bytes which came at `begin`.
  std::size_t wrong(std::size_t size, std::uint32_t seed, std::size_t begin = 0) const {
    std::size_t count = 0;
    for (std::size_t at = 0; at < size; ++at) {
      count += static_cast<std::uint8_t>(buffer_->bytes[begin + at]) != MeshRank::pattern(at, seed) ? 1 : 0;
    }
    return count;
  }

  void* memory = nullptr;

 private:
  std::uint8_t& byte(std::size_t at) { return reinterpret_cast<std::uint8_t&>(buffer_->bytes[at]); }

  MeshRank& rank_;
  void* comm_;
  std::shared_ptr<sim::DeviceBuffer> buffer_;
};

inline void* send(MeshRank& rank, void* comm, const GpuBuffer& buffer, std::size_t size, int tag = 0) {
  void* request = nullptr;
  while (request == nullptr) {
    const int code = rank.net().isend(comm, buffer.data(), size, tag, buffer.memory, nullptr, &request);
    CHECK(code == 0);
    if (code != 0) break;
  }
  return request;
}

inline void* receive(MeshRank& rank, void* comm, const GpuBuffer& buffer, std::size_t room) {
  void* data = buffer.data();
  void* memory = buffer.memory;
  void* request = nullptr;
  int tag = 0;
  while (request == nullptr) {
    const int code = rank.net().irecv(comm, 1, &data, &room, &tag, &memory, nullptr, &request);
    CHECK(code == 0);
    if (code != 0) break;
  }
  return request;
}

/// nullptr: nothing to wait for.
inline void* begin_flush(MeshRank& rank, void* comm, const GpuBuffer& buffer, int size) {
  void* data = buffer.data();
  void* memory = buffer.memory;
  void* request = nullptr;
  CHECK(rank.net().iflush(comm, 1, &data, &size, &memory, &request) == 0);
  return request;
}

inline void flush(MeshRank& rank, void* comm, const GpuBuffer& buffer, int size) {
  if (void* request = begin_flush(rank, comm, buffer, size)) CHECK(rank.finish(request) >= 0);
}

}  // namespace meshbed::test
