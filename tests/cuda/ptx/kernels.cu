// The kernels of kernels.ptx, our own: what the tests of the interpreter run.
#include <cooperative_groups.h>

#include <cassert>
#include <cstdio>
namespace cg = cooperative_groups;
extern "C" {
__global__ void saxpy(int n, float a, const float* x, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
__global__ void reduce(int n, const float* x, float* out) {
  __shared__ float part[256];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  part[threadIdx.x] = s;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
__global__ void scan(const int* in, int* out) {
  int lane = threadIdx.x & 31;
  __shared__ int sums[32];
  int v = in[threadIdx.x];
  for (int k = 1; k < 32; k *= 2) {
    int o = __shfl_up_sync(~0u, v, k);
    if (lane >= k) v += o;
  }
  if (lane == 31) sums[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    int s = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
    for (int k = 1; k < 32; k *= 2) {
      int o = __shfl_up_sync(~0u, s, k);
      if (lane >= k) s += o;
    }
    sums[threadIdx.x] = s;
  }
  __syncthreads();
  out[threadIdx.x] = v + (threadIdx.x >= 32 ? sums[threadIdx.x / 32 - 1] : 0);
}
__global__ void print(const char* who) {
  if (threadIdx.x % 32 == 0)
    printf("%s %d of %u: %5.2f %llx %%\n", who, (int)threadIdx.x, blockDim.x, threadIdx.x / 3.0, 0x123456789abcull);
}
__global__ void check(const int* x) { assert(x[threadIdx.x] > 0); }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__global__ void recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 12); }
__global__ void spin_lock(int* lock, int* sum) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *(volatile int*)sum = *(volatile int*)sum + 1;
  __threadfence();
  atomicExch(lock, 0);
}
__global__ void grid_barrier(int* data, int* out) {
  auto g = cg::this_grid();
  data[g.thread_rank()] = g.thread_rank();
  g.sync();
  out[g.thread_rank()] = data[g.size() - 1 - g.thread_rank()];
  g.sync();
  data[g.thread_rank()] = out[g.thread_rank()] + 1;
}
__global__ void wait_flag(volatile int* flag, int* out) {
  while (*flag == 0) {
  }
  out[threadIdx.x] = *flag;
}
__global__ void histogram(const unsigned char* in, int n, unsigned* out) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&bins[in[i]], 1);
  __syncthreads();
  atomicAdd(out + threadIdx.x, bins[threadIdx.x]);
}
__global__ void half_barrier(int* x) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;");
  }
  x[threadIdx.x] = 1;
}
__global__ void past_end(int* x) { x[threadIdx.x + 1] = 1; }
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*table[2])(int) = {twice, thrice};
__global__ void indirect(int* x) { x[threadIdx.x] = table[threadIdx.x & 1](threadIdx.x); }
__global__ void cases(int* x) {
  int v = threadIdx.x;
  switch (x[v] % 8) {
    case 0:
      v *= 3;
      break;
    case 1:
      v += 7;
      break;
    case 2:
      v ^= 5;
      break;
    case 3:
      v = v * v;
      break;
    case 4:
      v = -v;
      break;
    case 5:
      v <<= 2;
      break;
    case 6:
      v |= 64;
      break;
    default:
      v %= 3;
  }
  x[threadIdx.x] = v;
}
}
