// What `meshbed cuda run` is tried on: streams, events, a graph, managed and constant memory, shared memory and
// atomics, a cooperative launch, a callback, printf. Prints "all right" and ends with 0 where all of it is.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>

__managed__ int managed_number = 5;
__constant__ int constant_number;
__device__ int counter;

__global__ void add(int n, const int* from, int* to) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < n) to[index] += from[index] + constant_number + managed_number;
}

__global__ void reverse(int* values) {
  __shared__ int block[256];
  block[threadIdx.x] = values[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  values[blockIdx.x * 256 + threadIdx.x] = block[255 - threadIdx.x];
  atomicAdd(&counter, 1);
}

__global__ void meet(int* sums) {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  if (threadIdx.x == 0) atomicAdd(&sums[0], 1);
  grid.sync();
  if (threadIdx.x == 0 && sums[0] == static_cast<int>(gridDim.x)) atomicAdd(&sums[1], 1);
}

__global__ void say() { printf("kernel says %d %s\n", 42, "words"); }

static int g_called = 0;
static int g_wrong = 0;
static void expect(bool right, const char* what) {
  if (right) return;
  printf("wrong: %s (%s)\n", what, cudaGetErrorString(cudaGetLastError()));
  ++g_wrong;
}

int main() {
  constexpr int kCount = 1024;
  int *from, *to, *sums, host[kCount], ones[kCount];
  for (int& one : ones) one = 1;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  expect(cudaStreamCreate(&stream) == cudaSuccess, "stream");
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaMalloc(&from, sizeof host);
  cudaMalloc(&to, sizeof host);
  cudaMalloc(&sums, 8);
  cudaMemset(sums, 0, 8);
  const int seven = 7;
  expect(cudaMemcpyToSymbol(constant_number, &seven, sizeof seven) == cudaSuccess, "constant");
  managed_number = 6;
  cudaMemcpyAsync(from, ones, sizeof ones, cudaMemcpyHostToDevice, stream);
  cudaMemsetAsync(to, 0, sizeof host, stream);

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess, "capture");
  add<<<4, 256, 0, stream>>>(kCount, from, to);
  expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "end of capture");
  expect(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess, "instantiate");
  cudaEventRecord(begin, stream);
  for (int turn = 0; turn < 3; ++turn) expect(cudaGraphLaunch(executable, stream) == cudaSuccess, "graph");
  reverse<<<4, 256, 0, stream>>>(to);
  cudaEventRecord(end, stream);
  cudaLaunchHostFunc(stream, [](void* place) { ++*static_cast<int*>(place); }, &g_called);
  cudaMemcpyAsync(host, to, sizeof host, cudaMemcpyDeviceToHost, stream);
  expect(cudaStreamSynchronize(stream) == cudaSuccess, "synchronize");
  for (const int value : host) expect(value == 3 * (1 + 7 + 6), "sum");
  float milliseconds = 0;
  expect(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess && milliseconds > 0, "time");
  expect(g_called == 1, "callback");
  int seen = 0;
  cudaMemcpyFromSymbol(&seen, counter, sizeof seen);
  expect(seen == kCount, "atomics");

  void* arguments[] = {&sums};
  expect(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(meet), dim3(16), dim3(64), arguments) == cudaSuccess,
         "cooperative launch");
  int met[2] = {};
  cudaMemcpy(met, sums, sizeof met, cudaMemcpyDeviceToHost);
  expect(met[0] == 16 && met[1] == 16, "grid barrier");
  say<<<1, 1>>>();
  expect(cudaDeviceSynchronize() == cudaSuccess, "printf");
  if (g_wrong == 0) printf("all right\n");
  return g_wrong;
}
