/* A program that knows nccl.h and nothing else of the libraries below it: what every rank of a job runs. Who it is, it
 * asks the launcher's RANK and WORLD_SIZE; the ranks find each other by NCCL_COMM_ID. The exit status is 0 where every
 * number is right. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 30011 /* a prime, so that no chunk is like another */
#define BLOCK 1009

#define NCCL(call)                                                                                                \
  do {                                                                                                            \
    const ncclResult_t result = call;                                                                             \
    if (result != ncclSuccess) {                                                                                  \
      fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, #call, ncclGetErrorString(result), ncclGetLastError(NULL)); \
      return 1;                                                                                                   \
    }                                                                                                             \
  } while (0)

static int rank, world;

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : -1;
}

/* Element i of rank r; sums of four are exact in a float. */
static float value(int r, int i) { return (float)(i % 1000 + 1) * (float)(r + 1); }

static int wrong(const char* what, int at, float seen, float expected) {
  fprintf(stderr, "rank %d: %s: element %d is %g, not %g\n", rank, what, at, seen, expected);
  return 1;
}

static int all_reduce(ncclComm_t comm) {
  static float send[COUNT], recv[COUNT];
  for (int i = 0; i < COUNT; ++i) send[i] = value(rank, i);
  NCCL(ncclAllReduce(send, recv, COUNT, ncclFloat, ncclSum, comm, NULL));
  for (int i = 0; i < COUNT; ++i) {
    const float expected = value(0, i) * (float)(world * (world + 1) / 2);
    if (recv[i] != expected) return wrong("all-reduce", i, recv[i], expected);
  }
  return 0;
}

/* An all-to-all of sends and receives, ourselves among the peers: without the group every rank would wait. */
static int exchange(ncclComm_t comm) {
  float* send = NULL;
  float* recv = NULL;
  const size_t bytes = (size_t)world * BLOCK * sizeof(float);
  NCCL(ncclMemAlloc((void**)&send, bytes));
  NCCL(ncclMemAlloc((void**)&recv, bytes));
  for (int i = 0; i < world * BLOCK; ++i) send[i] = value(rank, i);
  NCCL(ncclGroupStart());
  for (int peer = 0; peer < world; ++peer) {
    NCCL(ncclSend(send + peer * BLOCK, BLOCK, ncclFloat, peer, comm, NULL));
    NCCL(ncclRecv(recv + peer * BLOCK, BLOCK, ncclFloat, peer, comm, NULL));
  }
  NCCL(ncclGroupEnd());
  for (int i = 0; i < world * BLOCK; ++i) {
    const float expected = value(i / BLOCK, rank * BLOCK + i % BLOCK);
    if (recv[i] != expected) return wrong("send and receive", i, recv[i], expected);
  }
  NCCL(ncclMemFree(send));
  NCCL(ncclMemFree(recv));
  return 0;
}

/* Ranks of one parity among themselves, the highest first. */
static int halves(ncclComm_t comm) {
  ncclComm_t half = NULL;
  int own = -1, all = 0;
  NCCL(ncclCommSplit(comm, rank % 2, -rank, &half, NULL));
  NCCL(ncclCommUserRank(half, &own));
  NCCL(ncclCommCount(half, &all));
  double number = rank;
  NCCL(ncclBroadcast(&number, &number, 1, ncclDouble, 0, half, NULL));
  NCCL(ncclCommDestroy(half));
  const int first = rank % 2 + 2 * (all - 1); /* of our half */
  if (all != (world + 1 - rank % 2) / 2 || own != (first - rank) / 2) return wrong("split", own, (float)all, 0);
  return number == first ? 0 : wrong("broadcast", 0, (float)number, (float)first);
}

int main(void) {
  rank = number("RANK");
  world = number("WORLD_SIZE");
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclCommInitRank(&comm, world, id, rank));
  if (all_reduce(comm) != 0 || exchange(comm) != 0 || halves(comm) != 0) return 1;
  NCCL(ncclCommFinalize(comm));
  NCCL(ncclCommDestroy(comm));
  fprintf(stderr, "rank %d of %d: all is right\n", rank, world);
  return 0;
}
