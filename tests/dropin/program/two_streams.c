/* A program of nccl.h and the CUDA driver, what every rank of a job runs: calls on GPU memory, put into two streams and
 * waited for there alone. The exit status is 0 where every number is right. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/program/cuda_calls.h"

#define COUNT 30011 /* a prime, so that no chunk is like another */
#define BLOCK 1009
#define NOT_READY 600

#define NCCL(call)                                                                                                \
  do {                                                                                                            \
    const ncclResult_t result = call;                                                                             \
    if (result != ncclSuccess) {                                                                                  \
      fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, #call, ncclGetErrorString(result), ncclGetLastError(NULL)); \
      return 1;                                                                                                   \
    }                                                                                                             \
  } while (0)
#define CUDA(call)                                                       \
  do {                                                                   \
    const CUresult result = call;                                        \
    if (result != 0) {                                                   \
      fprintf(stderr, "rank %d: %s is error %d\n", rank, #call, result); \
      return 1;                                                          \
    }                                                                    \
  } while (0)

static int rank, world;
static CUstream one, two;

/* Of float numbers. */
struct buffer {
  float* host; /* pinned */
  CUdeviceptr device;
  size_t bytes;
};

static int make(struct buffer* buffer, size_t count) {
  void* host = NULL;
  buffer->bytes = count * sizeof(float);
  CUDA(cuMemHostAlloc(&host, buffer->bytes, 0));
  CUDA(cuMemAlloc_v2(&buffer->device, buffer->bytes));
  buffer->host = host;
  return 0;
}

static int put(const struct buffer* buffer, CUstream stream) {
  CUDA(cuMemcpyHtoDAsync_v2(buffer->device, buffer->host, buffer->bytes, stream));
  return 0;
}

static int get(const struct buffer* buffer, CUstream stream) {
  CUDA(cuMemcpyDtoHAsync_v2(buffer->host, buffer->device, buffer->bytes, stream));
  return 0;
}

/* Element i of rank r; sums of four are exact in a float. */
static float value(int r, int i) { return (float)(i % 1000 + 1) * (float)(r + 1); }

static int wrong(const char* what, int at, float seen, float expected) {
  fprintf(stderr, "rank %d: %s: element %d is %g, not %g\n", rank, what, at, seen, expected);
  return 1;
}

static void* on_device(const struct buffer* buffer) { return (void*)buffer->device; }

static int sum(ncclComm_t comm, struct buffer* numbers) {
  for (int i = 0; i < COUNT; ++i) numbers->host[i] = value(rank, i);
  if (put(numbers, one) != 0) return 1;
  NCCL(ncclAllReduce(on_device(numbers), on_device(numbers), COUNT, ncclFloat, ncclSum, comm, one));
  return get(numbers, one);
}

static int gather(ncclComm_t comm, struct buffer* mine, struct buffer* all) {
  for (int i = 0; i < BLOCK; ++i) mine->host[i] = value(rank, i);
  if (put(mine, two) != 0) return 1;
  NCCL(ncclAllGather(on_device(mine), on_device(all), BLOCK, ncclFloat, comm, two));
  return get(all, two);
}

/* Two communicators, each in a stream of its own; half of the ranks begin with the other one. */
static int side_by_side(ncclComm_t comm, ncclComm_t other) {
  struct buffer numbers, mine, all;
  if (make(&numbers, COUNT) != 0 || make(&mine, BLOCK) != 0 || make(&all, (size_t)world * BLOCK) != 0) return 1;
  if (rank % 2 == 0 && sum(comm, &numbers) != 0) return 1;
  if (gather(other, &mine, &all) != 0) return 1;
  if (rank % 2 != 0 && sum(comm, &numbers) != 0) return 1;
  /* Every call has returned without waiting. */
  if (cuStreamQuery(one) != NOT_READY || cuStreamQuery(two) != NOT_READY) return wrong("a query", 0, 0, NOT_READY);
  CUDA(cuStreamSynchronize(one));
  for (int i = 0; i < COUNT; ++i) {
    const float expected = value(0, i) * (float)(world * (world + 1) / 2);
    if (numbers.host[i] != expected) return wrong("all-reduce", i, numbers.host[i], expected);
  }
  CUDA(cuStreamSynchronize(two));
  for (int i = 0; i < world * BLOCK; ++i) {
    const float expected = value(i / BLOCK, i % BLOCK);
    if (all.host[i] != expected) return wrong("all-gather", i, all.host[i], expected);
  }
  return 0;
}

/* One communicator: what follows in the other stream waits by an event; a group is in both streams. */
static int one_behind_the_other(ncclComm_t comm) {
  struct buffer numbers, received;
  CUevent reduced;
  if (make(&numbers, COUNT) != 0 || make(&received, COUNT) != 0) return 1;
  CUDA(cuEventCreate(&reduced, 2));
  for (int i = 0; i < COUNT; ++i) numbers.host[i] = value(rank, i);
  if (put(&numbers, one) != 0) return 1;
  NCCL(ncclAllReduce(on_device(&numbers), on_device(&numbers), COUNT, ncclFloat, ncclMax, comm, one));
  CUDA(cuEventRecord(reduced, one));
  CUDA(cuStreamWaitEvent(two, reduced, 0));
  NCCL(ncclGroupStart());
  NCCL(ncclSend(on_device(&numbers), COUNT, ncclFloat, (rank + 1) % world, comm, one));
  NCCL(ncclRecv(on_device(&received), COUNT, ncclFloat, (rank + world - 1) % world, comm, two));
  NCCL(ncclGroupEnd());
  if (get(&received, two) != 0) return 1;
  CUDA(cuStreamSynchronize(two));
  for (int i = 0; i < COUNT; ++i) {
    const float expected = value(world - 1, i);
    if (received.host[i] != expected) return wrong("what the neighbour has", i, received.host[i], expected);
  }
  return 0;
}

/* A graph of two communicators' calls in two streams, launched again and again; each launch takes what is in pinned
 * memory then. Behind the last one comes a call that is no graph's. */
static int recorded(ncclComm_t comm, ncclComm_t other) {
  enum { LAUNCHES = 3 };
  struct buffer numbers, mine, all;
  CUgraph graph;
  CUgraphExec executable;
  CUevent forked, joined;
  if (make(&numbers, COUNT) != 0 || make(&mine, BLOCK) != 0 || make(&all, (size_t)world * BLOCK) != 0) return 1;
  CUDA(cuEventCreate(&forked, 2));
  CUDA(cuEventCreate(&joined, 2));
  CUDA(cuStreamBeginCapture_v2(one, 0));
  CUDA(cuEventRecord(forked, one));
  CUDA(cuStreamWaitEvent(two, forked, 0));
  if (put(&numbers, one) != 0 || put(&mine, two) != 0) return 1;
  NCCL(ncclAllReduce(on_device(&numbers), on_device(&numbers), COUNT, ncclFloat, ncclSum, comm, one));
  NCCL(ncclAllGather(on_device(&mine), on_device(&all), BLOCK, ncclFloat, other, two));
  if (get(&numbers, one) != 0 || get(&all, two) != 0) return 1;
  CUDA(cuEventRecord(joined, two));
  CUDA(cuStreamWaitEvent(one, joined, 0));
  CUDA(cuStreamEndCapture(one, &graph));
  CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int launch = 1; launch <= LAUNCHES; ++launch) {
    for (int i = 0; i < COUNT; ++i) numbers.host[i] = (float)launch * value(rank, i);
    for (int i = 0; i < BLOCK; ++i) mine.host[i] = (float)launch * value(rank, i);
    CUDA(cuGraphLaunch(executable, one));
    if (launch == LAUNCHES) {
      NCCL(ncclAllReduce(on_device(&numbers), on_device(&numbers), COUNT, ncclFloat, ncclMax, comm, one));
    }
    CUDA(cuStreamSynchronize(one));
    for (int i = 0; i < COUNT; ++i) {
      const float expected = (float)launch * value(0, i) * (float)(world * (world + 1) / 2);
      if (numbers.host[i] != expected) return wrong("a graph's all-reduce", i, numbers.host[i], expected);
    }
    for (int i = 0; i < world * BLOCK; ++i) {
      const float expected = (float)launch * value(i / BLOCK, i % BLOCK);
      if (all.host[i] != expected) return wrong("a graph's all-gather", i, all.host[i], expected);
    }
  }
  CUDA(cuGraphExecDestroy(executable));
  CUDA(cuGraphDestroy(graph));
  return 0;
}

