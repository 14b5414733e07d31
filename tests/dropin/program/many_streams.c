/* A program of nccl.h and the CUDA driver, what every rank of a job runs: calls in more streams than a GPU has queues
 * for, each between a copy in and a copy out, and nothing is waited for before all have been put there. The exit status
 * is 0 where every number is right. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/program/cuda_calls.h"

#define STREAMS 20
#define LARGE 30011 /* primes, so that no chunk is like another */
#define SMALL 1009
#define LAUNCHES 3

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
static CUstream streams[STREAMS];

/* Numbers of one stream: what this rank gives, and what it gets. */
static struct numbers {
  int count;
  float *given, *got; /* pinned */
  CUdeviceptr input, output;
} all[STREAMS];

static int make(struct numbers* numbers, int count) {
  const size_t bytes = (size_t)count * sizeof(float);
  void *given = NULL, *got = NULL;
  numbers->count = count;
  CUDA(cuMemHostAlloc(&given, bytes, 0));
  CUDA(cuMemHostAlloc(&got, bytes, 0));
  CUDA(cuMemAlloc_v2(&numbers->input, bytes));
  CUDA(cuMemAlloc_v2(&numbers->output, bytes));
  numbers->given = given;
  numbers->got = got;
  return 0;
}

/* Sums of four are exact in a float. */
static float value(int of_rank, int salt, int i) { return (float)((i + salt) % 1000 + 1) * (float)(of_rank + 1); }

static void fill(struct numbers* numbers, int salt) {
  for (int i = 0; i < numbers->count; ++i) {
    numbers->given[i] = value(rank, salt, i);
    numbers->got[i] = -1;
  }
}

static int put(const struct numbers* numbers, CUstream stream) {
  CUDA(cuMemcpyHtoDAsync_v2(numbers->input, numbers->given, (size_t)numbers->count * sizeof(float), stream));
  return 0;
}

static int get(const struct numbers* numbers, CUdeviceptr from, CUstream stream) {
  CUDA(cuMemcpyDtoHAsync_v2(numbers->got, from, (size_t)numbers->count * sizeof(float), stream));
  return 0;
}

static int sum(const struct numbers* numbers, CUdeviceptr output, ncclComm_t comm, CUstream stream) {
  NCCL(ncclAllReduce((void*)numbers->input, (void*)output, (size_t)numbers->count, ncclFloat, ncclSum, comm, stream));
  return 0;
}

static int wrong(const char* what, int stream, int at, float seen, float expected) {
  fprintf(stderr, "rank %d: %s in stream %d: element %d is %g, not %g\n", rank, what, stream, at, seen, expected);
  return 1;
}

static int is_sum(const char* what, int stream, int salt) {
  for (int i = 0; i < all[stream].count; ++i) {
    const float expected = value(0, salt, i) * (float)(world * (world + 1) / 2);
    if (all[stream].got[i] != expected) return wrong(what, stream, i, all[stream].got[i], expected);
  }
  return 0;
}

/* Every other one in place; the streams take turns with the communicators. */
static int in_each(const char* what, ncclComm_t comm, ncclComm_t other) {
  for (int i = 0; i < STREAMS; ++i) {
    const CUdeviceptr output = i % 3 == 0 ? all[i].input : all[i].output;
    fill(&all[i], i);
    if (put(&all[i], streams[i]) != 0) return 1;
    if (sum(&all[i], output, i % 2 == 0 ? comm : other, streams[i]) != 0) return 1;
    if (get(&all[i], output, streams[i]) != 0) return 1;
  }
  for (int i = 0; i < STREAMS; ++i) {
    CUDA(cuStreamSynchronize(streams[i]));
    if (is_sum(what, i, i) != 0) return 1;
  }
  return 0;
}

/* A group of two calls in two streams: the streams of a pair may well share a queue. */
static int in_groups(ncclComm_t comm) {
  for (int i = 0; i < STREAMS / 2; ++i) {
    const int one = i, two = STREAMS - 1 - i;
    fill(&all[one], one);
    fill(&all[two], two);
    if (put(&all[one], streams[one]) != 0 || put(&all[two], streams[two]) != 0) return 1;
    NCCL(ncclGroupStart());
    if (sum(&all[one], all[one].output, comm, streams[one]) != 0) return 1;
    if (sum(&all[two], all[two].input, comm, streams[two]) != 0) return 1;
    NCCL(ncclGroupEnd());
    if (get(&all[one], all[one].output, streams[one]) != 0 || get(&all[two], all[two].input, streams[two]) != 0)
      return 1;
  }
  for (int i = 0; i < STREAMS; ++i) {
    CUDA(cuStreamSynchronize(streams[i]));
    if (is_sum("a group's sum", i, i) != 0) return 1;
  }
  return 0;
}

/* One communicator's call is a graph's, launched again and again; behind each launch come the other one's calls in all
 * other streams. */
static int with_graph(ncclComm_t comm, ncclComm_t other) {
  CUgraph graph;
  CUgraphExec executable;
  CUDA(cuStreamBeginCapture_v2(streams[0], 0));
  if (put(&all[0], streams[0]) != 0 || sum(&all[0], all[0].output, comm, streams[0]) != 0) return 1;
  if (get(&all[0], all[0].output, streams[0]) != 0) return 1;
  CUDA(cuStreamEndCapture(streams[0], &graph));
  CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int launch = 0; launch < LAUNCHES; ++launch) {
    fill(&all[0], launch);
    CUDA(cuGraphLaunch(executable, streams[0]));
    for (int i = 1; i < STREAMS; ++i) {
      fill(&all[i], launch + i);
      if (put(&all[i], streams[i]) != 0 || sum(&all[i], all[i].output, other, streams[i]) != 0) return 1;
      if (get(&all[i], all[i].output, streams[i]) != 0) return 1;
    }
    for (int i = 0; i < STREAMS; ++i) {
      CUDA(cuStreamSynchronize(streams[i]));
      if (is_sum(i == 0 ? "a graph's sum" : "a sum beside a graph", i, launch + i) != 0) return 1;
    }
  }
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
  for (int i = 0; i < STREAMS; ++i) {
    CUDA(cuStreamCreate(&streams[i], 1));
    if (make(&all[i], i % 2 == 0 ? LARGE : SMALL) != 0) return 1;
  }
  ncclUniqueId id;
  ncclComm_t comm = NULL, other = NULL;
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclCommInitRank(&comm, world, id, rank));
  NCCL(ncclCommSplit(comm, 0, rank, &other, NULL));
  if (in_each("a sum", comm, comm) != 0) return 1;
  if (in_each("a sum of one of two communicators", comm, other) != 0) return 1;
  if (in_groups(comm) != 0) return 1;
  if (with_graph(comm, other) != 0) return 1;
  NCCL(ncclCommDestroy(other));
  NCCL(ncclCommDestroy(comm));
  fprintf(stderr, "rank %d of %d: all is right\n", rank, world);
  return 0;
}
