// Kernels, the runtime and NCCL in one program, as users write them: each rank's numbers are all ranks' sum, made in one
// stream between two kernels. The exit status is 0 where every number is right.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#define CHECKED(call)                                              \
  do {                                                             \
    const int code = static_cast<int>(call);                       \
    if (code != 0) std::exit((std::printf("%s: %d\n", #call, code), 3)); \
  } while (0)

__global__ void add(float* numbers, float value, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) numbers[at] += value;
}

int main() {
  constexpr int kCount = 1 << 16, kBlock = 256;
  const int rank = std::atoi(std::getenv("RANK")), world = std::atoi(std::getenv("WORLD_SIZE"));
  std::cout << "rank " << rank << " of " << world << std::endl;
  CHECKED(cudaSetDevice(std::atoi(std::getenv("LOCAL_RANK"))));
  ncclUniqueId id;
  ncclComm_t comm;
  CHECKED(ncclGetUniqueId(&id));
  CHECKED(ncclCommInitRank(&comm, world, id, rank));
  float* numbers = nullptr;
  cudaStream_t stream;
  CHECKED(cudaMalloc(&numbers, kCount * sizeof(float)));
  CHECKED(cudaStreamCreate(&stream));
  CHECKED(cudaMemsetAsync(numbers, 0, kCount * sizeof(float), stream));
  add<<<kCount / kBlock, kBlock, 0, stream>>>(numbers, rank + 1.0F, kCount);
  CHECKED(ncclAllReduce(numbers, numbers, kCount, ncclFloat, ncclSum, comm, stream));
  add<<<kCount / kBlock, kBlock, 0, stream>>>(numbers, 100.0F, kCount);
  CHECKED(cudaGetLastError());
  std::vector<float> seen(kCount);
  CHECKED(cudaMemcpyAsync(seen.data(), numbers, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECKED(cudaStreamSynchronize(stream));
  const float expected = 100.0F + world * (world + 1) / 2;
  for (const float number : seen) {
    if (number != expected) std::exit((std::printf("%g, not %g\n", number, expected), 1));
  }
  std::printf("all %d are %g\n", kCount, expected);
  CHECKED(cudaFree(numbers));
  CHECKED(ncclCommDestroy(comm));
}