/* A graph that outlives its communicator has no effect, and does not block. */
static int outlived(ncclComm_t comm) {
  struct buffer number;
  CUgraph graph;
  CUgraphExec executable;
  if (make(&number, 1) != 0) return 1;
  number.host[0] = 7;
  if (put(&number, one) != 0) return 1;
  CUDA(cuStreamBeginCapture_v2(one, 0));
  NCCL(ncclAllReduce(on_device(&number), on_device(&number), 1, ncclFloat, ncclSum, comm, one));
  CUDA(cuStreamEndCapture(one, &graph));
  CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
  NCCL(ncclCommDestroy(comm));
  CUDA(cuGraphLaunch(executable, one));
  if (get(&number, one) != 0) return 1;
  CUDA(cuStreamSynchronize(one));
  if (number.host[0] != 7) return wrong("an untouched value", 0, number.host[0], 7);
  CUDA(cuGraphExecDestroy(executable));
  CUDA(cuGraphDestroy(graph));
  return 0;
}

int main(void) {
  rank = atoi(getenv("RANK"));
  world = atoi(getenv("WORLD_SIZE"));
  CUcontext context;
  CUDA(cuInit(0));
  CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  CUDA(cuCtxPushCurrent_v2(context));
  CUDA(cuStreamCreate(&one, 1));
  CUDA(cuStreamCreate(&two, 1));
  ncclUniqueId id;
  ncclComm_t comm = NULL, other = NULL;
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclCommInitRank(&comm, world, id, rank));
  NCCL(ncclCommSplit(comm, 0, rank, &other, NULL));
  if (side_by_side(comm, other) != 0 || one_behind_the_other(comm) != 0 || recorded(comm, other) != 0) return 1;
  /* By the default stream, whose calls come back at once as well. */
  struct buffer numbers;
  if (make(&numbers, COUNT) != 0) return 1;
  for (int i = 0; i < COUNT; ++i) numbers.host[i] = rank == 1 ? value(1, i) : 0;
  if (put(&numbers, NULL) != 0) return 1;
  NCCL(ncclBroadcast(on_device(&numbers), on_device(&numbers), COUNT, ncclFloat, 1, comm, NULL));
  if (get(&numbers, NULL) != 0) return 1;
  CUDA(cuStreamSynchronize(NULL));
  for (int i = 0; i < COUNT; ++i) {
    if (numbers.host[i] != value(1, i)) return wrong("broadcast", i, numbers.host[i], value(1, i));
  }
  if (outlived(other) != 0) return 1;
  NCCL(ncclCommFinalize(comm));
  NCCL(ncclCommDestroy(comm));
  fprintf(stderr, "rank %d of %d: all is right\n", rank, world);
  return 0;
}
