// A kernel that stays on the GPU and has its chunks summed over all ranks: the host publishes slots, the kernel claims
// them, computes, requests an all-reduce from the host by a FIFO, waits for its end, and goes on. docs/own-kernel.md
// explains it. Needs NCCL (Meshbed's drop-in or NVIDIA's) and the launcher's variables RANK and WORLD_SIZE.
#include <cuda_runtime.h>
#include <nccl.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "meshbed/ring_device.cuh"

constexpr unsigned kSlots = 8, kChunkFloats = 4096, kOpcode = MESHBED_OPCODE_USER_FIRST;

struct Shared {  // pinned host memory; zero at the start
  uint32_t ring[kSlots * MESHBED_SLOT_WORDS];
  uint32_t control[MESHBED_CONTROL_WORDS_LEAST];
  uint64_t triggers[2 * 16], head, tail;
  uint32_t reduced[kSlots];  // by slot: how many all-reduces of it have ended
};

/// One block. Its first thread holds the slot; all threads compute.
__global__ void persistent(Shared* shared, float* chunks, float own, float scale) {
  __shared__ uint32_t slot, round, go_on;
  const meshbed_fifo fifo{shared->triggers, &shared->head, &shared->tail, 16};
  for (;;) {
    if (threadIdx.x == 0) {
      go_on = 0;
      while (go_on == 0 && !meshbed_is_shut_down(shared->control)) {
        for (uint32_t each = 0; each < kSlots && go_on == 0; ++each) {
          if (!meshbed_slot_claim(shared->ring, shared->control, each)) continue;
          slot = each;
          round = shared->ring[each * MESHBED_SLOT_WORDS + MESHBED_SLOT_ARGS];
          go_on = 1;
        }
      }
    }
    __syncthreads();
    if (go_on == 0) return;
    float* const chunk = chunks + slot * kChunkFloats;
    for (unsigned at = threadIdx.x; at < kChunkFloats; at += blockDim.x) chunk[at] = own + round + at % 7;
    __threadfence_system();  // what each thread wrote, before the first one's push
    __syncthreads();
    if (threadIdx.x == 0) {
      meshbed_fifo_push(fifo, meshbed_fifo_first(kChunkFloats * sizeof(float), slot * kChunkFloats * sizeof(float)),
                        meshbed_fifo_second(0, 0, 0, MESHBED_FIFO_DATA, slot));
      while (meshbed_acquire(&shared->reduced[slot]) != round) {
      }
    }
    __syncthreads();
    for (unsigned at = threadIdx.x; at < kChunkFloats; at += blockDim.x) chunk[at] *= scale;
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) meshbed_slot_complete(shared->ring, shared->control, slot, MESHBED_SLOT_DONE);
  }
}

#define CUDA(call)                                                                     \
  if (const cudaError_t error = (call); error != cudaSuccess) {                        \
    std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                \
    return 1;                                                                          \
  }
#define NCCL(call)                                                                     \
  if (const ncclResult_t error = (call); error != ncclSuccess) {                       \
    std::fprintf(stderr, "%s: %s\n", #call, ncclGetErrorString(error));                \
    return 1;                                                                          \
  }

static double now_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e6 * now.tv_sec + 1e-3 * now.tv_nsec;
}

int main() {
  const int rank = std::atoi(std::getenv("RANK")), ranks = std::atoi(std::getenv("WORLD_SIZE"));
  constexpr uint32_t kRounds = 4;
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t kernels, collectives;
  CUDA(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&collectives, cudaStreamNonBlocking));
  NCCL(ncclGetUniqueId(&id));  // with NCCL_COMM_ID set, the same on every rank
  NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  Shared* shared = nullptr;
  float* chunks = nullptr;
  CUDA(cudaMallocHost(reinterpret_cast<void**>(&shared), sizeof(Shared)));
  CUDA(cudaMalloc(reinterpret_cast<void**>(&chunks), kSlots * kChunkFloats * sizeof(float)));
  std::memset(shared, 0, sizeof(Shared));
  meshbed_control_init(shared->control, 1);
  // A warm-up: nothing is loaded or connected while the kernel holds the GPU.
  NCCL(ncclAllReduce(chunks, chunks, kChunkFloats, ncclFloat, ncclSum, comm, collectives));
  CUDA(cudaStreamSynchronize(collectives));

  persistent<<<1, 128, 0, kernels>>>(shared, chunks, static_cast<float>(rank), 1.0f / ranks);
  CUDA(cudaGetLastError());
  const meshbed_fifo fifo{shared->triggers, &shared->head, &shared->tail, 16};
  const double begin_us = now_us();
  uint64_t position = 0;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (meshbed_slot_publish(shared->ring, slot, 0, kOpcode, 2, &round, 1) != 0) return 1;
    }
    // The block takes the slots one after the other, each rank's in the same order.
    for (uint32_t done = 0; done < kSlots; ++done, ++position) {
      meshbed_fifo_trigger trigger;
      while (meshbed_fifo_poll(&fifo, position, &trigger) == 0) {
      }
      float* const chunk = chunks + meshbed_fifo_source_offset(trigger) / sizeof(float);
      NCCL(ncclAllReduce(chunk, chunk, meshbed_fifo_size_bytes(trigger) / sizeof(float), ncclFloat, ncclSum, comm,
                         collectives));
      CUDA(cudaStreamSynchronize(collectives));
      meshbed_fifo_pop(&fifo, position);
      __atomic_store_n(&shared->reduced[meshbed_fifo_semaphore(trigger)], round, __ATOMIC_RELEASE);
    }
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      while (meshbed_slot_poll(shared->ring, slot) != MESHBED_SLOT_DONE) {
      }
    }
  }
  const double slot_us = (now_us() - begin_us) / (kRounds * kSlots);
  meshbed_control_shutdown(shared->control);
  CUDA(cudaStreamSynchronize(kernels));

  std::vector<float> result(kSlots * kChunkFloats);
  CUDA(cudaMemcpy(result.data(), chunks, result.size() * sizeof(float), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (size_t at = 0; at < result.size(); ++at) {
    const float expected = (ranks - 1) / 2.0f + kRounds + at % kChunkFloats % 7;
    wrong += result[at] < expected - 1e-3f || result[at] > expected + 1e-3f;
  }
  std::printf("%u slots done, %d wrong, %.1f us a slot\n", meshbed_control_done(shared->control), wrong, slot_us);
  NCCL(ncclCommDestroy(comm));
  CUDA(cudaFreeHost(shared));
  CUDA(cudaFree(chunks));
  return wrong == 0 ? 0 : 1;
}
